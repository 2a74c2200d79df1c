"""The files of a project that a build may read (AU-9), and which of them have changed (AU-80)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from aos.author.project import BUILD, GENERATED_AIR, Project

SUFFIXES: Final = (".rs", ".toml", ".lock", ".ts", ".json")
"""Name endings of files that a build may read."""

PYTHON: Final = ".py"
"""Name endings of files that executors are made of."""

PASSED_OVER: Final = frozenset({"target", "node_modules", BUILD, "tests", "__pycache__"})
SOURCE_FOLDERS: Final = frozenset({"src", "assembly"})
"""Inside of these, a folder such as ``tests`` is a part of the module."""

GENERATED_CODE: Final = "assembly/generated.ts"
GENERATED: Final = frozenset({GENERATED_AIR, GENERATED_CODE})
WORLD_FILE: Final = "world.json"
"""A folder with this file is a world. ``aos run`` changes it, so it is no source."""

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


def source_files(folder: Path, suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[tuple[str, Path]]:
    """Yield each file as its path below ``folder`` and its path. Generated files, tests, worlds and
    hidden files are left out."""
    for current, below, names in os.walk(folder):
        if WORLD_FILE in names:
            below.clear()
            continue
        parts = Path(current).relative_to(folder).parts
        passed_over = PASSED_OVER if SOURCE_FOLDERS.isdisjoint(parts) else frozenset()
        below[:] = sorted(n for n in below if n not in passed_over and not n.startswith("."))
        for name in sorted(names):
            if not name.endswith(suffixes) or name.startswith("."):
                continue
            file = Path(current, name)
            path = file.relative_to(folder).as_posix()
            if path not in GENERATED:
                yield path, file


class Watch:
    """The state of a project's files at the last reported change (AU-80).

    It polls modification times and sizes of some hundred files, which needs no further package and
    works on every file system.
    """

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
