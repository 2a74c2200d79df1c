"""Findings that servers of a test rarely have (spec/cluster.md, CL-175 to CL-177)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.host.cluster.findings import (
    FINDINGS_MAX,
    ClusterFindingKind,
    ClusterReport,
    add_clock_finding,
    add_payload_findings,
    add_replica_findings,
    add_storage_finding,
    add_streams_finding,
    add_sync_findings,
)
from aos.host.cluster.lease import AHEAD_NS
from aos.store.log.nats_stream import NatsStreamState

S = 10**9


def kinds(report: ClusterReport) -> list[ClusterFindingKind]:
    return [finding.kind for finding in report.findings]


@pytest.mark.parametrize(
    ("problems", "code"),
    [
        ([], 0),
        ([Unavailable("x")], 4),
        ([Unavailable("x"), Refused("x")], 1),
        ([Refused("x"), Damage("x"), Unavailable("x")], 3),
        ([BadUsage("x"), Unavailable("x")], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(  # CL-177
    problems: list[AosError], code: int
) -> None:
    report = ClusterReport()
    for problem in problems:
        report.add(ClusterFindingKind.SERVER_UNUSABLE, problem)
    assert report.exit_code == code


def test_findings_are_bounded() -> None:  # CL-177
    report = ClusterReport()
    for _ in range(FINDINGS_MAX + 5):
        report.add(ClusterFindingKind.SERVER_UNUSABLE, Refused("x" * 10_000))
    assert len(report.findings) == FINDINGS_MAX
    assert all(len(finding.text) <= 1001 for finding in report.findings)


@pytest.mark.parametrize(
    ("server_ns", "differs"),
    [
        (100 * S, False),
        (101 * S, False),
        (100 * S - AHEAD_NS, False),
        (100 * S - AHEAD_NS - 1, True),
        (101 * S + AHEAD_NS, False),
        (101 * S + AHEAD_NS + 1, True),
    ],
)
def test_the_time_of_the_question_is_no_difference(server_ns: int, differs: bool) -> None:
    """CL-175"""
    report = ClusterReport()
    add_clock_finding(report, "n1", server_ns, 100 * S, 101 * S)
    assert bool(report.findings) == differs


@pytest.mark.parametrize(
    ("usage", "is_full"),
    [
        ({"storage": 89, "limits": {"max_storage": 100}}, False),
        ({"storage": 90, "limits": {"max_storage": 100}}, True),
        ({"storage": 90, "limits": {"max_storage": -1}}, False),
        ({"storage": 0, "limits": {"max_storage": 0}}, False),
        ({"storage": "90", "limits": {"max_storage": 100}}, False),
        ({"storage": 90, "limits": [1]}, False),
        ({}, False),
    ],
)
def test_storage_that_is_nearly_used_up_is_found(usage: dict[str, Any], is_full: bool) -> None:
    """CL-175"""
    report = ClusterReport()
    add_storage_finding(report, "n1", usage)
    assert kinds(report) == [ClusterFindingKind.STORAGE_FULL] * is_full


def test_servers_with_different_messages_are_found() -> None:  # CL-175
    report = ClusterReport()
    add_payload_findings(report, {"a": 1 << 20, "b": 1 << 20})
    assert kinds(report) == []
    add_payload_findings(report, {"a": 1 << 20, "b": 64 << 10})
    assert kinds(report) == [ClusterFindingKind.PAYLOAD_DIFFERS]
    assert "1048576 at a, 65536 at b" in report.findings[0].text


def test_more_streams_than_servers_start_with_are_found() -> None:  # CL-175
    report = ClusterReport()
    add_streams_finding(report, 500)
    assert kinds(report) == []
    add_streams_finding(report, 501)
    assert kinds(report) == [ClusterFindingKind.STREAMS_MANY]


def test_each_replica_without_a_monitor_is_named_in_one_finding() -> None:  # CL-175
    report = ClusterReport()
    document = {"version": "2.15.2", "jetstream": {"config": {"sync_always": True}}}
    add_sync_findings(report, ["n3", "n1", "n2"], {"n2": ("http://b", document)})
    assert kinds(report) == [ClusterFindingKind.SYNC_UNKNOWN]
    assert "none of n1, n3" in report.findings[0].text
    add_sync_findings(report, ["n3", "n1", "n2"], {"n2": ("http://b", document)}, silent=2)
    assert len(report.findings) == 1, "two monitors do not answer now"
    add_sync_findings(report, ["n2"], {"n2": ("http://b", {**document, "version": "2.10.1"})})
    assert kinds(report)[1:] == [ClusterFindingKind.SYNC_MISSING]


@pytest.mark.parametrize(
    ("peer", "is_found"),
    [
        ({"active": 10**8, "current": True}, False),
        ({"active": 10**8, "current": True, "lag": 10_000}, False),
        ({"active": 10**8, "current": False, "lag": 10_001}, True),
        ({"active": 4 * S, "current": False}, True),
        ({"active": 10**8, "offline": True}, True),
    ],
)
def test_replicas_that_are_away_or_behind_are_found(  # CL-175
    peer: dict[str, Any], is_found: bool
) -> None:
    document = {
        "created": "x",
        "state": {"first_seq": 1, "last_seq": 2},
        "config": {"name": "AOS-1", "num_replicas": 3},
        "cluster": {"leader": "n1", "replicas": [{"name": "n2\x1b", **peer}]},
    }
    report = ClusterReport()
    add_replica_findings(report, NatsStreamState.of(document), "world shop")
    assert kinds(report) == [ClusterFindingKind.REPLICA_BEHIND] * is_found
