"""The worker process: ``python -m aos.worker.child MODULE:ATTR`` (X-50 to X-56).

The node starts it and talks to it on one inherited socket. When that stream ends, the process
ends, whether the node stopped or crashed. Only the node decides: the process has its own session,
so the terminal's signals do not reach it, and it ignores SIGINT and SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from aos.errors import AosError, BadUsage
from aos.private_memory import keep_memory_private
from aos.values.digests import Hash
from aos.worker.blob_reads import BlobReads
from aos.worker.calls import Callers
from aos.worker.executor_key import Signer, read_key
from aos.worker.executors import Executors
from aos.worker.load_executors import load
from aos.worker.redacted_output import flush, protect_output, say, show
from aos.worker.runner import TaskRunner
from aos.worker.wire import FD_VARIABLE, PROTOCOL, Message, WireLink, frame

STOP_S: Final = 2.0
"""Seconds that async calls and ``setup`` have to end, once the stream has ended (X-52)."""

BUG: Final = 70


def main(arguments: Sequence[str]) -> int:
    """Load the executors that the only argument names, and serve them."""
    if len(arguments) != 1:
        say("usage: python -m aos.worker.child MODULE:ATTR (the node starts it)")
        return BadUsage.exit_code
    return serve(lambda: load(arguments[0]))


def serve(make: Callable[[], Executors]) -> int:
    """Run the functions that ``make`` returns until the stream ends, then exit the process.

    Returns an exit code only if it cannot start.
    """
    number = os.environ.pop(FD_VARIABLE, "")
    if not number.isdecimal():
        say(f"this process is started by the node: expected its socket in {FD_VARIABLE}")
        return BadUsage.exit_code
    channel = socket.socket(fileno=int(number))
    # A process that a function starts must not hold the stream open.
    channel.set_inheritable(False)
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)
    protect_output()
    try:
        executors = make()
        signer = None
        if executors.key_file is not None:
            signer = read_key(executors.name, executors.key_file)
        executors.keyring()  # one that cannot be read ends the process before it has a task
    except AosError as error:
        channel.sendall(frame({"op": "failed", "message": str(error)}))
        return error.exit_code
    worker = _Worker(channel, executors)
    asyncio.run(worker.run(signer))
    # Threads of calls that never end must not keep the process.
    flush()
    os._exit(0)


class _NodeIsThere:
    """A task is this process's own while its node lives (W-3a). If the process was suspended, the
    connection may have ended behind tasks that it has not read: another process has these now."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def is_certain(self, _intent: Hash, _attempt: int) -> bool:
        number = self._channel.fileno()
        if number < 0:
            return False
        state = select.poll()
        state.register(number, select.POLLRDHUP)
        return not state.poll(0)

    async def confirm(self, _intent: Hash, _attempt: int) -> bool:
        return False


class _Worker:
    def __init__(self, channel: socket.socket, executors: Executors) -> None:
        self._channel = channel
        self._executors = executors
        self._callers = Callers(executors.effects.values())
        self._runner: TaskRunner | None = None
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        self._lost = asyncio.Event()

    async def run(self, signer: Signer | None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_end_on_bug)
        link = WireLink(self._receive, lambda _: self._lost.set())
        self._channel.setblocking(False)
        await loop.create_unix_connection(lambda: link, sock=self._channel)
        serving = asyncio.ensure_future(self._serve(link, signer))
        lost = asyncio.ensure_future(self._lost.wait())
        await asyncio.wait({serving, lost}, return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        if serving.done():
            serving.result()
            link.close()
        if self._runner is not None:
            self._runner.close()
        await self._callers.stop(STOP_S)

    def _receive(self, message: Message) -> None:
        if self._runner is None:
            self._waiting.put_nowait(message)
        else:
            self._runner.receive(message)

    async def _serve(self, link: WireLink, signer: Signer | None) -> None:
        """Get ready, then serve for ever. Returns only after reporting a failure to the node."""
        executors = self._executors
        hello = await self._waiting.get()
        if hello.get("op") != "hello" or hello.get("protocol") != PROTOCOL:
            link.send({"op": "failed", "message": f"expected protocol {PROTOCOL}, found {hello}"})
            return
        try:
            resource = await self._callers.start(executors.setup)
        except AosError as error:
            link.send({"op": "failed", "message": f"executors {executors.name!r}: {error}"})
            return
        except BaseException as error:  # noqa: BLE001  # reported to the node, of any type
            show(error)
            message = f"executors {executors.name!r}: setup failed: {type(error).__name__}: {error}"
            link.send({"op": "failed", "message": message})
            return
        self._runner = TaskRunner(
            executors,
            self._callers,
            world=hello["world"],
            signer=signer,
            resource=resource,
            send=link.send,
            reads=BlobReads(link.send),
            leases=_NodeIsThere(self._channel),
        )
        while not self._waiting.empty():
            self._runner.receive(self._waiting.get_nowait())
        link.send(
            {
                "op": "ready",
                "name": executors.name,
                "key": None if signer is None else signer.public_key,
                "effects": [
                    {
                        "name": name,
                        "concurrency": function.concurrency,
                        "blobs": list(function.blobs),
                        "timeout_ns": function.timeout_ns,
                    }
                    for name, function in executors.effects.items()
                ],
            }
        )
        await asyncio.Event().wait()


def _end_on_bug(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End on an unhandled error of our own code, so that the node restarts the process."""
    say(f"worker: {context.get('message')}")
    error = context.get("exception")
    if isinstance(error, BaseException):
        show(error)
    flush()
    os._exit(BUG)


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(sys.argv[1:]))
