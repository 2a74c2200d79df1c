"""Make checkpoints of a world while it runs, each in a child process (spec/cli.md, C-25; PF-29).

The child is this module, run by its name. It only reads the store.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from aos.errors import AosError
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.private_memory import keep_memory_private

_MODULE: Final = "aos.host.checkpoints.checkpoint_child"
NICE = 10
_PROBLEM_CHARS_MAX: Final = 2000


@contextlib.contextmanager
def periodic_checkpoints(
    world: Path, every_s: float, report: Callable[[str], None]
) -> Iterator[None]:
    """Make a checkpoint every so many seconds, and one when the block ends without an exception.

    A checkpoint that cannot be made is reported, and the world continues to run.
    """
    periodic = _Periodic(world, every_s, report)
    thread = threading.Thread(target=periodic.run, name="checkpoints", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        periodic.stop()
        thread.join()
        raise
    periodic.stop()
    thread.join()
    periodic.make()


class _Periodic:
    def __init__(self, world: Path, every_s: float, report: Callable[[str], None]) -> None:
        self._world = world
        self._every_s = every_s
        self._report = report
        self._over = threading.Event()
        self._last_problem = ""

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            self.make()

    def stop(self) -> None:
        self._over.set()

    def make(self) -> None:
        """Make one checkpoint, and report a failure, each once."""
        paths = os.pathsep.join(folder for folder in sys.path if folder)
        ended = subprocess.run(  # noqa: S603  # this interpreter, a module of ours, a folder
            [sys.executable, "-m", _MODULE, str(self._world)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C is for the world; its last checkpoint still comes
        )
        problem = ended.stderr.decode(errors="replace").strip()[-_PROBLEM_CHARS_MAX:]
        if ended.returncode and problem != self._last_problem:
            self._report(f"no checkpoint was made: {problem}")
        self._last_problem = problem if ended.returncode else ""


def main(world: Path) -> int:
    """Make a checkpoint in the child process; print why it could not be made."""
    os.nice(NICE)
    try:
        make_checkpoint(world)
    except AosError as problem:
        print(problem, file=sys.stderr)  # noqa: T201  # its parent reads it
        return problem.exit_code
    return 0


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(Path(sys.argv[1])))
