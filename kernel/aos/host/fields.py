"""Read one field of a message between processes, and check its type."""

from __future__ import annotations

from typing import Any

from aos.errors import BadUsage

Message = dict[str, Any]


def field(message: Message, name: str, kind: type) -> Any:
    """Return a field of a message.

    Raises:
        BadUsage: The field is missing or has another type.
    """
    value = message.get(name)
    if type(value) is not kind:
        raise BadUsage(f"{name}: expected {kind.__name__}, found {type(value).__name__}")
    return value
