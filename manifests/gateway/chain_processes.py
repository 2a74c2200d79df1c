"""Processes in the background: start one, recognise it later, end it and no other.

A process id may belong to another program later. A process is therefore known by its id together
with the time at which it started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENDS_S: Final = 30.0
"""After this many seconds, a process that was asked to end is killed."""

POLL_S: Final = 0.005
PROC: Final = Path("/proc")


class ChainError(Exception):
    """The chain cannot do as asked; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Background:
    """A process that this or an earlier program started. ``mark`` tells it from any other."""

    pid: int
    mark: str

    def is_alive(self) -> bool:
        is_alive = _mark(self.pid) == self.mark
        if not is_alive:  # looked at first: it may end between the two, and is left to no other
            _reap(self.pid)
        return is_alive

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.is_alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process (SIGKILL). It has ended when this returns."""
        self.send(signal.SIGKILL)
        if not wait_until(lambda: not self.is_alive(), seconds=ENDS_S):
            raise ChainError(f"process {self.pid} was killed and has not ended")

    def end(self) -> None:
        """Ask the process to end (SIGTERM); kill it if it does not."""
        self.send(signal.SIGTERM)
        if not wait_until(lambda: not self.is_alive(), seconds=ENDS_S):
            self.kill()


def start(command: Sequence[str | Path], *, log: Path) -> Background:
    """Start a program in a session of its own. Its output is appended to ``log``.

    It continues when this program ends, and a Ctrl-C of this program's terminal does not reach it.
    """
    words = [os.fspath(word) for word in command]
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        words[0],
        words,
        os.environ,
        setsid=True,
        setsigmask=(),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.fspath(log), appending, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    return Background(pid, _mark(pid) or "ended")


def wait_until(holds: Callable[[], bool], *, seconds: float) -> bool:
    """Ask again and again, up to ``seconds``. Return whether it holds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    return True


def free_port(wanted: int = 0) -> int:
    """Return ``wanted`` if no one listens on it; for 0, a port of the system's choice.

    Raises:
        ChainError: The port is in use.
    """
    with socket.socket() as probe:
        # Else the connections of a process that was just killed would keep its port in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            raise ChainError(
                f"port {wanted} of 127.0.0.1 is in use: end the program that listens on it, "
                "or choose another port (--port, --arweave-port)"
            ) from None
        port: int = probe.getsockname()[1]
        return port


def _mark(pid: int) -> str | None:
    """When the process started; None if it has ended.

    Its command line says nothing yet just after its start, so it is no part of the mark.
    """
    if not PROC.is_dir():
        return _mark_by_ps(pid)
    process = PROC / str(pid)
    try:
        # The name of the program is in parentheses and may contain anything.
        fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        threads = len(list((process / "task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, started = fields[0], fields[19]
    # While other threads end, the first one is a zombie already, and ports are still in use.
    if state in "ZX" and threads <= 1:
        return None
    boot = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"{boot} {started}"


def _mark_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    state, _, started = shown.partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def _reap(pid: int) -> None:
    """Collect the process if it is an ended child of this one."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
