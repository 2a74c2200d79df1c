"""Find out whether servers are fit for replicated worlds, and whether the worlds on them are well
(spec/cluster.md, CL-174 to CL-178). It writes nothing.

    each server ──▶ buckets ──▶ each world: registration, stream, replicas, beats ──▶ findings
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.errors import AosError, Damage, Refused, Unavailable, excerpt
from aos.host.cluster.findings import (
    ClusterFindingKind,
    ClusterReport,
    add_clock_finding,
    add_group_signature_finding,
    add_lost_end_finding,
    add_monitor_findings,
    add_payload_findings,
    add_replica_findings,
    add_storage_finding,
    add_streams_finding,
    add_sync_findings,
    add_world_findings,
)
from aos.host.cluster.group_manifests import add_manifests_finding
from aos.host.cluster.group_registration import GroupRegistration, check_shard_world
from aos.host.cluster.member_overview import add_member_findings, read_members, views_differ
from aos.host.cluster.overview import (
    INVALID,
    UNCHECKED,
    ClusterReader,
    FolderOverview,
    WorldOverview,
)
from aos.host.cluster.registration import NameOfGroup, WorldRegistration
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import monitor_document
from aos.store.log.nats_errors import JetStreamError
from aos.store.log.nats_stream import (
    NatsStreamState,
    bucket_settings,
    bucket_stream,
    check_settings,
    time_ns,
)

WORLDS_MAX: Final = 500
"""So many worlds are looked at."""

SHOWN_AGAIN_SECONDS: Final = 5.0
"""How long a log may end before a position that a node had: as ``nats_log.LAG_NS_MAX``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """A check of the servers of ``address``, and of its world, or of all worlds.

    ``monitors`` are addresses of servers for monitoring. ``folder`` is the folder of a node, whose
    world's key is known by it. With ``unverified_durability`` it is no finding that the servers do
    not say whether they sync. ``clock_ns`` is the wall clock here, in ns since 1970.
    """

    address: NatsAddress
    access: NatsAccess
    monitors: Sequence[str] = ()
    folder: FolderOverview | None = None
    unverified_durability: bool = False
    clock_ns: Callable[[], int] = time.time_ns

    def run(self) -> ClusterReport:
        """Check everything.

        Raises:
            BadUsage: An address for monitoring is none. No world has the name in the address.
        """
        report = ClusterReport()
        monitored = self._monitored(report)
        servers = self._servers(report)
        if not servers:
            return report
        try:
            with NatsConnection(self.address, self.access) as connection:
                self._check_worlds(connection, report, monitored, servers)
        except (Unavailable, Refused) as problem:
            report.add(ClusterFindingKind.SERVER_UNUSABLE, problem)
        return report

    def _servers(self, report: ClusterReport) -> set[str]:
        """Connect to each server. Return the names of those that can be used."""
        names: set[str] = set()
        payloads: dict[str, int] = {}
        for server in self.address.servers:
            try:
                with NatsConnection(self.address.of_server(server), self.access) as connection:
                    session = connection.run(connection.session())
                    names.add(session.server_name)
                    payloads[server] = session.payload_bytes_max
            except (Unavailable, Refused) as problem:
                report.add(ClusterFindingKind.SERVER_UNUSABLE, problem)
        add_payload_findings(report, payloads)
        return names

    def _monitored(self, report: ClusterReport) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """The address and the document of each server that answers for monitoring, by name."""
        documents = {}
        for monitor in self.monitors:
            before_ns = self.clock_ns()
            try:
                document = monitor_document(monitor, "/varz")
            except Unavailable as problem:
                report.add(ClusterFindingKind.MONITOR_SILENT, problem)
                continue
            name = excerpt(str(document.get("server_name")))
            documents[name] = (monitor, document)
            add_monitor_findings(report, f"{name} at {monitor}", document)
            self._check_clock(report, f"{name} at {monitor}", document.get("now"), before_ns)
        return documents

    def _check_clock(
        self, report: ClusterReport, location: str, text: object, before_ns: int
    ) -> None:
        try:
            server_ns = time_ns(str(text))
        except ValueError:
            return
        add_clock_finding(report, location, server_ns, before_ns, self.clock_ns())

    def _check_worlds(
        self,
        connection: NatsConnection,
        report: ClusterReport,
        monitored: Mapping[str, tuple[str, Mapping[str, Any]]],
        servers: set[str],
    ) -> None:
        folder = self.folder
        keys = {} if folder is None else {folder.world: folder.world_key}
        reader = ClusterReader(connection, keys)
        add_streams_finding(report, len(reader.streams))
        try:
            add_storage_finding(report, "the account", connection.run(connection.api("INFO")))
        except JetStreamError as problem:
            report.add(
                ClusterFindingKind.SERVER_UNUSABLE, problem.as_error(connection.address.text)
            )
        worlds = list(self._worlds(reader, report))
        replicas = {name for world in worlds if world.log for name in world.log.replicas}
        self._check_buckets(reader, report, worlds)
        for world in worlds:
            report.worlds.append(world.registration.name)
            if world.signature == UNCHECKED:
                report.unchecked.append(world.registration.name)
            add_world_findings(report, world, lambda name: _base_problem(reader, name))
            if world.registration.embedded_at is None:
                self._check_end(reader, report, world)
        self._check_groups(reader, connection, report, worlds)
        self._check_members(reader, connection, report, worlds)
        if not self.unverified_durability or self.monitors:
            kinds = [finding.kind for finding in report.findings]
            silent = kinds.count(ClusterFindingKind.MONITOR_SILENT)
            add_sync_findings(report, replicas or servers, monitored, silent)

    def _check_members(
        self,
        reader: ClusterReader,
        connection: NatsConnection,
        report: ClusterReport,
        worlds: Sequence[WorldOverview],
    ) -> None:
        """Check the members. One that has just started or ended is not known to all of them yet, so
        they are looked at again for some seconds."""
        world_bucket = NatsBucket(connection, WORLDS, replicas=None)
        beat_bucket = NatsBucket(connection, BEATS, replicas=None)
        until = time.monotonic() + SHOWN_AGAIN_SECONDS
        while views_differ(overview := read_members(reader, world_bucket, beat_bucket)):
            if time.monotonic() >= until:
                break
            time.sleep(0.25)
        add_member_findings(report, overview, worlds)

    def _worlds(self, reader: ClusterReader, report: ClusterReport) -> Iterator[WorldOverview]:
        for number, (name, registration) in enumerate(self._registrations(reader)):
            if isinstance(registration, Damage):
                _add_invalid(report, name, registration)
            elif number < WORLDS_MAX:
                yield self._world(reader, registration)

    def _registrations(
        self, reader: ClusterReader
    ) -> Iterable[tuple[str, WorldRegistration | Damage]]:
        """The registrations of the world, of the shards of the group, or of all worlds."""
        name = self.address.name
        if not name:
            return reader.registrations()
        try:
            return [(name, reader.registration(name))]
        except Damage as damage:
            return [(name, damage)]
        except NameOfGroup:
            groups = [group for _, group in reader.groups(name)]
            return (
                row
                for group in groups
                if not isinstance(group, Damage)
                for row in reader.shards(group)
            )

    def _check_groups(
        self,
        reader: ClusterReader,
        connection: NatsConnection,
        report: ClusterReport,
        worlds: Sequence[WorldOverview],
    ) -> None:
        """Check the groups whose shards are among the worlds."""
        by_name = {world.registration.name: world for world in worlds}
        for name, group in reader.groups(self.address.name):
            if isinstance(group, Damage):
                _add_invalid(report, name, group)
                continue
            if reader.group_signature(group) == INVALID:
                add_group_signature_finding(report, name)
            shards = [by_name.get(shard) for shard in group.shard_names()]
            _check_shard_worlds(report, group, shards)
            present = [shard for shard in shards if shard is not None]
            if len(present) == len(shards):
                add_manifests_finding(report, connection, group, present)

    def _world(self, reader: ClusterReader, registration: WorldRegistration) -> WorldOverview:
        world = reader.world(registration)
        if isinstance(world.problem, Damage):
            # The world may have been moved to another stream meanwhile.
            newest = reader.registration(registration.name)
            if newest != registration:
                return reader.world(newest)
        return world

    def _check_buckets(
        self, reader: ClusterReader, report: ClusterReport, worlds: Sequence[WorldOverview]
    ) -> None:
        replicas = max((_replicas(world.log) for world in worlds), default=1)
        for bucket in (WORLDS, BEATS):
            if bucket_stream(bucket) not in reader.streams:
                continue
            before_ns = self.clock_ns()
            try:
                state = reader.stream(bucket_stream(bucket))
                settings = bucket_settings(bucket, state.replica_count, in_memory=bucket == BEATS)
                check_settings(state, settings)
            except AosError as unusable:
                report.add(ClusterFindingKind.BUCKET_UNUSABLE, unusable)
                continue
            add_replica_findings(report, state, f"bucket {bucket}")
            if state.server_ns:
                location = f"server {excerpt(state.leader)}"
                add_clock_finding(report, location, state.server_ns, before_ns, self.clock_ns())
            if state.replica_count < replicas:
                problem = Refused(
                    "a bucket has fewer replicas than the streams of the worlds",
                    location=f"bucket {bucket}",
                    expected=str(replicas),
                    actual=str(state.replica_count),
                    hint=f"nats stream edit {bucket_stream(bucket)} --replicas {replicas}",
                )
                report.add(ClusterFindingKind.BUCKET_REPLICAS, problem)

    def _check_end(
        self, reader: ClusterReader, report: ClusterReport, world: WorldOverview
    ) -> None:
        """Check that the log has all that its nodes have had. A leader that was cut off a moment
        ago may have an earlier end, so it is asked again for some seconds."""
        folder, log = self.folder, world.log
        position, holder = world.last_position, "a node of this world, by its beat"
        if (
            folder is not None
            and folder.world == world.registration.world
            and folder.end.position > position
        ):
            position, holder = folder.end.position, f"the folder {folder.path}"
        until = time.monotonic() + SHOWN_AGAIN_SECONDS
        while log is not None and log.tail < position and time.monotonic() < until:
            time.sleep(0.25)
            try:
                log = reader.stream(log.name)
            except AosError:
                return  # reported already, or about to be elected: the next check says it
        if log is not None and log.tail < position:
            add_lost_end_finding(report, world.registration.name, log, position, holder)


def _check_shard_worlds(
    report: ClusterReport, group: GroupRegistration, shards: Sequence[WorldOverview | None]
) -> None:
    """Find other worlds in the places of shards. Those that are None were reported before."""
    for world, shard in zip(group.worlds, shards, strict=True):
        if shard is not None:
            registration = shard.registration
            try:
                check_shard_world(registration.name, expected=world, actual=registration.world)
            except Damage as problem:
                _add_invalid(report, registration.name, problem)


def _add_invalid(report: ClusterReport, name: str, registration: Damage) -> None:
    problem = Damage(
        "a registration is invalid",
        location=f"bucket {WORLDS}, key {name}",
        actual=str(registration),
        hint="restore it from the folder of a node: aos cluster restore, or delete the key if no "
        f"world has this name: nats kv del {WORLDS} {name}",
    )
    report.add(ClusterFindingKind.REGISTRATION_INVALID, problem)


def _base_problem(reader: ClusterReader, stream: str) -> AosError | None:
    try:
        reader.stream(stream)
    except AosError as problem:
        return problem
    return None


def _replicas(log: NatsStreamState | None) -> int:
    try:
        return 1 if log is None else log.replica_count
    except Refused:
        return 1
