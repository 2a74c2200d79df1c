"""The findings of a check of servers and worlds, each a sentence with the change that it needs
(spec/cluster.md, CL-175 to CL-178). Pure: observations in, findings out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aos.errors import AosError, Damage, Refused, Unavailable, excerpt
from aos.host.cluster.lease import AHEAD_NS
from aos.host.cluster.overview import INVALID, OWNER, RELEASED, STANDBY, NodeOverview, WorldOverview
from aos.store.log.nats_bucket import BEATS, WORLDS
from aos.store.log.nats_durability import check_server, unknown_durability
from aos.store.log.nats_stream import (
    PEER_SILENCE_NS_MAX,
    NatsStreamState,
    check_settings,
    log_settings,
)

PAYLOAD_BYTES_MIN: Final = 64 * 1024
"""A shorter ``max_payload`` cuts entries into very many messages."""

STREAMS_MAX: Final = 500
"""Servers elect leaders for more streams than this for minutes after a start."""

FULL_SHARE: Final = 0.9
"""Of the room of a server, so much is nearly all."""

REPLICA_LAG_MAX: Final = 10_000
"""A replica that lacks more operations than this does not catch up by itself soon."""

FINDINGS_MAX: Final = 1000
"""So many findings are given."""


class ClusterFindingKind(enum.Enum):
    """The kinds of findings. The page for operators has a row for each of them."""

    SERVER_UNUSABLE = "server_unusable"
    PAYLOAD_SMALL = "payload_small"
    PAYLOAD_DIFFERS = "payload_differs"
    MONITOR_SILENT = "monitor_silent"
    SYNC_UNKNOWN = "sync_unknown"
    SYNC_MISSING = "sync_missing"
    CLOCK_DIFFERS = "clock_differs"
    STREAMS_MANY = "streams_many"
    STORAGE_FULL = "storage_full"
    BUCKET_UNUSABLE = "bucket_unusable"
    BUCKET_REPLICAS = "bucket_replicas"
    REGISTRATION_INVALID = "registration_invalid"
    REGISTRATION_SIGNATURE = "registration_signature"
    STREAM_UNUSABLE = "stream_unusable"
    STREAM_SEALED = "stream_sealed"
    REPLICA_BEHIND = "replica_behind"
    LOG_LOST_END = "log_lost_end"
    BASE_MISSING = "base_missing"
    BEAT_INVALID = "beat_invalid"
    MANIFESTS_DIFFER = "manifests_differ"
    OWNER_MISSING = "owner_missing"
    OWNER_SILENT = "owner_silent"
    STANDBY_SILENT = "standby_silent"
    MEMBER_VIEW = "member_view"
    MEMBER_MISSING = "member_missing"
    MEMBER_KEY = "member_key"
    STANDBYS_FEW = "standbys_few"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFinding:
    """One thing to change. ``text`` is a sentence; ``exit_code`` is that of its kind of error."""

    kind: ClusterFindingKind
    text: str
    exit_code: int


def exit_code_of(codes: Iterable[int]) -> int:
    """Return the exit code of a check by those of its findings (CL-177)."""
    known_codes = set(codes)
    return next((code for code in (3, 1, 2, 4) if code in known_codes), 0)


@dataclass(slots=True)
class ClusterReport:
    """The findings, and the names of the worlds whose signatures were not checked, because their
    keys are not known here."""

    findings: list[ClusterFinding] = field(default_factory=list)
    worlds: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 without findings; else 3 if something is damaged, 1 if a setting must be changed, 4 if
        a server or a node does not answer."""
        return exit_code_of(finding.exit_code for finding in self.findings)

    def add(self, kind: ClusterFindingKind, problem: AosError) -> None:
        """Add a finding, whose text is that of an error."""
        if len(self.findings) < FINDINGS_MAX:
            text = excerpt(str(problem), characters_max=1000)
            self.findings.append(ClusterFinding(kind=kind, text=text, exit_code=problem.exit_code))


def add_payload_findings(report: ClusterReport, payloads: Mapping[str, int]) -> None:
    """Find servers whose messages are too short, or shorter than those of others."""
    for server, size in payloads.items():
        if size < PAYLOAD_BYTES_MIN:
            problem = Refused(
                "the messages of a server are too short",
                location=server,
                expected=f"max_payload: {PAYLOAD_BYTES_MIN} or more",
                actual=str(size),
                hint="set max_payload: 1MB in its configuration and reload it",
            )
            report.add(ClusterFindingKind.PAYLOAD_SMALL, problem)
    if len(set(payloads.values())) > 1:
        problem = Refused(
            "the servers have different values of max_payload, so a message that one of them takes "
            "may be refused by the next one",
            actual=", ".join(f"{size} at {server}" for server, size in payloads.items()),
            hint="give all of them the same value and reload them",
        )
        report.add(ClusterFindingKind.PAYLOAD_DIFFERS, problem)


