"""One worker process, from its start to its end (X-50 to X-53)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import aos
from aos.errors import BadUsage
from aos.host.executors.task import Report
from aos.values.digests import Hash
from aos.worker.wire import FD_VARIABLE, PROTOCOL, Message, Stalled, WireLink, WireProblem

READY_S: Final = 60.0
"""Seconds that importing the functions and entering their setup may take (X-51)."""

END_S: Final = 4.0
"""Seconds that a process has to end in once its stream has ended (X-52)."""

STALL_S: Final = 30.0
"""Seconds that a process may be silent in the middle of a message (X-56a)."""

LAST_WORDS_S: Final = 1.0
LINE_BYTES_MAX: Final = 8192


class NotReady(BadUsage):
    """The process reported that it cannot run, or ended before it was ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """``slots`` is how many calls of each effect may run at the same time; ``blobs`` has the fields
    of its params whose blobs its tasks need (X-79); ``timeouts_ns`` is how long one call of a
    function with a timeout may take (X-43)."""

    name: str
    key: bytes | None
    slots: dict[str, int]
    blobs: dict[str, tuple[str, ...]]
    timeouts_ns: dict[str, int]


class Life:
    """One process. ``on_message`` gets its messages once it is ready.

    ``environment`` is the environment of the process (default: ours), to which the variables are
    added that it needs to find the node.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        label: str,
        report: Report,
        on_message: Callable[[Message], None],
        environment: Mapping[str, str] | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._command = command
        self._environment = environment
        self.label = label
        self._report = report
        self._on_message = on_message
        self._ready: asyncio.Future[Ready | NotReady] = loop.create_future()
        self._lost: asyncio.Future[Exception | None] = loop.create_future()
        self._exited: asyncio.Future[int] = loop.create_future()
        self._link = WireLink(self._receive, self._on_lost, stall_s=stall_s)
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def begin(self, world: Hash | None) -> Ready:
        """Start the process and wait until it is ready.

        Raises:
            NotReady: It reported why it cannot run, or ended, or took too long. Call ``end``.
        """
        parent_socket, child_socket = socket.socketpair()
        with child_socket:
            try:
                self._process = self._spawn(child_socket.fileno())
            except OSError as error:
                parent_socket.close()
                raise NotReady(f"{self.label}: its process cannot be started: {error}") from error
        self._watch(self._process)
        parent_socket.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(
            lambda: self._link, sock=parent_socket
        )
        self._link.send({"op": "hello", "protocol": PROTOCOL, "world": world})
        await _first_of(self._ready, self._lost, timeout_s=READY_S)
        if self._ready.done():
            answer = self._ready.result()
            if isinstance(answer, NotReady):
                raise answer
            return answer
        if not self._lost.done():
            raise NotReady(f"{self.label}: it was not ready within {READY_S:.0f} s")
        await asyncio.wait({self._exited}, timeout=LAST_WORDS_S)
        raise NotReady(
            f"{self.label}: its process ended before it was ready ({self._ending()}; "
            "see its output above)"
        )

    def _spawn(self, descriptor: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603  # the command is ours
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(descriptor,),
            start_new_session=True,
            env=_environment(descriptor, self._environment),
        )
        assert process.stdout is not None
        self._reading = asyncio.ensure_future(self._pass_output(process.stdout))
        return process

    def send(self, message: Message) -> None:
        """Send a message to the process. Without a stream it is dropped; ``ended`` reports that."""
        self._link.send(message)

    def kill(self) -> None:
        """Kill the process, without waiting for its end. A process that has ended is left alone."""
        if self._process is not None and not self._exited.done():
            self._process.kill()

    async def ended(self) -> str:
        """Wait for the end of the process; return how it ended."""
        await _first_of(self._lost, self._exited)
        await self.end()
        return self._ending()

    async def end(self) -> None:
        """End the stream, then the process if it does not end by itself.

        Its last output is passed on before this returns.
        """
        # The last messages of an ended process may not have been read yet.
        if self._exited.done():
            await asyncio.wait({self._lost}, timeout=LAST_WORDS_S)
        self._link.close()
        if self._process is None:
            return
        await asyncio.wait({self._exited}, timeout=END_S)
        self.kill()
        await self._exited
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=LAST_WORDS_S)
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _ending(self) -> str:
        problem = self._lost.result() if self._lost.done() else None
        if isinstance(problem, Stalled):
            return f"it stopped in the middle of a message: {problem}"
        if isinstance(problem, WireProblem):
            return f"it broke the protocol: {problem}"
        if not self._exited.done():
            return "its stream ended"
        code = self._exited.result()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _receive(self, message: Message) -> None:
        if self._ready.done():
            self._on_message(message)
        elif message["op"] == "ready":
            self._ready.set_result(_read_ready(message))
        elif message["op"] == "failed":
            self._ready.set_result(NotReady(str(message.get("message"))))

    def _on_lost(self, problem: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(problem)
        if isinstance(problem, WireProblem):
            self.kill()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the exit in a thread: it works on each platform, and sleeps until then."""
        loop = asyncio.get_running_loop()

        def wait() -> None:
            code = process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for it
                loop.call_soon_threadsafe(self._exited.set_result, code)

        threading.Thread(target=wait, name=f"wait for {self.label}", daemon=True).start()

    async def _pass_output(self, pipe: IO[bytes]) -> None:
        """Report what functions print, line by line, until the process has ended (X-53)."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            partial_line = b""
            while chunk := await reader.read(65536):
                *lines, partial_line = (partial_line + chunk).split(b"\n")
                if len(partial_line) > LINE_BYTES_MAX:
                    lines.append(partial_line)
                    partial_line = b""
                self._print(lines)
            self._print([partial_line] if partial_line else [])
        finally:
            transport.close()

    def _print(self, lines: Sequence[bytes]) -> None:
        # In one call: a function that prints a lot must not keep the node's loop busy.
        if lines:
            self._report(
                "\n".join(f"[{self.label}] {line.decode(errors='replace')}" for line in lines)
            )


async def _first_of(*futures: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _read_ready(message: Message) -> Ready:
    name, key, effects = message.get("name"), message.get("key"), message.get("effects")
    if (
        not isinstance(name, str)
        or not isinstance(key, bytes | None)
        or not isinstance(effects, list)
    ):
        raise WireProblem("a ready message without name, key and effects")
    ready = Ready(name=name, key=key, slots={}, blobs={}, timeouts_ns={})
    for effect in effects:
        match effect:
            case {"name": str(effect_name), "concurrency": int(concurrency), **options} if (
                isinstance(fields := options.get("blobs", []), list)
                and isinstance(timeout_ns := options.get("timeout_ns"), int | None)
            ):
                ready.slots[effect_name] = concurrency
                ready.blobs[effect_name] = tuple(fields)
                if timeout_ns is not None:
                    ready.timeouts_ns[effect_name] = timeout_ns
            case _:
                raise WireProblem("a ready message with an effect that is none")
    return ready


def _environment(descriptor: int, base: Mapping[str, str] | None) -> dict[str, str]:
    """Add the socket's number, and a search path that leads to this package."""
    inherited_folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [str(Path(folder).resolve()) for folder in inherited_folders if folder]
    root = str(Path(aos.__file__).resolve().parent.parent)
    if root not in path and root != sysconfig.get_path("purelib"):
        path.append(root)
    given_here = os.environ if base is None else base
    return {**given_here, FD_VARIABLE: str(descriptor), "PYTHONPATH": os.pathsep.join(path)}
