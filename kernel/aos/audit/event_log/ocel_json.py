"""A log as OCEL 2.0 in JSON (spec/exports.md, EX-40).

The members of the document are in the order in which they become known: events, objects, and the
types of both. JSON gives no meaning to that order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from aos.audit.event_log.log_event import CELL, INTENT, LogEvent, LogLink, Scalar, iso_time
from aos.audit.event_log.log_writer import RECORD, AttributeTypes, TextFile, text_of
from aos.audit.event_log.object_moves import LogObject
from aos.store.part_file import PartFile

STATUS: Final = "status"


class OcelJson:
    """Writes one event, or one object, a line."""

    def __init__(self, part: PartFile) -> None:
        self._file = TextFile(part)
        self._types = AttributeTypes()
        self._separator = '{"events":[\n'

    def events(self, events: Sequence[LogEvent]) -> None:
        for event in events:
            self._types.note(event)
        lines = [_event(event) for event in events]
        if lines:
            self._file.write(self._separator + ",\n".join(lines))
            self._separator = ",\n"

    def finish(self, objects: Iterable[LogObject]) -> int:
        write = self._file.write
        write(self._separator if self._separator != ",\n" else "")
        write('\n],"objects":[\n')
        count = 0
        types: dict[str, bool] = {}
        for log_object in objects:
            write(
                (",\n" if count else "")
                + f'{{"id":{_text(log_object.id)},"type":{_text(log_object.type)}'
            )
            self._attributes(log_object)
            if log_object.asked_by is not None:
                write(f',"relationships":[{_relationship(log_object.asked_by, "asked")}]')
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


def _event(event: LogEvent) -> str:
    attributes = "".join(_attribute(name, value) for name, value in event.attributes)
    links = ",".join([_linked(link) for link in event.links])
    return (
        f'{{"id":"{event.id}","type":{_text(event.activity)},"time":"{iso_time(event.time_ns)}",'
        f'"attributes":[{{"name":"{RECORD}","value":"{event.seq}"}}{attributes}],'
        f'"relationships":[{links}]}}'
    )


def _attribute(name: str, value: Scalar) -> str:
    return f',{{"name":{_text(name)},"value":{json.dumps(text_of(value), ensure_ascii=False)}}}'


def _linked(link: LogLink) -> str:
    if link.kind == CELL:
        return f'{{"objectId":{_text(link.id)},"qualifier":"{link.qualifier}"}}'
    return f'{{"objectId":"{link.id}","qualifier":"{link.qualifier}"}}'


def _relationship(id: str, qualifier: str) -> str:
    return f'{{"objectId":{_text(id)},"qualifier":"{qualifier}"}}'


@lru_cache(8_192)
def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
