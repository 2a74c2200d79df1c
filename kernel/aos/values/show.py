"""Values for people: short words in errors, and CBOR of unknown type as JSON."""

from __future__ import annotations

from aos.values.cbor import Value
from aos.values.errors import quoted
from aos.values.spelling import base64_text


def describe(value: object) -> str:
    """A few words: ``nat 5``, ``int -5``, ``text "x"``, ``bytes[12]``, ``list[3]``, ``null``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool true" if value else "bool false"
    if isinstance(value, int):
        # 80 bits hold 24 digits: beyond them Python's int to text may take long, or refuse.
        digits = str(value) if value.bit_length() <= 80 else f"of {value.bit_length()} bits"
        return f"{'int' if value < 0 else 'nat'} {digits}"
    if isinstance(value, str):
        return f"text {quoted(value)}"
    if isinstance(value, bytes):
        return f"bytes[{len(value)}]"
    if isinstance(value, list):
        return f"list[{len(value)}]"
    if isinstance(value, dict):
        return f"map[{len(value)}]"
    return f"a {type(value).__name__}"


def untyped_to_json(value: Value) -> object:
    """A value of unknown schema as JSON, only for display: it cannot be read back.

    Bytes become ``{"$bytes": base64}``; a map with an integer among its keys becomes
    ``{"$map": [[key, value], …]}``.
    """
    if isinstance(value, bytes):
        return {"$bytes": base64_text(value)}
    if isinstance(value, list):
        return [untyped_to_json(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: untyped_to_json(item) for key, item in value.items()}
        return {"$map": [[key, untyped_to_json(item)] for key, item in value.items()]}
    return value
