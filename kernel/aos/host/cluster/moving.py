"""Move a world to another node (spec/cluster.md, CL-226 to CL-229).

owner ──beat: to b──▶ b looks more often      owner stops ──beat: released for b──▶ b takes over
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from aos.errors import BadUsage, Refused, Unavailable, either
from aos.host.cluster.beat import read_beat
from aos.host.cluster.beating import owner_key
from aos.host.cluster.bus_asking import ask_owner
from aos.host.cluster.bus_client import BusClient, owner_finder
from aos.host.cluster.bus_server import node_subject
from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.member_values import (
    DRAINS,
    MEMBERS,
    PREFERENCES,
    MemberBeat,
    Preference,
    drain_key,
    drain_value,
    drained_member,
    member_key,
    read_member_beat,
    read_preference,
)
from aos.host.cluster.registration import WorldRegistration, check_in_servers
from aos.host.cluster.world_nodes import WorldNodes, read_nodes
from aos.host.door.protocol import bodies_of, pack, raise_error, unpack
from aos.store.log.bucket import Bucket, BucketConflict, BucketEntry
from aos.store.log.nats_bucket import BEATS
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_stream import bucket_stream, stream_state
from aos.store.log.patience import patiently

TIMEOUT_S: Final = 60.0
"""How long a move waits for the node to follow the log, and then for it to own the world."""

LOOK_S: Final = 0.02
"""Pause between two looks for the new owner, in seconds."""

TRIES: Final = 3
"""Attempts to replace a value that others replace, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldMove:
    """``node`` owns the world ``name``. ``former`` is the owner before; the same one if nothing had
    to be done. ``is_kept``: members know that it is to stay there."""

    name: str
    node: str
    former: str
    is_kept: bool

    @property
    def is_moved(self) -> bool:
        """Whether it had another owner."""
        return self.former != self.node


class WorldMover:
    """Moves the world of a ``registration``. ``worlds`` and ``beats`` are the buckets, on
    ``connection``. Without ``world_key``, the beats are not checked: those that may write to the
    bucket are trusted (CL-125)."""

    def __init__(
        self,
        connection: NatsConnection,
        worlds: Bucket,
        beats: Bucket,
        registration: WorldRegistration,
        *,
        world_key: bytes | None = None,
    ) -> None:
        self._connection = connection
        self._worlds = worlds
        self._beats = beats
        self._registration = registration
        self._world_key = world_key

    def nodes(self) -> WorldNodes:
        """The nodes of the world now."""
        registration, now_ns = self._registration, self._now_ns()
        return patiently(
            lambda: read_nodes(
                self._beats, registration.stream, registration.world, self._world_key, now_ns
            )
        )

    def _now_ns(self) -> int:
        """The time of the servers."""
        beats = bucket_stream(BEATS)
        return self._connection.run(stream_state(self._connection, beats)).server_ns

    def move(
        self,
        node: str,
        *,
        timeout_s: float = TIMEOUT_S,
        report: Callable[[str], None] = lambda _: None,
    ) -> WorldMove:
        """Have ``node`` own the world. If the process is killed, the same call finishes it.

        Raises:
            BadUsage: There is no such node.
            Refused: It is not alive, has an earlier release of AOS, or the owner hands over to
                another one. The world was taken out of the servers.
            Unavailable: The node is behind, or the owner does not answer in time. No node owns the
                world. Another one took over.
        """
        end_s = time.monotonic() + timeout_s
        moved = self.begin(node, timeout_s=timeout_s, report=report)
        if moved.is_moved:
            self._await_owner(node, moved.former, end_s)
        return moved

    def begin(
        self,
        node: str,
        *,
        timeout_s: float = TIMEOUT_S,
        report: Callable[[str], None] = lambda _: None,
    ) -> WorldMove:
        """As ``move``, but do not wait until ``node`` owns the world: its owner has called it."""
        registration = self._registration
        check_in_servers(registration)
        members = living_members(self._beats, self._now_ns())
        nodes = self._checked(node, members)
        former = nodes.owner
        if former is None:
            raise Unavailable(
                "no node owns the world, so there is none to hand it over",
                location=f"world {registration.name}",
                hint="start a node: aos run --world DIR",
            )
        end_s = time.monotonic() + timeout_s
        if former.node != node:
            if not nodes.is_ready(node):
                if node in members and node not in nodes.standbys:
                    self._keep(node, members)  # then the member joins
                report(f"waiting until node {node} has followed the log")
                self._wait_ready(node, end_s)
            asking = ask_hand_over(
                self._connection, self._beats, registration, node, world_key=self._world_key,
                patience_s=max(1.0, end_s - time.monotonic()),
            )  # fmt: skip
            asking.result()
        self._keep(node, members)
        return WorldMove(
            name=registration.name, node=node, former=former.node, is_kept=bool(members)
        )

    def _checked(self, node: str, members: list[str]) -> WorldNodes:
        """The nodes of the world. Raises: BadUsage, Refused: As ``move``."""
        nodes = self.nodes()
        if nodes.lives(node) or node in members:
            return nodes
        name, stream = self._registration.name, self._registration.stream
        if patiently(lambda: self._beats.get(f"{stream}.standby.{node}")) is not None:
            raise Refused(
                "the node is silent: it does not run",
                location=f"world {name}, node {node}",
                hint="start it: aos run --world DIR",
            )
        names = sorted({*nodes.standbys, *members, *([nodes.owner_name or ""])} - {""})
        raise BadUsage(
            "no node of the world has this name",
            location=f"world {name}",
            expected=either(names) if names else "a node, and none lives",
            actual=node,
            hint="see the nodes: aos cluster status; make another one: aos join",
        )

    def _wait_ready(self, node: str, end_s: float) -> None:
        """Raises: Unavailable: The node does not follow the log to its end in time."""
        while not (nodes := self.nodes()).is_ready(node):
            if time.monotonic() >= end_s:
                beat, owner = nodes.standbys.get(node), nodes.owner
                raise Unavailable(
                    "the node has not followed the log to its end in time; the world stays where "
                    "it is",
                    location=f"world {self._registration.name}, node {node}",
                    expected="no owner" if owner is None else f"position {owner.end.position}",
                    actual="no beat" if beat is None else f"position {beat.end.position}",
                    hint="see whether it runs (aos cluster status); the same command tries again",
                )
            time.sleep(0.25)

    def _await_owner(self, node: str, former: str, end_s: float) -> None:
        """Wait until a node owns the world. Raises: Unavailable: Another one does, or none in
        time."""
        registration = self._registration
        key = owner_key(registration.stream)
        while time.monotonic() < end_s:
            entry = patiently(lambda: self._beats.get(key))
            beat = (
                None
                if entry is None
                else read_beat(entry.value, registration.world, self._world_key)
            )
            if beat is not None and not beat.released and beat.node != former:
                if beat.node == node:
                    return
                raise Unavailable(
                    "another node has taken over the world",
                    location=f"world {registration.name}",
                    expected=f"node {node}",
                    actual=f"node {beat.node}",
                    hint="the same command tries again",
                )
            time.sleep(LOOK_S)
        raise Unavailable(
            "the node does not own the world yet",
            location=f"world {registration.name}, node {node}",
            hint="see its output and aos cluster status; the same command tries again",
        )

    def _keep(self, node: str, members: list[str]) -> None:
        """Keep the wish of the operator, if there are members."""
        registration = self._registration
        if members:
            wish = Preference(name=registration.name, world=registration.world, node=node)
            replace_value(self._worlds, wish.key, wish.to_bytes())

    def undo(self) -> str | None:
        """Forget the node to which an operator has moved the world; return its name, None if there
        was none. The members place the world again."""
        key = f"{PREFERENCES}.{self._registration.name}"
        entry = patiently(lambda: self._worlds.get(key))
        if entry is None:
            return None
        preference = read_preference(entry.value)
        patiently(lambda: self._worlds.remove(key))
        return None if preference is None else preference.node


