"""The demo's child processes: started as a user would start them, and ended in all cases."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Final

from aos.closable import Closable
from aos.tied_process import STOPPING, signals_after, tied
from aos_cli.output import line

END_S: Final = 30.0
"""How long a process may take to end after the request to end, in seconds."""


class Stopped(BaseException):
    """A signal asked the demo to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command line, as it is run and as it is shown."""

    words: Sequence[str]
    display_words: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    into: Path | None = None
    """The file for its output, like ``>`` in a shell."""

    def __str__(self) -> str:
        parts = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        parts.append(shlex.join(self.display_words))
        if self.into is not None:
            parts.append(f"> {shlex.quote(str(self.into))}")
        return " ".join(parts)

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.env}


def aos(
    *words: str | Path, env: Mapping[str, str] | None = None, into: Path | None = None
) -> Command:
    """``aos WORDS``, whether or not it is installed as a command."""
    arguments = [str(word) for word in words]
    return Command(
        words=[sys.executable, "-m", "aos_cli.entry", *arguments],
        display_words=["aos", *arguments],
        env=env or {},
        into=into,
    )


def python(*words: str | Path | int, into: Path | None = None) -> Command:
    arguments = [str(word) for word in words]
    return Command(
        words=[sys.executable, *arguments], display_words=["python3", *arguments], into=into
    )


def show(command: Command, *, tail: str = "") -> None:
    line(f"$ {command}{tail}", style="cyan")


def run(command: Command) -> int:
    """Show a command and run it here, as typed; return its exit code."""
    show(command)
    sys.stdout.flush()
    with contextlib.ExitStack() as stack:
        stdout = stack.enter_context(command.into.open("wb")) if command.into else None
        process = stack.enter_context(_foreground(command, stdout=stdout))
        return process.wait()


def ask(command: Command) -> tuple[int, str, str]:
    """Show a command and run it; return its exit code and what it wrote."""
    show(command)
    with _foreground(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, problem = process.communicate()
    return process.returncode, out.decode(errors="replace"), problem.decode(errors="replace")


@contextlib.contextmanager
def _foreground(
    command: Command, *, stdout: int | IO[bytes] | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command for the block to wait for. It has ended at the end of the block, also if a
    signal interrupts the wait: else it could still write into a folder that is being removed."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with signals_after():
            process = subprocess.Popen(  # noqa: S603
                command.words, env=command.environment(), stdout=stdout, stderr=stderr
            )
        yield process
    except BaseException:
        if process is not None:
            _end(process)
        raise
    finally:
        for stream in (process.stdout, process.stderr) if process is not None else ():
            if stream is not None:
                stream.close()


def child_of(pid: int, word: str) -> int | None:
    """The id of a child of the process whose command line has this word; None without one."""
    return next((child for child, words in _children(pid) if word in words), None)


def _children(pid: int) -> Iterator[tuple[int, Sequence[str]]]:
    """(id, words of the command line) of each child of the process."""
    if sys.platform != "linux":
        yield from _listed_children(pid)
    for children_file in Path(f"/proc/{pid}/task").glob("*/children"):
        children: Sequence[str] = ()
        with contextlib.suppress(OSError):  # the thread has ended
            children = children_file.read_text().split()
        for child in children:
            with contextlib.suppress(OSError):  # it has ended
                yield int(child), Path(f"/proc/{child}/cmdline").read_text().split("\0")


def _listed_children(pid: int) -> Iterator[tuple[int, Sequence[str]]]:
    """The same where there is no ``/proc``."""
    columns = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    listing = subprocess.run(columns, capture_output=True, text=True, check=True)  # noqa: S603
    for row in listing.stdout.splitlines():
        child, parent, *words = row.split()
        if int(parent) == pid:
            yield int(child), words


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, wait until it has, and kill it if that takes too long."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Children(Closable):
    """Processes in the background. At the end it ends those that still run, by their own id.

    Start them from the main thread: a process ends with the thread that started it.
    """

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Command, *, stdout: int | IO[bytes], stderr: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        with signals_after():
            process = subprocess.Popen(  # noqa: S603
                tied(command.words),
                env=command.environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            self._running.append(process)
        return process

    def close(self) -> None:
        for process in reversed(self._running):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self._running):
            _end(process)
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that its processes end, too."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in STOPPING:  # one is enough: a second signal must not interrupt the clean-up
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    previous_handlers = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield
    except Stopped:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
