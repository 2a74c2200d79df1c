"""The worlds of a group of servers, with their nodes, as registrations, beats and streams show them
(spec/cluster.md, CL-170 to CL-172). It writes nothing.

    bucket AOS ──registration──▶ bucket AOS_BEATS ──owner, standbys──▶ stream ──positions, replicas
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from aos.core.journal.frame import NO_FRAME
from aos.core.journal.identity import world_id
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis
from aos.errors import AosError, BadUsage, Damage, Refused
from aos.host.cluster.beat import Beat, unchecked_beat
from aos.host.cluster.group_registration import (
    GroupRegistration,
    check_shard_world,
    find_group_registration,
)
from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.registration import NameOfGroup, WorldRegistration, read_registration
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import ReplicaFile, find_replica
from aos.store.lmdb_store import LOG_PLACE
from aos.store.log.bucket import RESERVED, BucketEntry
from aos.store.log.entry import FramesEntry, read_entry
from aos.store.log.logged_store import LOG_DEAD, DeadMessages, LogEnd, LogPlace
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import JetStreamError
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import NatsStreamState, bucket_stream, stream_names, stream_state
from aos.values.digests import Hash, content_hash

NODES_MAX: Final = 100
"""So many nodes of a world are read, and shown."""

BEGINNING_MESSAGES: Final = 16
"""A world begins in one of the first messages of its log, unless they were trimmed."""

VALID: Final = "valid"
INVALID: Final = "invalid"
UNCHECKED: Final = "unchecked"
"""Of a signature: the key of the world is not known here."""

OWNER: Final = "owner"
RELEASED: Final = "released"
"""Of a node that has owned the world, and leaves it to the others."""
STANDBY: Final = "standby"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOverview:
    """A node by its beat. ``age_ns`` is the age of the beat by the clock of the servers."""

    role: str
    beat: Beat
    signature: str
    age_ns: int

    @property
    def is_silent(self) -> bool:
        """Whether the last beat is older than the lease."""
        return self.age_ns > LEASE_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOverview:
    """A registered world. ``nodes`` are its owner, if there is one, and its standbys by name.
    ``other_keys`` are keys of its beats whose values are no beats of it. ``log`` is its stream;
    None if that cannot be used, for the reason ``problem``."""

    registration: WorldRegistration
    signature: str
    nodes: tuple[NodeOverview, ...]
    other_keys: tuple[str, ...]
    log: NatsStreamState | None
    problem: AosError | None

    @property
    def owner(self) -> NodeOverview | None:
        """The node that owns the world, or did so last."""
        return next((node for node in self.nodes if node.role != STANDBY), None)

    @property
    def last_position(self) -> int:
        """The latest position that the log, or a node, has."""
        positions = [node.beat.end.position for node in self.nodes if node.signature != INVALID]
        return max([0 if self.log is None else self.log.tail, *positions])


class ClusterReader:
    """Reads what servers have. The connection stays with the caller.

    ``keys`` are public keys of worlds, from folders. The key of any other world comes from the
    beginning of its log.
    """

    def __init__(
        self, connection: NatsConnection, keys: Mapping[Hash, bytes] | None = None
    ) -> None:
        """Ask for the names of all streams. Raises: Unavailable, Refused: As ``NatsConnection``."""
        self._connection = connection
        self._keys = dict(keys or {})
        self.streams = frozenset(connection.run(stream_names(connection)))
        self._worlds = self._bucket(WORLDS)
        self._beats = self._bucket(BEATS)

    def _bucket(self, bucket: str) -> NatsBucket | None:
        if bucket_stream(bucket) not in self.streams:
            return None
        return NatsBucket(self._connection, bucket, replicas=None)

    def registrations(self) -> Iterator[tuple[str, WorldRegistration | Damage]]:
        """Yield the registration of each name, or why it is none. Raises BucketUnreachable."""
        worlds = self._worlds
        # The others are those of members, of operators, and of fronts.
        for name, entry in [] if worlds is None else worlds.entries(without=(RESERVED,)):
            with contextlib.suppress(NameOfGroup):  # its shards have registrations of their own
                yield name, _registration(name, entry)

    def groups(self, name: str = "") -> Iterator[tuple[str, GroupRegistration | Damage]]:
        """Yield the registration of each group, or why it is none; with a ``name``, that of this
        group alone, if a group has the name. Raises BucketUnreachable."""
        for group_name, value in self._values(name):
            try:
                read_registration(value)
            except NameOfGroup:
                yield group_name, self._group(group_name)
            except Damage:
                continue  # the registration of a world

    def _values(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The values of the names of worlds and groups, or of one ``name``."""
        if self._worlds is None:
            return
        if not name:
            for key, entry in self._worlds.entries(without=(RESERVED,)):
                yield key, entry.value
        elif (named := self._worlds.get(name)) is not None:
            yield name, named.value

    def _group(self, name: str) -> GroupRegistration | Damage:
        try:
            group = None if self._worlds is None else find_group_registration(self._worlds, name)
        except (Damage, Refused) as problem:
            return Damage(str(problem))
        return (
            Damage("the registration of a group is gone", location=name) if group is None else group
        )

    def shards(self, group: GroupRegistration) -> Iterator[tuple[str, WorldRegistration | Damage]]:
        """Yield the registration of each shard of a group, or why it is none: there is none, or it
        is that of another world. If a folder has the key of one shard, and that key has signed the
        registration of the group, it is the key of the others too (CL-260). Raises
        BucketUnreachable."""
        if self.group_signature(group) == VALID:
            key = next(self._keys[world] for world in group.worlds if world in self._keys)
            self._keys |= dict.fromkeys(group.worlds, key)
        for name, world in zip(group.shard_names(), group.worlds, strict=True):
            try:
                registration = self.registration(name)
                check_shard_world(name, expected=world, actual=registration.world)
                yield name, registration
            except (Damage, BadUsage, NameOfGroup) as problem:
                yield name, Damage(str(problem))

    def group_signature(self, group: GroupRegistration) -> str:
        """Whether the key of a group has signed its registration: ``VALID``, ``INVALID``, or
        ``UNCHECKED`` if the key of none of its shards is known. All of them have the same key; it
        is known of those that folders or ``world`` have shown."""
        keys = {self._keys[world] for world in group.worlds if world in self._keys}
        if not keys:
            return UNCHECKED
        return VALID if all(map(group.is_of, keys)) else INVALID

    def registration(self, name: str) -> WorldRegistration:
        """Return the registration of a name.

        Raises:
            BadUsage: There is none.
            NameOfGroup: A group has the name.
            Damage: The value is no registration of that name.
            BucketUnreachable: The bucket does not answer.
        """
        entry = None if self._worlds is None else self._worlds.get(name)
        if entry is None:
            raise BadUsage(
                "no world is registered under this name",
                location=self._connection.address.text,
                actual=name,
                hint="see the names: aos cluster status and the address without a name",
            )
        registration = _registration(name, entry)
        if isinstance(registration, Damage):
            raise registration
        return registration

    def world(self, registration: WorldRegistration) -> WorldOverview:
        """Look at a registered world. Raises BucketUnreachable."""
        key = self._key(registration)
        nodes, other_keys = self._nodes(registration, key)
        log: NatsStreamState | None = None
        problem: AosError | None = None
        try:
            # After the beats: the stream has every position that is in one of them.
            log = self.stream(registration.stream)
        except AosError as error:
            problem = error
        is_valid = key is not None and registration.is_of(key)
        return WorldOverview(
            registration=registration,
            signature=UNCHECKED if key is None else VALID if is_valid else INVALID,
            nodes=nodes,
            other_keys=other_keys,
            log=log,
            problem=problem,
        )

    def stream(self, name: str) -> NatsStreamState:
        """The state of a stream. Raises: Damage: It is missing. Unavailable: No answer came."""
        try:
            return self._connection.run(stream_state(self._connection, name))
        except JetStreamError as problem:
            raise problem.as_error(f"stream {name}") from None

    def _nodes(
        self, registration: WorldRegistration, key: bytes | None
    ) -> tuple[tuple[NodeOverview, ...], tuple[str, ...]]:
        if self._beats is None:
            return (), ()
        stream = registration.stream
        rows = list(islice(self._beats.entries(stream), NODES_MAX))
        now_ns = self.stream(bucket_stream(BEATS)).server_ns
        nodes: list[NodeOverview] = []
        other_keys: list[str] = []
        for row_key, entry in rows:
            beat = unchecked_beat(entry.value, registration.world)
            is_owner = row_key == f"{stream}.owner"
            if beat is None or not (is_owner or row_key == f"{stream}.standby.{beat.node}"):
                other_keys.append(row_key)
                continue
            signature = UNCHECKED if key is None else VALID if beat.is_of(key) else INVALID
            role = (RELEASED if beat.released else OWNER) if is_owner else STANDBY
            age_ns = max(0, now_ns - entry.written_ns)
            node = NodeOverview(role=role, beat=beat, signature=signature, age_ns=age_ns)
            nodes.append(node)
        # An owner leaves the beat that it had as a standby. One that has released is one again.
        owned_by = {node.beat.instance: node for node in nodes if node.role != STANDBY}
        nodes = [
            node
            for node in nodes
            if node.role != STANDBY
            or node.beat.instance not in owned_by
            or node.age_ns < owned_by[node.beat.instance].age_ns
        ]
        nodes.sort(key=lambda node: (node.role == STANDBY, node.beat.node))
        return tuple(nodes), tuple(other_keys)

    def _key(self, registration: WorldRegistration) -> bytes | None:
        """The public key of a world; None if no folder has it and the beginning of its log does not
        say it."""
        world = registration.world
        if world not in self._keys and registration.stream in self.streams:
            with contextlib.suppress(AosError):
                key = _key_in_log(NatsLog(self._connection, registration.stream), world)
                if key is not None:
                    self._keys[world] = key
        return self._keys.get(world)


