"""A world in memory -> the same world in a folder, as ``aos`` opens it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from aos.core.journal.frame import NO_FRAME, Head
from aos.core.pending import Sealed
from aos.store.lmdb_store import LmdbStore
from aos.store.store import NO_NOTES
from aos.values.digests import hash_text
from tests.memory_world import OPERATOR_KEY, WORLD_KEY, MemoryWorld


def folder_of(world: MemoryWorld, path: Path, *, notes: Mapping[int, str] = NO_NOTES) -> Path:
    """Write the whole world into ``path``, which is new, with ``notes`` on its records."""
    keys = path / "keys"
    keys.mkdir(parents=True, mode=0o700)
    for name, key in (("world", WORLD_KEY), ("operator", OPERATOR_KEY)):
        file = keys / f"{name}.key"
        file.write_text(bytes(key).hex())
        file.chmod(0o600)
    with LmdbStore.create(path / "store") as store:
        write_on(world, store, notes=notes)
    about = {"format": 1, "world": hash_text(world.state.world), "created": "2026-01-01T00:00:00Z"}
    (path / "world.json").write_text(json.dumps(about))
    return path


def write_on(world: MemoryWorld, store: LmdbStore, *, notes: Mapping[int, str] = NO_NOTES) -> None:
    """Append the frames that the store lacks, with every blob of the world."""
    head = store.head()
    last = 0 if head is None else head.seq
    follows = NO_FRAME if head is None else head.frame
    group: list[Sealed] = [each for each in world.sealed if each.frame.header.first > last]
    named = {hash for each in group for hash in each.blobs}
    erased = {hash for each in world.sealed for hash in each.erased}
    store.put_blobs(
        {hash: data for hash, data in world.blobs.items() if hash not in named | erased}
    )
    for each in group:
        seqs = range(each.frame.header.first, each.tip.seq + 1)
        own = {seq: text for seq, text in notes.items() if seq in seqs}
        head = Head.of(each.tip).signed(WORLD_KEY)
        store.append([each], head, expected=follows, notes=own)
        follows = each.frame.hash


def more_of(world: MemoryWorld, path: Path) -> None:
    """Write the changes of the world since ``folder_of`` to its folder."""
    with LmdbStore.open(path / "store") as store:
        write_on(world, store)
