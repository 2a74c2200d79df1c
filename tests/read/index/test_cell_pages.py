"""Lists of cells from rows that are made by hand (spec/index.md, IX-41)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from aos.core.journal.records import CellId
from aos.read.index.cell_pages import CellPages
from aos.read.index.index_layout import (
    NS_BYTES,
    OF_CELLS,
    WORD_BYTES,
    IndexTable,
    StoredCell,
    number_key,
    order_key,
)
from aos.read.index.index_rows import IndexRows, RowsInMemory
from aos.read.index.index_tables import IndexTables
from aos.read.where.attributes import OF_EVERY_CELL
from aos.read.where.matching import CellQuery, Condition
from aos.values.cbor import decode_record, encode

VALUES: tuple[Any, ...] = ("7", "70", "8", 7, 70, -7, 700, ["7"], {"7": 1}, b"7", True, None)

KEYS: list[bytes] = [
    b"",
    *(encode(each) for each in VALUES),
    *(encode("y" * 500 + end) for end in ("b", "a", "c")),
    *(encode(bytes([7] * 500 + [end])) for end in (3, 1, 2)),
]


class _Nothing:
    """Rows without a row."""

    def get(self, *_: object) -> bytes | None:
        return None

    def scan(self, *_: object, **__: object) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


def text_of(id: CellId) -> str:
    value = None if id[1] == b"" else decode_record(id[1])
    return value if isinstance(value, str) else str(value)


@pytest.fixture(scope="module")
def stored() -> tuple[CellPages, list[tuple[CellId, int]]]:
    """Cells of two workflows with keys of every kind, some active at the same moment."""
    tables = IndexTables(RowsInMemory(cast("IndexRows", _Nothing())))
    found = []
    for place, key in enumerate(KEYS):
        for name in ("t/b@1", "t/a@1"):
            number, ns = tables.number((name, key)), 100 - place // 6
            group = tables.word(name).to_bytes(WORD_BYTES, "big") + b"\x00"
            row = StoredCell(0, ns, tables.word(name), key)
            rows, order = tables.rows, order_key(key)
            rows.put(IndexTable.CELLS, number_key(number), row.to_bytes())
            rows.put(IndexTable.BY_KEY, group + order, number_key(number))
            activity = group + ns.to_bytes(NS_BYTES, "big") + order
            rows.put(IndexTable.BY_ACTIVITY, activity, number_key(number))
            tables.count(OF_CELLS + group, 1)
            found.append(((name, key), ns))
    tables.finish()
    return CellPages(tables, text_of, lambda: None), found


ORDERS: dict[str, Any] = {
    "key": (None, False, lambda each: each[0]),
    "age": (OF_EVERY_CELL["last_active"], False, lambda each: (each[1], each[0])),
    "activity": (OF_EVERY_CELL["last_active"], True, lambda each: (-each[1], each[0])),
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
    by, is_descending, place = ORDERS[order]
    conditions = () if prefix is None else (Condition(OF_EVERY_CELL["key"], "^=", (prefix,)),)
    expected = [
        id
        for id, _ in sorted(cells, key=place)
        if workflow in (None, id[0]) and (prefix is None or text_of(id).startswith(prefix))
    ]

    def page(limit: int, offset: int, after: tuple[int, CellId] | None = None) -> list[CellId]:
        query = CellQuery(
            workflow=workflow, conditions=conditions, order=by, is_descending=is_descending,
            after_position=after,
        )  # fmt: skip
        found = pages.page(query, limit=limit, offset=offset)
        assert found is not None
        return list(found.cells)

    assert page(1000, 0) == expected
    ns_of = dict(cells)
    for at in range(len(expected)):
        assert page(2, at) == expected[at : at + 2]
        sign = {"key": 0, "age": 1, "activity": -1}[order]
        after = (sign * ns_of[expected[at]], expected[at])
        assert page(3, 0, after) == expected[at + 1 : at + 4]