def _registration(name: str, entry: BucketEntry) -> WorldRegistration | Damage:
    try:
        registration = read_registration(entry.value)
    except Damage as problem:
        return problem
    if registration.name != name:
        return Damage("the registration of a world has another name", actual=registration.name)
    return registration


def _key_in_log(log: NatsLog, world: Hash) -> bytes | None:
    """The key with which a world begins: the id of the world is a digest over it (J-3)."""
    for message in islice(log.read(0), BEGINNING_MESSAGES):
        part = message.part
        if part is None or part.total != 1 or content_hash(part.data) != part.entry:
            continue
        with contextlib.suppress(Damage):
            entry = read_entry(part.data)
            if isinstance(entry, FramesEntry):
                record = from_bytes(entry.frames[0].records[0])
                if (
                    isinstance(record, Genesis | Fork)
                    and world_id(record.nonce, record.world_key) == world
                ):
                    return record.world_key
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOverview:
    """The folder of a node: its ``replica`` file, its world with the public key, and the ``end`` of
    the log in its store, with the ``dead`` messages before that."""

    path: Path
    replica: ReplicaFile
    world: Hash
    world_key: bytes
    end: LogEnd
    dead: DeadMessages


def read_node_folder(path: Path) -> FolderOverview:
    """Read the folder of a node. Its process may run.

    Raises:
        BadUsage: It has no world, or an embedded one.
        AosError: As ``open_folder``, ``find_replica`` and ``open_store``.
    """
    folder = open_folder(path)
    replica = find_replica(path)
    if replica is None:
        raise BadUsage(
            "this world is embedded: it has no servers",
            location=str(path),
            hint="name the folder of a node, or the address of the servers",
        )
    with folder.open_store(readonly=True) as store:
        head = store.head()
        place_row, dead_row = store.meta_get(LOG_PLACE), store.meta_get(LOG_DEAD)
    place = LogPlace(stream=replica.stream) if place_row is None else LogPlace.from_bytes(place_row)
    end = LogEnd(
        position=place.position,
        seq=0 if head is None else head.seq,
        frame=NO_FRAME if head is None else head.frame,
    )
    return FolderOverview(
        path=path,
        replica=replica,
        world=folder.world,
        world_key=bytes(folder.world_key().verify_key),
        end=end,
        dead=DeadMessages() if dead_row is None else DeadMessages.from_bytes(dead_row),
    )
