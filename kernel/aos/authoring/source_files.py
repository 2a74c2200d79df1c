"""List the files of a project that a build may read (AU-9)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aos.authoring.project import BUILD, GENERATED_AIR

SUFFIXES: Final = (".rs", ".toml", ".lock", ".ts", ".json")
"""Name endings of files that a build may read."""

PASSED_OVER: Final = frozenset({"target", "node_modules", BUILD, "tests", "__pycache__"})
SOURCE_FOLDERS: Final = frozenset({"src", "assembly"})
"""Inside of these, a folder such as ``tests`` is a part of the module."""

GENERATED_CODE: Final = "assembly/generated.ts"
GENERATED: Final = frozenset({GENERATED_AIR, GENERATED_CODE})
WORLD_FILE: Final = "world.json"
"""A folder with this file is a world. ``aos run`` changes it, so it is no source."""


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
