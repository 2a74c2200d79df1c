"""The node of a replicated world, as ``aos inspect world`` shows it (spec/cluster.md, CL-118)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aos.errors import AosError
from aos.host.cluster.erasing import open_erasures_of
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import replica_of
from aos.read.lens.words import count, time_text
from aos.read.views.record_view import Document
from aos.store.lmdb_store import LOG_PLACE
from aos.store.log.logged_store import LogPlace
from aos.store.log.nats_address import NatsAccess

NAMES: Final = ("role", "owner", "lag", "dead", "reason", "reference")
"""Fields of the status of a node."""


def replica_document(world: Path) -> Document:
    """Return where the log of a node is, and how far its store has taken it; the role of its
    process, null without one; and the erasures that are open at its servers (CL-283).

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
        **{name: process.get(name) for name in NAMES},
        "open_erasures": open_erasures_document(world, None),
    }


def open_erasures_document(world: Path, credentials: Path | None) -> Document:
    """Return the erasures that are open at the servers of a node; ``number`` is null if they do not
    say."""
    try:
        return dict(open_erasures_of(world, NatsAccess.read(credentials)).to_document())
    except AosError as problem:
        return {"number": None, "first_seq": None, "since_ns": None, "reason": str(problem)}


def reference_text(document: Document) -> str:
    """Return the text about the reference on a standby."""
    if document["difference"] is not None:
        return f"this node may not own the world: {document['difference']}"
    skipped = f", {count(document['skipped'], 'record')} skipped" if document["skipped"] else ""
    return (
        f"{count(document['compared'], 'snapshot')} compared, to record {document['at']:,}, "
        f"{count(document['behind'], 'record')} behind{skipped}"
    )


def open_erasures_text(document: Document) -> str | None:
    """Return the text about open erasures; None if there are none."""
    number, since_ns = document["number"], document["since_ns"]
    if number == 0:
        return None
    if number is None:
        return f"not known: {document['reason']}"
    since = "" if since_ns is None else f", since {time_text(since_ns)}"
    return f"{count(number, 'value')}{since}: {document['reason']}"
