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
    found = message.get(name)
    if type(found) is not kind:
        raise BadUsage(f"{name}: expected {kind.__name__}, found {type(found).__name__}")
    return found
