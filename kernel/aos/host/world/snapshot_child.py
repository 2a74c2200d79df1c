"""The process that makes a snapshot: it reads the world's store and writes to its parent (H-47).

    message = kind (1 byte), length (4 bytes, big-endian), body
    B       a blob that the snapshot needs and the last one may not have: its hash, then its bytes
    D       the end: {"at", "frame", "document", "size", "cells"}
    E       it could not be made: {"is_damage", "message"}

It takes no lock and writes nothing to the store. Its last argument is the format of the snapshot,
or 0 for the default.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from aos.core.snapshot.take import take
from aos.errors import AosError, Damage
from aos.fastcore.core_kind import CoreKind
from aos.host.folder.folder import WorldFolder, check_world, open_folder
from aos.host.folder.restore import check_end, restore
from aos.host.folder.second_fold import SecondFold
from aos.private_memory import keep_memory_private
from aos.store.store import Store, head_of
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash

LENGTH_BYTES: Final = 4
BLOB: Final = b"B"
DONE: Final = b"D"
FAILED: Final = b"E"


def snapshot(
    path: Path,
    out: IO[bytes],
    core: CoreKind = CoreKind.FAST,
    *,
    format: int | None = None,
) -> None:
    """Make a snapshot of the world at ``path`` at its durable head, and write it to ``out``;
    ``format`` is as for ``take``.

    ``core`` is the kernel that runs the world. The second kernel takes the snapshot of its world,
    if there are many records (CR-40); otherwise the reference does.
    """

    def say(kind: bytes, body: bytes) -> None:
        out.write(kind + len(body).to_bytes(LENGTH_BYTES, "big"))
        out.write(body)

    def put(data: bytes) -> Hash:
        hash = content_hash(data)
        say(BLOB, hash + data)
        return hash

    try:
        folder = open_folder(path)
        with folder.open_store(readonly=True) as store:
            fields = None
            if core is CoreKind.FAST:
                fields = _by_second_kernel(folder, store, put, format)
            if fields is None:
                fields = _by_reference(folder, store, put, format)
    except AosError as problem:
        is_damage = isinstance(problem, Damage)
        say(FAILED, encode({"is_damage": is_damage, "message": str(problem)}))
    else:
        say(DONE, encode(fields))
    out.flush()


def _by_second_kernel(
    folder: WorldFolder, store: Store, put: Callable[[bytes], Hash], format: int | None
) -> dict[str | int, Value] | None:
    head = head_of(store)
    check_world(head, folder.world)
    fold = SecondFold(outside=folder.path)
    taken = fold.snapshot(store, store.snapshot_before(), head.seq, put, format=format)
    if taken is None:
        return None
    check_end(taken.tip, taken.world_key, head)
    return {
        "at": taken.tip.seq,
        "frame": taken.tip.frame,
        "document": taken.document,
        "size": taken.size,
        "cells": taken.cells,
    }


def _by_reference(
    folder: WorldFolder, store: Store, put: Callable[[bytes], Hash], format: int | None
) -> dict[str | int, Value]:
    state = restore(store, folder.world)
    taken = take(state, put, format=format)
    return {
        "at": taken.at,
        "frame": taken.frame,
        "document": taken.document,
        "size": taken.size,
        "cells": len(state.cells),
    }


if __name__ == "__main__":
    keep_memory_private()
    os.nice(int(sys.argv[2]))
    snapshot(
        Path(sys.argv[1]), sys.stdout.buffer, CoreKind(sys.argv[3]), format=int(sys.argv[4]) or None
    )
