"""Run a build in the background of ``aos dev``."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

from aos.authoring.build import Built, build
from aos.authoring.project import read_project
from aos.authoring.running import Console
from aos.errors import AosError


class Builder:
    """A build in its own thread."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._results: queue.SimpleQueue[Built | AosError] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(folder, console))
        self._thread.start()

    def _run(self, folder: Path, console: Console) -> None:
        try:
            self._results.put(build(read_project(folder), console=console))
        except AosError as problem:
            self._results.put(problem)

    def result(self) -> Built | AosError | None:
        """The build, or why it failed; None while it runs. Other exceptions are raised here.

        Raises:
            RuntimeError: The thread has ended without a result.
        """
        is_alive = self._thread.is_alive()
        try:
            return self._results.get_nowait()
        except queue.Empty:
            if not is_alive:
                raise RuntimeError("the build ended without a result") from None
            return None

    def join(self) -> None:
        self._thread.join()
