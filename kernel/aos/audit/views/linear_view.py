"""Linear instances and plans as documents (spec/linear.md, L-50 to L-53)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from aos.audit.lens.lens import shown
from aos.audit.lens.ports import Journal
from aos.audit.lens.words import time_text
from aos.audit.views.record_view import Document
from aos.audit.views.view import View, check_word
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Step, slot_bytes
from aos.core.state.cell import Cell
from aos.errors import Refused
from aos.linear.rows import LinearState, current_row, status_of
from aos.linear.starting import must_have_linear
from aos.manifest.linear_names import LINEAR
from aos.manifest.plans import plan_node
from aos.values.cbor import decode_record, encode

STATUSES: Final = ("RUNNING", "COMPLETED", "FAILED", "CANCELED")
SCANNED_MAX: Final = 4_096
"""Records that are read after an event for the step that answers it."""

_TIMES: Final = ("created_at", "completed_at", "failed_at", "canceled_at")
_ROW_TIMES: Final = ("next_run_at", "locked_until", "deadline_at")


_WORDS: Final = {
    "LEASE_LOST": "{}",
    "STALE_EPOCH": "{}",
    "NOT_RUNNING": "{}",
    "NOT_DUE": "{}",
    "CANCELED": "{}",
    "EXISTS": "there is an instance {} already",
    "TAKEN": "the running instance {} has this business key",
    "BUFFER_FULL": "{}: the signal is not kept (send it again later)",
    "NOT_WAITING": "{}",
    "INVALID": "{}",
}


class LinearAnswer(NamedTuple):
    """The answer of an instance or of a business key, ``aos/LinearAnswer@1``: the annotation of
    the step ``seq``, which the event ``root`` caused. ``reason`` is empty if it is no refusal."""

    tag: str
    reason: str
    detail: str
    seq: int
    root: int

    @property
    def words(self) -> str:
        """A refusal as a sentence without its end."""
        return f"{self.reason}: {_WORDS[self.reason].format(self.detail)}"

    @classmethod
    def of(cls, step: Step, store: Journal) -> LinearAnswer | None:
        """The answer in a step; None if it has no annotation."""
        if step.ann is None:
            return None
        found: Any = decode_record(slot_bytes(step.ann, store.blob))
        value = found.get("$value", {})
        if found["$tag"] != "Refused":
            return cls(found["$tag"], "", "", step.seq, step.root)
        reason = value["reason"]["$tag"]
        return cls(found["$tag"], reason, value["detail"], step.seq, step.root)


def answer_in_journal(store: Journal, seq: int, cell: CellId, last: int) -> LinearAnswer | None:
    """The answer of ``cell`` in what the event ``seq`` caused, up to record ``last``; None if there
    is none yet."""
    for frame in store.frames(seq, min(last, seq + SCANNED_MAX)):
        for data in frame.records:
            if cell[0].encode() not in data:
                continue
            record = from_bytes(data)
            if isinstance(record, Step) and record.cell == cell and record.root == seq:
                return LinearAnswer.of(record, store)
    return None


def plans(view: View) -> Document:
    """The plans of the manifest in force, as the manifest has them."""
    manifest = view.state.manifest
    must_have_linear({} if manifest is None else manifest.workflows)
    assert manifest is not None
    return {"plans": [plan_node(each) for each in manifest.plans]}


def instances(
    view: View,
    *,
    status: str | None = None,
    plan: str | None = None,
    step: str | None = None,
    limit: int,
    offset: int = 0,
) -> Document:
    """A page of instances, by id: those of a status, of a plan, with this current plan step.

    Raises:
        BadUsage: There is no such status.
        Refused: The manifest in force has no linear workflows.
    """
    check_word("status", status, STATUSES)
    must_have_linear(_workflows(view))
    rows, total = [], 0
    for state in sorted(_states(view), key=lambda each: str(each["instance"])):
        row = _row(state)
        if (
            status in (None, row["status"])
            and plan in (None, row["plan"])
            and step in (None, row["step"])
        ):
            total += 1
            if offset < total <= offset + limit:
                rows.append(row)
    return {"instances": rows, "total": total}


def instance(view: View, id: str) -> Document:
    """An instance with all rows of its plan, its context, and what is next.

    Raises:
        Refused: There is no such instance.
    """
    must_have_linear(_workflows(view))
    state = linear_state(view, id)
    if state is None:
        raise Refused(f"there is no linear instance {id!r} (aos linear list)")
    return document_of(state)


def document_of(state: LinearState) -> Document:
    """The document of an instance."""
    document: Document = {
        **_row(state),
        "mode": state["mode"]["$tag"],
        "schedule": state["schedule"],
        "cancel_reason": state["cancel_reason"],
        **{name: _time(state[name]) for name in _TIMES},
        "context": {key: shown(None, data) for key, data in state["context"].items()},
        "steps": [_step(seq, row) for seq, row in enumerate(state["steps"])],
        "buffered": [_signal(each) for each in state["buffered"]],
    }
    return document


def linear_state(view: View, id: str) -> LinearState | None:
    """The state of an instance; None if there is none."""
    cell = view.state.cells.get((LINEAR, encode(id)))
    return None if cell is None else _state(view, cell)


def _workflows(view: View) -> dict[str, object]:
    manifest = view.state.manifest
    return {} if manifest is None else dict(manifest.workflows)


def _states(view: View) -> Iterator[LinearState]:
    for cell in view.state.cells.of(LINEAR):
        state = _state(view, cell)
        if state is not None:
            yield state


def _state(view: View, cell: Cell) -> LinearState | None:
    if cell.state is None:
        return None
    value: Any = decode_record(slot_bytes(cell.state, view.journal.blob))
    return value if isinstance(value, dict) and value.get("steps") else None


def _row(state: LinearState) -> Document:
    row = current_row(state)
    return {
        "instance": state["instance"],
        "plan": state["type"],
        "version": state["version"],
        "biz_key": state["biz_key"],
        "status": status_of(state),
        "step_seq": state["current_step_seq"],
        "step": state["current_step_type"],
        "step_status": row["status"]["$tag"],
        "attempts": row["attempts"],
        "max_attempts": row["max_attempts"],
        "last_error": row["last_error"],
        "next": _next(state, row),
    }


def _next(state: LinearState, row: Any) -> str:
    """What happens next, as a sentence without its end."""
    if status_of(state) != "RUNNING":
        return "nothing: it has ended"
    match row["status"]["$tag"]:
        case "READY":
            return f"a worker can claim it from {_time(row['next_run_at'])} on"
        case "RUNNING":
            return f"{row['locked_by']} has it until {_time(row['locked_until'])}"
    waits = f"it waits for a signal {row['waiting_event_type']}"
    if row["deadline_at"] is None:
        return waits
    how = "and is claimed after" if state["wait_timeouts"] else "also after"
    return f"{waits}, {how} {_time(row['deadline_at'])}"


def _step(seq: int, row: Any) -> Document:
    woken = row["woken_by"]
    return {
        "seq": seq,
        "step": row["step_type"],
        "status": row["status"]["$tag"],
        "task": row["task"]["$tag"],
        "attempts": row["attempts"],
        "max_attempts": row["max_attempts"],
        "backoff_ms": row["backoff"] // 10**6,
        "lease_ms": row["lease"] // 10**6,
        "epoch": row["epoch"],
        "locked_by": row["locked_by"],
        "waiting_event_type": row["waiting_event_type"],
        "last_error": row["last_error"],
        **{name: _time(row[name]) for name in _ROW_TIMES},
        "woken_by": None if woken is None else _signal(woken),
    }


def _signal(woken: Any) -> Document:
    return {
        "event_id": woken["event_id"],
        "type": woken["type"],
        "payload": shown(None, woken["payload"]),
    }


def _time(ns: int | None) -> str | None:
    return None if ns is None else time_text(ns)
