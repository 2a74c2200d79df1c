"""One field of a message between processes, taken with its type."""

from __future__ import annotations

from typing import Any

from aos.errors import BadUsage

Message = dict[str, Any]


def field(message: Message, name: str, kind: type) -> Any:
    """Take a field.

    Raises:
        BadUsage: It is missing or of another type.
    """
    found = message.get(name)
    if type(found) is not kind:
        raise BadUsage(f"{name}: expected {kind.__name__}, found {type(found).__name__}")
    return found
