"""The folder of a demo: one that the user names and keeps, or a temporary one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aos.errors import AosError, Refused, Unavailable
from aos_cli.demo.files import short
from aos_cli.output import note


@dataclass(slots=True)
class DemoFolder:
    folder: Path
    is_kept: bool


@contextmanager
def place_of(directory: Path | None, *, is_kept: bool) -> Iterator[DemoFolder]:
    """The folder of the demo. A temporary one is removed at the end, unless the user asked to keep
    it or an error occurred.

    Raises:
        Refused: The directory is a file, or has anything in it.
    """
    if directory is not None:
        yield DemoFolder(short(_empty_folder(directory)), is_kept=True)
        return
    demo_folder = DemoFolder(Path(tempfile.mkdtemp(prefix="aos-demo-")), is_kept)
    try:
        yield demo_folder
    except AosError:
        demo_folder.is_kept = True
        raise
    finally:
        if demo_folder.is_kept:
            note(f"kept: {demo_folder.folder}")
        else:
            shutil.rmtree(demo_folder.folder, ignore_errors=True)


def _empty_folder(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        entry = next(directory.iterdir(), None)
    except OSError as error:
        if directory.exists() and not directory.is_dir():
            raise Refused(f"{directory}: expected an empty or new folder, found a file") from error
        raise Unavailable(f"{directory}: the folder cannot be made: {error.strerror}") from error
    if entry is not None:
        raise Refused(f"{directory}: expected an empty or new folder, found {entry.name!r} in it")
    return directory.resolve()
