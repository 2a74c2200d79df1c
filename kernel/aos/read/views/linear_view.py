"""Linear instances and plans as documents (spec/linear.md, L-50 to L-53)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aos.core.journal.records import slot_bytes
from aos.core.state.cell import Cell
from aos.errors import Refused
from aos.linear import LinearState, current_row, status_of
from aos.manifest.names import LINEAR
from aos.manifest.plans import must_have_linear, plan_node
from aos.read.lens.words import as_json, time_text
from aos.read.views.cell_selection import subject
from aos.read.views.cell_view import Annotation
from aos.read.views.record_view import Document
from aos.read.views.view import View, check_word
from aos.read.where.attributes import Names, Subject
from aos.read.where.condition import EQUAL, NOT_EQUAL, Term, WhereToken
from aos.read.where.matching import CellQuery, Search
from aos.values.cbor import decode_record, encode

STATUSES: Final = ("RUNNING", "COMPLETED", "FAILED", "CANCELED")
LINEAR_NAMES: Final = {
    "instance": "instance",
    "plan": "type",
    "version": "version",
    "status": "status",
    "step": "current_step_type",
    "biz_key": "biz_key",
}
"""Names in conditions for columns of an instance."""

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
    "EVENT_ID_TAKEN": "a signal of type {} had this event id (give each event an id of its own)",
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
    def of(cls, annotation: Annotation) -> LinearAnswer:
        """The answer in an annotation."""
        if annotation.tag != "Refused":
            return cls(annotation.tag, "", "", annotation.seq, annotation.root)
        reason = annotation.value["reason"]["$tag"]
        return cls(
            annotation.tag, reason, annotation.value["detail"], annotation.seq, annotation.root
        )


def plans(view: View) -> Document:
    """The plans of the manifest in force, as the manifest has them."""
    manifest = view.state.manifest
    must_have_linear({} if manifest is None else manifest.workflows)
    assert manifest is not None
    return {"plans": [plan_node(plan) for plan in manifest.plans]}


def instances(
    view: View,
    *,
    status: str | None = None,
    plan: str | None = None,
    step: str | None = None,
    where: str | None = None,
    aliases: Mapping[str, Mapping[str, str]] | None = None,
    limit: int,
    offset: int = 0,
) -> Document:
    """A page of instances, by id or in the order of ``where``: those of a status, of a plan, with
    this current plan step, and that pass the condition ``where`` (spec/search.md, SE-9), in which
    ``aliases`` are, by workflow, more names of paths.

    Raises:
        BadUsage: There is no such status, or the condition is invalid.
        Refused: The manifest in force has no linear workflows.
    """
    names = linear_names(view, aliases)
    search = linear_search(names, status=status, plan=plan, step=step, where=where)
    if view.finder is not None:
        page = view.finder.page(linear_query(search), limit=limit, offset=offset)
        if page is not None:
            shown_ = [_state(view, cell) for cell in view.listed_cells(page.cells)]
            rows = [_row(state) for state in shown_ if state is not None]
            return {"instances": rows, "total": page.total}
    placed_rows = [
        (
            search.rank_of(linear_subject),
            str(linear_subject.state["instance"]),
            _row(linear_subject.state),
        )
        for linear_subject in linear_subjects(view, search)
    ]
    placed_rows.sort(key=lambda placed_row: placed_row[:2])
    rows = [row for _, _, row in placed_rows]
    return {"instances": rows[offset : offset + limit], "total": len(rows)}


def linear_names(view: View, aliases: Mapping[str, Mapping[str, str]] | None) -> Names:
    """The names that a condition on instances may have: columns of the list before ``aliases``.

    Raises:
        Refused: The manifest in force has no linear workflows.
    """
    must_have_linear(_workflows(view))
    linear_aliases = (aliases or {}).get(LINEAR, {})
    return Names(view.state.manifest, LINEAR, {**linear_aliases, **LINEAR_NAMES})


def linear_search(
    names: Names, *, status: str | None, plan: str | None, step: str | None, where: str | None
) -> Search:
    """The filters of ``instances`` as one condition. Raises BadUsage."""
    check_word("status", status, STATUSES)
    filters = [
        _term(name, EQUAL, word, "text")
        for name, word in (("status", status), ("plan", plan), ("step", step))
        if word is not None
    ]
    exists = _term("instance", NOT_EQUAL, "null", "word")
    return Search(where, names, (*filters, exists))


def linear_query(search: Search) -> CellQuery:
    """The same for an index."""
    return CellQuery(
        workflow=LINEAR, conditions=search.conditions, order=search.order,
        is_descending=search.is_descending, by_text=True,
    )  # fmt: skip


def linear_subjects(view: View, search: Search) -> Iterator[Subject]:
    """Yield the instances that pass a condition; every cell is read."""
    for cell in view.state.cells.of(LINEAR):
        view.check_time()
        candidate = subject(view, cell)
        if _is_instance(candidate.state) and search.has(candidate):
            yield candidate


def _term(name: str, operator: str, word: str, kind: str) -> Term:
    return Term(WhereToken(name, 1, "word"), operator, (WhereToken(word, 1, kind),))


def instance(view: View, id: str) -> Document:
    """An instance with all rows of its plan, its context, and its next step.

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
        "context": {key: as_json(None, data) for key, data in state["context"].items()},
        "steps": [_step(seq, row) for seq, row in enumerate(state["steps"])],
        "buffered": [_signal(signal) for signal in state["buffered"]],
    }
    return document


def linear_state(view: View, id: str) -> LinearState | None:
    """The state of an instance; None if there is none."""
    cell = view.state.cells.get((LINEAR, encode(id)))
    return None if cell is None else _state(view, cell)


def _workflows(view: View) -> dict[str, object]:
    manifest = view.state.manifest
    return {} if manifest is None else dict(manifest.workflows)


def _state(view: View, cell: Cell) -> LinearState | None:
    if cell.state is None:
        return None
    value: Any = decode_record(slot_bytes(cell.state, view.journal.blob))
    return value if _is_instance(value) else None


def _is_instance(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("steps"))


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
    """The next step and its reason, as a sentence without its end."""
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
    deadline_words = "and is claimed after" if state["wait_timeouts"] else "also after"
    return f"{waits}, {deadline_words} {_time(row['deadline_at'])}"


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
        "payload": as_json(None, woken["payload"]),
    }


def _time(ns: int | None) -> str | None:
    return None if ns is None else time_text(ns)
