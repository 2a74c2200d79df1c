"""The process of one world of a member (spec/cluster.md, CL-235).

no folder ──join──▶ folder ──run──▶ running ──it ends──▶ pause ──▶ run …
                                       └──stop──▶ released, ended
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.errors import BadUsage, Unavailable
from aos.host.folder.folder import WORLD_FILE
from aos.shell_text import shell_word
from aos.store.plain_files import PlainFolder
from aos.tied_process import tied

LOGS: Final = ".logs"
"""The folder with the output of the processes. No world has this name."""

LOCK: Final = ".lock"

BACKOFF_S: Final = 0.5
"""Pause before a process that died is started again, in seconds; each quick death doubles it."""

BACKOFF_S_MAX: Final = 5.0
"""The longest pause."""

QUICK_S: Final = 10.0
"""A process that died within this time of its start died quickly."""

STOP_S: Final = 30.0
"""Seconds that a process may take to stop, before it is killed."""


@contextlib.contextmanager
def member_folder(path: Path) -> Iterator[None]:
    """Make the folder of a member, if need be, and keep it for this process in the block.

    Raises:
        BadUsage: It cannot be made.
        Unavailable: Another process has it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = PlainFolder.at_user_path(path)
    except OSError as problem:
        raise BadUsage(
            "not a folder for a member", location=str(path), actual=str(problem.strerror)
        ) from None
    with folder:
        lock = folder.open(LOCK, os.O_RDWR | os.O_CREAT)
        try:
            _lock(lock, path)
            yield
        finally:
            os.close(lock)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Unavailable(
            "another member runs in this folder",
            location=str(path),
            hint="stop it, or use another folder",
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCommands:
    """The command that makes the folder of a world, and the one that runs it."""

    join: Sequence[str]
    run: Sequence[str]


class WorldChild:
    """Keeps the process of the world ``name`` running, whose folder is ``folder``/``name``.
    ``look`` does the work; call it often, in the main thread, with which the process ends.
    ``report`` gets a kind and a sentence for each change."""

    def __init__(
        self,
        name: str,
        folder: Path,
        commands: ChildCommands,
        *,
        report: Callable[[str, str], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.is_over = False
        """Whether it was told to stop, and has."""
        self._folder = folder
        self._commands = commands
        self._report = report
        self._now_s = now_s
        self._process: subprocess.Popen[bytes] | None = None
        self._is_joining = False
        self._begun_s = self._start_s = now_s()
        self._quick = 0
        self._kill_s: float | None = None

    @property
    def path(self) -> Path:
        """The folder of the world."""
        return self._folder / self.name

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._kill_s is not None

    def look(self) -> None:
        """See how the process is, and start or kill it if need be."""
        process = self._process
        if process is not None:
            if process.poll() is None:
                if self._kill_s is not None and self._now_s() >= self._kill_s:
                    self._report("killed", f"world {self.name}: its process does not end: killed")
                    process.kill()
                    self._kill_s += STOP_S
                return
            self._process = None
            self._ended(process.returncode)
        if self.is_stopping:
            self.is_over = True
        elif self._now_s() >= self._start_s:
            self._start()

    def stop(self) -> None:
        """Have the process end in order, and start none any more. Returns at once."""
        if self._kill_s is None:
            self._kill_s = self._now_s() + STOP_S
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGTERM)

    def _start(self) -> None:
        self._is_joining = not (self.path / WORLD_FILE).is_file()
        words = self._commands.join if self._is_joining else self._commands.run
        self._begun_s = self._now_s()
        with (
            PlainFolder.at_user_path(self._folder) as folder,
            folder.inner(LOGS, make=True) as logs,
        ):
            log = logs.open(f"{self.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                tied(words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for this process, which ends the worlds in order.
                start_new_session=True,
            )
        except OSError as error:
            self._pause(f"cannot be started: {error.strerror}")
        finally:
            os.close(log)
        if self._process is not None:
            act = "joins" if self._is_joining else "runs"
            self._report(act, f"world {self.name}: {act} in {shell_word(str(self.path))}")

    def _ended(self, code: int) -> None:
        if self.is_stopping:
            return
        if self._is_joining and code == 0:
            self._start_s = self._now_s()
            return
        act = "joining" if self._is_joining else "its process"
        self._pause(f"{act} ended with {'signal' if code < 0 else 'exit code'} {abs(code)}")

    def _pause(self, reason: str) -> None:
        is_quick = self._now_s() - self._begun_s < QUICK_S
        self._quick = min(self._quick + 1, 10) if is_quick else 1
        pause_s = min(BACKOFF_S * 2.0 ** (self._quick - 1), BACKOFF_S_MAX)
        self._start_s = self._now_s() + pause_s
        log = shell_word(str(self._folder / LOGS / f"{self.name}.log"))
        self._report(
            "ended",
            f"world {self.name}: {reason}; started again in {pause_s:g} s (its output: {log})",
        )
