"""Counts by SQL are those of a scan (spec/search.md, SE-13 to SE-16)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aos.core.journal.vocabulary import CELL_STATUSES
from aos.read.index.cell_pages import CellPages
from aos.read.index.folding_index import sort_lists
from aos.read.index.index_file import IndexFile, IndexHead, open_to_write
from aos.read.index.index_schema import leaves_by_value
from aos.read.index.indexed_cells import IndexedValues, ordered_bytes
from aos.read.index.indexed_workflows import IndexedWorkflow
from aos.read.where import matching
from aos.read.where.attributes import OF_EVERY_CELL, Names, Subject
from aos.read.where.condition import GroupByInvalid, WhereToken
from aos.read.where.matching import CellQuery, CountedCells, LargeValue, Search, counted
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from aos.values.schema import compile_schemas
from tests.tools import long_form

WORKFLOW: Final = "a/order@1"
SCHEMAS: Final = compile_schemas(
    {
        "a/State@1": {
            "record": {
                "total": {"option": {"int": {}}},
                "size": {"option": {"nat": {}}},
                "price": {"option": {"dec128": {}}},
                "name": {"option": {"text": {}}},
                "tags": {"list": {"text": {}}},
                "prices": {"list": {"dec128": {}}},
                "due": {"option": {"time": {}}},
                "wait": {"option": {"duration": {}}},
                "done": {"option": {"bool": {}}},
                "data": {"option": {"bytes": {}}},
                "phase": {
                    "variant": {"Open": {"unit": {}}, "Sent": {"record": {"by": {"text": {}}}}}
                },
                "context": {"map": {"key": {"text": {}}, "value": {"bytes": {}}}},
            }
        }
    }
)
MANIFEST: Final[Any] = SimpleNamespace(
    schemas=SCHEMAS, workflows={WORKFLOW: SimpleNamespace(state=SCHEMAS["a/State@1"])}
)
PATHS: Final = (
    *("total", "size", "price", "name", "tags", "prices", "due", "wait", "done", "data", "phase"),
    *("phase.Sent.by", "context.any"),
)
ALL: Final = Names(MANIFEST, WORKFLOW)
ATTRIBUTES: Final = {
    name: ALL.attribute(WhereToken(name, 1, "word"))
    for name in (*PATHS, "status", "key", "last_active")
}
TEXTS: Final = (
    "",
    "a",
    "ab",
    "a0",
    "a\0",
    "a\0b",
    "b",
    "\u00e4",
    "\U0010ffff",
    "null",
    "true",
    "1",
)
PRICES: Final = (
    "-120", "-12.5", "-12.05", "-12", "-1.5", "-1.05", "-1", "-0.000000001", "0", "1", "1.05", "10",
    "1000", "cheap",
)  # fmt: skip
"""The last one is a text that an earlier manifest allowed."""

TIMES: Final = (-(2**63), -1, 0, 1, 1_767_225_600_000_000_000, 2**63 - 1)
PACKED: Final[tuple[Any, ...]] = (
    "1",
    1,
    True,
    False,
    0,
    "true",
    2**64 - 1,
    ["a", 1],
    [],
    None,
    {"x": 1},
    b"b",
)
COLUMNS: Final = ("@status", "@last_active")
CONDITIONS: Final = (
    None, "total >= 0", "total > 0 and name = a", "tags = a", "tags ^= a or price < -1",
    "price in (-12.5, -12, 1)", "not (price < 0)", "due != null", "wait = null and done = true",
    "status in (running, failed) or phase = Sent", "context.any != 1", "key ^= k", "total > 9",
)  # fmt: skip


def some(*values: object) -> st.SearchStrategy[Any]:
    return st.sampled_from((None, *values))


STATES: Final = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "total": some(-(2**63), -2, -1, 0, 1, 2, 2**63 - 1, "many"),
            "size": some(0, 1, 2**64 - 1),
            "price": some(*PRICES),
            "name": some(*TEXTS),
            "tags": st.lists(st.sampled_from(TEXTS), max_size=4),
            "prices": st.lists(st.sampled_from(PRICES), max_size=4),
            "due": some(*TIMES),
            "wait": some(*TIMES),
            "done": some(False, True),
            "data": some(b"", b"\0", b"a", b"ab", b"\xff"),
            "phase": st.one_of(
                st.just({"$tag": "Open"}),
                st.sampled_from(TEXTS).map(lambda by: {"$tag": "Sent", "$value": {"by": by}}),
            ),
            "context": st.one_of(
                st.just({}), st.sampled_from(PACKED).map(lambda value: {"any": encode(value)})
            ),
        }
    ),
)
EMPTY: Final[dict[str, Any]] = {
    **dict.fromkeys(("total", "size", "price", "name", "due", "wait", "done", "data")),
    "tags": [],
    "prices": [],
    "phase": {"$tag": "Open"},
    "context": {},
}
CELLS: Final = st.lists(st.tuples(STATES, st.sampled_from(CELL_STATUSES)), max_size=25)


def subject_of(number: int, state: Any, status: str) -> Subject:
    key = f"{'jk'[number % 2]}-{number}"
    cell: Any = SimpleNamespace(
        id=(WORKFLOW, encode(key)), status=status, fault=None, last_active_ns=number // 3
    )
    return Subject(cell, None, lambda: state, lambda: key)


class Indexed(CellPages):
    """The index of some cells."""

    def __init__(self, path: Path, subjects: Sequence[Subject]) -> None:
        attributes = {
            **{
                attribute.path: attribute
                for attribute in ATTRIBUTES.values()
                if attribute.path not in COLUMNS
            },
            "@fault": OF_EVERY_CELL["fault"],
        }
        paths = sorted(attributes)
        file = open_to_write(path / "index", pytest.fail, has_values=True)
        assert file is not None
        self.opened: IndexFile = file
        file.begin_again(IndexHead(world=Hash(bytes(32))))
        with file.write() as change:
            values = IndexedValues(change)
            number = values._make(IndexedWorkflow(WORKFLOW, attributes, b""))
            for cell, subject in enumerate(subjects, 1):
                status = CELL_STATUSES.index(subject.cell.status)
                change.execute(
                    "INSERT INTO cells (number, workflow, key, status, last_active, reasons) "
                    "VALUES (?, 1, ?, ?, ?, 2)",
                    (cell, subject.cell.id[1], status, subject.cell.last_active_ns),
                )
                change.execute(
                    "INSERT INTO cell_counts VALUES (1, ?, 2, 1) "
                    "ON CONFLICT DO UPDATE SET count = count + 1", (status,)
                )  # fmt: skip
                leaves = {
                    (cell, position, ordered_bytes(value))
                    for position, path_ in enumerate(paths)
                    for value in attributes[path_].comparable(subject)
                }
                change.write(f"INSERT INTO leaves{number} VALUES (?, ?, ?)", leaves)
            change.execute(leaves_by_value(number))
            sort_lists(change)
        kept = {
            WORKFLOW: (
                number,
                {path_: number_of_path for number_of_path, path_ in enumerate(paths)},
            )
        }
        super().__init__(
            file, {1: WORKFLOW, 2: ""}, kept, lambda _: pytest.fail("a text"), lambda: None
        )

    def close(self) -> None:
        self.opened.close()


def index_of(path: Path, subjects: Sequence[Subject]) -> Indexed:
    return Indexed(path, subjects)


@settings(
    max_examples=300 if long_form() else 12, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(CELLS, st.sampled_from(CONDITIONS), st.sampled_from([1, 3, 1_000]))
def test_counts_of_the_index_are_those_of_a_scan(
    cells: list[tuple[Any, str]], where: str | None, most: int
) -> None:
    """SE-13 to SE-15: and each group has as many cells as a list with its value."""
    subjects = [subject_of(number, *each) for number, each in enumerate(cells)]
    search = Search(where, ALL)
    selected = [each for each in subjects if search.has(each)]
    query = CellQuery(workflow=WORKFLOW, conditions=search.conditions)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(Path(folder), subjects)
        try:
            assert index.count(query, None, most) == CountedCells(len(selected))
            for name, by in ATTRIBUTES.items():
                found = index.count(query, by, most)
                expected = counted(selected, by, most)
                assert found == expected, name
                types = [[type(value) for value, _ in each.groups] for each in (found, expected)]
                assert types[0] == types[1], "True is not 1"
                assert found.count == len(selected)
                check_groups(name, found, selected, most)
        finally:
            index.close()


def check_groups(name: str, found: CountedCells, selected: Sequence[Subject], most: int) -> None:
    by = ATTRIBUTES[name]
    numbers = [number for _, number in found.groups]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == min(most, len(numbers) + found.other_groups)
    for value, number in found.groups:
        if value is None:
            none = [each for each in selected if {*by.comparable(each)} <= {None}]
            assert number == len(none), name
        else:
            term = f"{name} = {json.dumps(by.kind.to_json(value))}"
            assert number == sum(Search(term, ALL).has(each) for each in selected), term


def test_a_value_that_is_not_indexed_is_not_counted(tmp_path: Path) -> None:
    """SE-20: the cells are read instead."""
    index = index_of(tmp_path, [])
    query = CellQuery(workflow=WORKFLOW, conditions=())

    assert index.count(query, OF_EVERY_CELL["pinned"], 9) is None
    assert index.count(query, ATTRIBUTES["total"], 9) == CountedCells(0)
    index.close()


def both_counts(
    path: Path, states: Sequence[dict[str, Any]], name: str, most: int
) -> tuple[CountedCells, CountedCells]:
    """The counts of the index and of a scan."""
    subjects = [subject_of(number, state, "running") for number, state in enumerate(states)]
    index = index_of(path, subjects)
    by, query = ATTRIBUTES[name], CellQuery(workflow=WORKFLOW, conditions=())
    try:
        return index.count(query, by, most) or CountedCells(-1), counted(subjects, by, most)
    finally:
        index.close()


def test_long_values_are_counted_by_their_hashes(tmp_path: Path) -> None:
    """SE-14, SE-15: a text of more than 4,096 bytes is not kept whole, and comes after others."""
    longest, text = "a" * 4_093, "b" * 1_000_000
    states = [{**EMPTY, "name": name} for name in (text, text + "x", "c", text, longest, None)]

    from_index, from_scan = both_counts(tmp_path, states, "name", 10)

    def large(value: str) -> LargeValue:
        return LargeValue(content_hash(encode(value)), len(encode(value)))

    assert from_index == from_scan
    assert from_index.groups == (
        (large(text), 2), (longest, 1), ("c", 1), (large(text + "x"), 1), (None, 1)
    )  # fmt: skip
    assert large(longest).size == 4_096


@pytest.mark.parametrize("bound", ["VALUES_MAX", "VALUES_MIB_MAX"])
def test_too_many_values_are_refused(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-15a: by number and by bytes, from the index and from a scan."""
    monkeypatch.setattr(matching, "BATCH_ITEMS", 1)
    monkeypatch.setattr(matching, bound, {"VALUES_MAX": 3, "VALUES_MIB_MAX": 0}[bound])
    states = [{**EMPTY, "name": f"n-{number}"} for number in range(4)]
    subjects = [subject_of(number, state, "running") for number, state in enumerate(states)]
    query = CellQuery(workflow=WORKFLOW, conditions=())
    index = index_of(tmp_path, subjects)

    refused = r"different values.* narrow the condition"
    with pytest.raises(GroupByInvalid, match=refused):
        index.count(query, ATTRIBUTES["name"], 9)
    with pytest.raises(GroupByInvalid, match=refused):
        counted(subjects, ATTRIBUTES["name"], 9)
    few = counted(subjects, ATTRIBUTES["total"], 9)
    assert (few.count, few.groups) == (4, ((None, 4),))
    index.close()


def test_the_time_of_a_count_is_checked_between_values() -> None:
    """SE-17: also while the values of one cell are counted."""
    names = [f"t-{number}" for number in range(3 * matching.BATCH_ITEMS)]
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1

    counted([subject_of(1, {**EMPTY, "tags": names}, "RUNNING")], ATTRIBUTES["tags"], 9, check)

    assert checks == 3


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("due", 1_767_225_600_000_000_000, "2026-01-01T00:00:00Z"), ("wait", 90 * 10**9, "1m30s")],
)
def test_times_and_durations_are_spelled_as_conditions_have_them(
    name: str, value: int, shown: str
) -> None:
    """SE-14."""
    assert ATTRIBUTES[name].kind.to_json(value) == shown