def ask_hand_over(
    connection: NatsConnection,
    beats: Bucket,
    registration: WorldRegistration,
    node: str,
    *,
    world_key: bytes | None,
    patience_s: float,
) -> Future[None]:
    """Ask the owner of a world over the bus to hand it over to a node. The future is done once the
    owner has called that node; it raises as ``Replica.call_next``, and Unavailable if no owner
    answers."""
    from aos.store.log.nats_messaging import NatsMessaging  # noqa: PLC0415  # see its connection

    finder = owner_finder(
        beats, stream=lambda: registration.stream, world=registration.world, world_key=world_key,
        subject=node_subject,
    )  # fmt: skip
    client = BusClient(NatsMessaging(connection), finder, patience_s=patience_s)

    async def ask() -> None:
        replies = await ask_owner(client, pack({"op": "hand_over", "to": node}))
        for body in bodies_of(replies):
            raise_error(unpack(body))

    return connection.start(ask())


def replace_value(bucket: Bucket, key: str, value: bytes) -> None:
    """Write a value in the place of whichever is there. Raises BucketConflict if others do so at
    the same time, again and again."""
    for attempt in range(TRIES):
        entry = patiently(lambda: bucket.get(key))
        if entry is not None and entry.value == value:
            return
        try:
            if entry is None:
                bucket.create(key, value)
            else:
                bucket.replace(key, value, entry.revision)
        except BucketConflict:
            if attempt == TRIES - 1:
                raise
        else:
            return


def member_beats(beats: Bucket) -> dict[str, tuple[MemberBeat, BucketEntry]]:
    """The beats of all members by name, each with its entry. Raises BucketUnreachable."""
    read = [(key, read_member_beat(entry.value), entry) for key, entry in beats.entries(MEMBERS)]
    return {
        beat.name: (beat, entry)
        for key, beat, entry in read
        if beat is not None and key == member_key(beat.name)
    }


def living_members(beats: Bucket, now_ns: int) -> list[str]:
    """The names of the members whose beat is not older than the lease, by the servers' time."""
    rows = patiently(lambda: member_beats(beats))
    return [name for name, (_, entry) in rows.items() if now_ns - entry.written_ns <= LEASE_NS]


def drained(worlds: Bucket) -> set[str]:
    """The names of the members that drain. Raises BucketUnreachable."""
    names = (drained_member(entry.value) for _, entry in worlds.entries(DRAINS))
    return {name for name in names if name is not None}


def set_drained(worlds: Bucket, beats: Bucket, member: str, *, is_draining: bool) -> bool:
    """Have a member drain, or take its share again. Whether that has changed anything.

    Raises:
        BadUsage: There is no such member.
        Unavailable: The servers do not answer.
    """
    key = drain_key(member)
    entry = patiently(lambda: worlds.get(key))
    if not is_draining:
        patiently(lambda: worlds.remove(key))
        return entry is not None
    if entry is not None:
        return False
    members = patiently(lambda: member_beats(beats))
    if member not in members:
        raise BadUsage(
            "no member has this name",
            expected=either(sorted(members)) if members else "a member, and none runs",
            actual=member,
            hint="see the members: aos cluster status and the address without a name",
        )
    replace_value(worlds, key, drain_value(member))
    return True
