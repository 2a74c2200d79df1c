"""Make an embedded world replicated, take it out of the servers again, and give it a new log after
the servers have lost records (spec/cluster.md, CL-157 to CL-163).

    embedded ──replicate──▶ place in the store ──▶ replica.json ──▶ base ──▶ registration
    embedded ◀── no place in the store ◀── registration: taken ◀── read to the tail ◀── sealed
                 kept values are in the folder before that, and are removed from the bucket after it

The place in the store decides whether a folder is embedded, so it is never both. Each function
finishes what a killed one has left.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.frame import Head
from aos.errors import Damage, Refused
from aos.host.cluster.base import (
    WorldServers,
    change_registration,
    check_stream,
    finish_base,
    write_stream,
)
from aos.host.cluster.beat import read_beat
from aos.host.cluster.joining import (
    Progress,
    check_node_name,
    follow_log,
    no_progress,
)
from aos.host.cluster.kept_values import (
    BringValues,
    read_kept_values,
    remove_kept_values,
)
from aos.host.cluster.known_end import ROW as KNOWN_END_ROW
from aos.host.cluster.registration import (
    NameOfGroup,
    WorldRegistration,
    check_in_servers,
    find_registration,
    register,
    registered,
)
from aos.host.folder.adoption import check_place, settle
from aos.host.folder.folder import REPLICA_FILE, STORE, WORLD_FILE, WorldFolder
from aos.host.folder.replica_file import ReplicaFile
from aos.manifest.keys import key_text
from aos.store.lmdb_store import LOG_PLACE
from aos.store.lock import world_locked
from aos.store.log.logged_store import LogEnd, LoggedStore, LogPlace
from aos.store.log.nats_stream import new_stream_name
from aos.store.log.patience import patiently
from aos.store.store import head_of

SEALED_S: Final = 1.0
"""Messages that were under way when a stream was sealed are written, or never, within this time."""

TAKEN_ROW: Final = "log-taken"
"""The number of the attempt to take the world out of the servers, in the store of its folder."""

CheckStream = Callable[[str], None]
"""Checks that the servers of a new stream sync what they acknowledge. Raises Refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedWorld:
    """A world after a move to or from the servers, or to another log: its last record, the stream
    of its log (of the former one, if it is embedded now), and whether this call has moved it."""

    seq: int
    stream: str
    is_new: bool


def replicate(
    folder: WorldFolder,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    check: CheckStream = lambda _: None,
    progress: Progress = no_progress,
) -> MovedWorld:
    """Make an embedded world replicated: its journal continues in a new log, and all that it has is
    the first base. ``replica`` describes the node; its stream is set here.

    Raises:
        Refused: The name has another world, the world is replicated already and this folder is not
            one of its nodes, it is not adopted here, or ``check`` refuses. Nothing has changed.
        Damage: The journal is damaged.
        Unavailable: A process runs the world, or the servers do not answer. Repeat it: until then,
            nothing runs in this folder.
    """
    check_node_name(replica.node)
    with _opened(folder) as (store, key, head):
        name, place = replica.address.name, store.place
        entry = patiently(lambda: find_registration(servers.worlds, name))
        former = None if entry is None else entry.registration
        if former is not None and not former.is_of(key.verify_key.encode()):
            raise Refused("another world has this name", location=name, hint="use another name")
        is_registered = former is not None and former.taken_by is None
        if is_registered and former is not None:
            if place is None or place.stream != former.stream:
                raise Refused(
                    "the world is replicated already, and this folder is not one of its nodes",
                    location=str(folder.path),
                    expected=f"the stream {former.stream}",
                    actual="an embedded world" if place is None else f"the stream {place.stream}",
                    hint="make a folder for a node: aos join",
                )
            registration = former
        else:
            if place is None:
                check_place(folder.path / WORLD_FILE, store)
                place = _new_log(servers, store, check)
            elif place.position or (former is not None and former.stream == place.stream):
                raise Refused(
                    "this folder is one of a node of a log that is not registered here",
                    location=str(folder.path),
                    hint="check the address; to take the world out of its servers: "
                    "aos adopt --embedded",
                )
            registration = _registered(
                folder,
                servers,
                store,
                key,
                replica=replace(replica, stream=place.stream),
                progress=progress,
            )
        _write_replica(folder, replace(replica, stream=registration.stream))
        finish_base(servers.streams, registration, key.verify_key.encode())
        return MovedWorld(seq=head.seq, stream=registration.stream, is_new=not is_registered)


def _new_log(servers: WorldServers, store: LoggedStore, check: CheckStream) -> LogPlace:
    """Make the stream of a log, and give the store its place there: nothing else writes the world
    from then on."""
    place = _made_stream(servers, head_of(store), check)
    store.meta_put(LOG_PLACE, place.to_bytes())
    return place


def _made_stream(servers: WorldServers, head: Head, check: CheckStream) -> LogPlace:
    stream = new_stream_name(head.world)
    patiently(lambda: servers.streams.make(stream))
    try:
        check(stream)
    except BaseException:
        patiently(lambda: servers.streams.remove(stream))
        raise
    return LogPlace(stream=stream)


