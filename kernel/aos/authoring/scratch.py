"""The scratch world of ``aos dev``: made when it is missing, thrown away when that is asked for
(AU-82)."""

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
"""A file that says whose the world is: no other one is run or thrown away here."""

SAID: Final = "A scratch world of `aos dev`. It is thrown away with --fresh.\n"


def prepare(path: Path, *, fresh: bool) -> None:
    """Make the scratch world at ``path`` unless it is there; ``fresh``: an empty one.

    Raises:
        Refused: There is something else than a scratch world. Nothing has changed.
        Unavailable: Another process runs it, or it cannot be made.
    """
    is_there = path.is_dir() and next(path.iterdir(), None) is not None
    if is_there and not _is_ours(path):
        raise Refused(
            sentence(
                "this is no scratch world of aos dev, so it is left alone",
                where=str(path),
                expected="a new or empty folder, or a world that aos dev has made",
                hint=f"give another one: world = … in {PROJECT_FILE}",
            )
        )
    if is_there and (fresh or not (path / WORLD_FILE).exists()):
        with WorldLock(path):  # nobody runs it
            throw_away(path)
        is_there = False
    if not is_there:
        init_world(path, operator="dev")
        with (
            PlainFolder.named(path) as folder,
            os.fdopen(folder.create(MARKER, 0o644), "w") as made,
        ):
            made.write(SAID)


def _is_ours(path: Path) -> bool:
    """Whether aos dev made it; also where it was killed before it was done."""
    is_finished = (path / WORLD_FILE).exists()
    return (path / MARKER).is_file() or (not is_finished and (path / UNFINISHED_FILE).exists())


def throw_away(path: Path) -> None:
    """Remove a scratch world. The marker goes last: what is half gone can be removed again."""
    for each in path.iterdir():
        if each.name == MARKER:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
    (path / MARKER).unlink(missing_ok=True)
