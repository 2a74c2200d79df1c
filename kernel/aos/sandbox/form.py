"""The three calling forms of an entrypoint, told apart by the export's type (S-21)."""

from __future__ import annotations

import enum


class Form(enum.Enum):
    """The value is the export's type, as it is shown in messages."""

    PAIR = "(i32, i32) -> (i32, i32)"
    """(pointer, length) -> (pointer, length): multi-value."""
    RETURN_POINTER = "(i32, i32, i32) -> ()"
    """(result, pointer, length): the answer's pointer and length are written at ``result``."""
    PACKED = "(i32, i32) -> i64"
    """(pointer, length) -> pointer << 32 | length."""
