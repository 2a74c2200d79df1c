"""A member: a machine that takes its share of all worlds of the servers (spec/cluster.md, CL-230
to CL-238).

    beats of members, drains, wishes ──▶ placement ──▶ processes here ──▶ moves to here

Each member computes the placement by itself. Two that differ move worlds to and fro; which node
writes a world is decided by its log alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.errors import AosError, Damage, Refused
from aos.host.cluster.beat import INSTANCE_BYTES
from aos.host.cluster.lease import LEASE_NS, SECOND_NS
from aos.host.cluster.member_child import ChildCommands, WorldChild
from aos.host.cluster.member_values import (
    DRAINS,
    LAST_MOVE,
    PREFERENCES,
    SEEN_MAX,
    WORLDS_MAX,
    MemberBeat,
    drained_member,
    member_key,
    move_value,
    read_preference,
)
from aos.host.cluster.moving import member_beats
from aos.host.cluster.placement import MemberView, WorldPlacement, place
from aos.host.cluster.registration import NameOfGroup, WorldRegistration, read_registration
from aos.host.cluster.world_nodes import WorldNodes, read_nodes
from aos.host.folder.folder import WORLD_KEY, read_key
from aos.host.stamps import Sources
from aos.store.log.bucket import (
    BATCHES,
    POSITIONS,
    RESERVED,
    Bucket,
    BucketConflict,
    BucketEntry,
    BucketUnreachable,
)
from aos.values.digests import Hash

TURN_S: Final = 1.0
"""Interval of the beats of a member, in seconds."""

WORLDS_PER_SECOND: Final = 100
"""A member with many worlds looks at so many of them in a second."""

NAMESAKE_S: Final = 2.5
"""A member that runs replaces its beat within this time."""

MOVE_EVERY_S: Final = 10.0
"""Least time between two moves of all members, in seconds."""

AWAY_S: Final = 5.0
"""Seconds without an answer of the servers after which this is reported."""

MOVE_TIMEOUT_S: Final = 20.0
"""How long a move may take before another one is begun, in seconds."""

AskHandOver = Callable[[WorldRegistration, bytes, str], Future[None]]
"""Ask the owner of a world, whose public key is given, to hand it over to a node."""


class LivingMembers:
    """Which members live: those whose beat was replaced within the lease, in time in which this
    member's own beats were answered (CL-232). Pure."""

    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}
        self._silent_ns: dict[str, int] = {}
        self._answered_ns: int | None = None

    def note(self, revisions: Mapping[str, int], now_ns: int) -> set[str]:
        """Note the revision of each beat at ``now_ns`` of the boot-time clock; return the names of
        those that live."""
        passed_ns = 0
        if self._answered_ns is not None:
            passed_ns = min(now_ns - self._answered_ns, round(2 * TURN_S * SECOND_NS))
        self._answered_ns = now_ns
        self._silent_ns = {
            name: self._silent_ns[name] + passed_ns if self._revisions.get(name) == revision else 0
            for name, revision in revisions.items()
        }
        self._revisions = dict(revisions)
        return {name for name, ns in self._silent_ns.items() if ns <= LEASE_NS}

    def note_unanswered(self) -> None:
        """The servers did not answer: the time until they do counts for no member."""
        self._answered_ns = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """A member with its folder, and the folder with the keys of the worlds. ``commands`` returns
    the commands for the world of an address, its folder and the folder with its keys."""

    name: str
    folder: Path
    keys: Path
    commands: Callable[[str, Path, Path], ChildCommands]
    standbys: int = 1
    move_every_s: float = MOVE_EVERY_S
    report: Callable[[str, str], None] = lambda _kind, _text: None
    sources: Sources = field(default_factory=Sources)
    now_s: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyedWorld:
    """A registered world whose key this member has, in the folder ``keys``."""

    registration: WorldRegistration
    key: SigningKey
    keys: Path

    @property
    def world_key(self) -> bytes:
        """The public key."""
        return self.key.verify_key.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The servers as this member sees them in one turn. ``now_ns`` is their time."""

    now_ns: int
    views: tuple[MemberView, ...]
    living: frozenset[str]
    preferences: Mapping[str, tuple[Hash, str]]


@dataclass(slots=True, kw_only=True)
class _Move:
    """A move to this member that is under way."""

    world: _KeyedWorld
    former: str
    asking: Future[None]
    end_s: float


class ClusterMember:
    """Runs a member from ``begin`` on, by ``turn``, until ``close``. Used by one thread, the main
    one. ``worlds`` and ``beats`` are the buckets."""

    def __init__(
        self, settings: MemberSettings, worlds: Bucket, beats: Bucket, ask_hand_over: AskHandOver
    ) -> None:
        self.instance = settings.sources.random(INSTANCE_BYTES)
        self.children: dict[str, WorldChild] = {}
        self._settings = settings
        self._worlds = worlds
        self._beats = beats
        self._ask_hand_over = ask_hand_over
        self._revision = 0
        self._living = LivingMembers()
        self._seen: frozenset[str] = frozenset()
        self._keyed_worlds: dict[str, _KeyedWorld] = {}
        self._without_key: dict[str, Hash] = {}
        self._look_s = self._beat_s = 0.0
        self._answered_s = settings.now_s()
        self._move: _Move | None = None
        self._tried_s: dict[str, float] = {}
        """When each world was last to be moved to here."""
        self._shown: dict[str, str] = {}
        """The sentences about a subject that were reported last."""

    def begin(self) -> None:
        """Take the name of the member.

        Raises:
            Refused: Another process runs under this name.
            BucketUnreachable: The servers do not answer.
        """
        key = member_key(self._settings.name)
        entry = self._beats.get(key)
        if entry is not None:
            time.sleep(NAMESAKE_S)
            again = self._beats.get(key)
            if again is not None and again.revision != entry.revision:
                raise self._namesake()
            self._revision = entry.revision

    def _namesake(self) -> Refused:
        return Refused(
            "another process runs under the name of this member",
            location=f"member {self._settings.name}",
            hint="each machine has its own name: --name NAME",
        )

    def turn(self) -> None:
        """Look after the processes, and at the servers when it is time. Call it each 0.1 s.

        Raises: Refused: Another process has taken the name of this member.
        """
        self._look_after_children()
        now_s = self._settings.now_s()
        if now_s < self._beat_s:
            return
        self._beat_s = now_s + TURN_S
        try:
            look = self._looked(self._replaced_beat())
            if look is not None and now_s >= self._look_s:
                self._look_s = now_s + len(self._keyed_worlds) / WORLDS_PER_SECOND
                self._place(look)
            if self._shown.get("servers"):
                self._show("servers", "the servers answer again")
                self._shown["servers"] = ""
            self._answered_s = now_s
        except BucketConflict:
            self._living.note_unanswered()  # the next turn knows the revision
        except BucketUnreachable as problem:
            self._living.note_unanswered()
            if now_s - self._answered_s >= AWAY_S and not self._shown.get("servers"):
                self._show("servers", f"the servers do not answer: {problem}")

    # The servers

    def _replaced_beat(self) -> int:
        """Replace the beat of this member; return the servers' time. Raises BucketUnreachable, and
        Refused as ``turn``."""
        settings, key = self._settings, member_key(self._settings.name)
        beat = MemberBeat(
            name=settings.name,
            instance=self.instance,
            standbys=settings.standbys,
            worlds=tuple(
                keyed_world.registration.world for keyed_world in self._keyed_worlds.values()
            ),
            seen=tuple(sorted(self._seen)[:SEEN_MAX]),
        ).to_bytes()
        try:
            if self._revision:
                self._revision = self._beats.replace(key, beat, self._revision)
            else:
                self._revision = self._beats.create(key, beat)
        except BucketConflict:
            beats = member_beats(self._beats)
            other = beats.get(settings.name)
            if other is not None and other[0].instance != self.instance:
                raise self._namesake() from None
            # An attempt of its own without an answer was written, or the bucket lost its values.
            entry = self._beats.get(key)
            self._revision = 0 if entry is None else entry.revision
            raise
        entry = self._beats.get(key)
        return 0 if entry is None else entry.written_ns

    def _looked(self, now_ns: int) -> _Look | None:
        """Read the beats, the wishes and the registrations. None before the second beat: the first
        one does not name the worlds yet."""
        rows = member_beats(self._beats)
        living = self._living.note(
            {name: entry.revision for name, (_, entry) in rows.items()},
            round(self._settings.now_s() * SECOND_NS),
        )
        entries = dict(self._worlds.entries(without=(POSITIONS, BATCHES)))
        is_first = not self._keyed_worlds and not self._without_key
        self._find_keys(entries)
        if is_first and self._keyed_worlds:
            self._beat_s = 0.0
            return None
        drains = {
            name
            for key, entry in entries.items()
            if key.startswith(f"{DRAINS}.") and (name := drained_member(entry.value)) is not None
        }
        wishes = [
            read_preference(entry.value)
            for key, entry in entries.items()
            if key.startswith(f"{PREFERENCES}.")
        ]
        views = tuple(
            MemberView(
                name=beat.name, worlds=frozenset(beat.worlds), standbys=beat.standbys,
                is_draining=beat.name in drains,
            )
            for beat, _ in rows.values()
            if beat.name in living
        )  # fmt: skip
        self._show_members(living, drains)
        self._seen = frozenset(living)
        return _Look(
            now_ns=now_ns,
            views=views,
            living=frozenset(living),
            preferences={wish.name: (wish.world, wish.node) for wish in wishes if wish is not None},
        )

    def _show_members(self, living: set[str], drains: set[str]) -> None:
        names = [f"{name} (draining)" if name in drains else name for name in sorted(living)]
        self._show("members", f"members: {', '.join(names)}")

    def _find_keys(self, entries: Mapping[str, BucketEntry]) -> None:
        """Find the registered worlds whose key is here."""
        keyed_worlds: dict[str, _KeyedWorld] = {}
        self._without_key = {}
        for name, entry in entries.items():
            if name.startswith(f"{RESERVED}."):
                continue
            try:
                registration = read_registration(entry.value)
            except NameOfGroup:
                continue  # its shards have registrations of their own
            except Damage as problem:
                self._show(f"world {name}", f"world {name}: {problem}")
                continue
            if registration.taken_by is not None or registration.name != name:
                continue
            world = self._with_key(registration)
            if world is None or len(keyed_worlds) == WORLDS_MAX:
                self._without_key[name] = registration.world
                reason = (
                    f"its key is not in {self._settings.keys}"
                    if world is None
                    else f"a member has at most {WORLDS_MAX} worlds"
                )
                self._show(f"world {name}", f"world {name}: {reason}: it is left alone")
            else:
                self._show(f"world {name}", "")
                keyed_worlds[name] = world
        self._keyed_worlds = keyed_worlds

    def _with_key(self, registration: WorldRegistration) -> _KeyedWorld | None:
        """The world with its key, from the folder of its name, or from the folder of all keys."""
        former = self._keyed_worlds.get(registration.name)
        if former is not None and registration.is_of(former.world_key):
            return _KeyedWorld(registration=registration, key=former.key, keys=former.keys)
        for keys in (self._settings.keys / registration.name, self._settings.keys):
            try:
                key = read_key(keys / WORLD_KEY)
            except AosError:
                continue
            if registration.is_of(key.verify_key.encode()):
                return _KeyedWorld(registration=registration, key=key, keys=keys)
        return None

    # The placement

    def _place(self, look: _Look) -> None:
        nodes = {
            name: read_nodes(
                self._beats,
                keyed_world.registration.stream,
                keyed_world.registration.world,
                keyed_world.world_key,
                look.now_ns,
            )
            for name, keyed_world in self._keyed_worlds.items()
        }
        placements = {
            name: self._placement(look, keyed_world, nodes[name])
            for name, keyed_world in self._keyed_worlds.items()
        }
        for name, placement in placements.items():
            if self._settings.name in placement.members and name not in self.children:
                self._start(name)
        for name, child in self.children.items():
            if not child.is_stopping:
                self._stop_if_left(child, placements.get(name), nodes.get(name))
        self._move_here(placements, nodes)

    def _placement(
        self, look: _Look, keyed_world: _KeyedWorld, nodes: WorldNodes
    ) -> WorldPlacement:
        registration = keyed_world.registration
        world, node = look.preferences.get(registration.name, (registration.world, None))
        preferred = node if world == registration.world else None
        is_outside = preferred is not None and preferred not in look.living
        return place(
            registration.world,
            look.views,
            preferred=preferred,
            is_outside=is_outside and preferred is not None and nodes.lives(preferred),
        )

    def _start(self, name: str) -> None:
        keyed_world, settings = self._keyed_worlds[name], self._settings
        self.children[name] = WorldChild(
            name,
            settings.folder,
            settings.commands(name, settings.folder / name, keyed_world.keys),
            report=settings.report,
            now_s=settings.now_s,
        )

    def _stop_if_left(
        self, child: WorldChild, placement: WorldPlacement | None, nodes: WorldNodes | None
    ) -> None:
        """Stop the process of a world that is gone, or that other members have (CL-237)."""
        name = self._settings.name
        if placement is None or nodes is None:
            if child.name not in self._without_key:
                self._report("left", f"world {child.name}: not registered any more: stops here")
                child.stop()
            return
        is_elsewhere = (
            placement.owner is not None
            and name not in placement.members
            and nodes.owner_name == placement.owner != name
            and all(map(nodes.lives, placement.members))
        )
        if is_elsewhere:
            self._report(
                "left", f"world {child.name}: stops here, and node {placement.owner} owns it"
            )
            child.stop()

    def _look_after_children(self) -> None:
        for name, child in list(self.children.items()):
            child.look()
            if child.is_over:
                del self.children[name]
                self._forget_beat(name)

    def _forget_beat(self, name: str) -> None:
        """Remove the beat of a node that this member has stopped for good."""
        keyed_world = self._keyed_worlds.get(name)
        if keyed_world is not None:
            key = f"{keyed_world.registration.stream}.standby.{self._settings.name}"
            with contextlib.suppress(BucketUnreachable):  # a check reports it as silent
                self._beats.remove(key)

    # Moves

    def _move_here(
        self, placements: Mapping[str, WorldPlacement], nodes: Mapping[str, WorldNodes]
    ) -> None:
        """Have a world handed over to this member that should own it, one at a time."""
        if self._move is not None:
            self._look_at_move(self._move, nodes.get(self._move.world.registration.name))
            return
        name = self._settings.name
        ready = [
            world
            for world, placement in placements.items()
            if placement.owner == name
            and nodes[world].owner_name not in (None, name)
            and nodes[world].is_ready(name)
        ]
        if not ready:
            return
        world = min(ready, key=lambda world: (self._tried_s.get(world, 0.0), world))
        keyed_world, owner = self._keyed_worlds[world], nodes[world].owner
        assert owner is not None, "a ready world has an owner"
        if not self._has_turn(keyed_world):
            return
        now_s = self._tried_s[world] = self._settings.now_s()
        self._move = _Move(
            world=keyed_world,
            former=owner.node,
            asking=self._ask_hand_over(keyed_world.registration, keyed_world.world_key, name),
            end_s=now_s + MOVE_TIMEOUT_S,
        )

    def _has_turn(self, keyed_world: _KeyedWorld) -> bool:
        """Whether this member may begin a move now: none of all members has, for some time. Note
        that this one does."""
        entry, beat = self._beats.get(LAST_MOVE), self._beats.get(member_key(self._settings.name))
        if entry is not None and beat is not None:
            passed_ns = beat.written_ns - entry.written_ns
            if passed_ns < self._settings.move_every_s * SECOND_NS:
                return False
        value = move_value(self._settings.name, keyed_world.registration.world, self._settings.name)
        try:
            if entry is None:
                self._beats.create(LAST_MOVE, value)
            else:
                self._beats.replace(LAST_MOVE, value, entry.revision)
        except BucketConflict:
            return False
        return True

    def _look_at_move(self, move: _Move, nodes: WorldNodes | None) -> None:
        world, name = move.world.registration.name, self._settings.name
        problem = move.asking.exception() if move.asking.done() else None
        if nodes is not None and nodes.owner_name == name:
            self._report("moved", f"world {world}: moved here from node {move.former}")
        elif problem is not None:
            self._report("not_moved", f"world {world}: not moved here: {problem}")
        elif self._settings.now_s() >= move.end_s:
            move.asking.cancel()
            self._report(
                "not_moved", f"world {world}: node {move.former} has not handed it over in time"
            )
        else:
            return
        self._move = None

    # The end

    def close(self) -> None:
        """Stop all processes in order: they release their worlds. Then remove the beat."""
        if self._move is not None:
            self._move.asking.cancel()
        for child in self.children.values():
            child.stop()
        while self.children:
            for name, child in list(self.children.items()):
                child.look()
                if child.is_over:
                    del self.children[name]
            time.sleep(0.05)
        with contextlib.suppress(BucketUnreachable):  # the others notice its silence
            last_beat = member_beats(self._beats).get(self._settings.name)
            if last_beat is not None and last_beat[0].instance == self.instance:
                self._beats.remove(member_key(self._settings.name))

    def _report(self, kind: str, text: str) -> None:
        self._settings.report(kind, text)

    def _show(self, subject: str, text: str) -> None:
        """Report a sentence about a subject, unless it was the last one."""
        if self._shown.get(subject, "") != text:
            self._shown[subject] = text
            if text:
                self._report(subject.partition(" ")[0], text)
