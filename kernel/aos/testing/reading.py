"""Read a manifest's files from disk, again only if one of them has changed (T-7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from aos.host.apply.manifest_files import AIR_FOLDER, AIR_SUFFIX, read_manifest_files
from aos.manifest.load import Problem

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of the last change of a file."""

READINGS_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    files: dict[str, bytes]
    stamps: dict[str, Stamp]
    air: frozenset[str]


_readings: dict[Path, _Reading] = {}


def read_files(path: Path) -> tuple[dict[str, bytes], list[Problem]]:
    """Cached ``read_manifest_files``. A manifest with problems is not cached.

    Raises:
        BadUsage: ``path`` does not exist.
    """
    path = path.absolute()
    cached = _readings.get(path)
    if cached is not None and _is_as_before(path, cached):
        return cached.files, []
    files, problems = read_manifest_files(path)
    # A folder without air/ is searched completely and may be a project: it is never cached.
    if not problems and (path.is_file() or (path / AIR_FOLDER).is_dir()):
        stamps = _stamps(path, files)
        if stamps is not None:
            if len(_readings) >= READINGS_MAX:
                _readings.pop(next(iter(_readings)))
            _readings[path] = _Reading(files=files, stamps=stamps, air=_air(path))
    return files, problems


def _is_as_before(path: Path, cached: _Reading) -> bool:
    return _air(path) == cached.air and _stamps(path, cached.files) == cached.stamps


def _air(path: Path) -> frozenset[str]:
    if path.is_file():
        return frozenset()
    return frozenset(map(str, (path / AIR_FOLDER).rglob(f"*{AIR_SUFFIX}")))


def _stamps(path: Path, names: Iterable[str]) -> dict[str, Stamp] | None:
    """The files' stamps; None if one of them no longer exists."""
    root = path.parent if path.is_file() else path
    stamps: dict[str, Stamp] = {}
    for name in names:
        try:
            stat = (root / name).stat()
        except OSError:
            return None
        stamps[name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return stamps
