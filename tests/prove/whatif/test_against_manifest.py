"""Recorded steps under a candidate manifest, whose migrations convert the recorded states first
(spec/audit.md, A-89 to A-89c)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import wasmtime

from aos.core.journal.records import Ref, Step
from aos.manifest.load import load
from aos.prove.verify.journal_source import source_of_store
from aos.prove.whatif.against import AgainstReport, against
from aos.testing import World
from aos.values.cbor import Value, encode
from tests.testing.builds import answering
from tests.testing.stage import CELL, CHARGE, DO, MODULES, NEWS, PLAIN, WASM, charge, nodes, out

Edit = Callable[[dict[str, Any]], None]

# Counts in a list, and twice as fast: its state [2 n] is the puppet's n. A step adds ``add`` to the
# number in the state that it is given. Without a state, or with one of another form, it begins with
# 0. ``migrate`` traps for 7.
COUNTER = r"""
(module
  (memory (export "memory") 2)
  (global $top (mut i32) (i32.const 1024))
  (data (i32.const 0) "\a1\65state\42\81\00")
  (func (export "alloc") (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $top))
    (global.set $top (i32.add (global.get $top) (local.get $size)))
    (local.get $at))
  (func (export "step") (param $at i32) (param $size i32) (result i64)
    (local $end i32)
    (local.set $end (i32.add (local.get $at) (local.get $size)))
    (block $found
      (loop $next
        (if (i64.eq (i64.load (local.get $at)) (i64.const 0x8142657461747365)) (then
          (i32.store8 (i32.const 9) (i32.load8_u (i32.add (local.get $at) (i32.const 8))))
          (br $found)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $at) (local.get $end)))))
    (i32.store8 (i32.const 9) (i32.add (i32.load8_u (i32.const 9)) (i32.const ADD)))
    (i64.const 10))
  (func (export "migrate") (param $at i32) (param $size i32) (result i64)
    (local $n i32)
    (local.set $n (i32.sub (i32.add (local.get $at) (local.get $size)) (i32.const 10)))
    (local.set $n (i32.load8_u (local.get $n)))
    (if (i32.eq (local.get $n) (i32.const 7)) (then (unreachable)))
    (i32.store8 (i32.const 9) (i32.mul (local.get $n) (i32.const 2)))
    (i64.const 10)))
