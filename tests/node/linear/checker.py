"""Check instances by the exported journal and the workers' own books, without code of the node.

It has its own copy of the rules: a result counts only from the worker that has the lease then, each
claim ends once, a business key has one running instance, and every instance ends.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from aos.values.spelling import time_ns

Place = tuple[str, int, int]
"""Instance, number of the plan step, epoch."""


@dataclass
class Lease:
    """A claim: when it began, and how and when it ended."""

    worker: str
    began_ns: int
    ends: list[str] = field(default_factory=list)
    ended_ns: int = 0


@dataclass(frozen=True)
class Line:
    """A line of a book."""

    word: str
    place: Place
    at_ns: int

    @classmethod
    def read(cls, line: str) -> Line:
        word, instance, seq, epoch, _, at_ns = line.split()
        return cls(word, (instance, int(seq), int(epoch)), int(at_ns))


def check(exported: Iterable[str], book: Sequence[Line], instances: int) -> dict[str, int]:
    """Return how many leases ended in each way."""
    records = {each["seq"]: each for each in map(json.loads, exported)}
    leases: dict[Place, Lease] = {}
    states: dict[str, dict[str, Any]] = {}
    running: dict[str, str] = {}
    for record in records.values():
        if record["kind"] != "step" or record["cell"]["workflow"] != "aos/linear@1":
            continue
        instance, after = record["cell"]["key"], record["state"]
        before = states.get(instance)
        cause = records[record["entry"][0]]
        if before is not None:
            _check_step((before, after), cause, record, leases)
        if after["biz_key"] is not None:
            _check_key(after, running)
        states[instance] = after
    assert len(states) == instances
    assert {each["status"]["$tag"] for each in states.values()} <= {
        "COMPLETED", "FAILED", "CANCELED",
    }, "every instance has ended"  # fmt: skip
    assert all(len(each.ends) == 1 for each in leases.values()), "each claim ended once"
    _check_book(book, leases)
    counts: defaultdict[str, int] = defaultdict(int)
    for each in leases.values():
        counts[each.ends[0]] += 1
    return dict(counts)


def _check_step(
    states: tuple[dict[str, Any], dict[str, Any]],
    cause: dict[str, Any],
    step: dict[str, Any],
    leases: dict[Place, Lease],
) -> None:
    before, after = states
    instance, seq = before["instance"], before["current_step_seq"]
    old, new = before["steps"][seq], after["steps"][seq]
    answer, now_ns = step["annotations"], cause["at_ns"]
    if answer["$tag"] == "Refused":
        expired = new["last_error"] == "LEASE_EXPIRED" and new["attempts"] == old["attempts"] + 1
        assert expired or _table(before) == _table(after), "a refusal changes nothing"
    if old["status"]["$tag"] != "RUNNING":
        assert new["attempts"] == old["attempts"]
    lease = leases.get((instance, seq, old["epoch"]))
    if old["status"]["$tag"] == "RUNNING" and new["attempts"] == old["attempts"] + 1:
        assert lease is not None
        if new["last_error"] == "LEASE_EXPIRED":
            assert _ns(old["locked_until"]) < now_ns, "a lease lasts until its end"
            lease.ends.append("expired")
            lease.ended_ns = now_ns
    accepted = after["last_result"] != before["last_result"]
    if accepted:
        value = cause["value"]
        assert cause["schema"] == "aos/LinearResult@1"
        assert lease is not None
        assert old["status"]["$tag"] == "RUNNING"
        assert (value["worker"], value["epoch"]) == (old["locked_by"], old["epoch"])
        assert value["seq"] == seq
        assert now_ns <= _ns(old["locked_until"]), "no result after the end of its lease"
        lease.ends.append("result")
        lease.ended_ns = now_ns
    if after["status"]["$tag"] == "CANCELED" != before["status"]["$tag"]:
        assert cause["schema"] == "aos/LinearCancel@1"
        if old["status"]["$tag"] == "RUNNING":
            assert lease is not None
            lease.ends.append("canceled")
            lease.ended_ns = now_ns
    if answer["$tag"] == "Claimed":
        place = (instance, answer["$value"]["seq"], answer["$value"]["epoch"])
        row = after["steps"][place[1]]
        found = leases.setdefault(place, Lease(row["locked_by"], now_ns))
        assert found.worker == cause["value"]["worker"] == row["locked_by"]


def _ns(shown: str) -> int:
    """A time of a state, which documents show as text (V-51)."""
    at_ns = time_ns(shown)
    assert at_ns is not None, shown
    return at_ns


def _table(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in ("timer", "timer_at")}


def _check_key(state: dict[str, Any], running: dict[str, str]) -> None:
    key, instance = state["biz_key"], state["instance"]
    if state["status"]["$tag"] == "RUNNING":
        assert running.setdefault(key, instance) == instance, "one running instance of a key"
    elif running.get(key) == instance:
        del running[key]


def _check_book(book: Sequence[Line], leases: dict[Place, Lease]) -> None:
    begun: set[Place] = set()
    rows: defaultdict[tuple[str, int], list[tuple[int, Lease]]] = defaultdict(list)
    for (instance, seq, epoch), lease in leases.items():
        rows[instance, seq].append((epoch, lease))
    for row in rows.values():
        row.sort(key=lambda each: each[0])
        assert [epoch for epoch, _ in row] == list(range(1, len(row) + 1))
        for (_, first), (_, second) in pairwise(row):
            assert first.ended_ns <= second.began_ns, "one lease of a row at a time"
    for line in book:
        if line.word != "began":
            continue
        assert line.place in leases, "no handler without a claim"
        assert line.place not in begun, "a claim runs its handler once"
        begun.add(line.place)
        instance, seq, epoch = line.place
        later = [each for number, each in rows[instance, seq] if number > epoch]
        assert all(line.at_ns < each.began_ns for each in later), "not under another's lease"
    results = {place for place, lease in leases.items() if lease.ends == ["result"]}
    assert results <= begun, "every result is of a run"