def _registered(
    folder: WorldFolder,
    servers: WorldServers,
    store: LoggedStore,
    key: SigningKey,
    *,
    replica: ReplicaFile,
    progress: Progress,
) -> WorldRegistration:
    """Make the first base of a world whose store has a place, and register it."""
    name = replica.address.name
    patiently(lambda: servers.streams.make(replica.stream))
    _write_replica(folder, replica)
    size = store.size_bytes()
    base = write_stream(
        servers.streams,
        store,
        key,
        advance=lambda done: progress("writing the base", done, max(done, size)),
    )
    registration = WorldRegistration(
        name=name, world=folder.world, stream=replica.stream, base=base
    ).signed(key)

    def attempt() -> None:
        entry = find_registration(servers.worlds, name)
        register(servers.worlds, registration, 0 if entry is None else entry.revision)

    def is_free() -> bool:
        entry = find_registration(servers.worlds, name)
        return entry is None or entry.registration.is_of(key.verify_key.encode())

    if not patiently(is_free):
        raise Refused(
            "another world has taken this name meanwhile",
            location=name,
            hint="run the command again with another name",
        )
    patiently(attempt)
    return registration


def take_out(
    folder: WorldFolder,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    bring: BringValues,
    progress: Progress = no_progress,
) -> MovedWorld:
    """Take a world out of the servers: it is embedded in this folder from then on. Its streams stay
    there, sealed. ``bring`` writes the positions and the batches of the world to the folder; then
    they are removed from the bucket.

    Raises:
        Refused: Another node has taken it, or the folder is of an earlier log. Nothing has changed.
        Damage: The log does not continue the journal of this folder.
        Unavailable: A process runs the node, or the servers do not answer. Repeat it.
    """
    with _opened(folder) as (store, key, head):
        place, name, world_key = store.place, replica.address.name, key.verify_key.encode()
        if place is None:
            _finish_leaving(folder, servers, replica, store.meta_get(TAKEN_ROW))
            return MovedWorld(seq=head.seq, stream=replica.stream, is_new=False)
        token = store.meta_get(TAKEN_ROW) or os.urandom(16)
        store.meta_put(TAKEN_ROW, token)
        taken_by = _taken_by(replica, token)

        def taken(registration: WorldRegistration) -> WorldRegistration | None:
            if registration.taken_by != taken_by:
                check_in_servers(registration)
            check_stream(store, registration)
            return None if registration.taken_by else replace(registration, taken_by=taken_by)

        registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
        taken(registration)
        _seal(servers, place.stream)
        end = follow_log(store, servers, registration, key, progress)
        latest, node = _latest_end(store, servers, registration, world_key)
        if latest is not None and latest.seq > end.seq:
            raise Damage(
                "the log has lost what was acknowledged",
                location=name,
                expected=f"record {latest.seq}, which {node} had",
                actual=f"record {end.seq} as the last one",
                hint="bring the log back first: aos cluster restore NAME --from DIR",
            )
        change_registration(servers.worlds, name, key, taken)
        kept = patiently(
            lambda: read_kept_values(servers.worlds, folder.world, key, registration.stream)
        )
        bring(folder, kept)
        settle(folder.path / WORLD_FILE, store)
        store.meta_remove(LOG_PLACE)
        _finish_leaving(folder, servers, replica, token)
        return MovedWorld(seq=end.seq, stream=place.stream, is_new=True)


def _taken_by(replica: ReplicaFile, token: bytes) -> str:
    return f"{replica.node}/{token.hex()}"


def _finish_leaving(
    folder: WorldFolder, servers: WorldServers, replica: ReplicaFile, token: bytes | None
) -> None:
    """Remove the positions and the batches of an embedded world from the bucket, and
    ``replica.json`` from its folder. They stay if the registration does not name this folder: the
    world may be at the servers again."""

    def attempt() -> None:
        entry = find_registration(servers.worlds, replica.address.name)
        taken_by = None if entry is None else entry.registration.taken_by
        if token is not None and taken_by == _taken_by(replica, token):
            remove_kept_values(servers.worlds, folder.world)

    with contextlib.suppress(Damage, NameOfGroup):  # others have changed the registration
        patiently(attempt)
    _remove_replica(folder)


def restore_log(
    folder: WorldFolder,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    accepts_loss: bool = False,
    check: CheckStream = lambda _: None,
    progress: Progress = no_progress,
) -> MovedWorld:
    """Give a world a new log after the servers have lost records: this folder has its first base.
    Other nodes join again.

    Raises:
        Refused: The servers have lost nothing; or, unless ``accepts_loss``, a node had a later
            record than this folder. Nothing has changed.
        Damage: The store is damaged.
        Unavailable: A process runs the node, or the servers do not answer. Repeat it.
    """
    with _opened(folder) as (store, key, _):
        name, world_key = replica.address.name, key.verify_key.encode()
        registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
        check_in_servers(registration)
        is_new = not _is_restored(store, replica, registration)
        if is_new:
            check_stream(store, registration)
            _check_lost(
                store, servers, registration, key, accepts_loss=accepts_loss, progress=progress
            )
            with contextlib.suppress(Damage):  # it is missing
                _seal(servers, registration.stream)
            registration = _restored(
                store, servers, registration, key, check=check, progress=progress
            )
        store.meta_put(LOG_PLACE, LogPlace(stream=registration.stream).to_bytes())
        _write_replica(folder, replace(replica, stream=registration.stream))
        finish_base(servers.streams, registration, world_key)
        return MovedWorld(seq=head_of(store).seq, stream=registration.stream, is_new=is_new)


