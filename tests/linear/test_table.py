"""The table of transitions a second time, as data: for each row status, event and guard the
transition or the reason of the refusal, in both modes.

Times are ns from the moment that a situation returns: `locked_until` of a row that is `RUNNING`,
`next_run_at` of one that is `READY`, `deadline_at` of one that is `WAITING`. Timers never fire
here: a lease that is over ends at the next claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from tests.linear.stage import (
    LEASE,
    MODES,
    NULL,
    OUTCOMES,
    SECOND,
    Stage,
    completed,
    dead,
    plan_step,
    retry,
    waiting,
)

ATTEMPTS: Final = 3

# Situations: each makes the current row have a status, and returns the moment that matters.


Situation = Callable[[Stage], int]
Event = Callable[[Stage], str]


def ready(stage: Stage) -> int:
    """After a retry: due in a second."""
    stage.begin(plan_step(max_attempts=ATTEMPTS), plan_step("NOTIFY"))
    stage.claim()
    stage.result(retry(backoff=SECOND))
    return stage.now + SECOND


def running(stage: Stage, *, failures: int = 0) -> int:
    stage.begin(plan_step(max_attempts=ATTEMPTS), plan_step("NOTIFY"))
    for _ in range(failures):
        stage.claim()
        stage.result(retry(backoff=0))
    stage.claim(claim="held")
    return stage.now + LEASE


def running_last_attempt(stage: Stage) -> int:
    return running(stage, failures=ATTEMPTS - 1)


def running_last_row(stage: Stage) -> int:
    stage.begin(plan_step(max_attempts=ATTEMPTS))
    stage.claim(claim="held")
    return stage.now + LEASE


def running_second_row(stage: Stage) -> int:
    stage.begin(plan_step(), plan_step("NOTIFY"))
    stage.claim()
    stage.result(completed())
    stage.claim(claim="held")
    return stage.now + LEASE


def running_timeout(stage: Stage) -> int:
    stage.begin(plan_step(max_attempts=ATTEMPTS), plan_step("NOTIFY"))
    stage.claim()
    stage.result(waiting(timeout=0))
    stage.claim(claim="held")
    assert stage.row()["task"] == "WAITING_TIMEOUT"
    return stage.now + LEASE


def wait(stage: Stage, *, timeout: int | None = SECOND, wait_timeouts: bool = True) -> int:
    stage.begin(plan_step(), plan_step("NOTIFY"), wait_timeouts=wait_timeouts)
    stage.claim()
    stage.result(waiting(timeout=timeout))
    return stage.now + (timeout or 0)


def wait_without_deadline(stage: Stage) -> int:
    return wait(stage, timeout=None)


def wait_without_timeouts(stage: Stage) -> int:
    return wait(stage, wait_timeouts=False)


def done(stage: Stage) -> int:
    stage.begin(plan_step())
    stage.claim(claim="held")
    stage.result(completed(), epoch=1)
    return stage.now


def dead_row(stage: Stage) -> int:
    stage.begin(plan_step(), plan_step("NOTIFY"))
    stage.claim(claim="held")
    stage.result(dead("first"))
    return stage.now


def canceled(stage: Stage) -> int:
    """The row keeps its status: it was RUNNING."""
    moment = running(stage)
    stage.cancel()
    return moment


# Events. A claim asks under a new id, unless it says `again`.


def claim(stage: Stage) -> str:
    return stage.claim()


def claim_again(stage: Stage) -> str:
    return stage.claim(claim="held")


def claim_of_another_worker(stage: Stage) -> str:
    return stage.claim("w-2", claim="held")


def extend(**place: Any) -> Event:
    def event(stage: Stage) -> str:
        return stage.extend(**place)

    return event


def result(arm: str, **place: Any) -> Event:
    def event(stage: Stage) -> str:
        return stage.result(OUTCOMES[arm], **place)

    return event


def past_epoch(arm: str) -> Event:
    def event(stage: Stage) -> str:
        return stage.result(OUTCOMES[arm], epoch=stage.row()["epoch"] - 1)

    return event


def future_epoch(arm: str) -> Event:
    def event(stage: Stage) -> str:
        return stage.result(OUTCOMES[arm], epoch=stage.row()["epoch"] + 1)

    return event


def signal(type: str = "PAID") -> Event:
    def event(stage: Stage) -> str:
        return stage.signal(type)

    return event


def cancel(stage: Stage) -> str:
    return stage.cancel()


# The transitions: what each writes into its row. `NOW` is the time of the event.

NOW: Final = "now"
FREE: Final[Mapping[str, Any]] = {"locked_by": None, "locked_until": None, "claim": None}
NO_WAIT: Final[Mapping[str, Any]] = {"waiting_event_type": None, "deadline_at": None}
CLAIMED: Final[Mapping[str, Any]] = {"status": "RUNNING", "locked_until": (NOW, LEASE), "epoch": 1}

WRITES: Final[Mapping[str, Mapping[str, Any]]] = {
    "T2": {
        "status": "READY", "attempts": 1, "next_run_at": (NOW, 0), "last_error": "LEASE_EXPIRED",
        **FREE,
    },
    "T2 dead": {"status": "DEAD", "attempts": 1, "last_error": "LEASE_EXPIRED", **FREE},
    "T2 T3": {**CLAIMED, "attempts": 1, "next_run_at": (NOW, 0), "last_error": "LEASE_EXPIRED"},
    "T3": CLAIMED,
    "T4": {**CLAIMED, "task": "WAITING_TIMEOUT", **NO_WAIT},
    "T5": {"status": "DONE", "last_error": None, "task": "READY_STEP", "woken_by": None, **FREE},
    "T6": {
        "status": "WAITING", "waiting_event_type": "PAID", "deadline_at": None, "next_run_at": None,
        "last_error": None, "task": "READY_STEP", "woken_by": None, **FREE,
    },
    "T7": {
        "status": "READY", "attempts": 1, "next_run_at": (NOW, SECOND), "last_error": "no answer",
        **FREE,
    },
    "T8": {"status": "DEAD", "attempts": 1, "last_error": "no answer", **FREE},
    "T9": {"status": "DEAD", "attempts": 1, "last_error": "no such order", **FREE},
    "T10": {"status": "READY", "next_run_at": (NOW, 0), **NO_WAIT},
    "lease": {"locked_until": (NOW, LEASE)},
}  # fmt: skip
COUNTED: Final = ("attempts", "epoch")
"""Columns that a transition adds to."""

ENDS: Final = {
    "canceled": "CANCELED",
    "T5 end": "COMPLETED",
    "T2 dead": "FAILED",
    "T8": "FAILED",
    "T9": "FAILED",
}

REASONS: Final = ("NOT_DUE", "LEASE_LOST", "STALE_EPOCH", "NOT_RUNNING", "CANCELED", "NOT_WAITING")

Cell = str | tuple[str, str]
"""A transition, a reason, or the answer to an event that changes nothing. Two of them are for the
modes ``standard`` and ``source``."""
Cells = list[tuple[str, Event, Cell]]

EVERY_RESULT: Final = ("Completed", "Waiting", "Retry", "Dead")


def every(event: Callable[..., Event], cell: Cell, **place: Any) -> Cells:
    """The same cell for each of the four results."""
    return [
        (f"{event.__name__} {arm} {place or ''}".strip(), event(arm, **place), cell)
        for arm in EVERY_RESULT
    ]


BUFFERED: Final = ("buffered PAID", "NOT_WAITING")  # ruling d
BUFFERED_OTHER: Final = ("buffered SENT", "NOT_WAITING")

HELD: Final[Cells] = [
    ("claim", claim, "NOT_DUE"), ("claim again", claim_again, "Claimed"),
    ("the same claim of another worker", claim_of_another_worker, "NOT_DUE"),
    ("extend", extend(), "lease"),
    ("extend of another", extend(worker="w-2"), "LEASE_LOST"),
    ("extend past", extend(epoch=0), ("STALE_EPOCH", "lease")),  # ruling a
    ("extend future", extend(epoch=2), ("STALE_EPOCH", "lease")),
    ("extend next", extend(seq=1), "STALE_EPOCH"),
    ("Completed", result("Completed"), "T5"), ("Waiting", result("Waiting"), "T6"),
    ("Retry", result("Retry"), "T7"), ("Dead", result("Dead"), "T9"),
    *every(result, "LEASE_LOST", worker="w-2"), *every(result, "STALE_EPOCH", seq=1),
    *every(result, "STALE_EPOCH", seq=2),
    ("past Completed", past_epoch("Completed"), ("STALE_EPOCH", "T5")),  # ruling a
    ("future Waiting", future_epoch("Waiting"), ("STALE_EPOCH", "T6")),
    ("future Retry", future_epoch("Retry"), ("STALE_EPOCH", "T7")),
    ("past Dead", past_epoch("Dead"), ("STALE_EPOCH", "T9")),
    ("signal", signal(), BUFFERED), ("other signal", signal("SENT"), BUFFERED_OTHER),
    ("cancel", cancel, "canceled"),
]  # fmt: skip
"""A row that is RUNNING, with a lease that is not over: G."""

TABLE: Final[list[tuple[Situation, int, Cells]]] = [
    # READY: only a claim that is due changes it.
    (
        ready, -1,
        [
            ("claim", claim, "NOT_DUE"), ("claim again", claim_again, "NOT_DUE"),
            ("extend", extend(), "LEASE_LOST"), *every(result, "LEASE_LOST"),
            *every(past_epoch, ("STALE_EPOCH", "LEASE_LOST")), *every(result, "STALE_EPOCH", seq=1),
            ("signal", signal(), BUFFERED), ("cancel", cancel, "canceled"),
        ],
    ),
    (ready, 0, [("claim", claim, "T3")]),
    (ready, 1, [("claim", claim, "T3")]),
    (running, -1, HELD),
    (running, 0, HELD),
    # RUNNING, with a lease that is over: T2, at the next claim.
    (
        running, 1,
        [
            ("claim", claim, "T2 T3"), ("claim again", claim_again, "T2 T3"),
            ("claim of another", claim_of_another_worker, "T2 T3"),
            ("extend", extend(), "LEASE_LOST"), *every(result, "LEASE_LOST"),
            *every(result, "LEASE_LOST", worker="w-2"),
            *every(past_epoch, ("STALE_EPOCH", "LEASE_LOST")),
            *every(future_epoch, ("STALE_EPOCH", "LEASE_LOST")),
            *every(result, "STALE_EPOCH", seq=1),
            ("signal", signal(), BUFFERED), ("cancel", cancel, "canceled"),
        ],
    ),
    (running_last_row, 0, [("Completed", result("Completed"), "T5 end")]),
    (
        running_second_row, 0,
        [
            *every(result, "STALE_EPOCH", seq=0, epoch=2), ("extend", extend(seq=0), "STALE_EPOCH"),
            ("Completed", result("Completed"), "T5 end"), ("Dead", result("Dead"), "T9"),
        ],
    ),
    (
        running_last_attempt, 0,
        [
            ("Completed", result("Completed"), "T5"), ("Waiting", result("Waiting"), "T6"),
            ("Retry", result("Retry"), "T8"), ("Dead", result("Dead"), "T9"),
        ],
    ),
    (running_last_attempt, 1, [("claim", claim, ("T2 dead", "T2 T3"))]),  # ruling b
    (
        running_timeout, 0,
        [
            ("Completed", result("Completed"), "T5"), ("Waiting", result("Waiting"), "T6"),
            ("Retry", result("Retry"), ("T7", "T7 task")), ("Dead", result("Dead"), "T9"),
        ],
    ),
    (running_timeout, 1, [("claim", claim, ("T2 T3", "T2 T3 task"))]),  # ruling c
    # WAITING: a signal of its type, or a claim after its deadline.
    (
        wait, -1,
        [
            ("claim", claim, "NOT_DUE"), ("extend", extend(), "LEASE_LOST"),
            *every(result, "LEASE_LOST", epoch=1), *every(result, "STALE_EPOCH", seq=1),
            *every(past_epoch, ("STALE_EPOCH", "LEASE_LOST")),
            ("signal", signal(), "T10"), ("other signal", signal("SENT"), BUFFERED_OTHER),
            ("cancel", cancel, "canceled"),
        ],
    ),
    (wait, 0, [("claim", claim, "T4"), ("signal", signal(), "T10")]),
    (wait, 1, [("claim", claim, "T4"), ("signal", signal(), "T10")]),
    (
        wait_without_deadline, 10**18,
        [("claim", claim, "NOT_DUE"), ("signal", signal(), "T10")],
    ),
    (wait_without_timeouts, 1, [("claim", claim, "NOT_DUE"), ("signal", signal(), "T10")]),
    # The end is for ever.
    *(
        (
            situation, moment,
            [
                ("claim", claim, reason), ("claim again", claim_again, reason),
                ("extend", extend(), reason),
                *every(past_epoch, reason), *every(future_epoch, reason),
                *every(result, reason, worker="w-2"), *every(result, reason, seq=1),
                ("signal", signal(), reason), ("cancel", cancel, answer),
            ],
        )
        for situation, reason, answer in (
            (done, "NOT_RUNNING", "NOT_RUNNING"),
            (dead_row, "NOT_RUNNING", "NOT_RUNNING"),
            (canceled, "CANCELED", "Done"),
        )
        for moment in (0, 1)
    ),
]  # fmt: skip

CELLS: Final = [
    pytest.param(
        mode,
        situation,
        moment,
        event,
        cell if isinstance(cell, str) else cell[MODES.index(mode)],
        id=f"{mode} {situation.__name__} {moment:+} {name}",
    )
    for mode in MODES
    for situation, moment, events in TABLE
    for name, event, cell in events
]


@pytest.mark.parametrize(("mode", "situation", "moment", "event", "cell"), CELLS)
def test_a_cell_of_the_table(
    mode: str, situation: Situation, moment: int, event: Event, cell: str
) -> None:
    stage = Stage(mode, timers=False)
    stage.advance_to(situation(stage) + moment)
    before = stage.state()

    answer = event(stage)

    expected, found = _expected(before, cell, now=stage.now, mode=mode), stage.state()
    if answer != _claimed(before, 0) and answer.startswith("Claimed"):
        row = found["steps"][before["current_step_seq"]]
        assert row["locked_by"] in ("w-1", "w-2")
        expected["steps"][before["current_step_seq"]] |= {
            "locked_by": row["locked_by"],
            "claim": row["claim"],
        }
    accepts = cell.startswith(("T5", "T6", "T7", "T8", "T9"))
    assert (found.pop("last_result") != expected.pop("last_result")) is accepts
    assert found == expected
    assert answer == _answer(before, cell)
    stage.world.close()


def _answer(before: dict[str, Any], cell: str) -> str:
    if cell == "T2 dead":
        return "NOT_RUNNING"
    if cell.startswith(("T2 T3", "T3", "T4")):
        return _claimed(before, 1)
    if cell == "Claimed":
        return _claimed(before, 0)
    return cell if cell in REASONS else "Done"


def _claimed(before: dict[str, Any], more: int) -> str:
    seq = before["current_step_seq"]
    return f"Claimed {seq} {before['steps'][seq]['epoch'] + more}"


def _expected(before: dict[str, Any], cell: str, *, now: int, mode: str) -> dict[str, Any]:
    """The state after a cell of the table."""
    rows = [dict(row) for row in before["steps"]]
    state = {**before, "steps": rows}
    current = before["current_step_seq"]
    row = rows[current]
    for column, value in WRITES.get(cell.removesuffix(" end").removesuffix(" task"), {}).items():
        written = now + value[1] if isinstance(value, tuple) else value
        row[column] = row[column] + written if column in COUNTED else written
    if cell.endswith("task"):
        row["task"] = "READY_STEP"
    if cell == "T5":
        state |= {"current_step_seq": current + 1, "current_step_type": "NOTIFY"}
        rows[current + 1] |= {"status": "READY", "next_run_at": now}
    if cell == "T10":
        state |= {"seen": ["e-1"], "seen_types": ["PAID"]}
        row["woken_by"] = _signal("PAID") if mode == "standard" else None  # ruling e
    if cell.startswith("buffered"):
        signal = _signal(cell.removeprefix("buffered "))
        state |= {"seen": ["e-1"], "seen_types": [signal["type"]], "buffered": [signal]}
    if cell in ENDS:
        state |= {"status": ENDS[cell], f"{ENDS[cell].lower()}_at": now}
    if cell == "canceled":
        state["cancel_reason"] = "no longer wanted"
    return state


def _signal(type: str) -> dict[str, Any]:
    return {"event_id": "e-1", "type": type, "payload": NULL}
