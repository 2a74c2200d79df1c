"""Read ``aos/Flow@1``, the one state schema of all flows (spec/flow.md, FL-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from aos.flow.failure import Failure
from aos.flow.history import History
from aos.flow.operation import Message, read_messages
from aos.flow.shapes import (
    expect_bytes,
    expect_list,
    expect_map,
    expect_nat,
    expect_text,
    optional_bytes,
)
from aos.values.cbor import Value, decode_record
from aos.values.errors import ValueProblem

PENDING: Final = "pending"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELED: Final = "canceled"
STUCK: Final = "stuck"
FLOW_STATUSES: Final = (
    PENDING, "running", "sleeping", "rolling_back", COMPLETED, FAILED, CANCELED, STUCK,
)  # fmt: skip
OTHER_SPELLINGS: Final = {"cancelled": CANCELED}
"""Statuses that states store in another spelling, which commands accept, too."""
LIVE: Final = frozenset({"running", "sleeping", "rolling_back"})
"""The statuses of a flow in progress."""
TRIED: Final = LIVE | {STUCK}
"""The statuses of a flow that new code is tried on: a stuck one continues after ``Resume``."""
ENDED: Final = frozenset({COMPLETED, FAILED, CANCELED})
"""The statuses in which a flow reads no message any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The operation of another flow that called this one. ``schema`` is the event by which the
    result goes back; ``key`` is the caller's key, canonical CBOR."""

    schema: str
    key: bytes
    path: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowState:
    """The state of one flow. ``input``, ``output`` and ``view`` are canonical CBOR of the schemas
    that the fields with ``_schema`` name.

    ``started_ns`` is the logical time of the start; None before it. If ``ops`` cannot be read,
    ``history`` is None and ``history_problem`` gives the reason; everything else is
    there all the same.
    """

    status: str
    ops: bytes
    history: History | None
    history_problem: str | None
    input: bytes | None
    output: bytes | None
    view: bytes | None
    failure: Failure | None
    inbox: tuple[Message, ...]
    input_schema: str
    output_schema: str | None
    view_schema: str | None
    parent: Parent | None
    started_ns: int | None

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read the canonical bytes of a state. Raises ``ValueProblem`` if they are no such state,
        but not for a history that cannot be read."""
        fields = expect_map(decode_record(data), "$")
        status = _status(fields)
        schemas = expect_map(fields.get("schemas"), "$.schemas")
        error = optional_bytes(fields.get("error"), "$.error")
        ops = expect_bytes(fields.get("ops"), "$.ops")
        history, problem = _history(ops)
        return cls(
            status=status,
            ops=ops,
            history=history,
            history_problem=problem,
            input=optional_bytes(fields.get("input"), "$.input"),
            output=optional_bytes(fields.get("output"), "$.output"),
            view=optional_bytes(fields.get("view"), "$.view"),
            failure=None if error is None else Failure.read(error),
            inbox=_inbox(expect_bytes(fields.get("inbox"), "$.inbox")),
            input_schema=expect_text(schemas.get("input"), "$.schemas.input"),
            output_schema=_optional_text(schemas.get("output"), "$.schemas.output"),
            view_schema=_optional_text(schemas.get("view"), "$.schemas.view"),
            parent=_parent(fields.get("parent")),
            started_ns=expect_nat(fields.get("started_ns"), "$.started_ns") or None,
        )

    @property
    def has_ended(self) -> bool:
        """Whether the flow reads no message any more."""
        return self.status in ENDED


def read_status(data: bytes) -> str:
    """Read the status from the canonical bytes of a state, and decode no value in it. Raises
    ``ValueProblem`` if they are no such state."""
    return _status(expect_map(decode_record(data), "$"))


def _status(fields: Mapping[str | int, Value]) -> str:
    stored = expect_text(fields.get("status"), "$.status")
    status = OTHER_SPELLINGS.get(stored, stored)
    if status not in FLOW_STATUSES:
        raise ValueProblem(
            f"expected one of {', '.join(FLOW_STATUSES)}, found {status!r}", path="$.status"
        )
    return status


def _history(ops: bytes) -> tuple[History | None, str | None]:
    try:
        return History.read(ops), None
    except ValueProblem as problem:
        return None, str(problem)


def _inbox(data: bytes) -> tuple[Message, ...]:
    """Read the list of messages of an inbox (FL-14)."""
    received, messages = expect_list(decode_record(data), "$.inbox", 2)
    expect_nat(received, "$.inbox[0]")
    return read_messages(messages, "$.inbox[1]")


def _parent(value: Value) -> Parent | None:
    if value is None:
        return None
    fields = expect_map(value, "$.parent")
    return Parent(
        schema=expect_text(fields.get("schema"), "$.parent.schema"),
        key=expect_bytes(fields.get("key"), "$.parent.key"),
        path=expect_text(fields.get("path"), "$.parent.path"),
        attempt=expect_nat(fields.get("attempt"), "$.parent.attempt"),
    )


def _optional_text(value: Value, value_path: str) -> str | None:
    return None if value is None else expect_text(value, value_path)
