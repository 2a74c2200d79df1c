"""The state of an instance, as claims and lists read it (L-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.values.cbor import Value, decode_record

RUNNING: Final = "RUNNING"
READY: Final = "READY"
WAITING: Final = "WAITING"

JUST_AFTER_NS: Final = 1
"""A lease is over when its end lies before now."""

LinearState = Mapping[str, Any]
"""A value of ``aos/LinearInstance@1`` in normal form."""


@dataclass(frozen=True, slots=True, order=True)
class Claimable:
    """The current plan step of an instance that can be claimed from ``due_ns`` on.

    Ordered as workers get them: those that are ready before waits that have timed out, then by
    time, then by instance.
    """

    rank: int
    due_ns: int
    instance: str
    plan: str
    step: str


def claimable(state: LinearState) -> Claimable | None:
    """The plan step of an instance that can be claimed, now or later; None if none can be until an
    event comes."""
    if status_of(state) != RUNNING:
        return None
    row = current_row(state)
    rank, due_ns = 0, None
    match row["status"]["$tag"]:
        case "READY":
            due_ns = row["next_run_at"]
        case "RUNNING":
            due_ns = row["locked_until"] + JUST_AFTER_NS
        case "WAITING":
            rank = 1
            due_ns = row["deadline_at"] if state["wait_timeouts"] else None
    if due_ns is None:
        return None
    return Claimable(rank, due_ns, state["instance"], state["type"], row["step_type"])


def status_of(state: LinearState) -> str:
    """``RUNNING``, ``COMPLETED``, ``FAILED`` or ``CANCELED``."""
    status: str = state["status"]["$tag"]
    return status


def current_row(state: LinearState) -> Mapping[str, Any]:
    """The row of the current plan step."""
    row: Mapping[str, Any] = state["steps"][state["current_step_seq"]]
    return row


def context_of_state(state: LinearState) -> dict[str, Value]:
    """The context, its values decoded."""
    return {key: decode_record(data) for key, data in state["context"].items()}


def step_document(state: LinearState) -> dict[str, Any]:
    """The plan step that was claimed, as its handler gets it (L-33)."""
    row = current_row(state)
    woken = row["woken_by"]
    return {
        "instance": state["instance"],
        "biz_key": state["biz_key"],
        "plan": state["type"],
        "version": state["version"],
        "step": row["step_type"],
        "step_seq": state["current_step_seq"],
        "task_type": row["task"]["$tag"],
        "attempt": row["attempts"] + 1,
        "max_attempts": row["max_attempts"],
        "epoch": row["epoch"],
        "lease_until_ns": row["locked_until"],
        "context": context_of_state(state),
        "woken_by": None
        if woken is None
        else {
            "event_id": woken["event_id"],
            "type": woken["type"],
            "payload": decode_record(woken["payload"]),
        },
    }
