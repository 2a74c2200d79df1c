"""Report which files of a project have changed (AU-80).

It polls modification times and sizes of some hundred files, which needs no further package and
works on every file system.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from aos.authoring.project import Project
from aos.authoring.source_files import SUFFIXES, source_files

PYTHON: Final = ".py"
"""Name endings of files that executors are made of."""

FILES_MAX: Final = 5_000

Seen: TypeAlias = dict[str, tuple[int, int]]
"""Modification time and size of each file, by its path below the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files that were added, removed or changed: those of the build, and those of the executors."""

    sources: tuple[str, ...]
    effects: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.sources or self.effects)


class Watch:
    """The state of a project's files at the last reported change."""

    def __init__(self, project: Project) -> None:
        self._folder = project.folder
        self._reported = self._last = self._look()

    def changes(self) -> Changes | None:
        """The changes since the last report; None if there are none, or while files still change:
        editors and version control write several."""
        now = self._look()
        is_at_rest, self._last = now == self._last, now
        if not is_at_rest or now == self._reported:
            return None
        names = {name for name, _ in self._reported.items() ^ now.items()}
        self._reported = now
        return Changes(
            sources=tuple(sorted(name for name in names if not name.endswith(PYTHON))),
            effects=tuple(sorted(name for name in names if name.endswith(PYTHON))),
        )

    def _look(self) -> Seen:
        stamps: Seen = {}
        found_files = source_files(self._folder, (*SUFFIXES, PYTHON))
        for name, file in islice(found_files, FILES_MAX):
            try:
                status = file.stat()
            except OSError:
                continue  # it was removed after it was listed
            stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps
