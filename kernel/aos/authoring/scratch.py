"""Create the scratch world of ``aos dev`` if it is missing, and remove it on request (AU-82)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from aos.authoring.project import PROJECT_FILE
from aos.errors import Refused, sentence
from aos.host.folder.folder import UNFINISHED_FILE, WORLD_FILE, init_world
from aos.store.lock import WorldLock
from aos.store.plain_files import PlainFolder

MARKER: Final = "scratch"
"""A file that marks a scratch world: ``aos dev`` neither runs nor removes any other world."""

SAID: Final = "A scratch world of `aos dev`. It is thrown away with --fresh.\n"


def prepare(path: Path, *, fresh: bool) -> None:
    """Create the scratch world at ``path`` if it is missing; with ``fresh`` replace it by an empty
    one.

    Raises:
        Refused: There is something other than a scratch world. Nothing has changed.
        Unavailable: Another process runs it, or it cannot be created.
    """
    is_there = path.is_dir() and next(path.iterdir(), None) is not None
    if is_there and not _is_ours(path):
        raise Refused(
            sentence(
                "this is not a scratch world of aos dev, so it is not changed",
                location=str(path),
                expected="a new or empty folder, or a world that aos dev has created",
                hint=f"choose another folder: world = … in {PROJECT_FILE}",
            )
        )
    if is_there and (fresh or not (path / WORLD_FILE).exists()):
        with WorldLock(path):  # no other process runs it
            throw_away(path)
        is_there = False
    if not is_there:
        init_world(path, operator="dev")
        with (
            PlainFolder.at_user_path(path) as folder,
            os.fdopen(folder.create(MARKER, 0o644), "w") as marker,
        ):
            marker.write(SAID)


def _is_ours(path: Path) -> bool:
    """Whether aos dev created it; also true if it was killed while it did."""
    is_finished = (path / WORLD_FILE).exists()
    return (path / MARKER).is_file() or (not is_finished and (path / UNFINISHED_FILE).exists())


def throw_away(path: Path) -> None:
    """Remove a scratch world. The marker is removed last, so an interrupted removal can resume."""
    for entry in path.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (path / MARKER).unlink(missing_ok=True)
