"""Watch the process that folds a standby's journal with the reference, and what it has found
(spec/cluster.md, CL-285 to CL-289)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, Damage
from aos.host.cluster.reference_fold import ReferenceProgress
from aos.store.log.logged_store import LoggedStore
from aos.tied_process import tied

NICE: Final = 19
TURN_S: Final = 1.0
PAUSE_S: Final = 60.0
"""How long no other process is started after one that ended by itself."""

ROW: Final = "reference-difference"
"""The row of the store that keeps a difference over a restart."""

_CHILD: Final = (sys.executable, *QUICK_PROGRAM, "aos.host.cluster.reference_child")


class ReferenceWatch(Closable):
    """Has one child for the store of a node in the folder ``path``, while ``is_owner`` is False.
    ``report`` gets a line about a difference, and ``keep`` a call that writes to the store, for the
    thread that may. ``core`` names the build of the second kernel: a difference of another one is
    forgotten."""

    def __init__(
        self,
        path: Path,
        store: LoggedStore,
        *,
        core: str,
        is_owner: Callable[[], bool],
        report: Callable[[str], None],
        keep: Callable[[Callable[[], None]], object],
    ) -> None:
        self.progress = ReferenceProgress()
        self._words = [*_CHILD, str(path), str(NICE)]
        self._store = store
        self._core = core
        self._is_owner = is_owner
        self._report = report
        self._keep = keep
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aos-reference", daemon=True)
        stored = store.meta_get(ROW)
        if stored is not None:
            core_before, _, difference = stored.decode().partition(" ")
            if core_before == core:
                self.progress = ReferenceProgress(difference=difference)

    @property
    def problem(self) -> AosError | None:
        """Why this node may not own the world; None if it may."""
        difference = self.progress.difference
        if difference is None:
            return None
        return Damage(
            f"the two kernels disagree about this world: {difference}",
            hint="do not let this node take over; run aos replay --core both on it, report the "
            "result, and run the nodes with --core python until it is repaired",
        )

    def start(self) -> None:
        """Watch, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """End the child and the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self, line: str) -> None:
        """Take a line of the child."""
        self.progress = replace(self.progress, **json.loads(line))
        difference = self.progress.difference
        if difference is not None:
            self._report(str(self.problem))
            row = f"{self._core} {difference}".encode()
            self._keep(lambda: self._store.meta_put(ROW, row))

    def _run(self) -> None:
        while not self._over.wait(TURN_S):
            if self.progress.difference is None and not self._is_owner():
                self._watch_child()
                self._over.wait(0 if self._is_owner() else PAUSE_S)

    def _watch_child(self) -> None:
        """Run a child until it ends, or must."""
        paths = os.pathsep.join(folder for folder in sys.path if folder)
        with subprocess.Popen(  # noqa: S603  # this interpreter, a module of ours, a folder
            tied(self._words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        ) as child:
            reader = threading.Thread(target=self._read, args=(child,), daemon=True)
            reader.start()
            try:
                while child.poll() is None and not self._over.is_set() and not self._is_owner():
                    self._over.wait(TURN_S)
            finally:
                child.kill()
                child.wait()
                reader.join()

    def _read(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            if line.endswith("\n"):
                with contextlib.suppress(ValueError):
                    self.take(line)
