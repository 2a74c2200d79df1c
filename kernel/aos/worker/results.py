"""A function's result -> the canonical payload of a receipt, or a failure (X-46)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from aos.values.cbor import INGRESS_DEPTH_MAX, INTEGER_MAX, INTEGER_MIN, Value
from aos.values.errors import ValueProblem
from aos.values.schema import Schema
from aos.worker.failure import RESULT_INVALID, RESULT_TOO_LARGE, AttemptFailure

COST_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WithBlobs:
    """A result and the blobs that it refers to, which are sent with its receipt."""

    value: object
    blobs: tuple[bytes, ...]


def payload_of(result: object, schema: Schema, *, bytes_max: int) -> bytes | AttemptFailure:
    """Return a result in the normal form of the receipt schema, or why it does not fit."""
    try:
        payload = schema.encode(schema.normalise(to_value(result)))
    except ValueProblem as problem:
        return AttemptFailure(
            code=RESULT_INVALID,
            message=f"the result does not fit {schema.name}: {problem}",
            retryable=True,
            end="park",
        )
    if len(payload) > bytes_max:
        return AttemptFailure(
            code=RESULT_TOO_LARGE,
            message=f"the result has {len(payload)} bytes: expected at most {bytes_max} "
            "(limits.world.event_bytes in the manifest)",
            retryable=True,
            end="park",
        )
    return payload


def cost_problem(cost: object) -> AttemptFailure | None:
    """Return None if ``cost`` can be the cost of a receipt, in cents: None, or an ``int`` from 0
    to ``COST_MAX``. Otherwise return the failure, which parks the effect."""
    if cost is None or (type(cost) is int and 0 <= cost <= COST_MAX):
        return None
    return AttemptFailure(
        code=RESULT_INVALID,
        message=f"ctx.cost_cents: expected a whole number of 0 or more, found {cost!r:.80}",
        retryable=True,
        end="park",
    )


def to_value(result: object, levels: int = INGRESS_DEPTH_MAX) -> Value:
    """Convert Python objects: tuples and sets become lists, bytearray becomes bytes.

    Raises:
        ValueProblem: A part of it has no form as a Value; ``path`` leads to it.
    """
    kind = type(result)
    if result is None or kind in (bool, bytes):
        return cast("Value", result)
    if isinstance(result, str):  # also StrEnum and other kinds of text
        return unicode_text(str.__str__(result))
    if isinstance(result, int):
        return _integer(int(result))
    if levels == 0:
        raise ValueProblem(f"nested too deep: expected at most {INGRESS_DEPTH_MAX} levels")
    if isinstance(result, Mapping):
        return _map(result, levels - 1)
    if isinstance(result, list | tuple | set | frozenset):
        return [_under(index, item, levels - 1) for index, item in enumerate(result)]
    if isinstance(result, bytes | bytearray | memoryview):  # kinds of bytes, such as Sealed
        return bytes(result)
    raise ValueProblem(_strange(result))


def unicode_text(text: str) -> str:
    """Return ``text``.

    Raises:
        ValueProblem: It holds half of a surrogate pair, for which UTF-8 has no bytes.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueProblem(
            f"expected Unicode text, found half of a surrogate pair at character {error.start} "
            "(decode JSON and UTF-16 as a whole, and do not cut them within a character)"
        ) from None
    return text


def _integer(number: int) -> int:
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise ValueProblem("expected an integer between -2^64 and 2^64-1 (make a larger one text)")
    return number


def _map(result: Mapping[object, object], levels: int) -> Value:
    value: dict[str | int, Value] = {}
    for key, item in result.items():
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise ValueProblem(f"map key: expected text or an integer, found {key!r:.40}")
        plain = unicode_text(str.__str__(key)) if isinstance(key, str) else _integer(int(key))
        value[plain] = _under(plain, item, levels)
    return value


def _under(key: str | int, item: object, levels: int) -> Value:
    try:
        return to_value(item, levels)
    except ValueProblem as problem:
        raise problem.under(key) from None


def _strange(result: object) -> str:
    name = type(result).__name__
    if isinstance(result, float):
        return f"expected no floats, found float {result!r} (use an integer, or dec128 text)"
    if inspect.iscoroutine(result):
        result.close()
        return "expected a value, found a coroutine (await it, and make the function async def)"
    return (
        f"expected None, bool, int, str, bytes, list or dict, found {name} "
        "(make it one of them: a time is an integer of ns, a decimal is text)"
    )
