"""The program of a worker on the machine of its node (spec/node.md, N-9).

    python -m aos.node.worker.local_worker WORLD M:A

The kernel process of ``aos node --worker M:A`` starts it. The worker talks to the node through the
socket in the world's folder. At the end of its stdin, which is that of the kernel process too, it
claims no more, ends what runs within 30 s, and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Final

from aos.errors import AosError
from aos.node.worker.remote_worker import Worker
from aos.private_memory import keep_memory_private
from aos.worker.calls import end_process
from aos.worker.load_executors import load
from aos.worker.redacted_output import flush, protect_output, say

_CHUNK_BYTES: Final = 4_096


def main() -> int:
    """Run the worker; return its exit code."""
    # Ctrl-C reaches the whole group of a terminal; the kernel process stops the worker in order.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    world, spec = sys.argv[1:]
    protect_output()
    try:
        asyncio.run(_carry_out(world, spec))
    except AosError as error:
        say(f"aos: worker {spec}: {error}")
        return error.exit_code
    finally:
        flush()
    return 0


async def _carry_out(world: str, spec: str) -> None:
    worker = Worker(world, load(spec))
    loop = asyncio.get_running_loop()

    def wait_for_end() -> None:
        while os.read(sys.stdin.fileno(), _CHUNK_BYTES):
            pass
        loop.call_soon_threadsafe(worker.stop)

    threading.Thread(target=wait_for_end, name="aos-end", daemon=True).start()
    await worker.run()


if __name__ == "__main__":
    keep_memory_private()
    end_process(main())