def add_monitor_findings(report: ClusterReport, location: str, document: Mapping[str, Any]) -> None:
    """Find out by its ``/varz`` whether the disk of a server is nearly full."""
    jetstream = document.get("jetstream")
    if isinstance(jetstream, Mapping):
        usage = {"limits": jetstream.get("config"), **(jetstream.get("stats") or {})}
        add_storage_finding(report, location, usage)


def add_storage_finding(report: ClusterReport, location: str, usage: Mapping[str, Any]) -> None:
    """Find out whether storage is nearly used up. ``usage`` has ``storage`` in bytes, and
    ``max_storage`` in its ``limits``, which is not positive without a limit."""
    limits, used = usage.get("limits"), usage.get("storage")
    limit = limits.get("max_storage") if isinstance(limits, Mapping) else None
    if isinstance(limit, int) and isinstance(used, int) and 0 < limit * FULL_SHARE <= used:
        problem = Refused(
            "the storage for streams is nearly full; worlds stop when it is",
            location=location,
            expected=f"less than {FULL_SHARE:.0%} of {limit:,} bytes",
            actual=f"{used:,} bytes",
            hint="give the servers more room (max_file_store, or the limit of the account), or "
            "trim logs: aos cluster base NAME",
        )
        report.add(ClusterFindingKind.STORAGE_FULL, problem)


def add_clock_finding(
    report: ClusterReport, location: str, server_ns: int, before_ns: int, after_ns: int
) -> None:
    """Find out whether a server's clock differs from the clock here, which was ``before_ns`` when
    the question was sent and ``after_ns`` when the answer came."""
    ahead_ns = max(server_ns - after_ns, before_ns - server_ns)
    if ahead_ns > AHEAD_NS:
        word = "behind" if server_ns < before_ns else "ahead of"
        problem = Refused(
            f"the clock of a server is {ahead_ns / 1e9:.1f} s {word} the clock of this machine",
            location=location,
            expected=f"a difference of at most {AHEAD_NS // 10**9} s",
            hint="synchronize both with NTP; a node whose clock is ahead does not take over",
        )
        report.add(ClusterFindingKind.CLOCK_DIFFERS, problem)


def add_streams_finding(report: ClusterReport, number: int) -> None:
    """Find out whether the account has too many streams."""
    if number > STREAMS_MAX:
        problem = Refused(
            "the account has so many streams that a restart of a server takes minutes",
            expected=f"at most {STREAMS_MAX}",
            actual=str(number),
            hint="remove worlds that are not used (aos cluster forget), or use other servers for "
            "some of them",
        )
        report.add(ClusterFindingKind.STREAMS_MANY, problem)


def add_sync_findings(
    report: ClusterReport,
    replicas: Iterable[str],
    monitored: Mapping[str, tuple[str, Mapping[str, Any]]],
    silent: int = 0,
) -> None:
    """Find replicas that do not sync what they acknowledge, or do not say so (CL-26, CL-27). As
    many as the ``silent`` monitors may be those of monitors that do not answer now."""
    names = sorted(map(excerpt, replicas))
    missing = [name for name in names if name not in monitored]
    if len(missing) > silent:
        unknown = ", ".join(missing)
        report.add(ClusterFindingKind.SYNC_UNKNOWN, unknown_durability(unknown, names))
    for name in names:
        if name in monitored:
            try:
                check_server(name, *monitored[name])
            except Refused as problem:
                report.add(ClusterFindingKind.SYNC_MISSING, problem)


def add_world_findings(
    report: ClusterReport,
    world: WorldOverview,
    base_problem: Callable[[str], AosError | None],
) -> None:
    """Find what is wrong with one world. ``base_problem`` tells why a stream cannot be used."""
    registration = world.registration
    name = registration.name
    if world.signature == INVALID:
        problem = Damage(
            "the key of the world has not signed its registration, so no node uses it",
            location=f"world {name}",
            hint="another program has changed it: restore it from the folder of a node, and see "
            "the permissions of rule CL-10",
        )
        report.add(ClusterFindingKind.REGISTRATION_SIGNATURE, problem)
    if registration.embedded_at is not None:
        return  # nothing uses its streams and beats any more (CL-186)
    if world.problem is not None:
        report.add(ClusterFindingKind.STREAM_UNUSABLE, world.problem)
    if world.log is not None:
        _add_stream_findings(report, name, world.log)
    if registration.base is not None:
        base_error = base_problem(registration.base.stream)
        if base_error is not None:
            report.add(
                ClusterFindingKind.BASE_MISSING,
                type(base_error)(
                    "the base of a world cannot be used, so no node can join",
                    location=f"world {name}",
                    actual=str(base_error),
                    hint=f"make another one: aos cluster base {name}",
                ),
            )
    _add_beat_findings(report, world)


