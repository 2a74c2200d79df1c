"""Support for the compiled form of the kernel (spec/compiled.md)."""

from __future__ import annotations

from typing import Any, Final

IS_COMPILED: Final[bool] = not __file__.endswith(".py")
"""Whether the kernel runs as compiled code. Its behavior is the same."""


def made_again(cls: Any, fields: dict[str, Any]) -> Any:
    """Rebuild an object of a compiled class from its fields, for ``pickle`` and ``copy``."""
    return cls(**fields)
