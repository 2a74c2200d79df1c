"""A log as JSON lines: one event a line, with the objects that it names (spec/exports.md,
EX-43)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from aos.audit.event_log.log_event import LogEvent, iso_time
from aos.audit.event_log.log_writer import TextFile
from aos.audit.event_log.object_moves import LogObject
from aos.store.part_file import PartFile


class JsonLines:
    """Writes each event as it comes. Objects have no line of their own; they are counted."""

    def __init__(self, part: PartFile) -> None:
        self._file = TextFile(part)

    def events(self, events: Sequence[LogEvent]) -> None:
        """Write the next events."""
        self._file.write("".join(f"{json.dumps(_line(event))}\n" for event in events))

    def finish(self, objects: Iterable[LogObject]) -> int:
        """Write what is buffered; return the number of objects."""
        count = sum(1 for _ in objects)
        self._file.flush()
        return count

    def close(self) -> None:
        """Release nothing: the file belongs to the caller."""


def _line(event: LogEvent) -> dict[str, object]:
    return {
        "id": event.id,
        "record": event.seq,
        "time": iso_time(event.time_ns),
        "time_ns": event.time_ns,
        "type": event.activity,
        "attributes": dict(event.attributes),
        "objects": [
            {"id": link.id, "type": link.type, "qualifier": link.qualifier} for link in event.links
        ],
    }
