"""The JSON documents of the overview of a cluster, and of its check (spec/cluster.md, CL-171).

Texts from servers are cut, since any program that may publish can have written them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aos.errors import AosError, excerpt
from aos.host.cluster.findings import ClusterReport
from aos.host.cluster.group_registration import GroupRegistration
from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.overview import FolderOverview, NodeOverview, WorldOverview
from aos.store.log.logged_store import LogEnd
from aos.store.log.nats_stream import NatsStreamState
from aos.values.digests import hash_text

STOPPED = "stopped"
"""The role of a folder without a beat within the lease."""

PROBLEM_CHARACTERS_MAX = 1000


def world_document(world: WorldOverview) -> dict[str, Any]:
    """A registered world with its nodes and its log."""
    registration = world.registration
    base, problem = registration.base, world.problem
    embedded_at = registration.embedded_at
    if embedded_at is not None:
        problem = None  # nothing uses the stream any more
    return {
        "name": registration.name,
        "world": hash_text(registration.world),
        "stream": registration.stream,
        "signature": world.signature,
        "embedded_at": None if embedded_at is None else excerpt(embedded_at),
        "base": None if base is None else {"stream": base.stream, **_end(base.end)},
        "nodes": [_node(node, world) for node in world.nodes],
        "other_beats": len(world.other_keys),
        "log": None if world.log is None else _log(world.log),
        "problem": None if problem is None else problem_text(problem),
    }


def group_document(group: GroupRegistration, signature: str) -> dict[str, Any]:
    """A registered group with the names of its shards, in order."""
    return {
        "name": group.name,
        "signature": signature,
        "shards": group.shard_names(),
        "problem": None,
    }


def unreadable_document(name: str, problem: AosError) -> dict[str, Any]:
    """In the place of a world or a group whose registration is none."""
    return {"name": name, "problem": problem_text(problem)}


def folder_document(folder: FolderOverview, worlds: Sequence[WorldOverview]) -> dict[str, Any]:
    """The folder of a node. Its role is that of the node's last beat, or ``stopped``."""
    nodes = [
        node
        for world in worlds
        if world.registration.world == folder.world
        for node in world.nodes
        if node.beat.node == folder.replica.node and node.age_ns <= LEASE_NS
    ]
    return {
        "folder": str(folder.path),
        "node": folder.replica.node,
        "world": hash_text(folder.world),
        "stream": folder.replica.stream,
        "role": nodes[0].role if nodes else STOPPED,
        **_end(folder.end),
        "dead_messages": folder.dead.number,
        "dead_reason": folder.dead.reason,
    }


def report_document(report: ClusterReport) -> dict[str, Any]:
    """The findings of a check."""
    return {
        "worlds": list(report.worlds),
        "unchecked": list(report.unchecked),
        "findings": [
            {"kind": finding.kind.value, "text": finding.text, "exit_code": finding.exit_code}
            for finding in report.findings
        ],
    }


def problem_text(problem: AosError) -> str:
    """The sentence of an error, which may have texts from servers."""
    return excerpt(str(problem), characters_max=PROBLEM_CHARACTERS_MAX)


def _end(end: LogEnd) -> dict[str, Any]:
    return {"position": end.position, "seq": end.seq, "frame": hash_text(end.frame)}


def _node(node: NodeOverview, world: WorldOverview) -> dict[str, Any]:
    beat, owner = node.beat, world.owner
    owner_seq = beat.end.seq if owner is None else owner.beat.end.seq
    return {
        "node": beat.node,
        "role": node.role,
        "is_silent": node.is_silent,
        "beat_age_ns": node.age_ns,
        "instance": beat.instance.hex(),
        "release": beat.release,
        "inbox": excerpt(beat.inbox),
        "signature": node.signature,
        **_end(beat.end),
        "behind_messages": max(0, world.last_position - beat.end.position),
        "behind_records": max(0, owner_seq - beat.end.seq),
    }


def _log(log: NatsStreamState) -> dict[str, Any]:
    return {
        "first": log.first,
        "last": log.tail,
        "messages": log.messages,
        "bytes": log.bytes,
        "leader": excerpt(log.leader),
        "replicas": [
            {
                "name": excerpt(peer.name),
                "is_offline": peer.is_offline,
                "silent_ns": peer.silent_ns,
                "behind_operations": peer.lag,
            }
            for peer in log.peers
        ],
    }
