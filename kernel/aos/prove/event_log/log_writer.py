"""Shared by the formats of an event log: text output, and the attributes of each type."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from aos.prove.event_log.log_event import LogEvent, Scalar
from aos.prove.event_log.object_moves import LogObject
from aos.store.part_file import PartFile

BUFFER_BYTES: Final = 1 << 20

RECORD: Final = "record"
"""The attribute of every event with the sequence of its record."""


class LogWriter(Protocol):
    """Writes a log in one format: all events in their order, then the objects."""

    def events(self, events: Sequence[LogEvent]) -> None:
        """Write the next events. Raises ``Unavailable``."""

    def finish(self, objects: Iterable[LogObject]) -> int:
        """Write the objects and the end, and return the number of objects. Raises
        ``Unavailable``."""

    def close(self) -> None:
        """Release what the writer holds, whether or not it finished."""


class TextFile:
    """Writes text into a part file, ``BUFFER_BYTES`` or more at a time."""

    def __init__(self, part: PartFile) -> None:
        self._part = part
        self._buffered: list[bytes] = []
        self._bytes = 0

    def write(self, text: str) -> None:
        """Raises: Unavailable: The file cannot be written."""
        data = text.encode()
        self._buffered.append(data)
        self._bytes += len(data)
        if self._bytes >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered. Raises: Unavailable: The file cannot be written."""
        view = memoryview(b"".join(self._buffered))
        self._buffered.clear()
        self._bytes = 0
        try:
            while view:
                view = view[os.write(self._part.fd, view) :]
        except OSError as error:
            raise self._part.failed(error) from error


class AttributeTypes:
    """The attributes that the events of each type have had, with their types (EX-26)."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = {}

    def note(self, event: LogEvent) -> dict[str, str]:
        """Add the attributes of an event; return those of its type."""
        types = self.of.get(event.activity)
        if types is None:
            types = self.of[event.activity] = {RECORD: "integer"}
        for name, value in event.attributes:
            attribute_type = types.get(name)
            if attribute_type is None:
                types[name] = type_of(value)
            elif attribute_type != "string" and attribute_type != type_of(value):
                types[name] = "string"
        return types


def type_of(value: Scalar) -> str:
    """Return the name that OCEL has for the type of an attribute."""
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "string"


def text_of(value: Scalar) -> str:
    """Return an attribute as text: the value of an attribute in OCEL JSON is always text."""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)