def add_group_signature_finding(report: ClusterReport, name: str) -> None:
    """Report a group whose registration is not signed by the key that its shards have."""
    problem = Damage(
        "the key of the group has not signed its registration, so no node joins the group",
        location=f"group {name}",
        hint="another program has changed it: see the permissions of rule CL-10. Delete it (nats "
        f"kv del {WORLDS} {name}), and write it again from a folder of the group, whose nodes are "
        "stopped: aos adopt --store ADDRESS",
    )
    report.add(ClusterFindingKind.REGISTRATION_SIGNATURE, problem)


def _add_stream_findings(report: ClusterReport, name: str, log: NatsStreamState) -> None:
    try:
        check_settings(log, log_settings(log.name, log.replica_count))
    except Refused as difference:
        report.add(ClusterFindingKind.STREAM_UNUSABLE, difference)
    if log.settings.get("sealed") is True:
        problem = Refused(
            "the stream of a world is sealed: it takes no more messages",
            location=f"world {name}, stream {log.name}",
            hint="the world went to another stream, or out of the servers: start its nodes again, "
            "or remove the registration with aos cluster forget",
        )
        report.add(ClusterFindingKind.STREAM_SEALED, problem)
    add_replica_findings(report, log, f"world {name}")


def add_replica_findings(report: ClusterReport, state: NatsStreamState, location: str) -> None:
    """Find replicas of a stream that are away or far behind."""
    for peer in state.peers:
        is_silent = peer.is_offline or peer.silent_ns > PEER_SILENCE_NS_MAX
        if is_silent or peer.lag > REPLICA_LAG_MAX:
            silence = f"not heard of for {peer.silent_ns / 1e9:.0f} s"
            report.add(
                ClusterFindingKind.REPLICA_BEHIND,
                Unavailable(
                    "a replica is away or behind, so the loss of another server stops the world",
                    location=f"{location}, stream {state.name}",
                    actual=f"{excerpt(peer.name)}, {silence}, {peer.lag:,} operations behind",
                    hint="start this server, or see its log and its disk",
                ),
            )


def _add_beat_findings(report: ClusterReport, world: WorldOverview) -> None:
    name, owner = world.registration.name, world.owner
    bad_nodes = [node for node in world.nodes if node.signature == INVALID]
    bad_keys = [*world.other_keys, *(f"of node {node.beat.node}" for node in bad_nodes)]
    if bad_keys:
        problem = Refused(
            "the bucket of beats has values that are no beats of this world",
            location=f"world {name}, bucket {BEATS}",
            actual=excerpt(", ".join(bad_keys)),
            hint="another program writes them: see the permissions of rule CL-10, and delete them "
            f"with nats kv del {BEATS}",
        )
        report.add(ClusterFindingKind.BEAT_INVALID, problem)
    _add_owner_finding(report, name, owner)
    for node in world.nodes:
        if node.role == STANDBY and node.is_silent:
            report.add(
                ClusterFindingKind.STANDBY_SILENT,
                Unavailable(
                    f"the standby {node.beat.node} is silent for {_seconds(node.age_ns)}",
                    location=f"world {name}",
                    hint="start it: aos run --world DIR; if it is gone for good, delete its beat: "
                    f"nats kv del {BEATS} {world.registration.stream}.standby.{node.beat.node}",
                ),
            )


def _add_owner_finding(report: ClusterReport, name: str, owner: NodeOverview | None) -> None:
    if owner is None or (owner.role == RELEASED and owner.is_silent):
        kind, problem = ClusterFindingKind.OWNER_MISSING, "no node owns the world"
    elif owner.role == OWNER and owner.is_silent:
        kind = ClusterFindingKind.OWNER_SILENT
        problem = f"the owner {owner.beat.node} is silent for {_seconds(owner.age_ns)}"
    else:
        return
    error = Unavailable(
        f"{problem}, and no standby has taken over",
        location=f"world {name}",
        hint="start its nodes: aos run --world DIR; a standby that runs says why it does not take "
        "over",
    )
    report.add(kind, error)


def add_lost_end_finding(
    report: ClusterReport, name: str, log: NatsStreamState, position: int, holder: str
) -> None:
    """Report a log that ends before a position that some node has."""
    problem = Damage(
        "the log has lost what was acknowledged",
        location=f"world {name}, stream {log.name}",
        expected=f"a log that continues to position {position}, which was reached by {holder}",
        actual=f"one that ends at {log.tail}",
        hint="start no node: bring the log back from the longest journal of a node (aos cluster "
        "restore)",
    )
    report.add(ClusterFindingKind.LOG_LOST_END, problem)


def _seconds(ns: int) -> str:
    return f"{ns // 10**9:,} s"
