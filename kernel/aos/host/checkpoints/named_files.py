"""Files that a user names: read with a limit, written whole or not at all (PF-29)."""

from __future__ import annotations

import os
from pathlib import Path

from aos.errors import BadUsage, Damage, Unavailable
from aos.store.plain_files import PlainFolder, open_named


def read_named(file: Path, most: int) -> bytes:
    """The content of a file of at most ``most`` bytes.

    Raises:
        BadUsage: There is no such file, or it is no regular file.
        Damage: It is longer.
    """
    try:
        with os.fdopen(open_named(file), "rb") as opened:
            data = opened.read(most + 1)
    except OSError as problem:
        raise BadUsage(f"{file}: the file cannot be read: {problem.strerror}") from problem
    if len(data) > most:
        raise Damage(f"{file}: the file is too large: expected at most {most} bytes")
    return data


def write_named(file: Path, data: bytes) -> None:
    """Write a file durably, in place of one that has its name.

    Raises:
        Unavailable: It cannot be written. The old file is as it was.
    """
    part = f".{file.name}.part"
    try:
        with PlainFolder.named(file.parent) as folder:
            folder.remove(part)
            fd = folder.create(part, 0o644)
            with os.fdopen(fd, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(fd)
            folder.rename(part, file.name)
            folder.sync()
    except OSError as problem:
        raise Unavailable(f"{file}: the file cannot be written: {problem.strerror}") from problem
