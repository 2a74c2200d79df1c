"""Turns of systems that are fakes, and callers against a small server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import __main__ as peers
from benchmarks.peers import http_load, systems, tools
from benchmarks.peers.systems import System
from benchmarks.peers.tools import NotInstalled

from aos.errors import Unavailable


def system(name: str, turns: list[str], *, problem: Exception | None = None) -> System:
    def measure(folder: Path, points: Sequence[Any]) -> list[Any]:
        assert list(folder.iterdir()) == []
        turns.append(name)
        if problem is not None:
            raise problem
        return [{**each, "rate": 1.0, "finish_ms": None} for each in points]

    return System(name=name, install=lambda: None, measure=measure)


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "versions", lambda _: {})
    monkeypatch.setattr(peers, "machine", lambda _: {})


def test_every_round_gives_each_system_a_turn(tmp_path: Path) -> None:
    turns: list[str] = []

    found = peers.run([system("a", turns), system("b", turns)], tmp_path, rounds=2, seconds=1.0)

    assert turns == ["a", "b", "a", "b"]
    assert [(each["round"], each["system"]) for each in found["turns"]] == [
        (1, "a"), (1, "b"), (2, "a"), (2, "b"),
    ]  # fmt: skip
    assert [len(each["points"]) for each in found["turns"]] == [len(peers.LOADS)] * 4
    assert found["missing"] == {}


def test_a_peer_that_is_missing_or_fails_is_reported_and_the_others_continue(
    tmp_path: Path,
) -> None:
    turns: list[str] = []

    def refuse() -> None:
        raise NotInstalled("no network")

    absent = System(name="absent", install=refuse, measure=system("absent", turns).measure)
    failing = system("failing", turns, problem=Unavailable("it fell over"))

    found = peers.run([absent, failing, system("a", turns)], tmp_path, rounds=1, seconds=1.0)

    assert turns == ["failing", "a"]
    assert found["missing"] == {
        "absent": "not installed: no network",
        "failing": "round 1: it fell over",
    }
    assert [each["system"] for each in found["turns"]] == ["a"]


def test_without_go_temporal_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.tools.shutil.which", lambda _: None)

    with pytest.raises(NotInstalled, match="the PATH has no program `go`"):
        tools.temporal()


def test_a_flow_and_temporal_get_no_load_that_waits_in_line_for_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def child(spec: Any, *_: object, **__: object) -> Any:
        given.append(spec)
        return {"points": spec.get("points", [])}

    monkeypatch.setattr(systems, "run_child", child)
    points = [{"cells": cells, "in_flight": 1, "seconds": 1.0, "warm_s": 0.0} for cells in KINDS]

    measured = by_name("AOS, flow").measure(tmp_path, points)

    assert [each["cells"] for each in measured] == ["fresh"]
    assert {each["workload"] for each in given} == {"flow"}
    assert [each["cells"] for each in by_name("AOS").measure(tmp_path, points)] == [*KINDS, "hot"]


def by_name(name: str) -> System:
    return next(each for each in systems.SYSTEMS if each.name == name)


KINDS = ("fresh", "line")
POINT = {"in_flight": 3, "seconds": 0.1, "warm_s": 0.02}


def ask(answer: bytes) -> Any:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"POST /steps/run HTTP/1.1\r\n")
                await reader.readexactly(2)
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def measured() -> Any:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await http_load.measure(port, "/steps/run", POINT)

    return asyncio.run(measured())


def test_each_answer_is_an_item_with_its_time() -> None:
    found = ask(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n6")

    assert found["items"] > 0
    assert found["rate"] == pytest.approx(found["items"] / 0.1)
    assert 0 < found["finish_ms"]["p50"] <= found["finish_ms"]["p99"] < 100


def test_another_answer_than_200_ends_it() -> None:
    with pytest.raises(Unavailable, match="503 busy: later"):
        ask(b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nlater")
