"""Write a log as OCEL 2.0, in JSON or in SQLite (spec/exports.md, EX-40, EX-41)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from aos.prove.event_log.log_event import CELL, INTENT, LogEvent, LogLink, Scalar, iso_time
from aos.prove.event_log.log_writer import (
    RECORD,
    AttributeTypes,
    LogObject,
    TextFile,
    text_of,
    type_of,
)
from aos.store.part_file import PartFile

STATUS: Final = "status"

CACHE_KIB: Final = 8192
ROWS_AT_ONCE: Final = 4096
NAME_MAX: Final = 100
"""The longest name of a type within the name of a table."""

_COLUMNS: Final = {"string": "TEXT", "integer": "INTEGER", "boolean": "BOOLEAN"}
_TABLES: Final = """
CREATE TABLE event_map_type (ocel_type TEXT PRIMARY KEY, ocel_type_map TEXT);
CREATE TABLE object_map_type (ocel_type TEXT PRIMARY KEY, ocel_type_map TEXT);
CREATE TABLE event (
  ocel_id TEXT PRIMARY KEY, ocel_type TEXT,
  FOREIGN KEY (ocel_type) REFERENCES event_map_type (ocel_type)) WITHOUT ROWID;
CREATE TABLE object (
  ocel_id TEXT PRIMARY KEY, ocel_type TEXT,
  FOREIGN KEY (ocel_type) REFERENCES object_map_type (ocel_type)) WITHOUT ROWID;
CREATE TABLE event_object (
  ocel_event_id TEXT, ocel_object_id TEXT, ocel_qualifier TEXT,
  PRIMARY KEY (ocel_event_id, ocel_object_id, ocel_qualifier),
  FOREIGN KEY (ocel_event_id) REFERENCES event (ocel_id),
  FOREIGN KEY (ocel_object_id) REFERENCES object (ocel_id)) WITHOUT ROWID;
CREATE TABLE object_object (
  ocel_source_id TEXT, ocel_target_id TEXT, ocel_qualifier TEXT,
  PRIMARY KEY (ocel_source_id, ocel_target_id, ocel_qualifier),
  FOREIGN KEY (ocel_source_id) REFERENCES object (ocel_id),
  FOREIGN KEY (ocel_target_id) REFERENCES object (ocel_id)) WITHOUT ROWID;
