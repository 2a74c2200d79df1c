"""The three calling forms of an entrypoint, distinguished by the export's type (S-21)."""

from __future__ import annotations

import enum


class Form(enum.Enum):
    """A calling form. Its value is the export's type, as messages show it."""

    PAIR = "(i32, i32) -> (i32, i32)"
    """(pointer, length) -> (pointer, length): multi-value."""
    RETURN_POINTER = "(i32, i32, i32) -> ()"
    """(result, pointer, length): the module writes the output's address and size at it."""
    PACKED = "(i32, i32) -> i64"
    """(pointer, length) -> pointer << 32 | length."""
