"""One operation of a flow's history: its path, its body and its state, and its compensation
(spec/flow.md, FL-11, FL-13, FL-21, FL-22, FL-28).

The path is the names from the root of a flow to the operation (FL-11, FL-13):

    process-items/~10/fetch      step ``fetch`` in iteration 10 of the loop ``process-items``

In a name, ``%`` is written ``%25``, ``/`` ``%2F``, and a leading ``~`` ``%7E``, so that no name of
an author is mistaken for an iteration or for two names.

The body has what the operation asks for and waits for, and its result. Its layout depends on the
kind (FL-22); ``Details`` has the same fields for all of them.

A message to a flow that no operation has consumed for good (spec/flow.md, FL-14, FL-25).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from aos.flow.failure import Failure
from aos.flow.shapes import expect_bytes, expect_list, expect_nat, expect_text, optional_nat
from aos.values.cbor import Value
from aos.values.errors import ValueProblem

UNDO: Final = "~undo"
"""The last part of the path of a compensation."""

FLOW_PREFIX: Final = "flow:"
"""How the issuer reference of every effect of a flow begins."""

ROLES: Final = ("sleep", "retry", "timeout", "listen", "continue", "cancel")

ENDING_CANCELED: Final = 2
ENDING_MAX: Final = 3

_REF: Final = re.compile(
    rf"{FLOW_PREFIX}(?P<path>.*)#(?P<attempt>[0-9]{{1,19}})(?::(?P<role>{'|'.join(ROLES)}))?",
    re.DOTALL,
)


class OperationKind(enum.IntEnum):
    """The kinds of operations; the numbers are part of the format."""

    STEP = 0
    LOCAL = 1
    EMIT = 2
    SLEEP = 3
    LISTEN = 4
    JOIN = 5
    RACE = 6
    BRANCH = 7
    SCOPE = 8
    LOOP = 9
    ITERATION = 10
    CHECKPOINT = 11
    ROLLBACK_TO = 12
    COMMIT = 13
    VERSION = 14
    REMOVED = 15
    CALL = 16
    SPAWN = 17

    @property
    def word(self) -> str:
        return self.name.lower()


SCOPES: Final = frozenset({
    OperationKind.JOIN, OperationKind.RACE, OperationKind.BRANCH, OperationKind.SCOPE,
    OperationKind.LOOP, OperationKind.ITERATION,
})  # fmt: skip
"""The kinds that have operations of their own. One that is over has collapsed into its result."""


class OperationState(enum.IntEnum):
    """The states of an operation; the numbers are part of the format."""

    PENDING = 0
    RUNNING = 1
    COMPLETED = 2
    FAILED = 3
    EXHAUSTED = 4
    CANCELED = 5

    @property
    def word(self) -> str:
        return self.name.lower()

    @property
    def is_over(self) -> bool:
        """Whether nothing of the operation is in flight or to come."""
        return self >= OperationState.COMPLETED


class UndoState(enum.IntEnum):
    """The states of a compensation; the numbers are part of the format."""

    REGISTERED = 0
    RUNNING = 1
    DONE = 2
    STUCK = 3
    SKIPPED = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. Times are ns of logical time.

    ``parent`` is the index of the scope that it belongs to, None for the root. ``name`` is as the
    author wrote it; that of an iteration is ``~N``.
    """

    parent: int | None
    kind: OperationKind
    name: str
    state: OperationState
    attempts: int
    created_ns: int
    last_ns: int | None
    done_ns: int | None
    details: Details

    @property
    def part(self) -> str:
        """The part of its path after that of its scope."""
        return self.name if self.kind is OperationKind.ITERATION else escaped(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The body of an operation, read.

    Attributes:
        effect: Of a step: the effect.
        schemas: Of a listen: the messages that it takes. Of an emit: the event.
        is_many: Of a listen: whether its value is a list of messages.
        is_wrapped: Of a listen: whether each message is in the arm of a variant.
        unknown: Of an open step: effect and params of its ``.rollback_unknown``.
        is_canceled: Of an open step or call: it was canceled, or its time is over, and its answer
            decides whether it is undone.
        messages: Of one that has operations of its own: messages that it may give back.
        workflow: Of a call or spawn: the child's flow.
        control: Of a call: the schema by which the child is canceled.
        key: Of a call: the child's key, canonical CBOR.
        retry_ns: Of a step: when its next attempt begins; None while one runs.
        until_ns: When a sleep ends, or a listen or a step gives up.
        value: The result, canonical CBOR; None also for one that was not kept.
        failure: Why it failed.
    """

    effect: str | None = None
    schemas: tuple[str, ...] = ()
    is_many: bool = False
    is_wrapped: bool = False
    unknown: tuple[str, bytes] | None = None
    is_canceled: bool = False
    messages: tuple[Message, ...] = ()
    workflow: str | None = None
    control: str | None = None
    key: bytes | None = None
    retry_ns: int | None = None
    until_ns: int | None = None
    value: bytes | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensation:
    """A registered effect that takes back what the step at ``path`` did. Times are ns of logical
    time; ``params`` are canonical CBOR."""

    path: str
    effect: str
    params: bytes
    state: UndoState
    attempts: int
    created_ns: int
    last_ns: int | None
    done_ns: int | None
    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRef:
    """The issuer reference of an effect: which attempt of which operation requested it.

    ``role`` is that of a timer, one of ``ROLES``; None for the effect of a step or compensation.
    """

    path: str
    attempt: int
    role: str | None

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Read an issuer reference; None for one that no flow wrote."""
        match = None if text is None else _REF.fullmatch(text)
        if match is None:
            return None
        return cls(path=match["path"], attempt=int(match["attempt"]), role=match["role"])

    def to_document(self) -> dict[str, Any]:
        """The same as JSON: ``{path, attempt, role}``."""
        return {"path": self.path, "attempt": self.attempt, "role": self.role}


def escaped(name: str) -> str:
    """Write an author's name as one part of a path."""
    text = name.replace("%", "%25").replace("/", "%2F")
    return f"%7E{text[1:]}" if text.startswith("~") else text


def joined(parent: str, part: str) -> str:
    """Return the path of a part (an escaped name, ``~N`` or ``~undo``) under ``parent``; the root
    has the empty path."""
    return f"{parent}/{part}" if parent else part


def read_details(kind: str, body: Value, value_path: str, *, is_over: bool) -> Details:
    """Read the body of an operation of ``kind``: its outcome (null, the bytes of a value, or a
    failure), then what the kind adds (FL-22). Raises ``ValueProblem``."""
    parts = expect_list(body, value_path)
    if not parts:
        raise ValueProblem("expected an outcome, found nothing", path=value_path)
    outcome, extra = parts[0], parts[1:]
    details = Details()
    if isinstance(outcome, bytes):
        details = Details(value=outcome)
    elif outcome is not None:
        details = Details(failure=Failure.of(outcome, f"{value_path}[0]"))
    read = _BODY_READERS.get(kind)
    if read is None or (is_over and parts == [None]):
        return details  # the second: an operation within a kept iteration (FL-27)
    try:
        return replace(details, **read(extra, value_path))
    except IndexError:
        raise ValueProblem(f"too short for a {kind}: {len(parts)} items", path=value_path) from None


def _step_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[effect]``, with six more items while it is open: the hash of its params, its policy, the
    times of its next attempt and of its timeout, whether an attempt may have run, and the effect
    that undoes it if that is unknown. A seventh says whether its answer has to come first."""
    effect = expect_text(extra[0], f"{value_path}[1]")
    if len(extra) == 1:
        return {"effect": effect}
    return {
        "effect": effect,
        "retry_ns": optional_nat(extra[3], f"{value_path}[4]"),
        "until_ns": optional_nat(extra[4], f"{value_path}[5]"),
        "unknown": _rollback_unknown(extra[6], f"{value_path}[7]"),
        "is_canceled": _is_canceled(extra[7:], f"{value_path}[8]"),
    }


def _rollback_unknown(value: Value, value_path: str) -> tuple[str, bytes] | None:
    if value is None:
        return None
    effect, params = expect_list(value, value_path, 2)
    return expect_text(effect, f"{value_path}[0]"), expect_bytes(params, f"{value_path}[1]")


def _is_canceled(ending: list[Value], value_path: str) -> bool:
    """Whether the item that an open step or call may have at its end says so (FL-22)."""
    return bool(ending) and expect_nat(ending[0], value_path, ENDING_MAX) >= ENDING_CANCELED


def _emit_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    return {"schemas": (expect_text(extra[0], f"{value_path}[1]"),)}


def _sleep_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[deadline]``, or nothing for a duration that is invalid."""
    return {"until_ns": expect_nat(extra[0], f"{value_path}[1]") if extra else None}


def _listen_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[schemas, most, deadline, whether it is an enum, consumed messages]``."""
    schemas = expect_list(extra[0], f"{value_path}[1]")
    return {
        "schemas": tuple(expect_text(schema, f"{value_path}[1]") for schema in schemas),
        "is_many": optional_nat(extra[1], f"{value_path}[2]") is not None,
        "until_ns": optional_nat(extra[2], f"{value_path}[3]"),
        "is_wrapped": extra[3] is True,
    }


def _call_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[workflow, control schema, key]``, and whether its answer has to come first."""
    return {
        "workflow": expect_text(extra[0], f"{value_path}[1]"),
        "control": expect_text(extra[1], f"{value_path}[2]"),
        "key": expect_bytes(extra[2], f"{value_path}[3]"),
        "is_canceled": _is_canceled(extra[3:], f"{value_path}[4]"),
    }


def _join_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[branches, messages]`` of a join or race that has ended."""
    return {"messages": read_messages(extra[1], f"{value_path}[2]")} if len(extra) > 1 else {}


def _scope_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[messages]`` of a branch, scope or loop that has ended; of an open loop its iteration and
    its state come first."""
    if not extra:
        return {}
    return {"messages": read_messages(extra[-1], f"{value_path}[{len(extra)}]")}


def _spawn_fields(extra: list[Value], value_path: str) -> dict[str, Any]:
    return {"workflow": expect_text(extra[0], f"{value_path}[1]")}


_BODY_READERS: Final[Mapping[str, Callable[[list[Value], str], dict[str, Any]]]] = {
    "step": _step_fields,
    "emit": _emit_fields,
    "sleep": _sleep_fields,
    "listen": _listen_fields,
    "call": _call_fields,
    "spawn": _spawn_fields,
    **dict.fromkeys(("join", "race"), _join_fields),
    **dict.fromkeys(("branch", "scope", "loop"), _scope_fields),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event of ``schema``, as canonical CBOR. ``number`` is how many messages came to the flow
    before it."""

    number: int
    schema: str
    value: bytes


def read_messages(value: Value, value_path: str) -> tuple[Message, ...]:
    """Read a list of messages at ``value_path``. Raises ``ValueProblem``."""
    return tuple(
        _message(message, f"{value_path}[{index}]")
        for index, message in enumerate(expect_list(value, value_path))
    )


def _message(value: Value, value_path: str) -> Message:
    number, schema, data = expect_list(value, value_path, 3)
    return Message(
        number=expect_nat(number, f"{value_path}[0]"),
        schema=expect_text(schema, f"{value_path}[1]"),
        value=expect_bytes(data, f"{value_path}[2]"),
    )
