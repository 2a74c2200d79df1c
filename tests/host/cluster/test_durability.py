"""The servers of a node are asked again and again whether they sync (spec/cluster.md, CL-111)."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import pytest

from aos.errors import AosError, Refused, Unavailable
from aos.host.cluster import replica_node
from aos.host.cluster.replica_node import Durability
from tests.host.cluster.node_processes import waits


def test_a_later_look_finds_a_problem_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: list[AosError | None] = [None]
    asked: list[tuple[Sequence[str], Collection[str]]] = []

    def check(monitors: Sequence[str], replicas: Collection[str], *, needs_all: bool) -> None:
        assert not needs_all
        asked.append((monitors, replicas))
        if answer[0] is not None:
            raise answer[0]

    monkeypatch.setattr(replica_node, "check_durable", check)
    monkeypatch.setattr(replica_node, "DURABILITY_S", 0.01)
    lines: list[str] = []
    durability = Durability(["m"], lambda: ["n1"], is_needed=True, report=lines.append)

    def problem() -> AosError | None:
        return durability.problem

    durability.look()
    assert problem() is None
    assert asked == [(["m"], ["n1"])]
    with durability:
        durability.start()
        answer[0] = Refused("n1 does not sync")
        waits(lambda: lines)
        assert problem() is answer[0]
        answer[0] = Unavailable("no answer")
        time.sleep(0.05)
        assert isinstance(problem(), Refused), "not answering does not make it right"
        answer[0] = None
        waits(lambda: problem() is None)
    assert lines == ["this node may not take over: n1 does not sync"]


def test_a_world_without_monitors_asks_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(replica_node, "check_durable", check)
    with Durability([], list, is_needed=False, report=print) as durability:
        durability.start()
        durability.look()
        assert durability.problem is None
