"""Real nodes and servers are killed and suspended at every role and moment; an outside checker
reads what is left (spec/cluster.md, CL-183, CL-184)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.host.cluster.kill_matrix import (
    IDLE,
    LARGE_VALUES,
    LEADER,
    LOAD,
    ONCE,
    OWNER,
    OWNER_AND_LEADER,
    OWNER_NETWORK,
    SNAPSHOT,
    STANDBY,
    STANDBY_NETWORK,
    TWO_SERVERS,
    Fault,
    MatrixCluster,
)
from tests.host.cluster.node_processes import NodeProcess
from tests.host.cluster.outside_checker import (
    ENDS,
    BookLine,
    documents,
    problems_of,
    read_books,
    replayed,
)
from tests.host.cluster.torn_network import Cut
from tests.nats_servers import Servers
from tests.run_seed import run_seed
from tests.tools import long_form

Run = Callable[..., NodeProcess]

MATRIX = {
    OWNER: ((LOAD, 4.0), (SNAPSHOT, 12.0), (LARGE_VALUES, 6.0), (IDLE, 3.0)),
    STANDBY: ((LOAD, 3.0), (SNAPSHOT, 1.0), (LARGE_VALUES, 2.0), (IDLE, 6.0)),
    LEADER: ((LOAD, 6.0), (SNAPSHOT, 2.0), (LARGE_VALUES, 3.0), (IDLE, 12.0)),
    OWNER_AND_LEADER: ((LOAD, 8.0), (SNAPSHOT, 4.0), (IDLE, 1.0)),
    TWO_SERVERS: ((LOAD, 5.0), (IDLE, 2.0)),
}
"""For each role the moments, each with the seconds of a pause. There is also a kill at each."""

TORN = {
    OWNER_NETWORK: ((LOAD, 4.0), (LARGE_VALUES, 5.0), (IDLE, 3.0)),
    STANDBY_NETWORK: ((LOAD, 3.0), (LARGE_VALUES, 2.0)),
}
"""For each network the moments, each with the seconds for which it is torn, in each way."""

TARGETS = (*MATRIX, *TORN)


def faults_of(target: str) -> list[Fault]:
    if target in TORN:
        return [
            Fault(target, torn_s, moment, cut) for moment, torn_s in TORN[target] for cut in Cut
        ]
    return [
        Fault(target, pause_s, moment)
        for moment, longest_s in MATRIX[target]
        for pause_s in (None, longest_s)
    ]


def survives(top: Path, run: Run, faults: Sequence[Fault]) -> None:
    """Let the faults happen to a new world, one after the other, and check the result."""
    top.mkdir()
    # A node knows the servers by its own network alone.
    alone = {"cluster": {"no_advertise": True}}
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(top / "servers", count=3, extra=alone))
        servers.start()
        cluster = MatrixCluster(servers, top, run, stack)
        for fault in faults:
            cluster.strike(fault)
        cluster.stop()
    records, books = documents(cluster.folders[0]), read_books(cluster.books)
    assert len(cluster.acknowledged) >= 32 * len(faults)
    assert {entry.effect for entry in books} == {ONCE, "host/echo@1"}
    assert problems_of(records, books, cluster.acknowledged, once=ONCE) == []
    ends = [[report[name] for name in ENDS] for report in map(replayed, cluster.folders)]
    assert ends == ends[:1] * 3, "the same head and the same root on each node"
    assert ends[0][0] == len(records)


def test_a_world_survives_faults_of_its_processes(tmp_path: Path, run: Run) -> None:  # CL-183
    """The fault that finds most, and another one each day."""
    worst = Fault(OWNER_AND_LEADER, None, LOAD)
    others = [fault for target in TARGETS for fault in faults_of(target) if fault != worst]
    survives(tmp_path / "w", run, [worst, others[run_seed() % len(others)]])


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="the long form has all faults: five minutes")
@pytest.mark.parametrize("target", TARGETS)
def test_a_world_survives_each_fault_at_each_moment(  # CL-183
    target: str, tmp_path: Path, run: Run
) -> None:
    survives(tmp_path / "w", run, faults_of(target))


EVENT = {"kind": "event", "submission_id": "e"}
STEP = {
    "kind": "step",
    "intents": [
        {"intent": "k1", "effect": "host/echo@1", "params": {"word": "x"}},
        {"intent": "k2", "effect": ONCE, "params": {"word": "y"}},
    ],
}
RECEIPTS = [{"kind": "receipt", "intent": key, "status": "ok"} for key in ("k1", "k2")]
GIVEN_UP = {"kind": "kernel_receipt", "intent": "k1", "status": "error"}
X, Y = BookLine("host/echo@1", "x", "k1"), BookLine(ONCE, "y", "k2")
X3 = X._replace(key="k3")


@pytest.mark.parametrize(
    ("records", "books", "problem"),
    [
        ([STEP, *RECEIPTS], [X, Y], "e was acknowledged and is lost"),
        ([EVENT, EVENT, STEP, *RECEIPTS], [X, Y], "e was admitted 2 times"),
        ([EVENT, STEP, *RECEIPTS, RECEIPTS[0]], [X, Y], "k1 settled 2 times"),
        ([EVENT, STEP, RECEIPTS[0]], [X, Y], "k2 is not settled"),
        ([EVENT, STEP, *RECEIPTS], [X, Y, X, Y], "y may run once, and ran again"),
        ([EVENT, STEP, GIVEN_UP, RECEIPTS[1]], [X, Y], "k1 may run again, and was given up"),
        ([EVENT, STEP, *RECEIPTS], [Y], "k1 succeeded, and did not run"),
        ([EVENT, STEP, *RECEIPTS], [X, Y, X3], "k3 ran, and no step asked for it"),
        ([EVENT, STEP, *RECEIPTS], [X, Y, X3], "host/echo@1 of x has 2 keys"),
        (
            [EVENT, STEP, *RECEIPTS], [X, Y, X._replace(word="z")],
            "k1 ran for z, and was asked for another one",
        ),
    ],
)  # fmt: skip
def test_the_checker_finds_each_broken_promise(  # CL-184
    records: list[dict[str, object]], books: list[BookLine], problem: str
) -> None:
    assert problems_of([EVENT, STEP, *RECEIPTS], [X, Y, X], ["e"], once=ONCE) == []

    assert problem in problems_of(records, books, ["e"], once=ONCE)
