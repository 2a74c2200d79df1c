"""Lists of cells from rows that are made by hand (spec/index.md, IX-41)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.core.journal.records import CellId
from aos.read.index import index_file
from aos.read.index.cell_pages import CellPages
from aos.read.index.folding_index import sort_lists
from aos.read.index.index_file import IndexHead, open_to_write
from aos.read.where.attributes import OF_EVERY_CELL
from aos.read.where.matching import CellQuery, Condition
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash

COLUMNS = "(number, workflow, key, status, last_active, reasons)"

VALUES: tuple[Any, ...] = ("7", "70", "8", 7, 70, -7, 700, ["7"], {"7": 1}, b"7", True, None)

KEYS: list[bytes] = [
    b"",
    *(encode(value) for value in VALUES),
    *(encode("y" * 500 + end) for end in ("b", "a", "c")),
    *(encode(bytes([7] * 500 + [end])) for end in (3, 1, 2)),
]


def text_of(id: CellId) -> str:
    value = None if id[1] == b"" else decode_record(id[1])
    return value if isinstance(value, str) else str(value)


@pytest.fixture(scope="module")
def stored(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[CellPages, list[tuple[CellId, int]]]]:
    """Cells of two workflows with keys of every kind, some active at the same moment."""
    file = open_to_write(tmp_path_factory.mktemp("cells") / "index", pytest.fail)
    assert file is not None
    file.begin_again(IndexHead(world=Hash(bytes(32))))
    names = {1: "t/b@1", 2: "t/a@1", 3: "", 4: "t/aa@1"}
    cells: list[tuple[CellId, int]] = []
    with file, file.write() as change:
        for number_of_key, key in enumerate(KEYS):
            for workflow in (1, 2):
                ns, number = 100 - number_of_key // 6, len(cells) + 1
                change.execute(
                    f"INSERT INTO cells {COLUMNS} VALUES (?, ?, ?, 0, ?, 3)",
                    (number, workflow, key, ns),
                )
                cells.append(((names[workflow], key), ns))
        change.execute(f"INSERT INTO cells {COLUMNS} VALUES (999, 4, ?, 2, 90, 3)", (encode("7"),))
        change.execute("INSERT INTO cell_counts VALUES (4, 2, 3, 1)")
        cells.append(((names[4], encode("7")), 90))
        for workflow in (1, 2):
            change.execute("INSERT INTO cell_counts VALUES (?, 0, 3, ?)", (workflow, len(KEYS)))
        sort_lists(change)
        yield CellPages(file, names, {}, text_of, lambda: None), cells


ORDERS: dict[str, Any] = {
    "key": (None, False, lambda cell: cell[0]),
    "age": (OF_EVERY_CELL["last_active"], False, lambda cell: (cell[1], cell[0])),
    "activity": (OF_EVERY_CELL["last_active"], True, lambda cell: (-cell[1], cell[0])),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("prefix", [None, "", "7", "70", "y", "y" * 500, "[", "b'", "N", "-"])
@pytest.mark.parametrize("workflow", [None, "t/a@1"])
def test_keys_of_every_kind_are_listed_in_order_and_by_their_text(
    stored: tuple[CellPages, list[tuple[CellId, int]]],
    order: str,
    prefix: str | None,
    workflow: str | None,
) -> None:
    """IX-41: also keys that are too long for the index, and those that are no texts."""
    pages, cells = stored
    by, is_descending, sort_key = ORDERS[order]
    conditions = () if prefix is None else (Condition(OF_EVERY_CELL["key"], "^=", (prefix,)),)
    expected = [
        id
        for id, _ in sorted(cells, key=sort_key)
        if workflow in (None, id[0]) and (prefix is None or text_of(id).startswith(prefix))
    ]

    def page(limit: int, offset: int, after: tuple[int, CellId] | None = None) -> list[CellId]:
        query = CellQuery(
            workflow=workflow, conditions=conditions, order=by, is_descending=is_descending,
            after_position=after,
        )  # fmt: skip
        cell_page = pages.page(query, limit=limit, offset=offset)
        assert cell_page is not None
        return list(cell_page.cells)

    assert page(1000, 0) == expected
    ns_of = dict(cells)
    for at in range(len(expected)):
        assert page(2, at) == expected[at : at + 2]
        sign = {"key": 0, "age": 1, "activity": -1}[order]
        after = (sign * ns_of[expected[at]], expected[at])
        assert page(3, 0, after) == expected[at + 1 : at + 4]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("status", ["running", "completed", "failed"])
def test_a_status_that_some_workflows_do_not_have_is_listed(
    stored: tuple[CellPages, list[tuple[CellId, int]]], status: str, order: str
) -> None:
    """IX-41"""
    pages, cells = stored
    by, is_descending, sort_key = ORDERS[order]
    query = CellQuery(
        workflow=None, conditions=(Condition(OF_EVERY_CELL["status"], "=", (status,)),), order=by,
        is_descending=is_descending,
    )  # fmt: skip
    expected = [
        id
        for id, _ in sorted(cells, key=sort_key)
        if status == ("completed" if id[0] == "t/aa@1" else "running")
    ]

    cell_page = pages.page(query, limit=1000, offset=0)

    assert cell_page is not None
    assert (list(cell_page.cells), cell_page.total) == (expected, len(expected))


def test_the_time_of_a_list_ends_a_statement(
    stored: tuple[CellPages, list[tuple[CellId, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """IX-42"""
    pages, _ = stored
    monkeypatch.setattr(index_file, "STEPS", 1)

    def is_late() -> None:
        raise TimeoutError("too late")

    late = CellPages(pages._file, pages._names, {}, text_of, is_late)
    for query in (
        CellQuery(workflow=None, conditions=()),
        CellQuery(workflow=None, conditions=(Condition(OF_EVERY_CELL["key"], "^=", ("7",)),)),
    ):
        with pytest.raises(TimeoutError, match="too late"):
            late.page(query, limit=9, offset=0)
    pages._file.limit(None)


def test_a_key_that_cannot_be_read_is_the_error_of_the_list(
    stored: tuple[CellPages, list[tuple[CellId, int]]],
) -> None:
    """IX-41"""
    pages, _ = stored

    def unreadable(_: CellId) -> str:
        raise KeyError("the cell")

    pages = CellPages(pages._file, pages._names, {}, unreadable, lambda: None)
    query = CellQuery(workflow=None, conditions=(Condition(OF_EVERY_CELL["key"], "^=", ("7",)),))
    with pytest.raises(KeyError, match="the cell"):
        pages.page(query, limit=9, offset=0)
