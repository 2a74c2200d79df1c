"""The node of a replicated world, as ``aos inspect world`` shows it (spec/cluster.md, CL-118)."""

from __future__ import annotations

from pathlib import Path

from aos.errors import AosError
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import replica_of
from aos.read.views.record_view import Document
from aos.store.lmdb_store import LOG_PLACE
from aos.store.log.logged_store import LogPlace


def replica_document(world: Path) -> Document:
    """Return where the log of a node is, and how far its store has taken it; and the role of its
    process, null without one.

    Raises:
        Damage: ``replica.json`` or the place in the store cannot be read.
    """
    replica = replica_of(world)
    with open_folder(world).open_store(readonly=True) as store:
        place = store.meta_get(LOG_PLACE)
    try:
        process: Document = dict(ask_running(world, "status").get("replica", {}))
    except AosError:
        process = {}
    return {
        **replica.document(),
        "position": 0 if place is None else LogPlace.from_bytes(place).position,
        **{name: process.get(name) for name in ("role", "owner", "lag", "dead", "reason")},
    }
