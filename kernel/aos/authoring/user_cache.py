"""The folders in which builds keep what all projects of a user share (AU-34, AU-36)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UnusableCache(Exception):  # internal: the build reports it and continues without the cache
    """The reason why a cache folder cannot be used."""


def cache_folder(kind: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder for this kind of content: ``kind`` in ``AOS_CACHE_DIR``, else ``aos/kind`` in
    ``XDG_CACHE_HOME`` or ``~/.cache``. None if the environment names none."""
    cache_dir = environment.get("AOS_CACHE_DIR")
    if cache_dir is not None:
        return Path(cache_dir) / kind if cache_dir else None
    shared, home = Path(environment.get("XDG_CACHE_HOME", "")), Path(environment.get("HOME", ""))
    if not shared.is_absolute():  # the XDG specification: ignore it
        shared = home / ".cache"
    return shared / "aos" / kind if shared.is_absolute() else None


def require_own_folder(folder: Path) -> None:
    """Create the folder if it is missing.

    Raises:
        UnusableCache: Another user owns it or may write to it, or it is a link: its content may be
            someone else's program.
        OSError: It cannot be created or read.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableCache("expected a folder, found a link")
    if status.st_uid != os.geteuid():
        raise UnusableCache(f"the folder belongs to user {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise UnusableCache(f"others may write to the folder: expected 0700, found {mode:04o}")
