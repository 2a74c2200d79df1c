"""Histories and states of flows, written by hand for the tests of their readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aos.flow.operation import OperationKind as Kind
from aos.flow.operation import OperationState, UndoState
from aos.values.cbor import encode

SECOND = 1_000_000_000
START_NS = 1_700_000_000 * SECOND


def op(
    kind: Kind,
    name: str,
    *,
    parent: int = 0,
    state: OperationState = OperationState.COMPLETED,
    attempts: int = 0,
    created: int = START_NS,
    last: int | None = None,
    done: int | None = None,
    outcome: Any = None,
    extra: Sequence[Any] = (),
) -> list[Any]:
    """An operation as it is stored; ``outcome`` is a value, a failure's list, or None."""
    kept = outcome if outcome is None or isinstance(outcome, list) else encode(outcome)
    return [
        parent, int(kind), name, int(state), attempts, created, last, done, [kept, *extra],
    ]  # fmt: skip


def step_extra(
    effect: str, *, retry_ns: int | None = None, until_ns: int | None = None
) -> list[Any]:
    """The items of an open step's body behind its outcome."""
    return [effect, 7, None, retry_ns, until_ns, False, None]


def listen_extra(*schemas: str, most: int | None = None, until_ns: int | None = None) -> list[Any]:
    """The items of a listen's body behind its outcome."""
    return [list(schemas), most, until_ns, False, []]


def undo(
    path: str,
    effect: str,
    params: Any,
    *,
    state: UndoState = UndoState.REGISTERED,
    attempts: int = 0,
    created: int = START_NS,
    last: int | None = None,
    done: int | None = None,
    failure: Any = None,
) -> list[Any]:
    return [path, effect, encode(params), int(state), attempts, created, last, done, failure]


def failure(
    code: str, message: str = "", *, kind: str = "critical", path: str = "", causes: Any = ()
) -> list[Any]:
    return [kind, code, message, path, list(causes)]


def ops(*operations: list[Any], undos: Sequence[Any] = (), format: int = 1) -> bytes:
    return encode([format, list(operations), list(undos)])


def state(
    history: bytes | None = None,
    *,
    status: str = "running",
    inputs: Any = None,
    output: Any = None,
    view: Any = None,
    error: Any = None,
    inbox: Sequence[tuple[str, Any]] = (),
    parent: Any = None,
    schemas: tuple[str, str | None, str | None] = ("shop/Placed@1", "shop/Parcel@1", None),
    started_ns: int = START_NS,
) -> bytes:
    """A state ``aos/Flow@1``; ``inputs`` and the other values are not encoded yet."""

    def kept(value: Any) -> bytes | None:
        return None if value is None else encode(value)

    return encode(
        {
            "ops": ops() if history is None else history,
            "view": kept(view),
            "error": kept(error),
            "inbox": encode(
                [
                    len(inbox),
                    [[number, name, encode(value)] for number, (name, value) in enumerate(inbox)],
                ]
            ),
            "input": kept(inputs),
            "output": kept(output),
            "schemas": {"input": schemas[0], "output": schemas[1], "view": schemas[2]},
            "parent": parent,
            "refs": [],
            "status": status,
            "started_ns": started_ns,
        }
    )
