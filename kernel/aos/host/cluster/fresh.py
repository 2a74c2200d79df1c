"""Wait until the folder of a node has everything that its world has acknowledged (spec/cluster.md,
CL-129)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aos.errors import Unavailable
from aos.host.cluster.beating import owner_key
from aos.host.cluster.bus_asking import ask_owner
from aos.host.cluster.bus_client import PATIENCE_S, BusClient
from aos.host.cluster.bus_way import node_client
from aos.host.door.protocol import bodies_of, pack, raise_error, unpack
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.replica_file import find_replica
from aos.message_fields import field
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import BEATS, NatsBucket
from aos.store.log.nats_connection import NatsConnection

if TYPE_CHECKING:
    from aos.store.log.bucket import Bucket

FRESH_S: Final = 30.0
"""Seconds for which a command waits."""

_LOOK_S: Final = 0.05


def wait_until_fresh(
    path: Path,
    access: NatsAccess,
    *,
    within_s: float = FRESH_S,
    patience_s: float = PATIENCE_S,
) -> int | None:
    """Wait until the folder at ``path`` has the last record that the owner of its world had after
    this was called; return its number. None at once for an embedded world. An owner that can be
    reached is looked for ``patience_s`` seconds.

    Raises:
        Unavailable: There is no owner, or the folder does not have it ``within_s`` seconds later.
        Refused: The servers refuse this program.
    """
    replica = find_replica(path)
    if replica is None:
        return None
    folder, until_s = open_folder(path), time.monotonic() + within_s
    with NatsConnection(replica.address, access) as connection:
        client = node_client(
            connection, stream=lambda: replica.stream, world=folder.world,
            world_key=folder.world_key().verify_key.encode(), patience_s=patience_s,
        )  # fmt: skip
        seq = last_record(connection, client, lambda: replica.stream, until_s)
    _wait_for(folder, seq, until_s, within_s)
    return seq


def last_record(
    connection: NatsConnection, client: BusClient, stream: Callable[[], str], until_s: float
) -> int:
    """Return the last record that the owner of a world had after this was called. It blocks its
    thread, at most until ``until_s`` of the monotonic clock. ``stream`` is as for ``owner_finder``.

    Raises:
        Unavailable: There is no owner, or it changes too often.
        Refused: The servers refuse this program.
    """
    bucket = NatsBucket(connection, BEATS, replicas=None)
    while time.monotonic() < until_s:
        seq = _record_of_owner(connection, client, bucket, owner_key(stream()), until_s)
        if seq is not None:
            return seq
    raise Unavailable("the owner of the world changes too often")


def _record_of_owner(
    connection: NatsConnection, client: BusClient, bucket: Bucket, key: str, until_s: float
) -> int | None:
    """The last record that the owner has. None if another process owns the world by now: ask again.

    Raises:
        Unavailable: The owner does not answer, or writes no beat.
    """
    [body] = bodies_of(connection.run(ask_owner(client, pack({"op": "head"}))))
    answer = unpack(body)
    raise_error(answer)
    owner, entry = client.owner, bucket.get(key)
    revision = 0 if entry is None else entry.revision
    # The owner has read the log after the question. A leader of the log that was cut off may have
    # shown it an old end; the beats are at other leaders, and an owner that was deposed writes none
    # after that of the next one.
    while True:
        if client.look() != owner:
            return None
        entry = bucket.get(key)
        if entry is not None and entry.revision > revision and client.look() == owner:
            return int(field(answer, "head", int))
        if time.monotonic() >= until_s:
            raise Unavailable("the owner of the world writes no beat")
        time.sleep(_LOOK_S)


def _wait_for(folder: WorldFolder, seq: int, until_s: float, within_s: float) -> None:
    with folder.open_store(readonly=True) as store:
        while True:
            head = store.head()
            last = 0 if head is None else head.seq
            if last >= seq:
                return
            if time.monotonic() >= until_s:
                raise Unavailable(
                    "this folder does not have everything that its world has acknowledged, after "
                    f"{within_s:g} s",
                    location=str(folder.path),
                    expected=f"record {seq}",
                    actual=f"record {last}",
                    hint="does the node run? aos run",
                )
            time.sleep(_LOOK_S)
