"""Check the shape of decoded values of a snapshot: predicates, and functions that combine them
(spec/state.md, SN-5 and SN-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aos.core.journal.identity import ENTROPY_BYTES
from aos.values.digests import HASH_BYTES

Shape: TypeAlias = Callable[[Any], bool]

NAT_MAX: Final = 2**64 - 1

SEQ_MAX: Final = 2**63 - 1
"""The last record of any journal: what a world counts of its records never exceeds 64 bits."""


def nat(value: Any) -> bool:
    return type(value) is int and 0 <= value <= NAT_MAX


def positive(value: Any) -> bool:
    return nat(value) and value > 0


def text(value: Any) -> bool:
    return isinstance(value, str)


def data(value: Any) -> bool:
    return isinstance(value, bytes)


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def digest(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == HASH_BYTES


def entropy(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == ENTROPY_BYTES


def one_of(*values: str) -> Shape:
    return lambda value: isinstance(value, str) and value in values


def maybe(shape: Shape) -> Shape:
    return lambda value: value is None or shape(value)


def either(*shapes: Shape) -> Shape:
    return lambda value: any(shape(value) for shape in shapes)


def list_of(shape: Shape) -> Shape:
    return lambda value: isinstance(value, list) and all(map(shape, value))


def row(*shapes: Shape) -> Shape:
    def is_row(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == len(shapes)
            and all(shape(element) for shape, element in zip(shapes, value, strict=True))
        )

    return is_row


def map_of(shape: Shape) -> Shape:
    return lambda value: (
        isinstance(value, dict) and all(map(text, value)) and all(map(shape, value.values()))
    )


def fields(required: Mapping[str, Shape], options: Mapping[str, Shape]) -> Shape:
    shapes = {**required, **options}
    return lambda value: (
        isinstance(value, dict)
        and required.keys() <= value.keys() <= shapes.keys()
        and all(shapes[name](field_value) for name, field_value in value.items())
    )


REF: Final = row(digest, nat)
SLOT: Final = either(data, REF)
CELL: Final = row(text, data)
ENTRY: Final = row(nat, nat)
INTENT: Final = row(
    digest, CELL, digest, nat, nat, nat, digest, text, SLOT, digest, maybe(either(text, data)),
    text, maybe(text),
)  # fmt: skip
