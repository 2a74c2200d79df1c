"""The benchmark of replicated worlds: its servers, its tables and its aims."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cluster import __main__ as cluster
from benchmarks.cluster.__main__ import BENCHMARK, QUICK, Options, minutes
from benchmarks.cluster.bench_servers import BenchServers
from benchmarks.cluster.steady import SETUPS
from benchmarks.cluster.tables import (
    EMBEDDED,
    R3,
    RESTATE_CLUSTER,
    UNSAFE,
    cluster_aims,
    cluster_tables,
)

from aos.errors import Unavailable
from benchmarks import report
from tests.benchmarks.test_report import MACHINE
from tests.nats_servers import nats_program


def test_servers_with_the_default_sync_are_named_unsafe(tmp_path: Path) -> None:
    nats_program()
    with BenchServers(tmp_path / "safe", count=1) as safe:
        assert safe.configuration(safe.servers[0])["jetstream"]["sync_interval"] == "always"
        assert safe.durability_words == ["--monitor", safe.monitors[0]]
    with BenchServers(tmp_path / "unsafe", count=3, syncs=False) as unsafe:
        assert "sync_interval" not in unsafe.configuration(unsafe.servers[0])["jetstream"]
        assert unsafe.durability_words == ["--unverified-durability"]
    assert [setup.name for setup in SETUPS if not setup.syncs] == [UNSAFE]
    assert "unsafe" in UNSAFE


@pytest.mark.parametrize(
    ("known_leader", "killed", "leader"),
    [("n2", None, "n2"), ("n2", "n2", None), ("n3", "n2", "n3"), (None, None, None)],
)
def test_a_leader_that_was_killed_is_no_leader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known_leader: str | None,
    killed: str | None,
    leader: str | None,
) -> None:
    """The other servers name it until they have elected another one."""
    nats_program()
    group = {"leader": known_leader, "replicas": [{"current": True}, {"current": True}]}
    document = {
        "account_details": [
            {"stream_detail": [{"name": "OTHER", "cluster": {"leader": "n1"}}]},
            {"stream_detail": [{"name": "LOG", "cluster": group}]},
        ]
    }
    monkeypatch.setattr(
        "benchmarks.cluster.bench_servers.LocalServer.document", lambda _self, _path: document
    )
    with BenchServers(tmp_path / "nats", count=3) as servers:
        but = next((server for server in servers.servers if server.name == killed), None)
        known = servers.leader_of("LOG", but=but)
        assert (None if known is None else known.name) == leader
        assert servers.is_whole("LOG") is (known_leader is not None)
        group["replicas"][0]["current"] = False  # type: ignore[index]
        assert not servers.is_whole("LOG")


def point(in_flight: int, rate: float, p50: float, **processor_ms: float) -> dict[str, Any]:
    return {
        "in_flight": in_flight, "rate": rate, "finish_ms": {"p50": p50, "p99": 2 * p50},
        "processor_ms": processor_ms,
    }  # fmt: skip


def turn(setup: str, one: float, many: float, *, lag_p99: float | None = None) -> dict[str, Any]:
    points = [point(1, 100.0, one, owner=9.0), point(64, many, 20.0, owner=1.5, servers=0.5)]
    lag_ms = None if lag_p99 is None else {"p50": 25.0, "p99": lag_p99}
    return {"setup": setup, "points": points, "lag_ms": lag_ms}


FIGURES: dict[str, Any] = {
    "at": "2026-01-01", "seconds": 9, "machine": MACHINE, "missing": {},
    "versions": {"nats-server": "2.15.2"},
    "steady": [
        turn(EMBEDDED, 3.0, 1_000.0),
        turn(R3, 10.0, 600.0, lag_p99=99.0), turn(R3, 12.0, 500.0, lag_p99=90.0),
        turn(R3, 99.0, 400.0, lag_p99=110.0), turn(RESTATE_CLUSTER, 12.0, 250.0),
    ],
    "takeovers": {
        "cells": 1_000_000, "made_s": 100.0, "kills_ms": [3_300.0] * 29 + [4_999.0],
        "handovers_ms": [200.0, 900.0], "moves_ms": [300.0, 800.0],
        "acknowledged": 5_000, "lost": 0, "doubled": 0,
        "elections": [
            {"elected_ms": 4_000.0, "silence_ms": 4_600.0, "is_same_owner": True},
            {"elected_ms": 7_000.0, "silence_ms": 7_700.0, "is_same_owner": True},
        ],
    },
    "shards": [
        {"shards": 1, "events": 9_000, "rate": 700.0, "sender_ms": 0.25},
        {"shards": 4, "events": 9_000, "rate": 1_500.0, "sender_ms": 0.5},
    ],
    "restate": {"kills_ms": [5_000.0], "acknowledged": 700, "lost": 1, "doubled": 0},
}  # fmt: skip


def met(figures: dict[str, Any]) -> list[bool | None]:
    return [aim.is_met for aim in cluster_aims(figures)]


def test_aims_are_met_at_their_bounds() -> None:
    assert met(FIGURES) == [True] * 10
    found = [aim.found for aim in cluster_aims(FIGURES)]
    assert found[0] == "1.00 times: 12.0 ms and 12.0 ms"
    assert found[1] == "2.00 times: 500/s and 250/s"
    assert found[4] == "4,999 ms of 30 with 1,000,000 cells"
    assert found[9] == "0 and 0 of 5,000"


def test_aims_are_missed_beyond_their_bounds() -> None:
    figures = deepcopy(FIGURES)
    figures["steady"][0] = turn(EMBEDDED, 3.0, 1_010.0)
    figures["steady"][4] = turn(RESTATE_CLUSTER, 11.9, 334.0)
    figures["steady"][1]["lag_ms"]["p99"] = 100.0
    takeovers = figures["takeovers"]
    takeovers["kills_ms"][0] = 5_000.0
    takeovers["handovers_ms"].append(1_000.0)
    takeovers["moves_ms"].append(1_000.0)
    takeovers["elections"][0]["is_same_owner"] = False
    takeovers["doubled"] = 1

    assert met(figures) == [False] * 10


def test_a_small_world_and_a_missing_system_count_for_nothing() -> None:
    figures = deepcopy(FIGURES)
    del figures["restate"]
    figures["steady"].pop()
    figures["missing"] = {RESTATE_CLUSTER: "not installed: no npm"}
    figures["takeovers"]["cells"] = 10_000

    assert met(figures) == [None, None, True, True, None, True, True, True, None, True]
    text = cluster_tables(figures)
    assert f"{RESTATE_CLUSTER}: not installed: no npm" in text
    assert cluster_aims(None) == []


def test_every_time_is_in_the_tables() -> None:
    text = cluster_tables(FIGURES)

    assert "- owner killed: 3,300, " in text
    assert text.count("3,300") >= 29
    assert "- moved: 300, 800" in text
    assert "| 4 | 1,500 | 0.50 |" in text.splitlines()
    assert "| 7,000 | 7,700 | yes |" in text.splitlines()
    assert f"| {RESTATE_CLUSTER} | 700 | 1 | 0 |" in text.splitlines()
    row = f"| {R3} | 100; 12.0, 24.0 | 500; 20.0, 40.0 | 1.50 | - | 0.50 | 2.00 |"
    assert row in text.splitlines()
    results = report.render(None, None, "", cluster=FIGURES)
    assert "## Several machines" in results
    assert "| stream leader killed: the same owner continues |" in results


def test_a_run_says_first_how_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert minutes(QUICK) < minutes(Options())
    monkeypatch.setattr(cluster, "find_nats_server", lambda: Path("nats-server"))
    monkeypatch.setattr(cluster, "check_release", lambda _program: None)
    monkeypatch.setattr("benchmarks.peers.tools.version_of", lambda *_words, **_more: "2.15.2")

    def stop(_figures: object) -> None:
        raise Unavailable("this is enough")

    monkeypatch.setattr(cluster, "_install_restate", stop)

    assert BENCHMARK.main(["--dir", str(tmp_path)]) == 1

    first, second = capsys.readouterr().err.splitlines()
    assert first == f"about {minutes(Options())} minutes on two quiet cores"
    assert second == "benchmarks: this is enough"


def test_restate_that_fails_is_left_out_from_then_on() -> None:
    figures: dict[str, Any] = {"missing": {}}
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise Unavailable("it fell over")

    cluster._with_restate(figures, fail)
    cluster._with_restate(figures, fail)

    assert figures["missing"] == {RESTATE_CLUSTER: "it fell over"}
    assert len(tries) == 1
