"""Workflows, keys, intents and records in the caller's words (spec/audit.md, A-5 to A-8)."""

from __future__ import annotations

import shlex
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aos.core.journal.frame import Tip
from aos.core.state.cell import Cell
from aos.core.state.cells import Cells
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.manifest.effective import Workflow
from aos.read.lens.lookup import (
    CellTarget,
    IntentTarget,
    RecordTarget,
    find_cell,
    find_intent,
    find_target,
    find_workflow,
    parse_key,
)
from aos.read.views.reason import command_words
from aos.store.memory_store import MemoryStore
from aos.store.rows import IntentRow
from aos.values.cbor import encode
from aos.values.digests import Hash
from aos.values.schema import compile_schemas
from tests.page.conftest import HOSTILE
from tests.prove.journals import LEDGER, ORDER, Shop, busy_shop, store_of


@cache
def a_shop() -> tuple[Shop, MemoryStore]:
    """One world for all tests that do not change it."""
    world = busy_shop()
    return world, store_of(world)


def state() -> State:
    return a_shop()[0].state


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (ORDER, ORDER),
        ("shop/order.step", ORDER),
        ("order.step@1", ORDER),
        ("order.step", ORDER),
        ("order", ORDER),
        ("step", ORDER),
        ("ledger", LEDGER),
        ("ledger@1", LEDGER),
    ],
)
def test_a_workflow_is_found_by_any_name_that_it_alone_has(word: str, name: str) -> None:
    """A-5."""
    assert find_workflow(state(), word) == name


def with_workflows(*names: str) -> State:
    """A state that knows only these names."""
    manifest = SimpleNamespace(workflows=dict.fromkeys(names))
    return cast(
        "State", SimpleNamespace(tip=Tip(world=Hash(bytes(32))), manifest=manifest, cells=Cells())
    )


def test_an_exact_name_goes_before_a_loose_one() -> None:
    """A-5."""
    names = with_workflows("a/order@1", "a/order.step@1", "b/order.step@2")

    assert find_workflow(names, "order") == "a/order@1"
    assert find_workflow(names, "b/order.step") == "b/order.step@2"
    with pytest.raises(BadUsage, match=r"'order.step' is the name of several workflows: expected "):
        find_workflow(names, "order.step")


def test_an_unknown_workflow_is_answered_with_those_there_are() -> None:
    """A-5."""
    with pytest.raises(BadUsage, match=f"no workflow is called 'x': expected one of {LEDGER}"):
        find_workflow(state(), "x")
    with pytest.raises(BadUsage, match="this world has no manifest yet"):
        find_workflow(with_workflows(), "x")


def keyed(expression: object) -> Workflow:
    """A workflow whose key has this type."""
    schema = compile_schemas({"t/Key@1": expression})["t/Key@1"]
    return cast("Workflow", SimpleNamespace(name="t/w@1", key=schema))


KEYS: list[tuple[object, str, Any]] = [
    ({"text": {}}, "ord-1", "ord-1"),
    ({"text": {}}, '"ord-1"', "ord-1"),
    ({"text": {}}, "7", "7"),
    ({"text": {}}, "true", "true"),
    ({"text": {}}, "a b", "a b"),
    ({"text": {}}, "", ""),
    ({"int": {}}, "-7", -7),
    ({"nat": {}}, "7", 7),
    ({"bool": {}}, "true", True),
    ({"uuid": {}}, "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a"),
    ({"record": {"a": {"int": {}}}}, '{"a": 1}', {"a": 1}),
    ({"list": {"text": {}}}, '["x"]', ["x"]),
]


@pytest.mark.parametrize(("expression", "text", "value"), KEYS)
def test_a_key_is_json_or_plain_text(expression: object, text: str, value: Any) -> None:
    """A-6."""
    assert parse_key(keyed(expression), text) == encode(value)


@pytest.mark.parametrize(
    ("expression", "key"),
    [
        *(({"text": {}}, each) for each in HOSTILE),
        *(
            ({"text": {}}, each)
            for each in ("", " ", "-", "--skip", "x", "1", "null", "it's $(id)")
        ),
        *(({"text": {}}, each) for each in ('"x"', ' "x"', '"', '\\"x"', '"\u202e"', '{"a": 1}')),
        *(({"int": {}}, each) for each in (-5, 5)),
    ],
)
def test_the_words_of_a_command_name_the_cell_that_they_are_about(
    expression: object, key: Any
) -> None:
    """A-50: also a text that is itself JSON, or that looks like an option."""
    text = command_words(ORDER, key)
    name, word = shlex.split(text)

    assert name == ORDER
    assert parse_key(keyed(expression), word) == encode(key)
    assert not word.startswith("-")
    assert text.isprintable()


