"""Conditions on cells: their text, their types, and the cells that they select (spec/search.md)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.journal.faults import Fault, FaultKind
from aos.read.where.attributes import Names, Subject
from aos.read.where.condition import BYTES_MAX, WhereInvalid, parse
from aos.read.where.matching import Search
from aos.values.cbor import encode
from aos.values.schema import compile_schemas

TYPES: Final[dict[str, Any]] = {
    "a/Line@1": {"record": {"sku": {"text": {}}, "qty": {"nat": {}}}},
    "a/Phase@1": {"variant": {"Open": {"unit": {}}, "Sent": {"record": {"by": {"text": {}}}}}},
    "a/State@1": {
        "record": {
            "customer": {"text": {}},
            "total": {"int": {}},
            "price": {"dec128": {}},
            "due": {"option": {"time": {}}},
            "wait": {"duration": {}},
            "done": {"bool": {}},
            "data": {"bytes": {}},
            "id": {"uuid": {}},
            "phase": {"ref": "a/Phase@1"},
            "lines": {"list": {"ref": "a/Line@1"}},
            "tags": {"set": {"text": {}}},
            "labels": {"map": {"key": {"text": {}}, "value": {"nat": {}}}},
            "context": {"map": {"key": {"text": {}}, "value": {"bytes": {}}}},
            "status": {"text": {}},
        }
    },
}
SCHEMAS: Final = compile_schemas(TYPES)
MANIFEST: Final[Any] = SimpleNamespace(
    schemas=SCHEMAS, workflows={"a/order@1": SimpleNamespace(state=SCHEMAS["a/State@1"])}
)
STATE: Final[dict[str, Any]] = {
    "customer": "c-1",
    "total": 1_000,
    "price": "12.5",
    "due": 1_767_225_600_000_000_000,
    "wait": 90_000_000_000,
    "done": True,
    "data": b"ab",
    "id": "00000000-0000-4000-8000-000000000001",
    "phase": {"$tag": "Sent", "$value": {"by": "post"}},
    "lines": [{"sku": "tea", "qty": 2}, {"sku": "cup", "qty": 7}],
    "tags": ["new", "vip"],
    "labels": {"a": 1, "b": 20},
    "context": {"who": encode("ada"), "n": encode(3), "deep": encode({"x": [1, "y"]})},
    "status": "packed",
}


def search(text: str, workflow: str | None = "a/order@1", **more: Any) -> Search:
    return Search(text, Names(MANIFEST, workflow, **more))


def subject(state: Any = None, status: str = "waiting", key: str = "o-1", at: int = 5) -> Subject:
    cell: Any = SimpleNamespace(status=status, fault=None, last_active_ns=at)
    return Subject(cell, None, lambda: STATE if state is None else state, lambda: key)


@pytest.mark.parametrize(
    "text",
    [
        'customer = "c-1"',
        "customer = c-1",
        'customer != "c-2" and total >= 1000',
        "total > 999 and total < 1001 AND total <= 1000",
        "total in (1, 1000)",
        "price = 12.50",
        'price > "9"',
        "due = 2026-01-01T00:00:00Z",
        "due < 2026-01-01T00:00:01Z and due != null",
        "wait = 1m30s and wait > 89s",
        "done = true",
        'data = "YWI="',
        'id ^= "00000000-"',
        "phase = Sent and phase.Sent.by = post",
        "phase in (Open, Sent)",
        'lines.sku = "tea" and lines.qty > 5',
        "lines.qty < 3",
        "tags = vip and tags ^= v",
        "labels.b = 20 and labels.nothing = null",
        "context.who = ada and context.n = 3 and context.deep.x = y",
        "context.n > 2",
        "status = waiting and state.status = packed",
        "key ^= o- and last_active < 2026-01-01T00:00:00Z",
        "fault = null",
        "customer = c-2 or total = 1000",
        "total = 1 and customer = c-2 or total = 1000",
        "total = 1000 or customer = c-1 and total = 1",
        "(customer = c-2 or total = 1000) and not total = 1",
        "not (customer = c-2 or total = 1)",
        "NOT due = null AND (price > 9 OR price < 1)",
        "not not customer = c-1",
        "customer not in (c-2, c-3)",
        "customer not like c-2%",
        'customer like "c-%" and tags like v%',
        "not (labels.nothing > 0)",
        "((total = 1000)) order by total",
    ],
)
def test_a_condition_selects_the_cell(text: str) -> None:
    """SE-5 to SE-7."""
    assert search(text).has(subject())


@pytest.mark.parametrize(
    "text",
    [
        'customer = "C-1"',
        'customer = "c-1" and total > 1000',
        'lines.sku != "tea"',
        "tags != vip",
        "lines.sku in (pot, pan)",
        "price < 9",
        "due = null",
        "phase = Open",
        "phase.Sent.by = null",
        "labels.nothing > 0",
        "context.n = 4",
        'context.n = "3"',
        "context.who > 3",
        "context.nothing != null",
        "fault != null",
        "status = failed",
        "(customer = c-2 or total = 1000) and total = 1",
        "not (total = 1 or customer = c-1)",
        "not lines.sku = tea",
        "tags not in (vip, x)",
        "customer like x%",
        "total = 1 or total = 2 or customer like c-2%",
    ],
)
def test_a_condition_does_not_select_the_cell(text: str) -> None:
    """SE-5 to SE-7."""
    assert not search(text).has(subject())


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 1),
        ("custmer = 1", 1),
        ("customer", 9),
        ("customer =", 11),
        ("customer = )", 12),
        ("customer == 1", 11),
        ("customer ~ 1", 10),
        ('customer = "c', 12),
        (r'customer = "\q"', 12),
        ("customer = c xor total = 1", 14),
        ("customer = c or", 16),
        ("customer = c or and total = 1", 21),
        ("not", 4),
        ("not (", 6),
        ("(total = 1", 11),
        ("total = 1)", 10),
        ("()", 2),
        ("customer like c", 15),
        ("customer like %c%", 15),
        ("customer not = c", 10),
        ("total like 1%", 1),
        ("(" * 17 + "total = 1" + ")" * 17, 17),
        ("not " * 17 + "total = 1", 65),
        (" or ".join(["total = 1"] * 17), 209),
        ("customer = c and", 17),
        ("total = many", 9),
        ("total = 1.5", 9),
        ("total = 9223372036854775808", 9),
        ("done < true", 1),
        ("done = yes", 8),
        ("total ^= 1", 1),
        ("due = soon", 7),
        ("wait = long", 8),
        ("id = 1", 6),
        ("data = %", 8),
        ("phase = Gone", 9),
        ("phase.Gone.by = x", 1),
        ("lines = 1", 1),
        ("customer.first = x", 1),
        ("total in 1", 10),
        ("total in ()", 11),
        ("total in (1", 12),
        ("total in (1 2)", 13),
        ("total > null", 9),
        ("status = packed", 10),
        ("total = 1 order", 11),
        ("total = 1 order by", 19),
        ("order by nothing", 10),
        ("order by done", 10),
        ("order by total up", 16),
        ("order by total desc desc", 21),
        (" and ".join(["total = 1"] * 17), 225),
        ("total in (" + ", ".join(["1"] * 65) + ")", 201),
        ('customer = "' + "x" * BYTES_MAX + '"', 1),
        ("total = 1 \udc80", 1),
    ],
)
def test_a_text_that_is_no_condition_is_refused_with_its_column(text: str, column: int) -> None:
    """SE-2, SE-4, SE-6."""
    with pytest.raises(WhereInvalid) as refused:
        search(text)

    assert refused.value.column == column, str(refused.value)


def test_fields_of_states_need_a_workflow_of_the_manifest() -> None:
    """SE-5."""
    assert search("status = waiting", None).has(subject())
    for workflow in (None, "a/gone@1"):
        with pytest.raises(WhereInvalid):
            search("total = 1", workflow)


@pytest.mark.parametrize(
    ("text", "is_selected"),
    [
        ('fault = trap and fault_message = "no such \\"customer\\""', True),
        ("fault_message ^= no", True),
        ("fault_message = no", False),
        ("fault_record <= 41 and fault_record > 40", True),
        ("fault_record < 41", False),
        ("fault_message = null", False),
        ("fault_record = null", False),
    ],
)
def test_a_fault_has_its_kind_its_message_and_its_record(text: str, is_selected: bool) -> None:
    """SE-5."""
    cell: Any = subject(status="failed").cell
    cell.fault = Fault(kind=FaultKind.TRAP, message='no such "customer"')
    cell.fault_seq = 41

    assert search(text, None).has(Subject(cell, None, lambda: None, lambda: "k")) == is_selected
    assert not search("fault_message != null", None).has(subject())
    assert not search("fault_record >= 0", None).has(subject())


def test_an_alias_comes_before_the_names_of_every_cell() -> None:
    """SE-9."""
    aliased = search("status = packed", aliases={"status": "status"})

    assert aliased.has(subject())
    assert not search("status = completed").has(subject())


def test_a_cell_without_a_state_has_no_values() -> None:
    """SE-7."""
    empty: Subject = Subject(subject().cell, None, lambda: None, lambda: "k")

    assert search("total = null").has(empty)
    assert search("total != 1").has(empty)
    assert not search("total < 1").has(empty)


def test_values_of_another_type_than_the_schema_says_are_not_equal_and_not_an_error() -> None:
    """SE-7: as an instance that runs under an earlier manifest may have them."""
    old = STATE | {"total": "many", "lines": {"sku": 1}, "phase": 7, "price": 1, "tags": b"x"}

    assert not search("total > 0").has(subject(old))
    assert not search("lines.sku = 1").has(subject(old))
    assert not search("phase = Open").has(subject(old))
    assert search("price != 1").has(subject(old))
    for text in ("cheap", "", "NaN", "Infinity", "1_0", "\u0661"):
        assert search("price != 1").has(subject(old | {"price": text}))
        assert not search("price > 0").has(subject(old | {"price": text}))


def test_an_order_puts_cells_without_a_value_last() -> None:
    """SE-8."""
    states = [STATE | {"due": due, "total": n} for n, due in enumerate((3, None, 1, 2))]
    by_due = search("total >= 0 order by due")
    descending = search("order by due desc")

    def order(found: Search) -> list[int]:
        return [state["total"] for state in sorted(states, key=lambda s: found.rank_of(subject(s)))]

    assert order(by_due) == [2, 3, 0, 1]
    assert order(descending) == [0, 3, 2, 1]
    assert order(search("order by lines.qty")) == [0, 1, 2, 3]


words = st.sampled_from(["a", "ab", "b", "é", ""])


@given(st.lists(words, max_size=3), words, words)
def test_conditions_on_a_list_are_those_on_each_item(tags: list[str], one: str, other: str) -> None:
    """SE-7, against Python's own comparisons."""
    cell = subject(STATE | {"tags": tags})

    def has(term: str) -> bool:
        return search(term).has(cell)

    assert has(f'tags = "{one}"') == (one in tags)
    assert has(f'tags != "{one}"') == (one not in tags)
    assert has(f'tags < "{one}"') == any(tag < one for tag in tags)
    assert has(f'tags >= "{one}"') == any(tag >= one for tag in tags)
    assert has(f'tags ^= "{one}"') == any(tag.startswith(one) for tag in tags)
    assert has(f'tags in ("{one}", "{other}")') == bool({one, other} & set(tags))
    assert has("tags = null") == (not tags)


@given(st.text())
def test_no_text_makes_the_parser_fail(text: str) -> None:
    """SE-2."""
    try:
        where = parse(text)
    except WhereInvalid as problem:
        column = problem.column
    else:
        column = 1
        assert where.terms or where.order
    assert 1 <= column <= len(text) + 1