"""


def counter(add: int = 2) -> bytes:
    return bytes(wasmtime.wat2wasm(COUNTER.replace("ADD", str(add))))


def edited(edit: Edit, *, version: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(nodes(version=version)))
    for node in found:
        edit(node)
    return found


def to_lists(node: dict[str, Any]) -> None:
    """A state that is a list of numbers, with a migration from the number."""
    if node.get("name") == "t/State@1":
        node["name"], node["type"] = "t/States@1", {"list": {"nat": {}}}
    if node["$kind"] == "defworkflow":
        node |= {"state": "t/States@1", "migrate": {"from": "t/State@1", "entrypoint": "migrate"}}
    for each in node.get("schemas", ()):
        each["name"] = each["name"].replace("t/State@1", "t/States@1")


def without_migration(node: dict[str, Any]) -> None:
    to_lists(node)
    node.pop("migrate", None)


def compare(world: World, given: list[dict[str, Any]], wasm: bytes) -> AgainstReport:
    for node in given:
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"]["path"] = "p.wasm"
    loaded = load({"m.air.json": json.dumps(given).encode(), "p.wasm": wasm})
    return against(source_of_store(world._desk.store), loaded)


def recorded(*values: object, given: list[dict[str, Any]] | None = None) -> World:
    world = World(nodes() if given is None else given, modules=MODULES)
    for value in values:
        world.send(DO, value)
    world.run(may_fail=True)
    return world


THREE = ({"key": "a"}, {"key": "b"}, {"key": "a"}, {"key": "a"})


def test_recorded_states_are_converted_before_and_after_each_step() -> None:
    """A-89a: the counter continues with what its migration makes of the recorded state, and its
    result is compared with what the migration makes of the recorded result."""
    report = compare(recorded(*THREE), edited(to_lists), counter())

    assert (report.is_same, report.compared) == (True, 4)
    document: Any = report.to_document()
    # Four states that a step left, and two that a step began with.
    assert document["migrated"] == {CELL: 6}
    assert (document["schemas"], document["manifest"][:7]) == ({}, "blake3:")


def test_another_decision_is_shown_in_the_form_of_the_new_schema() -> None:
    report = compare(recorded(*THREE), edited(to_lists), counter(add=3))

    assert (report.compared, report.different) == (4, 4)
    assert report.by_class == {"state": 4}
    shown = [each.differences[0] for each in report.first]
    assert [(each.recorded, each.recomputed) for each in shown] == [
        ([2], [3]), ([2], [3]), ([4], [5]), ([6], [7]),
    ]  # fmt: skip
    assert (report.first[0].workflow, report.first[0].key, report.first[0].on) == (CELL, "a", DO)


def test_a_migration_that_fails_is_a_difference_of_its_own_and_later_steps_are_compared() -> None:
    """A-89b: 7 traps, as the result of a step and as the state before the next one."""
    world = recorded({"key": "a"}, {"key": "a", "out": out(7)}, {"key": "a", "out": out(4)})
    report = compare(world, edited(to_lists), counter())

    assert report.by_class == {"migration": 2}
    found = [(each.key, each.classes, each.differences[0]) for each in report.first]
    assert [(key, classes) for key, classes, _ in found] == [("a", ("migration",))] * 2
    after, before = (each for _, _, each in found)
    assert (after.field, after.recorded) == ("migration.after", 7)
    assert (before.field, before.recorded) == ("migration.before", 7)
    assert str(after.recomputed).startswith("trap: ")
    assert "unreachable" in str(before.recomputed)


def test_a_migration_that_returns_another_form_fails() -> None:
    report = compare(recorded({"key": "a"}), edited(to_lists), both(out("text")))

    (found,) = report.first
    assert found.classes == ("fault", "migration")
    (problem,) = [each for each in found.differences if each.field == "migration.after"]
    assert problem.recomputed == 'state_invalid: t/States@1: $: expected list, found text "text"'


def both(output: bytes) -> bytes:
    """A module whose step and migration return the same."""
    escaped = "".join(f"\\{byte:02x}" for byte in output)
    result = f"(param i32 i32) (result i64) (i64.const {len(output)})"
    return bytes(
        wasmtime.wat2wasm(
            f'(module (memory (export "memory") 2) (data (i32.const 0) "{escaped}") '
            '(func (export "alloc") (param i32) (result i32) (i32.const 4096)) '
            f'(func (export "step") {result}) (func (export "migrate") {result}))'
        )
    )


def test_a_state_that_does_not_fit_and_has_no_migration_is_no_decision() -> None:
    """A-89b: the step does not run, and the schema is named."""
    report = compare(recorded({"key": "a"}, {"key": "a"}), edited(without_migration), counter())

    assert report.by_class["misfit"] == 2
    assert report.schemas == {"t/State@1": 2}
    after, before = (each.differences[0] for each in report.first)
    assert (after.field, before.field) == ("misfit.state.after", "misfit.state.before")
    assert (before.recorded, before.recomputed) == (
        1, "its state is no t/States@1: $: expected list, found nat 1",
    )  # fmt: skip


def test_a_key_and_an_event_that_do_not_fit_are_named() -> None:
    def edit(node: dict[str, Any]) -> None:
        if node.get("name") == "t/Key@1":
            node["type"] = {"nat": {}}
        if node.get("name") == DO:
            node["type"]["record"]["key"] = {"nat": {}}

    report = compare(recorded({"key": "a"}), edited(edit), WASM)
    (found,) = report.first
    assert found.classes == ("misfit",)
    assert [each.field for each in found.differences] == ["misfit.key", "misfit.event"]
    assert found.differences[0].recorded == "a"
    assert str(found.differences[1].recomputed).startswith(f"it is no {DO}: ")
    assert report.schemas == {"t/Key@1": 1, DO: 1}


def test_optional_fields_that_are_new_are_no_difference() -> None:
    """K-71d: recorded states, events and params are compared with null for them."""
    good = {"what": {"$tag": "Good"}, "for": 5}

    def numbered(node: dict[str, Any]) -> None:
        if node.get("name") == "t/State@1":
            node["type"] = {"record": {"n": {"nat": {}}}}

    def more(node: dict[str, Any]) -> None:
        numbered(node)
        if node.get("name") in ("t/State@1", "t/Charge@1", NEWS, DO):
            node["type"]["record"]["more"] = {"option": {"text": {}}}

    def said(**more: Value) -> bytes:
        state: dict[str | int, Value] = {"n": 1}
        state.update(more)
        return out(
            state,
            effects=((CHARGE, {**charge(), **more}, None),),
            events=((NEWS, {**good, **more}),),
        )

    world = recorded({"key": "a", "out": said()}, given=edited(numbered))
    assert compare(world, edited(more), answering(said(more=None))).is_same
    report = compare(world, edited(more), answering(said(more="x")))
    assert report.by_class == {"state": 1, "effects": 1, "events": 1}


def test_steps_of_pinned_instances_are_compared_under_the_candidate() -> None:
    world = recorded({"key": "a", "out": out(1, effects=((CHARGE, charge(), "count"),))})
    world.apply(nodes(version=2), modules=MODULES, mode="pin")
    world.effect(CHARGE).answer({"ref": "r"})
    world.run()

    assert compare(world, edited(lambda _: None, version=3), WASM).is_same
    report = compare(world, edited(to_lists), counter())
    assert [each.classes for each in report.first] == [("effects", "status")]


def test_a_workflow_that_the_manifest_lacks_is_missing() -> None:
    def without(node: dict[str, Any]) -> None:
        if node["$kind"] == "manifest":
            node["workflows"] = [{"name": PLAIN}]
            node["routing"]["subscriptions"].pop(0)

    given = [each for each in edited(without) if each.get("name") != CELL]
    report = compare(recorded({"key": "a"}), given, WASM)
    assert report.missing == {CELL: "the manifest does not have this workflow"}
    assert (report.compared, report.is_same) == (0, False)


def test_another_route_is_a_difference_of_the_events() -> None:
    def with_route(node: dict[str, Any]) -> None:
        if node["$kind"] == "manifest":
            node["routing"]["subscriptions"].append({"event": NEWS, "workflow": PLAIN})
        if node.get("name") == "t/PlainEvent@1":
            node["type"]["variant"]["News"] = {"ref": NEWS}

    news = out(1, events=((NEWS, {"what": {"$tag": "Good"}, "for": 5}),))
    report = compare(recorded({"key": "a", "out": news}), edited(with_route), WASM)
    (found,) = report.first
    assert (found.classes, found.differences[0].field) == (("events",), "events[0].to")


def test_a_fault_is_compared_with_the_candidates() -> None:
    world = recorded({"key": "a", "fault": "x"})
    assert compare(world, edited(lambda _: None, version=2), WASM).is_same
    report = compare(world, edited(to_lists), counter())
    assert report.by_class == {"fault": 1}


def test_steps_that_need_an_erased_value_are_not_compared() -> None:
    """A-85, also where only the recorded result of a step was erased."""

    def text(node: dict[str, Any]) -> None:
        if node.get("name") == "t/State@1":
            node["type"] = {"text": {}}

    def renamed(node: dict[str, Any]) -> None:
        text(node)
        named(node)

    world = recorded({"key": "a", "out": long("x")}, {"key": "a", "out": long("y")},
                     given=edited(text))  # fmt: skip
    erased = next(
        each.state.hash
        for each in world._desk.records
        if isinstance(each, Step) and isinstance(each.state, Ref)
    )
    world._desk.store._erase(erased, 99)

    report = compare(world, edited(renamed), both(long("y")))
    assert (report.erased, report.compared) == (2, 0)


def long(letter: str) -> bytes:
    return encode({"state": encode(letter * 3000)})


def test_the_bytes_of_a_long_state_are_converted_and_shown() -> None:
    """Above 1 KiB a state is a blob of its own, also one that only the comparison makes."""

    def text(node: dict[str, Any]) -> None:
        if node.get("name") == "t/State@1":
            node["type"] = {"text": {}}

    x = long("x")
    world = recorded({"key": "a", "out": x}, {"key": "a", "out": x}, given=edited(text))

    def renamed(node: dict[str, Any]) -> None:
        text(node)
        named(node)

    report = compare(world, edited(renamed), both(long("y")))
    assert report.is_same
    assert report.migrated == {CELL: 3}


def named(node: dict[str, Any]) -> None:
    if node.get("name") == "t/State@1":
        node["name"] = "t/State@2"
    if node["$kind"] == "defworkflow":
        node |= {"state": "t/State@2", "migrate": {"from": "t/State@1", "entrypoint": "migrate"}}
    for each in node.get("schemas", ()):
        each["name"] = each["name"].replace("t/State@1", "t/State@2")
