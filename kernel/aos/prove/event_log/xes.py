"""A log as XES: one trace for each cell of a workflow (spec/exports.md, EX-42)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final
from xml.sax.saxutils import quoteattr

from aos.prove.event_log.journal_events import cell_name
from aos.prove.event_log.log_event import CELL, LogEvent, Scalar, iso_time
from aos.prove.event_log.log_writer import RECORD, TextFile
from aos.prove.event_log.object_moves import (
    LogObject,
    batched_rows,
    in_temporary_file,
    temporary_database,
)
from aos.store.part_file import PartFile

_OPENING: Final = """<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1849.2016" xes.features="" xmlns="http://www.xes-standard.org/">
<extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
<extension name="Time" prefix="time" uri="http://www.xes-standard.org/time.xesext"/>
<extension name="Lifecycle" prefix="lifecycle" uri="http://www.xes-standard.org/lifecycle.xesext"/>
<extension name="Organizational" prefix="org" uri="http://www.xes-standard.org/org.xesext"/>
<global scope="trace"><string key="concept:name" value=""/></global>
<global scope="event"><string key="concept:name" value=""/>\
<date key="time:timestamp" value="1970-01-01T00:00:00.000Z"/>\
<string key="lifecycle:transition" value="complete"/></global>
<classifier name="Activity" keys="concept:name"/>
"""

_KEYS: Final = {"executor": "org:resource", "principal": "org:resource"}
"""Attributes that a standard extension of XES names."""

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may contain, in whatever spelling."""


class Xes:
    """Collects events in an unnamed file, and writes them by cell at the end."""

    def __init__(self, part: PartFile, workflow: str) -> None:
        """Raises: Unavailable: The file cannot be made."""
        self._file = TextFile(part)
        self._workflow = workflow
        self._rows = temporary_database()
        self._rows.execute("CREATE TABLE events (key, text)")
        self._rows.execute("BEGIN")

    def events(self, events: Sequence[LogEvent]) -> None:
        """Take the next events: each once for every cell of the workflow that it names."""
        rows: list[tuple[bytes, str]] = []
        for event in events:
            qualifiers_by_key: dict[bytes, list[str]] = {}
            for link in event.links:
                if link.kind == CELL and link.type == self._workflow:
                    qualifiers_by_key.setdefault(link.key, []).append(link.qualifier)
            rows += [
                (key, _event(event, qualifiers)) for key, qualifiers in qualifiers_by_key.items()
            ]
        in_temporary_file(lambda: self._rows.executemany("INSERT INTO events VALUES (?,?)", rows))

    def finish(self, objects: Iterable[LogObject]) -> int:  # noqa: ARG002  # a trace is the object
        """Write the traces by key; return their number."""
        write = self._file.write
        write(_OPENING + _attribute("concept:name", self._workflow) + "\n")
        cursor = in_temporary_file(
            lambda: self._rows.execute("SELECT key, text FROM events ORDER BY key, rowid")
        )
        count = 0
        for key, rows in groupby(batched_rows(cursor), key=itemgetter(0)):
            assert isinstance(key, bytes)
            name = cell_name("", key).removeprefix(" ") or self._workflow
            write(f"<trace>{_attribute('concept:name', name)}\n")
            for _, text in rows:
                write(str(text))
            write("</trace>\n")
            count += 1
        write("</log>\n")
        self._file.flush()
        return count

    def close(self) -> None:
        """Remove the rows that were collected for the traces."""
        self._rows.close()


def _event(event: LogEvent, qualifiers: Sequence[str]) -> str:
    attributes = "".join(_attribute(_KEYS.get(n, n), value) for n, value in event.attributes)
    return (
        f"<event>{_attribute('concept:name', event.activity)}"
        f'<date key="time:timestamp" value="{iso_time(event.time_ns)}"/>'
        f'<string key="lifecycle:transition" value="complete"/>'
        f"{_attribute('qualifier', ' '.join(qualifiers))}{_attribute(RECORD, event.seq)}"
        f"{attributes}</event>\n"
    )


def _attribute(key: str, value: Scalar) -> str:
    if isinstance(value, bool):
        kind, text = "boolean", ("false", "true")[value]
    elif isinstance(value, int):
        kind, text = "int", str(value)
    else:
        kind, text = "string", value
    return f"<{kind} key={_quoted(key)} value={_quoted(text)}/>"


def _quoted(text: str) -> str:
    """Return text as the value of an attribute. A character that XML cannot have is shown as an
    escape, such as \\\\u001b."""
    return quoteattr(_NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
