"""Check the shape of a decoded value, part by part."""

from __future__ import annotations

from typing import NoReturn

from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.values.show import describe


def expect_list(value: Value, where: str, size: int | None = None) -> list[Value]:
    """Return a list of ``size`` items, or of any size. Raises ``ValueProblem``, as all of these."""
    if not isinstance(value, list):
        misshapen("a list", value, where)
    if size is not None and len(value) != size:
        raise ValueProblem(f"expected {size} items, found {len(value)}", path=where)
    return value


def expect_map(value: Value, where: str) -> dict[str | int, Value]:
    """Return a map."""
    if not isinstance(value, dict):
        misshapen("a map", value, where)
    return value


def expect_text(value: Value, where: str) -> str:
    if not isinstance(value, str):
        misshapen("text", value, where)
    return value


def expect_bytes(value: Value, where: str) -> bytes:
    if not isinstance(value, bytes):
        misshapen("bytes", value, where)
    return value


def expect_nat(value: Value, where: str, most: int | None = None) -> int:
    """Return a whole number from 0 up to ``most``."""
    if type(value) is not int or value < 0 or (most is not None and value > most):
        misshapen("a whole number" if most is None else f"0 to {most}", value, where)
    return value


def optional_nat(value: Value, where: str) -> int | None:
    """Return a whole number, or None for null."""
    return None if value is None else expect_nat(value, where)


def optional_bytes(value: Value, where: str) -> bytes | None:
    """Return bytes, or None for null."""
    return None if value is None else expect_bytes(value, where)


def misshapen(expected: str, value: Value, where: str) -> NoReturn:
    """Raise ``ValueProblem`` for a value of another shape."""
    raise ValueProblem(f"expected {expected}, found {describe(value)}", path=where)