def test_a_key_that_does_not_fit_is_refused() -> None:
    """A-6."""
    with pytest.raises(BadUsage) as caught:
        parse_key(keyed({"int": {}}), "x")

    assert str(caught.value) == (
        "key 'x' of t/w@1: $: expected int, found text \"x\" "
        "(a key is JSON of t/Key@1, or its text)"
    )


def test_a_keyed_workflow_needs_a_key_and_another_none() -> None:
    """A-6."""
    assert find_cell(state(), "order", "ord-1") == (ORDER, encode("ord-1"))
    with pytest.raises(BadUsage, match="is keyed: expected the key of a cell after it"):
        find_cell(state(), "order", None)


def test_a_cell_of_a_workflow_that_is_gone_is_found_by_its_bytes() -> None:
    """A-6."""
    world = busy_shop()
    for key in (b"", encode("k")):
        id = ("old/thing@1", key)
        world.state.cells.add(Cell(id=id, workflow_hash=Hash(b""), module_hash=Hash(b"")))

    assert find_cell(world.state, "thing", encode("k").hex()) == ("old/thing@1", encode("k"))
    with pytest.raises(BadUsage, match="its keys cannot be read"):
        find_cell(world.state, "thing", "k")
    gone = world.state.cells["old/thing@1", encode("k")]
    world.state.cells.put_to_rest(gone)
    assert find_cell(world.state, "thing", None) == ("old/thing@1", b"")


def test_an_intent_is_found_by_eight_digits_open_or_settled() -> None:
    """A-7."""
    world, store = a_shop()
    open_one = world.intent_of("ord-3")
    settled = next(hash for hash, row in store.intents() if row.settled_seq is not None)

    for word in (open_one.intent.hex()[:8], f"blake3:{open_one.intent.hex()}"):
        assert find_intent(world.state, store, word) == IntentTarget(open_one.intent, 17, 0)
    for word in (settled.hex()[:8], settled.hex(), "blake3:" + settled.hex()[:9]):
        assert find_intent(world.state, store, word).intent == settled


@pytest.mark.parametrize("word", ["abcdef1", "ABCDEF12", "0" * 65, "not-a-hash"])
def test_text_that_is_no_prefix_of_a_hash_is_refused(word: str) -> None:
    """A-7."""
    with pytest.raises(BadUsage, match="expected at least 8 lower-case hex digits"):
        find_intent(*a_shop_state(), word)


def a_shop_state() -> tuple[State, MemoryStore]:
    world, store = a_shop()
    return world.state, store


def test_an_unknown_intent_is_refused_and_one_of_several_too() -> None:
    """A-7."""
    world = busy_shop()
    store = store_of(world)
    with pytest.raises(BadUsage, match="no intent of this world begins with 00000000"):
        find_intent(world.state, store, "00000000")

    for last in (1, 2):
        store._intents[Hash(bytes(31) + bytes([last]))] = IntentRow(opened_seq=6, index=0)
    with pytest.raises(BadUsage, match="2 intents begin with 00000000: expected one of blake3:0"):
        find_intent(world.state, store, "00000000")


def test_words_name_a_record_an_intent_or_a_cell() -> None:
    """A-8."""
    world, store = a_shop()
    intent = world.intent_of("ord-3").intent

    assert find_target(world.state, store, ["28"]) == RecordTarget(28)
    assert find_target(world.state, store, [intent.hex()]) == IntentTarget(intent, 17, 0)
    assert find_target(world.state, store, ["order", "ord-1"]) == CellTarget(
        (ORDER, encode("ord-1"))
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["29"], "record 29: there is no such record: expected 1 to 28"),
        (["0"], "record 0"),
        (["12345678"], "no intent of this world begins with 12345678"),
        (["order"], "is keyed"),
        (["nothing"], "no workflow is called"),
        ([], "expected SEQ, INTENT or WORKFLOW KEY"),
        (["a", "b", "c"], "expected SEQ, INTENT or WORKFLOW KEY"),
    ],
)
def test_words_that_name_nothing_are_refused(words: list[str], message: str) -> None:
    """A-8."""
    world, store = a_shop()

    with pytest.raises(BadUsage, match=message):
        find_target(world.state, store, words)