BEGIN;
"""


class OcelJson:
    """Writes OCEL 2.0 in JSON (EX-40): one event, or one object, a line.

    The members of the document are in the order in which they become known: events, objects, and
    the types of both. JSON gives no meaning to that order.
    """

    def __init__(self, part: PartFile) -> None:
        self._file = TextFile(part)
        self._types = AttributeTypes()
        self._separator = '{"events":[\n'

    def events(self, events: Sequence[LogEvent]) -> None:
        for event in events:
            self._types.note(event)
        lines = [_event_json(event) for event in events]
        if lines:
            self._file.write(self._separator + ",\n".join(lines))
            self._separator = ",\n"

    def finish(self, objects: Iterable[LogObject]) -> int:
        """Write the objects and the end of the document; return the number of objects."""
        write = self._file.write
        write(self._separator if self._separator != ",\n" else "")
        write('\n],"objects":[\n')
        count = 0
        types: dict[str, bool] = {}
        for log_object in objects:
            write(
                (",\n" if count else "")
                + f'{{"id":{_json_text(log_object.id)},"type":{_json_text(log_object.type)}'
            )
            self._attributes(log_object)
            if log_object.asked_by is not None:
                write(f',"relationships":[{_relationship_json(log_object.asked_by, "asked")}]')
            write("}")
            types[log_object.type] = types.get(log_object.type, False) or log_object.kind in (
                CELL,
                INTENT,
            )
            count += 1
        write('\n],"eventTypes":' + json.dumps(self._event_types(), ensure_ascii=False))
        write(',"objectTypes":' + json.dumps(_object_types(types), ensure_ascii=False) + "}\n")
        self._file.flush()
        return count

    def close(self) -> None:
        """Release nothing: the file belongs to the caller."""

    def _attributes(self, log_object: LogObject) -> None:
        separator = ',"attributes":['
        for time_ns, status in log_object.statuses:
            self._file.write(
                f'{separator}{{"name":"{STATUS}","time":"{iso_time(time_ns)}","value":"{status}"}}'
            )
            separator = ","
        if separator == ",":
            self._file.write("]")

    def _event_types(self) -> list[object]:
        return [
            {
                "name": name,
                "attributes": [{"name": attribute, "type": of} for attribute, of in types.items()],
            }
            for name, types in sorted(self._types.of.items())
        ]


def _object_types(types: dict[str, bool]) -> list[object]:
    status = [{"name": STATUS, "type": "string"}]
    return [
        {"name": name, "attributes": status if has_status else []}
        for name, has_status in sorted(types.items())
    ]


def _event_json(event: LogEvent) -> str:
    attributes = "".join(_attribute_json(name, value) for name, value in event.attributes)
    links = ",".join([_link_json(link) for link in event.links])
    return (
        f'{{"id":"{event.id}","type":{_json_text(event.activity)},"time":"{iso_time(event.time_ns)}",'
        f'"attributes":[{{"name":"{RECORD}","value":"{event.seq}"}}{attributes}],'
        f'"relationships":[{links}]}}'
    )


def _attribute_json(name: str, value: Scalar) -> str:
    return (
        f',{{"name":{_json_text(name)},"value":{json.dumps(text_of(value), ensure_ascii=False)}}}'
    )


def _link_json(link: LogLink) -> str:
    if link.kind == CELL:
        return f'{{"objectId":{_json_text(link.id)},"qualifier":"{link.qualifier}"}}'
    return f'{{"objectId":"{link.id}","qualifier":"{link.qualifier}"}}'


def _relationship_json(id: str, qualifier: str) -> str:
    return f'{{"objectId":{_json_text(id)},"qualifier":"{qualifier}"}}'


@lru_cache(8_192)
def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class OcelSqlite:
    """Writes OCEL 2.0 in SQLite (EX-41): a database at the path of a part file."""

    def __init__(self, part: PartFile) -> None:
        """Raises: Unavailable: The database cannot be written."""
        self._part = part
        self._database = sqlite3.connect(part.path, isolation_level=None)
        self._types = AttributeTypes()
        self._events: dict[str, _TypeTable] = {}
        self._objects: dict[str, _TypeTable] = {}
        self._names = {"event": TableNames(), "object": TableNames()}
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{CACHE_KIB}"):
            self._do(f"PRAGMA {setting}")
        for statement in _TABLES.split(";"):
            self._do(statement)

    def events(self, events: Sequence[LogEvent]) -> None:
        """Write the next events."""
        rows: dict[_TypeTable, list[tuple[object, ...]]] = {}
        for event in events:
            table = self._event_table(event)
            rows.setdefault(table, []).append(table.row(event))
        self._many(
            "event VALUES (?,?)", [(log_event.id, log_event.activity) for log_event in events]
        )
        links = [
            (log_event.id, link.id, link.qualifier)
            for log_event in events
            for link in log_event.links
        ]
        self._many("event_object VALUES (?,?,?)", links)
        for table, table_rows in rows.items():
            # A later event of the same type may have added a column.
            width = table.width
            padded = [row + (None,) * (width - len(row)) for row in table_rows]
            self._many(f"{table.quoted} VALUES ({','.join('?' * width)})", padded)

    def finish(self, objects: Iterable[LogObject]) -> int:
        """Write the objects, and close the database."""
        count = 0
        remaining = iter(objects)
        rows: list[tuple[str, str]] = []
        links: list[tuple[str, str, str]] = []
        for log_object in remaining:
            table = self._object_table(log_object.type)
            rows.append((log_object.id, log_object.type))
            if log_object.asked_by is not None:
                links.append((log_object.id, log_object.asked_by, "asked"))
            self._statuses(table, log_object)
            count += 1
            if len(rows) == ROWS_AT_ONCE:
                self._flush(rows, links)
        self._flush(rows, links)
        self._do("COMMIT")
        self.close()
        return count

    def close(self) -> None:
        """Close the database. Without ``finish`` it has no objects."""
        self._database.close()

    def _flush(self, rows: list[tuple[str, str]], links: list[tuple[str, str, str]]) -> None:
        self._many("object VALUES (?,?)", rows)
        self._many("object_object VALUES (?,?,?)", links)
        rows.clear()
        links.clear()

    def _statuses(self, table: _TypeTable, log_object: LogObject) -> None:
        """Write a row for each status, the first without the name of a changed field. An object
        without a status has one row."""
        changed = None
        rows = ((log_object.id, iso_time(at), status) for at, status in log_object.statuses)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            with_field = [
                (id, at, "status" if changed or index else None, status)
                for index, (id, at, status) in enumerate(some)
            ]
            self._many(f"{table.quoted} VALUES (?,?,?,?)", with_field)
            changed = "status"
        if changed is None:
            none = (log_object.id, iso_time(0), None, None)
            self._many(f"{table.quoted} VALUES (?,?,?,?)", [none])

    def _event_table(self, event: LogEvent) -> _TypeTable:
        table = self._events.get(event.activity)
        types = self._types.note(event)
        if table is None:
            table = self._events[event.activity] = self._new_table("event", event.activity)
            self._create(table, f'"{RECORD}" INTEGER', [RECORD])
        for name, value in event.attributes:
            if name not in table.columns:
                column = table.add(name)
                kind = _COLUMNS[types.get(name, type_of(value))]
                self._do(f"ALTER TABLE {table.quoted} ADD COLUMN {_sql_name(column)} {kind}")
        return table

    def _object_table(self, type: str) -> _TypeTable:
        table = self._objects.get(type)
        if table is None:
            table = self._objects[type] = self._new_table("object", type)
            columns = "ocel_changed_field TEXT, status TEXT"
            self._create(table, columns, ["ocel_changed_field", "status"])
        return table

    def _new_table(self, kind: str, type: str) -> _TypeTable:
        name = self._names[kind].take(type)
        self._many(f"{kind}_map_type VALUES (?,?)", [(type, name)])
        return _TypeTable(kind, f"{kind}_{name}")

    def _create(self, table: _TypeTable, columns: str, names: Sequence[str]) -> None:
        # An object has a row for each change, an event has one.
        key = " PRIMARY KEY" if table.kind == "event" else ""
        self._do(
            f"CREATE TABLE {table.quoted} (ocel_id TEXT{key}, ocel_time TIMESTAMP, {columns}, "
            f"FOREIGN KEY (ocel_id) REFERENCES {table.kind} (ocel_id))"
        )
        for name in names:
            table.add(name)

    def _many(self, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows. One event may name an object twice in the same way."""
        try:
            if rows:
                self._database.executemany(f"INSERT OR IGNORE INTO {into}", rows)
        except sqlite3.OperationalError as error:
            raise self._part.failed(error) from error

    def _do(self, statement: str) -> None:
        try:
            self._database.execute(statement)
        except sqlite3.OperationalError as error:
            raise self._part.failed(error) from error


