"""Shared by programs that a process of ours starts, which write to its pipe and end with it, and by
the process that starts them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping


def tell(message: Mapping[str, object]) -> None:
    """Write a line of JSON on stdout."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def while_read() -> Iterator[None]:
    """End the block quietly once no process reads stdout."""
    try:
        yield
    except BrokenPipeError:
        # Python would write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def end_of_stdin(stdin: int = 0) -> asyncio.Event:
    """Return an event that is set at the end of a descriptor, which is read by the running loop."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def stdin_is_readable() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            over.set()

    loop.add_reader(stdin, stdin_is_readable)
    return over


async def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process, if it runs, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await asyncio.shield(process.wait())
