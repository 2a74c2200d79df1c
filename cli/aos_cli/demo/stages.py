"""A demo as a series of stages in its folder: their titles, commands, processes, progress, checks
and times.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from aos.errors import AosError, Refused, Unavailable
from aos.host.folder.folder import open_folder
from aos.shell_text import shell_word
from aos.store.store import Store
from aos_cli.demo.files import short
from aos_cli.demo.processes import Children, Command, aos, ask, run, show
from aos_cli.output import line, note, progress

POLL_S: Final = 0.02
NO_PROGRESS_S: Final = 60.0
READY_S: Final = 60.0
LOG_LINES: Final = 20

T = TypeVar("T")
FIRST: Final = slice(0, 1)
LAST: Final = slice(-1, None)
LAST_TWO: Final = slice(-2, None)


@dataclass(slots=True)
class DemoFolder:
    """The folder of a demo: one that the user names and keeps, or a temporary one."""

    folder: Path
    is_kept: bool


class Stages(ABC):
    """A demo of one world. ``failed`` names the checks that failed, of ``checks``; ``exit_code``
    follows from them. ``goal`` is the progress at the end, in units of ``UNIT``."""

    UNIT: ClassVar[str]

    def __init__(self, folder: Path, children: Children, *, goal: int) -> None:
        self.world = folder / "world"
        self.failed: list[str] = []
        self.checks = 0
        self.exit_code = 0
        self._children = children
        self._goal = goal
        self._progress = 0
        self._log = folder / "log.txt"
        self._seconds: dict[str, float] = {}
        self._stage = 0
        self._seq = 0

    @abstractmethod
    def tell(self) -> None:
        """Run every stage. Raises ``AosError`` if one cannot be completed."""

    @abstractmethod
    def _count_after(self, store: Store, seq: int) -> tuple[int, int]:
        """The progress after record ``seq``, and the last record counted."""

    def times(self) -> str:
        """The seconds of each stage as text: ``12 s: set up 2.1, send 0.9 …``"""
        parts = [f"{name} {seconds:.1f}" for name, seconds in self._seconds.items()]
        return f"{sum(self._seconds.values()):.0f} s: {', '.join(parts)}"

    def _time(self, name: str, stage: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return stage()
        finally:
            self._seconds[name] = time.monotonic() - began

    def _prove(self) -> None:
        self._title("Replay every step, byte for byte; verify every signature and hash")
        for name in ("replay", "verify"):
            code = run(aos(name, "--world", self.world))
            self._check(f"aos {name} ends with 0", code == 0, exit_code=code)

    # The processes

    def _start(self, command: Command, *, tail: str = "") -> subprocess.Popen[bytes]:
        """Show a command and start it in the background; it writes to the log."""
        show(command, tail=tail)
        with self._log.open("ab") as log:
            return self._children.start(command, stdout=log, stderr=log)

    def _start_service(self, command: Command, expected: str, *, ready_s: float = READY_S) -> str:
        """Show a command and start it in the background. Return the line that it prints once it is
        ready; ``expected`` says what that should tell."""
        show(command, tail=" &")
        with self._log.open("ab") as log:
            service = self._children.start(command, stdout=subprocess.PIPE, stderr=log)
        assert service.stdout is not None
        ready, _, _ = select.select([service.stdout], [], [], ready_s)
        ready_line = service.stdout.readline().decode().strip() if ready else ""
        if not ready_line:
            raise self._ended_early(f"it should have told {expected}", service)
        return ready_line

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        line(f"$ kill -9 {process.pid}", style="cyan")

    def _wait(
        self, process: subprocess.Popen[bytes], look: Callable[[], T | None], expected: str
    ) -> T:
        """Wait until ``look`` returns something true. The process must run meanwhile."""
        until_s = time.monotonic() + NO_PROGRESS_S
        while not (result := look()):
            if process.poll() is not None or time.monotonic() > until_s:
                raise self._ended_early(f"expected {expected}", process)
            time.sleep(POLL_S)
        return result

    def _end_of(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the end of a process; return its exit code."""
        try:
            return process.wait(NO_PROGRESS_S)
        except subprocess.TimeoutExpired:
            raise self._ended_early("it should have ended", process) from None

    def _watch(self, process: subprocess.Popen[bytes], *, until: int | None) -> None:
        """Wait until the process ends, or the progress is ``until``."""
        with ExitStack() as stack:
            store = stack.enter_context(open_folder(self.world).open_store(readonly=True))
            advance = stack.enter_context(progress(self.UNIT))
            moved = time.monotonic()
            while process.poll() is None and (until is None or self._progress < until):
                time.sleep(POLL_S)
                if self._look(store):
                    moved = time.monotonic()
                advance(self._progress, self._goal)
                if time.monotonic() - moved > NO_PROGRESS_S:
                    raise self._ended_early(f"nothing happened for {NO_PROGRESS_S:.0f} s", process)
            self._look(store)

    def _look(self, store: Store) -> bool:
        """Count the progress since the last call; True if there are new records."""
        previous_seq = self._seq
        increment, self._seq = self._count_after(store, previous_seq)
        self._progress += increment
        return self._seq > previous_seq

    def _run(self, command: Command) -> None:
        """Run a command that must succeed; its output is shown as it is."""
        code = run(command)
        if code != 0:
            raise Unavailable(f"`{command}` ended with {code}")

    def _must(self, command: Command, *, lines_shown: slice = LAST) -> None:
        """Run a command that must succeed, and show the selected lines of its output."""
        code, out, problem = ask(command)
        if code != 0:
            raise Unavailable(f"`{command}` ended with {code}: {problem.strip()}")
        for text in out.splitlines()[lines_shown]:
            line(f"  {text}")

    def _ended_early(self, problem: str, process: subprocess.Popen[bytes]) -> AosError:
        code = process.poll()
        ended = "it still runs" if code is None else f"it ended with {code}"
        log_tail = "".join(f"\n  {text}" for text in self._last_lines(LOG_LINES))
        return Unavailable(f"{problem}: {ended} (its last words, from {self._log}):{log_tail}")

    def _last_lines(self, limit: int) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()[-limit:]

    # Words

    def _title(self, text: str) -> None:
        self._stage += 1
        line()
        line(f"{self._stage}  {text}", style="bold")

    def _check(self, claim: str, holds: bool, *, exit_code: int = 1) -> None:
        self.checks += 1
        line(f"  {'✓' if holds else '✗'} {claim}", style="green" if holds else "red")
        if not holds:
            self.failed.append(f"does not hold: {claim}")
            self.exit_code = max(self.exit_code, exit_code)