class _TypeTable:
    """The table of one type: ``columns`` maps the names of attributes to their places in a row."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.quoted = _sql_name(name)
        self.columns: dict[str, int] = {}
        self._used_names = {"ocel_id", "ocel_time"}

    @property
    def width(self) -> int:
        """The number of columns, with those for the id and the time before the attributes."""
        return 2 + len(self.columns)

    def add(self, name: str) -> str:
        """Add an attribute; return the name of its column."""
        column, number = name, 1
        while column.casefold() in self._used_names:
            number += 1
            column = f"{name}_{number}"
        self._used_names.add(column.casefold())
        self.columns[name] = self.width
        return column

    def row(self, event: LogEvent) -> tuple[object, ...]:
        values: list[object] = [None] * self.width
        values[0], values[1], values[2] = event.id, iso_time(event.time_ns), event.seq
        for name, value in event.attributes:
            values[self.columns[name]] = value
        return tuple(values)


class TableNames:
    """Names for tables, which SQLite compares without regard to case."""

    def __init__(self) -> None:
        # With these, a table would have the name of one that is not about a type.
        self._used_names = {"map_type", "object"}

    def take(self, type: str) -> str:
        """Return a new name, made from letters and digits of the type."""
        base = re.sub(r"[^A-Za-z0-9]+", "_", type).strip("_")[:NAME_MAX] or "type"
        name, number = base, 1
        while name.casefold() in self._used_names:
            number += 1
            name = f"{base}_{number}"
        self._used_names.add(name.casefold())
        return name


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
