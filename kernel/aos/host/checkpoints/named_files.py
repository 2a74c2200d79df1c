"""Files that a user names: read with a limit, written whole or not at all (PF-29)."""

from __future__ import annotations

import os
from pathlib import Path

from aos.errors import BadUsage, Damage
from aos.store.part_file import write_file
from aos.store.plain_files import open_named


def read_named(file: Path, bytes_max: int) -> bytes:
    """The content of a file of at most ``bytes_max`` bytes.

    Raises:
        BadUsage: There is no such file, or it is no regular file.
        Damage: It is longer.
    """
    try:
        with os.fdopen(open_named(file), "rb") as open_file:
            data = open_file.read(bytes_max + 1)
    except OSError as problem:
        raise BadUsage(f"{file}: the file cannot be read: {problem.strerror}") from problem
    if len(data) > bytes_max:
        raise Damage(f"{file}: the file is too large: expected at most {bytes_max} bytes")
    return data


def write_named(file: Path, data: bytes) -> None:
    """Write a file durably, in place of one that has its name.

    Raises:
        Unavailable: It cannot be written. The old file is as it was.
    """
    write_file(file, data, mode=0o644, force=True)