def conclude(stages: Stages, demo_folder: DemoFolder, *, command: str) -> int:
    """Print the result of a demo that has ended, and return its exit code. ``command`` is how it is
    run."""
    line()
    if stages.failed:
        for failure in stages.failed:
            note(f"aos: {command.removeprefix('aos ')}: {failure}", style="red")
        note(
            f"aos: {len(stages.failed)} of {stages.checks} checks failed; see {demo_folder.folder}"
        )
        return stages.exit_code
    line(f"all {stages.checks} checks hold", style="bold green")
    line(stages.times(), style="dim")
    if demo_folder.is_kept:
        line(f"look around: aos inspect world --world {shell_word(stages.world)}")
    else:
        line(f"keep the world to look around in it: {command} DIR")
    return 0


@contextmanager
def demo_folder_at(directory: Path | None, *, is_kept: bool) -> Iterator[DemoFolder]:
    """The folder of the demo. A temporary one is removed at the end, unless the user asked to keep
    it or an error occurred.

    Raises:
        Refused: The directory is a file, or has anything in it.
    """
    if directory is not None:
        yield DemoFolder(short(_empty_folder(directory)), is_kept=True)
        return
    demo_folder = DemoFolder(Path(tempfile.mkdtemp(prefix="aos-demo-")), is_kept)
    try:
        yield demo_folder
    except AosError:
        demo_folder.is_kept = True
        raise
    finally:
        if demo_folder.is_kept:
            note(f"kept: {demo_folder.folder}")
        else:
            shutil.rmtree(demo_folder.folder, ignore_errors=True)


def _empty_folder(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        entry = next(directory.iterdir(), None)
    except OSError as error:
        if directory.exists() and not directory.is_dir():
            raise Refused(f"{directory}: expected an empty or new folder, found a file") from error
        raise Unavailable(f"{directory}: the folder cannot be made: {error.strerror}") from error
    if entry is not None:
        raise Refused(f"{directory}: expected an empty or new folder, found {entry.name!r} in it")
    return directory.resolve()
