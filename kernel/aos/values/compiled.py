"""Support for kernel code that may run compiled (spec/compiled.md).

A decoder fills an object field by field: ``record = new_object(cls)``, then ``setter(cls, name)``
for each field, then ``finished(cls, record)``. An interpreted class has slots, which are filled
directly: a call of the constructor with many keywords costs as much as decoding its fields. A
compiled class has no slots to fill: its fields are collected in a dictionary and passed to the
constructor, which compiled code calls fast.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

IS_COMPILED: Final[bool] = not __file__.endswith(".py")
"""Whether the kernel runs as compiled code. Its behaviour is the same."""


def made_again(cls: Any, fields: dict[str, Any]) -> Any:
    """Make an object of a compiled class with these fields; ``pickle`` and ``copy`` call this."""
    return cls(**fields)


def _no_fields(_: Any) -> Any:
    return {}


new_object: Final[Callable[[Any], Any]] = _no_fields if IS_COMPILED else object.__new__
"""Begin an object of a frozen class with slots, to be filled by its setters."""

finished: Final[Callable[[Any, Any], Any] | None] = made_again if IS_COMPILED else None
"""Turn the filled object into one of its class; None where it is one already."""


def setter(cls: type, name: str) -> Callable[[Any, Any], None]:
    """Return the function that sets one field of an object that ``new_object`` began."""
    if IS_COMPILED:
        return lambda record, value: operator.setitem(record, name, value)
    slot: Callable[[Any, Any], None] = cls.__dict__[name].__set__
    return slot
