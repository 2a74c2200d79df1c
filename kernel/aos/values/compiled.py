"""What compiled code of the kernel needs beside its sources (spec/compiled.md)."""

from __future__ import annotations

from typing import Any, Final

IS_COMPILED: Final[bool] = not __file__.endswith(".py")
"""Whether the kernel runs as compiled code. What it does is the same."""


def made_again(cls: Any, fields: dict[str, Any]) -> Any:
    """An object of a compiled class with these fields: what ``pickle`` and ``copy`` call for it."""
    return cls(**fields)
