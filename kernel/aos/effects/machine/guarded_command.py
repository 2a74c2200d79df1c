"""One running command, seen from the executor: guard, output and end (AG-103 to AG-107).

The guard (``command_guard.py``) is a process of its own, which outlives a killed executor by the
time that it needs to end the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from aos.effects.machine.command_guard import (
    IS_LINUX,
    LIBC,
    PR_SET_CHILD_SUBREAPER,
    descendants,
)
from aos.effects.machine.host_outputs import ERROR, LOST, NOT_FOUND, Declined

MARK: Final = "HOST_EXEC_ID"
"""A variable of every command, which its processes inherit."""

KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of each stream; the rest is read and dropped."""

RECENT_BYTES_MAX: Final = 8 * 1024
GUARD: Final = Path(__file__).with_name("command_guard.py")
UNWANTED_GRACE_S: Final = 2.0
SWEEP_S: Final = 3.0
SWEEPS_MIN: Final = 50
"""On a busy machine, the time of a sweep may be over before its process has had a turn."""

DRAIN_S: Final = 0.25
"""How long the end of a stream may take once no process is left that could write to it."""

_NO_FILE: Final = (2, 20)


@dataclass(slots=True)
class _Guards:
    """The guards of this process, with the ticks of the system at which each began. The lock is
    held while one is started and not noted yet."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: dict[int, int] = field(default_factory=dict)


_GUARDS: Final = _Guards()


class StreamCapture(asyncio.Protocol):
    """The beginning of a stream, its length, and the newest bytes since they were last taken."""

    def __init__(self) -> None:
        self.beginning = bytearray()
        self.size = 0
        self.ended = asyncio.get_running_loop().create_future()
        self._recent = bytearray()

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        self.beginning += data[: KEPT_BYTES_MAX - len(self.beginning)]
        self._recent += data[-RECENT_BYTES_MAX:]
        del self._recent[:-RECENT_BYTES_MAX]

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def take_recent(self) -> bytes:
        recent = bytes(self._recent)
        self._recent.clear()
        return recent


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOrder:
    """``folder`` is an open descriptor of the working directory, which the caller closes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: int
    network: str
    stdin: bytes = b""


