"""The same log in every format, from hostile and damaged worlds, and on a full disk (EX-10 to
EX-44)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.frame import Frame
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.prove.event_log import event_log, log_writer
from aos.prove.event_log.log_event import LogEvent
from aos.prove.event_log.log_writer import TextFile
from aos.prove.event_log.ocel import OcelSqlite, TableNames
from aos.store.memory_store import MemoryStore
from aos.store.part_file import PartFile
from tests.core.desk import DESK, pay, tell
from tests.prove.desks import Desk, every_kind
from tests.prove.event_log.logs import (
    events_of,
    read_json,
    read_lines,
    read_sqlite,
    read_xes,
    written,
)
from tests.prove.journals import ORDER, busy_shop, store_of

HOSTILE = '<a&b>"\x1b[31m\u202e\u0000\ud7ff]]>\U0001f600'


def hostile() -> Desk:
    """Cells whose keys and values try to break every format."""
    world = Desk()
    for key in (HOSTILE, "--", "', DROP TABLE event;", "\n\t"):
        tell(world, key, pay(), note=HOSTILE)
    return world


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return store_of(every_kind())


@pytest.mark.parametrize("with_values", [False, True])
def test_both_forms_of_ocel_have_the_same_log(
    store: MemoryStore, tmp_path: Path, with_values: bool
) -> None:  # EX-40, EX-41
    made = written(store, tmp_path / "log.json", "ocel", with_values=with_values)
    written(store, tmp_path / "log.sqlite", "ocel", with_values=with_values)

    left, right = read_json(made.path), read_sqlite(tmp_path / "log.sqlite")

    assert made.events == len(left.events) == len(events_of(store))
    assert made.objects == len(left.objects)
    assert left._replace(attributes={}) == right._replace(attributes={})
    for id, attributes in left.attributes.items():
        given = {name: as_sqlite(value) for name, value in attributes.items()}
        assert given == right.attributes[id]


def as_sqlite(value: str) -> str:
    return {"false": "0", "true": "1"}.get(value, value)


def test_every_named_object_is_in_the_log(store: MemoryStore, tmp_path: Path) -> None:  # EX-25
    written(store, tmp_path / "log.json", "ocel")
    found = read_json(tmp_path / "log.json")

    assert {object for _, object, _ in found.links} == set(found.objects)
    assert {object for _, object, _ in found.asked_by} <= set(found.objects)
    assert {of for of, _ in found.events.values()} == found.event_types
    assert set(found.objects.values()) == found.object_types
    assert all(found.statuses[id] for id, of in found.objects.items() if of != "world")


def test_declared_types_fit_the_attributes(tmp_path: Path) -> None:  # EX-26
    written(store_of(busy_shop()), tmp_path / "log.json", "ocel", with_values=True)
    found = json.loads((tmp_path / "log.json").read_text())
    types = {
        each["name"]: {at["name"]: at["type"] for at in each["attributes"]}
        for each in found["eventTypes"]
    }

    assert types["shop/Placed@1"] == {
        "record": "integer", "value.amount": "integer", "value.order_id": "string",
    }  # fmt: skip
    for event in found["events"]:
        for at in event["attributes"]:
            assert isinstance(at["value"], str)
            if types[event["type"]][at["name"]] == "integer":
                int(at["value"])


def test_a_trace_is_a_cell_of_the_workflow(store: MemoryStore, tmp_path: Path) -> None:  # EX-42
    made = written(store, tmp_path / "log.xes", "xes", workflow="desk")
    traces = read_xes(made.path)
    whole = events_of(store, workflow=DESK)

    assert made.workflow == DESK
    assert made.objects == len(traces) == 8
    for name, events in traces.items():
        about = [e for e in whole if f"{DESK} {name}" in [link.id for link in e.links]]
        assert [each["concept:name"] for each in events] == [each.activity for each in about]
        assert [int(each["record"]) for each in events] == [each.seq for each in about]
    assert traces["canceled"][-1]["qualifier"] == "answered"
    assert {each.get("org:resource") for each in traces["failed"]} >= {"operator"}


def test_json_lines_have_each_event_with_its_objects(
    store: MemoryStore, tmp_path: Path
) -> None:  # EX-43
    made = written(store, tmp_path / "log.jsonl", "jsonl")
    lines = read_lines(made.path)

    assert [each["id"] for each in lines] == [each.id for each in events_of(store)]
    assert set(lines[0]) == {"id", "record", "time", "time_ns", "type", "attributes", "objects"}
    assert {tuple(each["objects"][0]) for each in lines} == {("id", "type", "qualifier")}


def test_hostile_text_breaks_no_format(tmp_path: Path) -> None:  # EX-44
    store = store_of(hostile())
    for suffix, format in (("json", "ocel"), ("sqlite", "ocel"), ("jsonl", "jsonl")):
        written(store, tmp_path / f"log.{suffix}", format, with_values=True)
    written(store, tmp_path / "log.xes", "xes", workflow=DESK, with_values=True)
    left, right = read_json(tmp_path / "log.json"), read_sqlite(tmp_path / "log.sqlite")

    assert left.links == right.links
    assert f"{DESK} {HOSTILE}" in left.objects
    assert any(HOSTILE in each.values() for each in left.attributes.values())
    names = {each["objects"][0]["id"] for each in read_lines(tmp_path / "log.jsonl")}
    assert f"{DESK} {HOSTILE}" in names
    shown = HOSTILE.replace("\x1b", "\\u001b").replace("\u0000", "\\u0000")
    assert shown in read_xes(tmp_path / "log.xes")


@pytest.mark.parametrize("format", ["log.json", "log.jsonl", "log.xes"])
def test_the_same_journal_gives_the_same_bytes(tmp_path: Path, format: str) -> None:  # EX-15
    store, suffix = store_of(busy_shop()), format.rpartition(".")[2]
    how: dict[str, Any] = {"workflow": ORDER} if suffix == "xes" else {}
    kind = "ocel" if suffix == "json" else suffix
    first = written(store, tmp_path / format, kind, **how).path.read_bytes()

    assert written(store, tmp_path / format, kind, **how).path.read_bytes() == first


def test_a_log_without_an_event_is_a_log(tmp_path: Path) -> None:
    """A world has a manifest before any workflow, so only the selection can be empty."""
    world = Desk()
    for suffix, read in (("json", read_json), ("sqlite", read_sqlite)):
        made = written(store_of(world), tmp_path / f"log.{suffix}", "ocel", workflow=DESK)
        assert (made.events, made.objects) == (0, 0)
        assert read(made.path).events == {}
    made = written(store_of(world), tmp_path / "log.xes", "xes", workflow=DESK)
    assert read_xes(made.path) == {}


@pytest.mark.parametrize(
    ("format", "file", "how"),
    [
        ("parquet", "x.parquet", {}),
        ("ocel", "x.xml", {}),
        ("xes", "x.xes", {}),
        ("xes", "x.xes", {"workflow": "nothing"}),
    ],
)
def test_a_wrong_word_writes_nothing(
    store: MemoryStore, tmp_path: Path, format: str, file: str, how: Any
) -> None:  # EX-11, EX-12
    with pytest.raises(BadUsage):
        written(store, tmp_path / file, format, **how)

    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_it_may_be_replaced(
    store: MemoryStore, tmp_path: Path
) -> None:  # EX-13
    (tmp_path / "log.json").write_text("mine")
    with pytest.raises(Refused, match="--force"):
        event_log.write_event_log(store, tmp_path / "log.json", format="ocel")

    assert (tmp_path / "log.json").read_text() == "mine"


@pytest.mark.parametrize("file", ["log.json", "log.sqlite", "log.jsonl"])
def test_damage_in_the_middle_leaves_no_file(tmp_path: Path, file: str) -> None:  # EX-13, EX-14
    store = store_of(busy_shop())

    class Short(MemoryStore):
        def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
            for number, frame in enumerate(MemoryStore.frames(self, first_seq, last_seq)):
                if number == 3:
                    continue
                yield frame

    short = Short()
    short.__dict__.update(store.__dict__)
    kind = "jsonl" if file.endswith("jsonl") else "ocel"
    with pytest.raises(Damage, match="is missing"):
        written(short, tmp_path / file, kind)

    assert list(tmp_path.iterdir()) == []


def test_a_record_that_cannot_be_read_leaves_no_file(tmp_path: Path) -> None:  # EX-14
    store = store_of(busy_shop())

    class Altered(MemoryStore):
        def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
            for frame in MemoryStore.frames(self, first_seq, last_seq):
                yield replace(frame, records=(*frame.records[:-1], b"\xa0"))

    altered = Altered()
    altered.__dict__.update(store.__dict__)
    with pytest.raises(Damage):
        written(altered, tmp_path / "log.json", "ocel")

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # EX-13
    with PartFile(tmp_path / "log.json") as part:
        file = TextFile(part)
        file.write("x")
        monkeypatch.setattr("os.write", no_room)
        with pytest.raises(Unavailable, match="nothing was left behind"):
            file.flush()
    assert list(tmp_path.iterdir()) == []


def no_room(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_database_that_cannot_grow_leaves_no_file(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # EX-13
    connect = sqlite3.connect

    def small(path: object, **how: Any) -> sqlite3.Connection:
        made = connect(path, **how)  # type: ignore[call-overload]
        made.execute("PRAGMA max_page_count = 20")
        assert isinstance(made, sqlite3.Connection)
        return made

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(Unavailable, match="is full"):
        written(store, tmp_path / "log.sqlite", "ocel")

    assert list(tmp_path.iterdir()) == []


def test_no_room_for_temporary_files_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(Unavailable, match="TMPDIR"):
        log_writer.temporary_database()


def test_names_of_tables_are_distinct_whatever_the_types_are() -> None:  # EX-41
    names = TableNames()
    types = ["a/B@1", "A/b@1", "a_b_1", "map_type", "object", "/", "@", "x" * 500, "x" * 501]

    found = [names.take(each) for each in types]

    assert len({each.casefold() for each in found}) == len(types)
    assert not {"map_type", "object"} & {each.casefold() for each in found}
    assert max(map(len, found)) <= 103


def test_columns_are_distinct_and_grow_with_the_attributes(tmp_path: Path) -> None:  # EX-41
    def event(seq: int, *attributes: tuple[str, str]) -> LogEvent:
        return LogEvent(seq, 0, 0, "t/Told@1", (), attributes)

    with PartFile(tmp_path / "log.db") as part:
        writer = OcelSqlite(part)
        writer.events([event(1, ("value.a", "1")), event(2, ("value.A", "2"), ("ocel_id", "3"))])
        writer.events([event(3, ("value.b", "4"))])
        writer.finish([])
        part.finish()

    found = read_sqlite(tmp_path / "log.db").attributes
    assert list(found.values()) == [
        {"record": "1", "value.a": "1"},
        {"record": "2", "value.A_2": "2", "ocel_id_2": "3"},
        {"record": "3", "value.b": "4"},
    ]
