"""Read one field of a message between processes, and check its type."""

from __future__ import annotations

from typing import Any

from aos.errors import BadUsage
from aos.values.digests import Hash, content_hash

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


def blobs_by_hash(value: object) -> dict[Hash, bytes] | None:
    """The blobs of a message by their content hashes; None if it is no list of byte strings."""
    if not isinstance(value, list) or not all(isinstance(blob, bytes) for blob in value):
        return None
    return {content_hash(blob): blob for blob in value}