@dataclass(eq=False)
class GuardedCommand:
    """A command that was started. ``exit_code`` is negative for a signal, and None until the first
    process has ended. ``is_gone`` is set once no process is left."""

    stdout: StreamCapture
    stderr: StreamCapture
    guard: subprocess.Popen[bytes]
    writer: asyncio.StreamWriter
    transports: list[asyncio.BaseTransport]
    exit_code: int | None = None
    processes_left: int = 0
    is_gone: asyncio.Event = field(default_factory=asyncio.Event)
    has_broken: bool = False
    """Whether the guard itself was ended before the command."""

    def signal(self, number: int) -> None:
        """Send a signal to every process of the command."""
        self._tell(signal=number)

    def end(self, grace_s: float) -> None:
        """Begin to end it: SIGTERM, and SIGKILL after ``grace_s``. Returns at once."""
        self._tell(end=grace_s)

    def abandon(self) -> None:
        """Close the connection, upon which the guard ends the command by itself."""
        self.writer.transport.abort()

    def _tell(self, **message: float) -> None:
        if not self.writer.is_closing():
            self.writer.write(_line(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class _BegunCommand:
    """A guard that has its order, and descriptors from which the command's output is read."""

    guard: subprocess.Popen[bytes]
    channel: socket.socket
    reading: Sequence[int]


class GuardedCommands:
    """The commands that run now, by the session that they belong to."""

    def __init__(self) -> None:
        self._running: dict[GuardedCommand, str] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._networks: dict[str, bool] = {}

    def of(self, session: str) -> list[GuardedCommand]:
        """The commands of a session."""
        return [command for command, its in self._running.items() if its == session]

    async def start(self, order: CommandOrder, session: str) -> GuardedCommand:
        """Start a command. If this is canceled, the command ends.

        Raises:
            Declined: There is no such program, or it cannot be started.
        """
        started = _start_command(order)
        following = asyncio.ensure_future(self._follow(order, session, started))
        try:
            return await asyncio.shield(following)
        except asyncio.CancelledError:
            following.add_done_callback(_end_unwanted)
            raise

    async def _follow(
        self, order: CommandOrder, session: str, begun: _BegunCommand
    ) -> GuardedCommand:
        """Read the output of a command and the answers of its guard. Raises as ``start``."""
        loop = asyncio.get_running_loop()
        captures = [StreamCapture(), StreamCapture()]
        transports: list[asyncio.BaseTransport] = []
        for reading, capture in zip(begun.reading, captures, strict=True):
            file = os.fdopen(reading, "rb", buffering=0)  # the transport closes it
            transport, _ = await loop.connect_read_pipe(lambda protocol=capture: protocol, file)  # type: ignore[misc]
            transports.append(transport)
        reader, writer = await asyncio.open_connection(sock=begun.channel)
        command = GuardedCommand(
            stdout=captures[0],
            stderr=captures[1],
            guard=begun.guard,
            writer=writer,
            transports=transports,
        )
        started: asyncio.Future[Declined | None] = loop.create_future()
        self._running[command] = session
        task = loop.create_task(self._watch(command, reader, started, order.argv[0]))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        problem = await started
        if problem is not None:
            raise problem
        return command

    async def can_cut_off_network(self) -> bool:
        """Whether this machine permits a command a network of its own; found out once."""
        if "none" not in self._networks:
            guard, channel = _start_guard({"network": "none"}, ())
            with channel:
                channel.setblocking(False)
                answer = await asyncio.get_running_loop().sock_recv(channel, 256)
            await asyncio.to_thread(_wait, guard)
            self._networks["none"] = b"started" in answer
        return self._networks["none"]

    async def end_all(self, within_s: float) -> None:
        """End all commands. Those that take longer are ended by their guards."""
        for command in self._running:
            command.end(within_s / 2)
        if self._watching:
            await asyncio.wait(self._watching, timeout=within_s)
        for command in list(self._running):
            command.abandon()

    async def _watch(
        self,
        command: GuardedCommand,
        reader: asyncio.StreamReader,
        started: asyncio.Future[Declined | None],
        program: str,
    ) -> None:
        """Follow the guard until it ends."""
        try:
            while line := await reader.readline():
                message: dict[str, int] = json.loads(line)
                if "started" in message:
                    started.set_result(None)
                elif "failed" in message:
                    started.set_result(_cannot_start(program, message["failed"]))
                elif "exited" in message:
                    command.exit_code = message["exited"]
                else:
                    command.processes_left = message["gone"]
                    break
            else:
                command.has_broken = True
            await asyncio.wait([command.stdout.ended, command.stderr.ended], timeout=DRAIN_S)
        except (OSError, ValueError):
            command.has_broken = True
        finally:
            if command.has_broken:
                await asyncio.to_thread(_sweep, command.guard)
            if not started.done():
                started.set_result(
                    Declined(LOST, "guard_lost", f"{program}: its guard was ended with it")
                )
            del self._running[command]
            command.writer.close()
            for transport in command.transports:
                transport.close()
            command.is_gone.set()
            await asyncio.to_thread(_wait, command.guard)


def _start_command(order: CommandOrder) -> _BegunCommand:
    stdout, stderr = os.pipe(), os.pipe()
    try:
        with _stdin(order.stdin) as stdin:
            guard, channel = _start_guard(
                {
                    "argv": list(order.argv),
                    "env": dict(order.env),
                    "network": order.network,
                    "folder": order.folder,
                    "stdin": stdin.fileno(),
                    "stdout": stdout[1],
                    "stderr": stderr[1],
                },
                (order.folder, stdin.fileno(), stdout[1], stderr[1]),
            )
    except BaseException:
        os.close(stdout[0])
        os.close(stderr[0])
        raise
    finally:
        os.close(stdout[1])
        os.close(stderr[1])
    return _BegunCommand(guard=guard, channel=channel, reading=(stdout[0], stderr[0]))


def _end_unwanted(following: asyncio.Future[GuardedCommand]) -> None:
    if not following.cancelled() and following.exception() is None:
        following.result().end(UNWANTED_GRACE_S)


def _start_guard(
    order: Mapping[str, Any], passed: Collection[int]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a guard and send it its order. The socket is not blocking."""
    if IS_LINUX:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # see ``_orphans``
    channel, guard_end = socket.socketpair()
    with guard_end, _GUARDS.lock:
        # The signals that the worker ignores must not stay ignored in the command.
        guard = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-I", "-S", str(GUARD)],
            stdin=guard_end.fileno(),
            stdout=subprocess.DEVNULL,
            env={},
            pass_fds=passed,
            start_new_session=True,
        )
        _GUARDS.begun[guard.pid] = _ChildStat.of(guard.pid).begun if IS_LINUX else 0
    channel.sendall(_line(order))
    channel.setblocking(False)
    return guard, channel


def _wait(guard: subprocess.Popen[bytes]) -> None:
    """Wait until a guard has ended."""
    guard.wait()
    with _GUARDS.lock:
        _GUARDS.begun.pop(guard.pid, None)


def _sweep(guard: subprocess.Popen[bytes]) -> None:
    """End the processes of a command whose guard was ended, whatever they did to their names and
    environments (AG-106)."""
    begun = _GUARDS.begun[guard.pid]
    guard.kill()
    _wait(guard)
    end = time.monotonic() + SWEEP_S
    for number in itertools.count():
        orphans = _orphans(begun) if IS_LINUX else []
        if not orphans or (number >= SWEEPS_MIN and time.monotonic() >= end):
            return
        for orphan in orphans:
            for pid in (orphan, *descendants(orphan, orphan)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, os.WNOHANG)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChildStat:
    """The fields of ``/proc/PID/stat`` that tell an orphan."""

    parent: int
    session: int
    begun: int

    @classmethod
    def of(cls, pid: int) -> _ChildStat:
        """Raises OSError."""
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return cls(parent=int(fields[1]), session=int(fields[3]), begun=int(fields[19]))


def _orphans(since: int) -> list[int]:
    """The processes of commands that have no guard any more, and began after ``since``.

    This process is a subreaper: it becomes the parent of what a dead guard leaves. That is in a
    session which its command began. The other children of this process are guards, or in its own
    session, which no process can enter from another.
    """
    own_pid, session = os.getpid(), os.getsid(0)
    orphans = []
    with _GUARDS.lock:
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and int(process.name) not in _GUARDS.begun:
                with contextlib.suppress(OSError):
                    child = _ChildStat.of(int(process.name))
                    if (child.parent, child.session == session) == (own_pid, False):
                        orphans += [int(process.name)] if child.begun >= since else []
    return orphans


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _stdin(data: bytes) -> IO[bytes]:
    """A file without a name, so that a command that reads nothing blocks no one."""
    if not data:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    file.write(data)
    file.seek(0)
    return file


def _cannot_start(program: str, number: int) -> Declined:
    if number in _NO_FILE:
        return Declined(NOT_FOUND, "program_not_found", f"{program}: there is no such program")
    reason = os.strerror(number) if number else "it cannot be started"
    return Declined(ERROR, "program_not_started", f"{program}: {reason}")


def exit_signal(code: int) -> str:
    """The name of the signal that ended a process."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