def _is_restored(store: LoggedStore, replica: ReplicaFile, registration: WorldRegistration) -> bool:
    """Whether the registration names a new log that begins with this store, and the folder does not
    yet: a restore that was killed has come so far."""
    base, place, head = registration.base, store.place, head_of(store)
    streams = {replica.stream, None if place is None else place.stream}
    return (
        streams != {registration.stream}
        and base is not None
        and (base.end.position, base.end.seq, base.end.frame) == (0, head.seq, head.frame)
    )


def _check_lost(
    store: LoggedStore,
    servers: WorldServers,
    registration: WorldRegistration,
    key: SigningKey,
    *,
    accepts_loss: bool,
    progress: Progress,
) -> None:
    """Check that the log has lost records and that no node had a later one than this folder, which
    takes what the log still has.

    Raises:
        Refused: One of the two is not so.
    """
    try:
        follow_log(store, servers, registration, key, progress)
        problem = None
    except Damage as damage:
        problem = damage
    head = head_of(store)
    latest, node = _latest_end(store, servers, registration, key.verify_key.encode())
    is_behind = latest is not None and latest.seq > head.seq
    if problem is None and not is_behind:
        raise Refused(
            "the log has lost nothing: there is nothing to restore",
            location=registration.name,
            hint="start the node: aos run",
        )
    if is_behind and latest is not None and not accepts_loss:
        raise Refused(
            "a node of this world had later records than this folder",
            location=store.location,
            expected=f"record {latest.seq}, which {node} had",
            actual=f"record {head.seq} as the last one",
            hint="use the folder of that node; if it is lost with its records: --accept-loss",
        )


def _latest_end(
    store: LoggedStore, servers: WorldServers, registration: WorldRegistration, world_key: bytes
) -> tuple[LogEnd | None, str]:
    """The latest end of the journal that is known, and which node had it."""
    ends: list[tuple[LogEnd, str]] = []
    if registration.base is not None:
        ends.append((registration.base.end, "the maker of the newest base"))
    known = store.meta_get(f"{KNOWN_END_ROW}.{registration.stream}")
    if known is not None:
        ends.append((LogEnd.from_bytes(known), "a node that this one has heard of"))
    for name, entry in patiently(lambda: list(servers.beats.entries())):
        if name.startswith(f"{registration.stream}."):
            beat = read_beat(entry.value, registration.world, world_key)
            if beat is not None:
                ends.append((beat.end, f"node {beat.node}"))
    return max(ends, key=lambda pair: pair[0].seq, default=(None, ""))


def _restored(
    store: LoggedStore,
    servers: WorldServers,
    former: WorldRegistration,
    key: SigningKey,
    *,
    check: CheckStream,
    progress: Progress,
) -> WorldRegistration:
    """Make a new log and its first base, and register them."""
    place = _made_stream(servers, head_of(store), check)
    size = store.size_bytes()
    base = write_stream(
        servers.streams,
        store,
        key,
        place=place,
        advance=lambda done: progress("writing the base", done, max(done, size)),
    )

    def change(registration: WorldRegistration) -> WorldRegistration | None:
        if registration.stream == place.stream:
            return None
        if registration.stream != former.stream:
            raise Refused(
                "another folder has been restored meanwhile",
                location=former.name,
                hint="join it: aos join",
            )
        return replace(registration, stream=place.stream, base=base)

    return change_registration(servers.worlds, former.name, key, change)


@contextlib.contextmanager
def _opened(folder: WorldFolder) -> Iterator[tuple[LoggedStore, SigningKey, Head]]:
    """The store of a folder that no process runs, and the world's key, which has signed its
    head."""
    with world_locked(folder.path), LoggedStore.open(folder.path / STORE) as store:
        key, head = folder.world_key(), head_of(store)
        if head.world != folder.world:
            raise Damage(
                "world.json and the store are of different worlds", location=str(folder.path)
            )
        if not head.is_signed_by(key.verify_key.encode()):
            raise Refused(
                "keys/world.key is not this world's key; nothing was changed",
                location=str(folder.path),
                actual=key_text(key.verify_key.encode()),
                hint="restore the world's own key",
            )
        yield store, key, head


def _seal(servers: WorldServers, stream: str) -> None:
    """Let a stream take no message any more, and wait for those that are under way."""
    patiently(lambda: servers.streams.seal(stream))
    time.sleep(SEALED_S)


def _write_replica(folder: WorldFolder, replica: ReplicaFile) -> None:
    with folder.open_plain() as world:
        replica.write(world)


def _remove_replica(folder: WorldFolder) -> None:
    with folder.open_plain() as world:
        world.remove(REPLICA_FILE)
        world.sync()
