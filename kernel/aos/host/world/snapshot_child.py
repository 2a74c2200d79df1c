"""The process that makes a snapshot: it reads the world's store and writes to its parent (H-47).

    message = kind (1 byte), length (4 bytes, big-endian), body
    B       a blob that the snapshot needs and the last one may not have: its hash, then its bytes
    D       the end: {"at", "frame", "document", "size", "cells"}
    E       it could not be made: {"is_damage", "message"}

It takes no lock and writes nothing to the store. Its last argument is the format of the snapshot,
or 0 for that of the newest one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Final

from aos.core.snapshot.take import take
from aos.core.state.cells import WAITING_FORMAT
from aos.errors import AosError, Damage
from aos.host.folder.reader import open_reader
from aos.private_memory import keep_memory_private
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

LENGTH_BYTES: Final = 4
BLOB: Final = b"B"
DONE: Final = b"D"
FAILED: Final = b"E"


def snapshot(path: Path, out: IO[bytes], *, format: int | None = None) -> None:
    """Make a snapshot of the world at ``path`` at its durable head, and write it to ``out``. The
    default ``format`` is that of the newest snapshot, or 1."""

    def say(kind: bytes, body: bytes) -> None:
        out.write(kind + len(body).to_bytes(LENGTH_BYTES, "big"))
        out.write(body)

    def put(data: bytes) -> Hash:
        hash = content_hash(data)
        say(BLOB, hash + data)
        return hash

    try:
        with open_reader(path) as reader:
            newest_format = WAITING_FORMAT if reader.state.cells.rests_waiting else None
            state_snapshot = take(reader.state, put, format=format or newest_format)
            cells = len(reader.state.cells)
    except AosError as problem:
        is_damage = isinstance(problem, Damage)
        say(FAILED, encode({"is_damage": is_damage, "message": str(problem)}))
    else:
        say(
            DONE,
            encode(
                {
                    "at": state_snapshot.at,
                    "frame": state_snapshot.frame,
                    "document": state_snapshot.document,
                    "size": state_snapshot.size,
                    "cells": cells,
                }
            ),
        )
    out.flush()


if __name__ == "__main__":
    keep_memory_private()
    os.nice(int(sys.argv[2]))
    snapshot(Path(sys.argv[1]), sys.stdout.buffer, format=int(sys.argv[3]) or None)
