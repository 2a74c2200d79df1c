"""The ten invariants of `spec/linear.md`, read from the states of instances and from what was sent.

``Watch.check`` is called after every event, with the state of one instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PLAN = ("step_type", "max_attempts", "backoff", "lease")
ACTIVE = {"READY", "RUNNING", "WAITING"}
LEASED = ("locked_by", "locked_until", "claim")

State = dict[str, Any]


@dataclass
class Watch:
    """The history of one instance.

    Attributes:
        kept: For each row, the claims that a ``Completed`` or ``Waiting`` has ended.
        accepted: The rows and epochs whose claim a result has ended.
    """

    first: State
    before: State = field(init=False)
    kept: list[int] = field(init=False)
    accepted: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.before = self.first
        self.kept = [0] * len(self.first["steps"])

    def accept(self, seq: int, arm: str) -> None:
        """A result was accepted that was not sent before."""
        claim = seq, self.before["steps"][seq]["epoch"]
        assert claim not in self.accepted, "one accepted result a claim"
        self.accepted.add(claim)
        self.kept[seq] += arm in ("Completed", "Waiting")

    def check(self, now: State) -> None:
        rows, current = now["steps"], now["current_step_seq"]
        statuses = [row["status"] for row in rows]
        if now["status"] == "RUNNING":
            active = [seq for seq, status in enumerate(statuses) if status in ACTIVE]
            assert active == [current], "one row is active: the current one"
            assert now["current_step_type"] == rows[current]["step_type"]
        assert set(statuses[:current]) <= {"DONE"}, "before the current row all are DONE"
        assert set(statuses[current + 1 :]) <= {"PENDING"}, "after it all are PENDING"
        for seq, row in enumerate(rows):
            is_leased = [row[column] is not None for column in LEASED]
            assert is_leased == [row["status"] == "RUNNING"] * 3, "a lease, only while RUNNING"
            waits = row["waiting_event_type"] is not None
            assert waits is (row["status"] == "WAITING"), "a wait, only while WAITING"
            assert waits or row["deadline_at"] is None, "a deadline, only while WAITING"
            assert row["attempts"] >= self.before["steps"][seq]["attempts"], "attempts fell"
            ended = row["epoch"] - (row["status"] == "RUNNING")
            assert row["attempts"] == ended - self.kept[seq], "attempts count the failures"
        assert (now["status"] == "COMPLETED") is (set(statuses) == {"DONE"})
        assert (now["status"] == "FAILED") is (statuses.count("DEAD") == 1)
        assert "DEAD" not in statuses or now["status"] == "FAILED"
        assert _plan(now) == _plan(self.first), "the plan changed"
        assert self.before["status"] == "RUNNING" or now == self.before, "the end is for ever"
        self.before = now


def _plan(state: State) -> list[list[Any]]:
    return [[row[column] for column in PLAN] for row in state["steps"]]


def check_outbound(found: list[str], accepted: list[str]) -> None:
    """Each outbound event exists if its result was accepted, once, and no other exists."""
    assert found == accepted, "an outbound event exists if and only if its result was accepted"
