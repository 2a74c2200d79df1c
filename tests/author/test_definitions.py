"""The build merges generated and hand-written definitions into one manifest (AU-50 to AU-54)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.author.definitions import Definitions, generated, written_nodes
from aos.author.errors import BuildFailed
from aos.author.project import GENERATED_AIR, Project
from tests.author import fakes

PROJECT = Project(
    folder=Path("/shop"),
    name="shop",
    lang="rust",
    modules=(),
    executors=(),
    world=".aos/dev",
    manifest={},
)


def schema(name: str, type_: str = "text", **more: Any) -> dict[str, Any]:
    return {"$kind": "defschema", "name": name, "type": {type_: {}}, **more}


def route(workflow: str, event: str) -> dict[str, Any]:
    return {"$kind": "subscription", "event": event, "workflow": workflow}


def taken(*nodes: dict[str, Any]) -> Definitions:
    found = Definitions()
    for node in nodes:
        found.take(node, "module a")
    return found


def made(
    definitions: Definitions,
    written: list[tuple[str, dict[str, Any]]] | None = None,
    **manifest: Any,
) -> list[dict[str, Any]]:
    data = generated(replace(PROJECT, manifest=manifest), definitions, written or [])
    assert data is not None
    found: list[dict[str, Any]] = json.loads(data)
    return found


def test_nodes_are_sorted_by_kind_and_name_and_appear_once() -> None:
    found = made(taken(schema("a/B@1"), schema("a/A@1"), schema("a/B@1"), *fakes.nodes()))

    assert [each["$kind"] for each in found] == [
        *["defschema"] * 7, "defmodule", "defworkflow", "defeffect", "manifest",
    ]  # fmt: skip
    names = [each["name"] for each in found if each["$kind"] == "defschema"]
    assert names == sorted(names)


def test_the_manifest_lists_what_is_defined_in_the_sources_and_by_hand() -> None:
    workflow = {"$kind": "defworkflow", "name": "a/w@1", "effects_emitted": ["sys/timer.set@1"]}

    [*_, manifest] = made(
        taken(schema("a/A@1"), workflow),
        [
            ("air/x.air.json", schema("a/H@1")),
            ("air/y.air.json", {"$kind": "defsecret", "name": "a/s@1"}),
        ],
    )

    assert manifest["schemas"] == [{"name": "a/A@1"}, {"name": "a/H@1"}]
    assert manifest["workflows"] == [{"name": "a/w@1"}]
    assert manifest["effects"] == [{"name": "sys/timer.set@1"}]
    assert manifest["secrets"] == [{"name": "a/s@1"}]
    assert manifest["air_version"] == "2"


def test_routes_are_by_workflow_and_then_as_in_the_source_and_then_those_of_aos_toml() -> None:
    pairs = [("b/w@1", "z/E@1"), ("a/w@1", "y/E@1"), ("b/w@1", "a/E@1"), ("a/w@1", "y/E@1")]
    definitions = taken(*(route(*pair) for pair in pairs))

    [manifest] = made(
        definitions, routing={"subscriptions": [{"event": "m/E@1", "workflow": "a/w@1"}]}
    )

    assert [(each["workflow"], each["event"]) for each in manifest["routing"]["subscriptions"]] == [
        ("a/w@1", "y/E@1"), ("b/w@1", "z/E@1"), ("b/w@1", "a/E@1"), ("a/w@1", "m/E@1"),
    ]  # fmt: skip


def test_fields_of_aos_toml_are_in_the_manifest() -> None:
    [manifest] = made(taken(), limits={"world": {"event_bytes": 1000}})

    assert manifest["limits"] == {"world": {"event_bytes": 1000}}


def test_two_modules_may_say_the_same_and_nothing_else() -> None:
    """AU-51"""
    definitions = taken(schema("a/A@1", **{"$comment": "one"}))
    definitions.take(schema("a/A@1", **{"$comment": "two"}), "module b")

    with pytest.raises(BuildFailed) as refused:
        definitions.take(schema("a/A@1", "nat"), "module b")

    assert str(refused.value).startswith(
        "a/A@1 is defined differently in module b and in module a ("
    )


def test_one_module_may_not_say_two_things_of_one_name() -> None:
    """AU-51"""
    definitions = taken(schema("a/A@1"))

    with pytest.raises(BuildFailed) as refused:
        definitions.take(schema("a/A@1", "nat"), "module a")

    assert str(refused.value).startswith("a/A@1 has two different definitions in module a (")


def test_a_hand_written_definition_must_equal_the_generated_one() -> None:
    """AU-51"""
    definitions = taken(schema("a/A@1"))

    made(definitions, [("air/x.air.json", schema("a/A@1"))])
    with pytest.raises(BuildFailed) as refused:
        made(definitions, [("air/x.air.json", schema("a/A@1", "nat"))])

    assert str(refused.value) == (
        "the definition of a/A@1 in air/x.air.json differs from that of the sources (module a) "
        f"(remove it from air/x.air.json; aos build writes it to {GENERATED_AIR})"
    )


MANIFEST: dict[str, Any] = {"$kind": "manifest", "air_version": "2", "schemas": []}


def test_a_manifest_that_is_written_by_hand_counts() -> None:
    """AU-53"""
    whole = {
        **MANIFEST,
        "workflows": [{"name": "a/w@1", "hash": "blake3:1"}],
        "routing": {"subscriptions": [{"event": "a/E@1", "workflow": "a/w@1"}]},
    }
    definitions = taken({"$kind": "defworkflow", "name": "a/w@1"}, route("a/w@1", "a/E@1"))

    found = made(definitions, [("air/m.air.json", whole)])

    assert [each["$kind"] for each in found] == ["defworkflow"]


def test_a_manifest_that_lacks_something_is_told_what_to_add() -> None:
    """AU-53"""
    definitions = taken(
        {"$kind": "defworkflow", "name": "a/w@1"}, schema("a/A@1"), route("a/w@1", "a/E@1")
    )

    with pytest.raises(BuildFailed) as refused:
        made(definitions, [("air/m.air.json", MANIFEST)])

    said = str(refused.value)
    assert said.startswith("air/m.air.json: the manifest lacks definitions of the sources: ")
    assert 'workflows: {"name": "a/w@1"}' in said
    assert 'routing.subscriptions: {"event": "a/E@1", "workflow": "a/w@1"}' in said
    assert "a/A@1" not in said, "a definition that a listed one refers to needs no line"


def test_a_manifest_by_hand_and_one_in_aos_toml_are_one_too_many() -> None:
    with pytest.raises(BuildFailed, match="expected one of the two"):
        made(taken(), [("air/m.air.json", MANIFEST)], limits={"world": {}})


def test_with_a_manifest_by_hand_and_nothing_defined_there_is_no_file() -> None:
    assert generated(PROJECT, Definitions(), [("air/m.air.json", MANIFEST)]) is None


@pytest.mark.parametrize("node", [{}, {"$kind": "manifest"}, {"$kind": "defschema"}])
def test_a_node_that_no_sdk_writes_is_refused(node: dict[str, Any]) -> None:
    with pytest.raises(BuildFailed, match=r"module a: a node of the sources: expected \$kind"):
        taken(node)


def test_files_that_cannot_be_read_are_left_for_the_loader_to_tell() -> None:
    files = {
        "air/a.air.json": b'[{"$kind": "defschema"}, 7]',
        "air/b.air.json": b"{",
        "air/c.air.json": b"\xff",
        "air/d.air.json": b'{"$kind": "manifest"}',
        "build/shop.wasm": b"\0asm",
        GENERATED_AIR: b'{"$kind": "defmodule"}',
    }

    assert written_nodes(files) == [
        ("air/a.air.json", {"$kind": "defschema"}),
        ("air/d.air.json", {"$kind": "manifest"}),
    ]


def test_the_file_is_folded_for_people_and_says_the_same() -> None:
    data = generated(PROJECT, taken(*fakes.nodes()), [])
    assert data is not None
    lines = data.decode().splitlines()

    assert max(map(len, lines)) <= 100
    assert '  {"$kind": "defschema", "name": "host/Count@1", "type": {"nat": {}}},' in lines
    assert json.loads(data)[0]["name"] == "host/Count@1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["aos/sealed@1"]),
        ({"uses": ["aos/linear@1"]}, ["aos/linear@1", "aos/sealed@1"]),
        ({"uses": ["aos/sealed@1"]}, ["aos/sealed@1"]),
    ],
)
def test_a_schema_with_a_sealed_place_uses_the_package(
    given: dict[str, Any], expected: list[str]
) -> None:
    """SL-2"""
    card = {"$kind": "defschema", "name": "a/Card@1", "type": {"option": {"ref": "aos/Sealed@1"}}}

    assert made(taken(card), **given)[-1]["uses"] == expected
    by_hand = made(taken(schema("a/A@1")), [("air/a.air.json", card)], **given)
    assert by_hand[-1]["uses"] == expected


def test_the_package_is_not_used_where_nothing_is_sealed_or_its_schema_is_written_out() -> None:
    """SL-2"""
    card = {"$kind": "defschema", "name": "a/Card@1", "type": {"ref": "aos/Sealed@1"}}

    assert "uses" not in made(taken(schema("a/A@1")))[-1]
    assert "uses" not in made(taken(card, schema("aos/Sealed@1", "bytes")))[-1]
