"""Measure a world's store: pages by table, and the pages that the newest snapshot needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import lmdb

from aos.core.snapshot.load import layers
from aos.host.folder.folder import open_folder
from aos.store.store import Store

TABLES: Final = (b"frames", b"blobs")
TABLES_MAX: Final = 32

Json = dict[str, Any]


def disk(path: Path) -> Json:
    """Bytes of the store's file, which no process may have open for writing.

    ``frames`` and ``blobs`` are whole pages. Of blobs, ``nodes`` is what the index of the newest
    snapshot has, as it is; the rest of them are states, and what older snapshots had.
    """
    with open_folder(path).open_store(readonly=True) as store:
        found = {"file": store.size_bytes(), **_nodes(store)}
    # LMDB may be open once in a process.
    return found | _pages(path / "store")


def _nodes(store: Store) -> Json:
    row = store.snapshot_before()
    assert row is not None, "a world without a snapshot"
    count = size = 0
    for index in layers(row.document, store.blob).cells.values():
        for node in index.nodes():
            count += 1
            size += len(store.blob(node))
    return {"nodes": size, "node_count": count}


def _pages(folder: Path) -> Json:
    found = {}
    with lmdb.open(str(folder), readonly=True, lock=False, max_dbs=TABLES_MAX) as environment:
        for name in TABLES:
            table = environment.open_db(name, create=False)
            with environment.begin() as txn:
                stat = txn.stat(table)
            pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
            found[name.decode()] = pages * stat["psize"]
            found[f"{name.decode()}_rows"] = stat["entries"]
    return found
