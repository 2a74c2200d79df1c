"""Write a world's journal as an event log: OCEL, XES or JSON lines (spec/exports.md, EX-10 to
EX-19, EX-43).

OCEL has a module of its own. An XES log has one trace for each cell of a workflow (EX-42).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from aos.core.journal.frame import Frame, Head
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import BadUsage, Damage
from aos.manifest.judging import judge
from aos.prove.event_log.journal_events import JournalEvents, cell_name
from aos.prove.event_log.log_event import CELL, LogEvent, Scalar, ScalarValues, iso_time
from aos.prove.event_log.log_writer import (
    RECORD,
    LogObject,
    LogWriter,
    ObjectMoves,
    TextFile,
    batched_rows,
    in_temporary_file,
    temporary_database,
)
from aos.prove.event_log.ocel import OcelJson, OcelSqlite
from aos.read.lens.lens import IS_MANIFEST
from aos.read.lens.lookup import find_named
from aos.read.lens.ports import Journal, first_kept
from aos.store.part_file import PartFile
from aos.store.store import head_of
from aos.values.digests import Hash

OCEL: Final = "ocel"
XES: Final = "xes"
JSON_LINES: Final = "jsonl"
LOG_FORMATS: Final = (OCEL, XES, JSON_LINES)
OCEL_SUFFIXES: Final = {".json": "JSON", ".sqlite": "SQLite", ".db": "SQLite"}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLog:
    """The result of an export. ``seq`` is the last record, ``objects`` the number of objects, or of
    traces in XES."""

    path: Path
    format: str
    world: Hash
    first: int
    seq: int
    workflow: str | None
    events: int
    objects: int
    size: int


def write_event_log(
    journal: Journal,
    target: Path,
    *,
    format: str,
    workflow: str | None = None,
    with_values: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> WrittenLog:
    """Write all records up to the durable end into the file ``target``, in one of ``LOG_FORMATS``.

    Args:
        workflow: Its name or a part of it (A-5), of any manifest in the journal.
        progress: Called with (records read, records in all). If it raises, no file is left behind.

    Raises:
        BadUsage: The format, the suffix of the file or the workflow is unknown, or XES has no
            workflow.
        Refused: The file exists and must not be replaced.
        Damage: The journal is damaged.
        Unavailable: The file, or a temporary one, cannot be written.
    """
    _check(format, target, workflow)
    head = head_of(journal)
    cut_state = _cut_state(journal)
    if workflow is not None:
        names = _workflows(journal, head, cut_state)
        workflow = find_named("workflow", workflow, names, "this world has no manifest yet")
    events = JournalEvents(
        journal,
        head.world,
        workflow=workflow,
        values=ScalarValues(journal, cut_state) if with_values else None,
        cut_state=cut_state,
    )
    with PartFile(target, force=force) as part, ObjectMoves(cut_state) as moves:
        with closing(_writer(format, part, workflow)) as writer:
            count = 0
            for frame in _frames(journal, head):
                events.take(frame)
                moves.add(events.moves)
                writer.events(events.events)
                count += len(events.events)
                if progress is not None:
                    progress(frame.header.last, head.seq)
            objects = writer.finish(moves.objects())
        size = part.path.stat().st_size
        part.finish()
    return WrittenLog(
        path=target,
        format=format,
        world=head.world,
        first=first_kept(journal),
        seq=head.seq,
        workflow=workflow,
        events=count,
        objects=objects,
        size=size,
    )


def _frames(journal: Journal, head: Head) -> Iterator[Frame]:
    """Yield the frames up to the head. Raises ``Damage`` where one is missing."""
    expected = first_kept(journal)
    for frame in journal.frames(expected, head.seq):
        if frame.header.first != expected:
            raise Damage(f"frame {expected} is missing (run aos verify for details)")
        yield frame
        expected = frame.header.last + 1


def _workflows(journal: Journal, head: Head, cut_state: State | None) -> list[str]:
    """Return the workflows of every manifest in the journal."""
    names: set[str] = set()
    if cut_state is not None and cut_state.manifest is not None:
        names.update(cut_state.manifest.workflows)
    for frame in _frames(journal, head):
        for data in frame.records:
            record = from_bytes(data) if IS_MANIFEST in data else None
            if isinstance(record, Manifest):
                manifest = judge(journal.blob(record.document.hash))
                names.update(manifest.workflows)
    return sorted(names)


def _check(format: str, target: Path, workflow: str | None) -> None:
    if format not in LOG_FORMATS:
        raise BadUsage("format", expected="one of " + ", ".join(LOG_FORMATS), actual=repr(format))
    if format == OCEL and target.suffix not in OCEL_SUFFIXES:
        raise BadUsage(
            "the suffix of the file chooses the form of OCEL",
            location=str(target),
            expected="one of " + ", ".join(OCEL_SUFFIXES),
            actual=repr(target.suffix),
        )
    if format == XES and workflow is None:
        raise BadUsage("XES has one trace for each cell of a workflow: name it with --workflow")


def _writer(format: str, part: PartFile, workflow: str | None) -> LogWriter:
    if format == JSON_LINES:
        return JsonLines(part)
    if format == XES:
        assert workflow is not None, "checked above"
        return Xes(part, workflow)
    return OcelJson(part) if OCEL_SUFFIXES[part.target.suffix] == "JSON" else OcelSqlite(part)


def _cut_state(journal: Journal) -> State | None:
    """The state that a pruned journal continues from."""
    cut = journal.cut()
    return None if cut is None else load(cut.document, journal.blob, manifest_of=judge)


class JsonLines:
    """Writes JSON lines (EX-43): one event a line as it comes, with the objects that it names.
    Objects have no line of their own; they are counted."""

    def __init__(self, part: PartFile) -> None:
        self._file = TextFile(part)

    def events(self, events: Sequence[LogEvent]) -> None:
        """Write the next events."""
        self._file.write("".join(f"{json.dumps(_event_fields(event))}\n" for event in events))

    def finish(self, objects: Iterable[LogObject]) -> int:
        """Write what is buffered; return the number of objects."""
        count = sum(1 for _ in objects)
        self._file.flush()
        return count

    def close(self) -> None:
        """Release nothing: the file belongs to the caller."""


def _event_fields(event: LogEvent) -> dict[str, object]:
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
