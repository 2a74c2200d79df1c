"""Event logs of worlds in memory, written to files and read again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from aos.core.journal.frame import Frame
from aos.prove.event_log.event_log import WrittenLog, write_event_log
from aos.prove.event_log.journal_events import JournalEvents
from aos.prove.event_log.log_event import LogEvent
from aos.prove.event_log.log_writer import ObjectMoves
from aos.store.store import Store
from aos.values.digests import Hash

XES = "{http://www.xes-standard.org/}"


class ReadObject(NamedTuple):
    """An object of a log, with its statuses in order."""

    kind: int
    type: str
    asked_by: str | None
    statuses: list[str]


def objects_of(store: Store, frames: Iterable[Frame], world: Hash) -> dict[str, ReadObject]:
    """The objects that these frames give, by their names."""
    events = JournalEvents(store, world)
    with ObjectMoves() as moves:
        for frame in frames:
            events.take(frame)
            moves.add(events.moves)
        return {
            each.id: ReadObject(
                each.kind, each.type, each.asked_by, [status for _, status in each.statuses]
            )
            for each in moves.objects()
        }


def events_of(store: Store, **how: Any) -> list[LogEvent]:
    """All events of a journal."""
    head = store.head()
    assert head is not None
    reader = JournalEvents(store, head.world, **how)
    found: list[LogEvent] = []
    for frame in store.frames():
        reader.take(frame)
        found += reader.events
    return found


def written(store: Store, path: Path, format: str, **how: Any) -> WrittenLog:
    return write_event_log(store, path, format=format, force=True, **how)


class Ocel(NamedTuple):
    """An OCEL log, in a form that JSON and SQLite have in common."""

    events: dict[str, tuple[str, str]]
    """The type and the time of each event."""
    links: set[tuple[str, str, str]]
    objects: dict[str, str]
    statuses: dict[str, list[tuple[str, str]]]
    asked_by: set[tuple[str, str, str]]
    attributes: dict[str, dict[str, str]]
    event_types: set[str]
    object_types: set[str]


def read_json(path: Path) -> Ocel:
    found = json.loads(path.read_text("utf-8"))
    assert set(found) == {"events", "objects", "eventTypes", "objectTypes"}
    events, objects = found["events"], found["objects"]
    return Ocel(
        {each["id"]: (each["type"], each["time"]) for each in events},
        {
            (each["id"], link["objectId"], link["qualifier"])
            for each in events
            for link in each["relationships"]
        },
        {each["id"]: each["type"] for each in objects},
        {
            each["id"]: [(at["time"], at["value"]) for at in each.get("attributes", ())]
            for each in objects
        },
        {
            (each["id"], link["objectId"], link["qualifier"])
            for each in objects
            for link in each.get("relationships", ())
        },
        {each["id"]: {at["name"]: at["value"] for at in each["attributes"]} for each in events},
        {each["name"] for each in found["eventTypes"]},
        {each["name"] for each in found["objectTypes"]},
    )


def read_sqlite(path: Path) -> Ocel:
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    try:
        database.execute("PRAGMA foreign_keys = ON")
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return _read(database)
    finally:
        database.close()


def _read(database: sqlite3.Connection) -> Ocel:
    def rows(query: str) -> list[Any]:
        return database.execute(query).fetchall()

    types = dict(map(tuple, rows("SELECT ocel_id, ocel_type FROM event")))
    events: dict[str, tuple[str, str]] = {}
    attributes: dict[str, dict[str, str]] = {}
    for row in rows("SELECT ocel_type_map FROM event_map_type"):
        for each in rows(f'SELECT * FROM "event_{row[0]}"'):
            fields = dict(each)
            id, at = fields.pop("ocel_id"), fields.pop("ocel_time")
            events[id] = types[id], at
            attributes[id] = {name: str(v) for name, v in fields.items() if v is not None}
    statuses: dict[str, list[tuple[str, str]]] = {}
    for row in rows("SELECT ocel_type_map FROM object_map_type"):
        for each in rows(f'SELECT * FROM "object_{row[0]}" ORDER BY rowid'):
            of = statuses.setdefault(each["ocel_id"], [])
            assert (each["ocel_changed_field"] is None) == (not of)
            if each["status"] is not None:
                of.append((each["ocel_time"], each["status"]))
    return Ocel(
        events,
        set(map(tuple, rows("SELECT * FROM event_object"))),
        dict(map(tuple, rows("SELECT ocel_id, ocel_type FROM object"))),
        statuses,
        set(map(tuple, rows("SELECT * FROM object_object"))),
        attributes,
        {row[0] for row in rows("SELECT ocel_type FROM event_map_type")},
        {row[0] for row in rows("SELECT ocel_type FROM object_map_type")},
    )


def read_xes(path: Path) -> dict[str, list[dict[str, str]]]:
    """The events of each trace, as their attributes."""
    found: dict[str, list[dict[str, str]]] = {}
    for trace in ET.parse(path).getroot().iter(f"{XES}trace"):
        name = next(each.get("value") for each in trace if each.tag != f"{XES}event")
        assert name is not None
        found[name] = [
            {str(at.get("key")): str(at.get("value")) for at in event}
            for event in trace.iter(f"{XES}event")
        ]
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
