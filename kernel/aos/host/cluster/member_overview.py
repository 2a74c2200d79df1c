"""The members of a group of servers, and the placement of the worlds on them, for status and check
(spec/cluster.md, CL-240, CL-241). It writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aos.errors import AosError, Refused, Unavailable, either
from aos.host.cluster.findings import ClusterFindingKind, ClusterReport
from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.member_values import PREFERENCES, MemberBeat, read_preference
from aos.host.cluster.moving import drained, member_beats
from aos.host.cluster.overview import STANDBY, ClusterReader, WorldOverview
from aos.host.cluster.placement import MemberView, WorldPlacement, place
from aos.store.log.bucket import Bucket
from aos.store.log.nats_bucket import BEATS, WORLDS
from aos.store.log.nats_stream import bucket_stream
from aos.values.digests import Hash, hash_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOverview:
    """A member by its beat, whose age is ``age_ns`` by the clock of the servers."""

    beat: MemberBeat
    age_ns: int
    is_draining: bool

    @property
    def is_silent(self) -> bool:
        """Whether the beat is older than the lease."""
        return self.age_ns > LEASE_NS

    @property
    def view(self) -> MemberView:
        """The member as it is placed."""
        return MemberView(
            name=self.beat.name, worlds=frozenset(self.beat.worlds), standbys=self.beat.standbys,
            is_draining=self.is_draining,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersOverview:
    """All members by name, and the nodes to which operators have moved worlds."""

    members: tuple[MemberOverview, ...] = ()
    preferences: Mapping[Hash, str]

    @property
    def living(self) -> tuple[MemberOverview, ...]:
        """The members that are not silent."""
        return tuple(member for member in self.members if not member.is_silent)

    def kept_at(self, world: WorldOverview) -> str | None:
        """The node to which an operator has moved a world."""
        return self.preferences.get(world.registration.world)

    def placement(self, world: WorldOverview) -> WorldPlacement:
        """Where a world should be."""
        kept_at, living = self.kept_at(world), self.living
        is_member = kept_at in {member.beat.name for member in living}
        runs = any(node.beat.node == kept_at and not node.is_silent for node in world.nodes)
        return place(
            world.registration.world,
            [member.view for member in living],
            preferred=kept_at,
            is_outside=runs and not is_member,
        )


def read_members(reader: ClusterReader, worlds: Bucket, beats: Bucket) -> MembersOverview:
    """Read the members and the wishes of operators. Raises BucketUnreachable."""
    if any(bucket_stream(bucket) not in reader.streams for bucket in (WORLDS, BEATS)):
        return MembersOverview(preferences={})
    rows = member_beats(beats)
    drains = drained(worlds)
    wishes = [read_preference(entry.value) for _, entry in worlds.entries(PREFERENCES)]
    now_ns = reader.stream(bucket_stream(BEATS)).server_ns if rows else 0
    return MembersOverview(
        members=tuple(
            MemberOverview(
                beat=beat, age_ns=max(0, now_ns - entry.written_ns), is_draining=name in drains
            )
            for name, (beat, entry) in sorted(rows.items())
        ),
        preferences={wish.world: wish.node for wish in wishes if wish is not None},
    )


def member_document(member: MemberOverview, names: Mapping[Hash, str]) -> dict[str, Any]:
    """A member; ``names`` are those of worlds."""
    beat = member.beat
    return {
        "name": beat.name,
        "is_silent": member.is_silent,
        "draining": member.is_draining,
        "beat_age_ns": member.age_ns,
        "instance": beat.instance.hex(),
        "standbys": beat.standbys,
        "worlds": sorted(names.get(world, hash_text(world)) for world in beat.worlds),
        "seen": list(beat.seen),
    }


def placement_document(world: WorldOverview, overview: MembersOverview) -> dict[str, Any]:
    """Where a world should be, and the move that is under way."""
    placement, owner = overview.placement(world), world.owner
    moving_to = None if owner is None else owner.beat.to
    if moving_to is None and owner is not None and placement.owner not in (None, owner.beat.node):
        moving_to = placement.owner
    return {
        "placed_at": list(placement.members),
        "kept_at": overview.kept_at(world),
        "moving_to": moving_to,
    }


def views_differ(overview: MembersOverview) -> bool:
    """Whether a living member does not regard the same members as living."""
    living = sorted(member.beat.name for member in overview.living)
    return any(list(member.beat.seen) != living for member in overview.living)


def add_member_findings(
    report: ClusterReport, overview: MembersOverview, worlds: Sequence[WorldOverview]
) -> None:
    """Find out whether the members agree, and have all worlds with enough standbys."""
    living = overview.living
    if not overview.members:
        return
    if views_differ(overview):
        _add(
            report, ClusterFindingKind.MEMBER_VIEW, Unavailable,
            "the members do not agree which of them live, so worlds move to and fro",
            expected=", ".join(sorted(member.beat.name for member in living)),
            actual="; ".join(
                f"{member.beat.name} sees {', '.join(member.beat.seen) or 'none'}"
                for member in living
            ),
            hint="look whether each of them reaches the servers: aos cluster check on its machine",
        )  # fmt: skip
    counts = {member.beat.standbys for member in living}
    if len(counts) > 1:
        _add(
            report, ClusterFindingKind.MEMBER_VIEW, Refused,
            "the members were started for different numbers of standbys",
            actual=", ".join(f"{row.beat.name}: {row.beat.standbys}" for row in living),
            hint="start all of them with the same --standbys",
        )  # fmt: skip
    for world in worlds:
        if world.registration.embedded_at is None:
            _add_world_findings(report, overview, world)


def _add_world_findings(
    report: ClusterReport, overview: MembersOverview, world: WorldOverview
) -> None:
    name, location = world.registration.name, f"world {world.registration.name}"
    without_key = [
        member.beat.name
        for member in overview.living
        if world.registration.world not in member.beat.worlds
    ]
    if without_key:
        _add(
            report, ClusterFindingKind.MEMBER_KEY, Refused,
            "a member does not have the key of a world, and leaves it alone",
            location=location,
            actual=either(without_key),
            hint=f"copy the folder keys of a node to FOLDER/{name}, for its --keys FOLDER",
        )  # fmt: skip
    placement = overview.placement(world)
    if placement.owner is None:
        _add(
            report, ClusterFindingKind.MEMBER_MISSING, Unavailable,
            "no living member can own a world: all of them drain, or lack its key",
            location=location,
            hint="start a member that has its key: aos cluster serve; or end a drain: aos cluster "
            "drain MEMBER --undo",
        )  # fmt: skip
        return
    asked = max(
        member.beat.standbys
        for member in overview.living
        if world.registration.world in member.beat.worlds
    )
    standbys = [node for node in world.nodes if node.role == STANDBY and not node.is_silent]
    if len(standbys) < asked:
        _add(
            report, ClusterFindingKind.STANDBYS_FEW, Unavailable,
            "a world has fewer standbys than the members were started for",
            location=location,
            expected=str(asked),
            actual=str(len(standbys)),
            hint="start another member that has its key, or look at the output of its process in "
            "the folder .logs of a member",
        )  # fmt: skip


def _add(
    report: ClusterReport,
    kind: ClusterFindingKind,
    error: type[AosError],
    problem: str,
    **parts: str,
) -> None:
    report.add(kind, error(problem, **parts))
