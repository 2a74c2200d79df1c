"""Make bases of a node while it runs, in a child of low priority (spec/cluster.md, CL-136)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aos.boot_clock import boot_ns
from aos.closable import Closable
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError

LOOK_NS: Final = 60 * 1_000_000_000
"""How often a node looks whether it needs a base, and the pause after one that failed."""

NICE: Final = 15
_CHILD: Final = (sys.executable, *QUICK_PROGRAM, "aos.host.cluster.base_child")


class BaseMaker(Closable):
    """Starts a child that makes a base of the node in the folder ``path`` when ``is_needed``, which
    may raise AosError. ``report`` gets a line about each one. Used by the thread of a node's loop.
    """

    def __init__(
        self,
        path: Path,
        is_needed: Callable[[], bool],
        *,
        credentials: Path | None = None,
        report: Callable[[str], None] = lambda _: None,
        now_ns: Callable[[], int] = boot_ns,
    ) -> None:
        self._words = [str(path), str(NICE), *([] if credentials is None else [str(credentials)])]
        self._is_needed = is_needed
        self._report = report
        self._now_ns = now_ns
        self._child: subprocess.Popen[str] | None = None
        self._next_ns = 0

    def turn(self) -> None:
        """Look whether the child has ended, or whether one is needed. It does not wait."""
        child, now_ns = self._child, self._now_ns()
        if child is not None:
            if child.poll() is None:
                return
            output, _ = child.communicate()
            self._report(output.strip() or f"no base was made: exit code {child.returncode}")
            self._child = None
            self._next_ns = now_ns + LOOK_NS
        elif now_ns >= self._next_ns:
            self._next_ns = now_ns + LOOK_NS
            if self._asks():
                self._start()

    def close(self) -> None:
        """End the child, if there is one. What it has left is finished by the next base."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _asks(self) -> bool:
        try:
            return self._is_needed()
        except AosError as problem:
            self._report(f"it is not known whether the world needs a base: {problem}")
            return False

    def _start(self) -> None:
        paths = os.pathsep.join(folder for folder in sys.path if folder)
        self._child = subprocess.Popen(  # noqa: S603  # this interpreter, a module of ours, a folder
            [*_CHILD, *self._words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
