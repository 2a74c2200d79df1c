"""Whether the servers of a replicated world still have values that were erased, and how they lose
them (spec/cluster.md, CL-137, CL-188, CL-280 to CL-283)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Fork
from aos.errors import Damage, Pruned, Unavailable
from aos.host.cluster.base import WorldServers, make_base, open_erasure
from aos.host.cluster.connecting import connected_servers
from aos.host.cluster.registration import WorldRegistration, registered
from aos.host.folder.folder import STORE, open_folder
from aos.host.folder.replica_file import replica_of
from aos.store.lmdb_store import LmdbStore
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_streams import NatsStreams
from aos.store.log.patience import patiently
from aos.store.log.world_streams import WorldStreams
from aos.store.store import head_of

FOLLOWED_S: Final = 30.0
"""How long the folder of a node may be without the record of an erasure."""

GONE_S: Final = 15 * 60.0
"""How long a base of another process may be in the way: longer than until one that no process
finishes is removed."""

LOOK_S: Final = 1.0


def open_erasure_of(path: Path, access: NatsAccess, seq: int) -> str | None:
    """Return why the servers of the world of a node's folder may still have a value that record
    ``seq`` has erased; None if they have it no more. It asks them.

    Raises:
        BadUsage: The client of NATS is not installed.
        Refused: The servers refuse this program, or do not have this world.
        Unavailable: They do not answer.
    """
    replica, world_key = replica_of(path), open_folder(path).world_key().verify_key.encode()
    name = replica.address.name
    with connected_servers(replica.address, access) as servers:
        return _open_reason(servers, name, world_key, seq)


def finish_erasure(
    path: Path, access: NatsAccess, seq: int, *, report: Callable[[str], None] = lambda _: None
) -> None:
    """Have the servers lose a value that record ``seq`` has erased: make a base behind that record
    from the node's folder ``path``, trim the log to it, and wait until no other base is there.
    ``report`` gets a line when the reason to wait changes. If the process was killed, the same call
    finishes it (CL-133).

    Raises:
        Unavailable: The folder does not get the record, the servers do not answer, or another base
            stays. Repeat it.
        Refused, Damage: As ``make_base``.
    """
    folder, replica = open_folder(path), replica_of(path)
    name, key = replica.address.name, folder.world_key()
    reported: str | None = None
    until_s = time.monotonic() + GONE_S
    with (
        connected_servers(replica.address, access) as servers,
        LmdbStore.open(path / STORE, readonly=True) as store,
    ):
        _wait_for_record(store, seq)
        while True:
            reason = _open_reason(servers, name, key.verify_key.encode(), seq)
            if reason is None:
                return
            if reason != reported:
                report(reason)
                reported = reason
            if time.monotonic() >= until_s:
                raise Unavailable(
                    f"the servers may still have what record {seq} has erased: {reason}",
                    hint="run the same command again",
                )
            base = make_base(servers, name, store, key)
            if not base.is_new and not base.removed:
                time.sleep(LOOK_S)


def _open_reason(servers: WorldServers, name: str, world_key: bytes, seq: int) -> str | None:
    registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
    return patiently(lambda: open_erasure(servers.streams, registration, seq))


def _wait_for_record(store: LmdbStore, seq: int) -> None:
    until_s = time.monotonic() + FOLLOWED_S
    while head_of(store).seq < seq:
        if time.monotonic() >= until_s:
            raise Unavailable(
                f"this folder does not have the record of the erasure yet, {seq}",
                location=store.location,
                actual=f"record {head_of(store).seq} as the last one",
                hint="start its node, and run the same command again",
            )
        time.sleep(0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenErasures:
    """Values that were erased and that the servers may still have: how many, the first record that
    erased one, its time, and why. The time is None if the record was pruned."""

    number: int = 0
    first_seq: int | None = None
    since_ns: int | None = None
    reason: str | None = None

    def to_document(self) -> dict[str, object]:
        """The document of ``aos inspect world`` and ``aos cluster status``."""
        return {
            "number": self.number,
            "first_seq": self.first_seq,
            "since_ns": self.since_ns,
            "reason": self.reason,
        }


def open_erasures(
    store: LmdbStore, streams: WorldStreams, registration: WorldRegistration
) -> OpenErasures:
    """Return the open erasures of a world, of those in the store of a node.

    Raises:
        LogUnreachable: The servers do not answer.
    """
    seqs = [row.seq for _, row in store.erasures()]
    if not seqs or registration.embedded_at is not None:
        return OpenErasures()
    # Older bases and messages are in the way of all records that the base has.
    is_old_kept = open_erasure(streams, registration, 0) is not None
    base_seq = 0 if registration.base is None or is_old_kept else registration.base.end.seq
    open_seqs = [seq for seq in seqs if seq > base_seq]
    if not open_seqs:
        return OpenErasures()
    return OpenErasures(
        number=len(open_seqs),
        first_seq=min(open_seqs),
        since_ns=_time_of(store, min(open_seqs)),
        reason=open_erasure(streams, registration, max(open_seqs)),
    )


def open_erasures_of(path: Path, access: NatsAccess) -> OpenErasures:
    """As ``open_erasures``, for the folder of a node. The servers are asked once, and only if a
    value was erased.

    Raises:
        BadUsage, Refused, Damage, Unavailable: As ``open_erasure_of``.
    """
    folder, replica = open_folder(path), replica_of(path)
    with folder.open_store(readonly=True) as store:
        if next(iter(store.erasures()), None) is None:
            return OpenErasures()
        with NatsConnection(replica.address, access) as connection:
            worlds = NatsBucket(connection, WORLDS, replicas=None)
            key = folder.world_key().verify_key.encode()
            registration = registered(worlds, replica.address.name, key).registration
            return open_erasures(store, NatsStreams(connection, replicas=1), registration)


def _time_of(store: LmdbStore, seq: int) -> int | None:
    try:
        frame = store.frame_at(seq)
    except (Damage, Pruned):
        return None
    record = None if frame is None else from_bytes(frame.records[seq - frame.header.first])
    return record.stamp.ns if isinstance(record, Control | Fork) else None
