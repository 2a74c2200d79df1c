"""The body of an operation: what it asks for and waits for, and its result (spec/flow.md, FL-22).

Its layout depends on the kind; ``Details`` has the same fields for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aos.flow.failure import Failure
from aos.flow.message import Message, read_messages
from aos.flow.shapes import expect_bytes, expect_list, expect_nat, expect_text, optional_nat
from aos.values.cbor import Value
from aos.values.errors import ValueProblem

ENDING_CANCELED: Final = 2
ENDING_MAX: Final = 3


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
    read = _READERS.get(kind)
    if read is None or (is_over and parts == [None]):
        return details  # the second: an operation within a kept iteration (FL-27)
    try:
        return replace(details, **read(extra, value_path))
    except IndexError:
        raise ValueProblem(f"too short for a {kind}: {len(parts)} items", path=value_path) from None


def _step(extra: list[Value], value_path: str) -> dict[str, Any]:
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
        "unknown": _unknown(extra[6], f"{value_path}[7]"),
        "is_canceled": _is_canceled(extra[7:], f"{value_path}[8]"),
    }


def _unknown(value: Value, value_path: str) -> tuple[str, bytes] | None:
    if value is None:
        return None
    effect, params = expect_list(value, value_path, 2)
    return expect_text(effect, f"{value_path}[0]"), expect_bytes(params, f"{value_path}[1]")


def _is_canceled(ending: list[Value], value_path: str) -> bool:
    """Whether the item that an open step or call may have at its end says so (FL-22)."""
    return bool(ending) and expect_nat(ending[0], value_path, ENDING_MAX) >= ENDING_CANCELED


def _emit(extra: list[Value], value_path: str) -> dict[str, Any]:
    return {"schemas": (expect_text(extra[0], f"{value_path}[1]"),)}


def _sleep(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[deadline]``, or nothing for a duration that is invalid."""
    return {"until_ns": expect_nat(extra[0], f"{value_path}[1]") if extra else None}


def _listen(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[schemas, most, deadline, whether it is an enum, consumed messages]``."""
    schemas = expect_list(extra[0], f"{value_path}[1]")
    return {
        "schemas": tuple(expect_text(schema, f"{value_path}[1]") for schema in schemas),
        "is_many": optional_nat(extra[1], f"{value_path}[2]") is not None,
        "until_ns": optional_nat(extra[2], f"{value_path}[3]"),
        "is_wrapped": extra[3] is True,
    }


def _call(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[workflow, control schema, key]``, and whether its answer has to come first."""
    return {
        "workflow": expect_text(extra[0], f"{value_path}[1]"),
        "control": expect_text(extra[1], f"{value_path}[2]"),
        "key": expect_bytes(extra[2], f"{value_path}[3]"),
        "is_canceled": _is_canceled(extra[3:], f"{value_path}[4]"),
    }


def _branches(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[branches, messages]`` of a join or race that has ended."""
    return {"messages": read_messages(extra[1], f"{value_path}[2]")} if len(extra) > 1 else {}


def _body(extra: list[Value], value_path: str) -> dict[str, Any]:
    """``[messages]`` of a branch, scope or loop that has ended; of an open loop its iteration and
    its state come first."""
    if not extra:
        return {}
    return {"messages": read_messages(extra[-1], f"{value_path}[{len(extra)}]")}


def _spawn(extra: list[Value], value_path: str) -> dict[str, Any]:
    return {"workflow": expect_text(extra[0], f"{value_path}[1]")}


_READERS: Final[Mapping[str, Callable[[list[Value], str], dict[str, Any]]]] = {
    "step": _step,
    "emit": _emit,
    "sleep": _sleep,
    "listen": _listen,
    "call": _call,
    "spawn": _spawn,
    **dict.fromkeys(("join", "race"), _branches),
    **dict.fromkeys(("branch", "scope", "loop"), _body),
}
