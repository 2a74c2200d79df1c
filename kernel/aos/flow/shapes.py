"""Check the shape of a decoded value, part by part."""

from __future__ import annotations

from typing import NoReturn

from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.values.show import describe


def expect_list(value: Value, value_path: str, size: int | None = None) -> list[Value]:
    """Return a list of ``size`` items, or of any size. Raises ``ValueProblem``, as all of these."""
    if not isinstance(value, list):
        misshapen("a list", value, value_path)
    if size is not None and len(value) != size:
        raise ValueProblem(f"expected {size} items, found {len(value)}", path=value_path)
    return value


def expect_map(value: Value, value_path: str) -> dict[str | int, Value]:
    """Return a map."""
    if not isinstance(value, dict):
        misshapen("a map", value, value_path)
    return value


def expect_text(value: Value, value_path: str) -> str:
    if not isinstance(value, str):
        misshapen("text", value, value_path)
    return value


def expect_bytes(value: Value, value_path: str) -> bytes:
    if not isinstance(value, bytes):
        misshapen("bytes", value, value_path)
    return value


def expect_nat(value: Value, value_path: str, limit: int | None = None) -> int:
    """Return a whole number from 0 up to ``limit``."""
    if type(value) is not int or value < 0 or (limit is not None and value > limit):
        misshapen("a whole number" if limit is None else f"0 to {limit}", value, value_path)
    return value


def optional_nat(value: Value, value_path: str) -> int | None:
    """Return a whole number, or None for null."""
    return None if value is None else expect_nat(value, value_path)


def optional_bytes(value: Value, value_path: str) -> bytes | None:
    """Return bytes, or None for null."""
    return None if value is None else expect_bytes(value, value_path)


def misshapen(expected: str, value: Value, value_path: str) -> NoReturn:
    """Raise ``ValueProblem`` for a value of another shape."""
    raise ValueProblem(f"expected {expected}, found {describe(value)}", path=value_path)
