"""Files, artifacts and hashes on the way in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from aos.manifest.judging import judge
from aos.manifest.load import ManifestProblems, load, needed_files
from aos.values.digests import content_hash, hash_text
from tests.manifest.example import (
    EFFECTS,
    GOOD,
    MANIFEST,
    NAT,
    SCHEMAS,
    TEXT,
    WASM,
    WORKFLOWS,
    good,
    lines,
    loaded,
    node,
    schema,
    written,
)


def refusal(files: dict[str, bytes]) -> list[str]:
    with pytest.raises(ManifestProblems) as refused:
        load(files)
    return lines(refused.value.problems)


def test_modules_come_with_their_bytes() -> None:
    assert loaded().modules == {content_hash(WASM): WASM}


def test_one_file_may_hold_everything() -> None:
    """M-1."""
    nodes: list[Any] = []
    for document in good().values():
        nodes += document if isinstance(document, list) else [document]
    node({"": nodes}, "acme/orders@1")["runtime"]["artifact"]["path"] = "modules/orders.wasm"

    assert loaded({"orders.air.json": nodes}).effective == loaded().effective


@pytest.mark.parametrize("count", [2, 9])
def test_a_folder_with_the_manifests_of_several_worlds_is_one_problem(count: int) -> None:
    """M-4: their definitions would contradict each other in many more ways."""
    names = [f"world-{number}" for number in range(count)]
    files = {
        f"{name}/{file}": data + b" " * number
        for number, name in enumerate(names)
        for file, data in written(GOOD).items()
    }

    more = " and 1 more" if count == 9 else ""
    found = f"expected one manifest, found {count}: in {', '.join(names[:8])}{more}"
    assert refusal(files) == [f"{found} (choose the folder of one of them)"]


def test_files_that_are_not_air_are_left_alone() -> None:
    assert load({**written(GOOD), "README.md": b"{"}).effective == loaded().effective


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff{}", "the file is not UTF-8: byte 0 is no part of any text"),
        (
            b'{"a": 1, "a": 2}',
            'the file is not JSON: $: duplicate key "a" at line 1, column 10',
        ),
        (b'{"a": 1.5}', "the file is not JSON: $.a: expected an integer, found 1.5"),
        (b"{", "the file is not JSON: $: expected"),
        (b"", "the file is not JSON: $: expected"),
        (b"[" * 100, "the file is not JSON: $[0]"),
    ],
)
def test_json_is_read_strictly(data: bytes, message: str) -> None:
    """M-2. Nothing is told about names that the unreadable file may define."""
    files = written(GOOD)
    files[SCHEMAS] = data

    found = refusal(files)

    assert [line[: len(SCHEMAS) + 2 + len(message)] for line in found] == [f"{SCHEMAS}: {message}"]


def test_a_misspelling_is_reported_even_with_an_unreadable_file() -> None:
    documents = good()
    node(documents, "acme/order.step@1")["impl"]["module"] = "acme/ordesr@1"
    files = written(documents)
    files[EFFECTS] = b"?"

    found = refusal(files)

    assert [line.split(": ")[0] for line in found] == [EFFECTS, f"{WORKFLOWS}#/1/impl/module"]


def test_no_file_at_all() -> None:
    assert refusal({}) == ["there is no AIR file (put *.air.json files into a folder air/)"]


def test_positions_in_arrays_are_sorted_as_numbers() -> None:
    documents = good()
    documents[SCHEMAS] += [schema(f"acme/Spare{index}@1", NAT) for index in range(3)]

    found = refusal(written(documents))

    assert [line.split(":")[0] for line in found] == [
        f"{SCHEMAS}#/{index}/name" for index in (9, 10, 11)
    ]


# Artifacts (M-14).


def without_path() -> dict[str, Any]:
    documents = good()
    del node(documents, "acme/orders@1")["runtime"]["artifact"]["path"]
    return documents


@pytest.mark.parametrize("place", ["modules/orders.wasm", "modules/acme.orders@1.wasm"])
def test_a_module_without_path_lies_under_modules(place: str) -> None:
    air = {file: json.dumps(document).encode() for file, document in without_path().items()}

    assert load({**air, place: WASM}).effective == loaded().effective


def test_the_longer_name_goes_first() -> None:
    files = {**written(without_path()), "modules/acme.orders@1.wasm": b"another"}

    assert load(files).modules == {content_hash(b"another"): b"another"}


def test_two_modules_do_not_share_a_file_by_chance() -> None:
    documents = without_path()
    second = {**node(documents, "acme/orders@1"), "name": "acme/orders@2"}
    documents[WORKFLOWS].append(second)
    documents[MANIFEST]["modules"].append({"name": "acme/orders@2"})

    (line,) = refusal(written(documents))
    assert line == (
        f"{WORKFLOWS}#/3/runtime/artifact: modules/orders.wasm is taken for acme/orders@1 already"
        " (say with path which file belongs to which module)"
    )


def test_the_needed_files_can_be_listed_before_they_are_read() -> None:
    """The host reads, and decides whether a path that leaves the folder may be read."""
    documents = good()
    artifact = node(documents, "acme/orders@1")["runtime"]["artifact"]
    artifact["path"] = ".././../build/./orders.wasm"
    air = {file: json.dumps(document).encode() for file, document in documents.items()}

    assert needed_files(air) == {"../build/orders.wasm"}
    assert load({**air, "../build/orders.wasm": WASM}).effective == loaded().effective
    assert needed_files({**air, "../build/orders.wasm": WASM}) == set()


def test_a_module_without_path_needs_one_of_two_files() -> None:
    air = {file: json.dumps(document).encode() for file, document in without_path().items()}

    assert needed_files(air) == {"modules/acme.orders@1.wasm", "modules/orders.wasm"}
    assert needed_files({**air, "modules/orders.wasm": WASM}) == set()
    (line,) = refusal(air)
    assert line == (
        f"{WORKFLOWS}#/0/runtime/artifact: the artifact of acme/orders@1 is missing: expected"
        " modules/acme.orders@1.wasm or modules/orders.wasm"
        " (build the module first, or say with path where)"
    )


def test_the_needed_files_can_be_listed_despite_problems() -> None:
    files = {**written(GOOD), EFFECTS: b"?", MANIFEST: b"[1]"}
    del files["modules/orders.wasm"]

    assert needed_files(files) == {"modules/orders.wasm"}


def test_one_definition_in_two_folders_is_two_artifacts() -> None:
    documents = good()
    documents["other/deep/copy.air.json"] = node(documents, "acme/orders@1")

    (line,) = refusal(written(documents))

    assert line.startswith("other/deep/copy.air.json: acme/orders@1 is defined otherwise")


def test_a_module_is_checked_with_its_entrypoints() -> None:
    asked: list[tuple[bytes, list[str]]] = []

    def check(wasm: bytes, entrypoints: Iterable[str]) -> list[str]:
        asked.append((wasm, list(entrypoints)))
        return ["exports no memory", "imports env.now"]

    with pytest.raises(ManifestProblems) as refused:
        load(written(GOOD), check=check)

    assert asked == [(WASM, ["count", "step"])]
    assert lines(refused.value.problems) == [
        f"{WORKFLOWS}#/0/runtime/artifact: modules/orders.wasm: exports no memory",
        f"{WORKFLOWS}#/0/runtime/artifact: modules/orders.wasm: imports env.now",
    ]


# Hashes (M-23).


def test_hashes_that_fit_change_nothing() -> None:
    made = loaded().effective
    documents = good()
    manifest = documents[MANIFEST]
    manifest["workflows"] = [
        {"name": name, "hash": hash_text(workflow.hash)}
        for name, workflow in made.workflows.items()
    ]
    manifest["effects"] = [
        {"name": effect.name, "hash": hash_text(effect.hash)} for effect in made.effects.values()
    ]
    manifest["modules"][0]["hash"] = hash_text(content_hash(WASM))
    node(documents, "acme/orders@1")["runtime"]["artifact"]["hash"] = hash_text(content_hash(WASM))

    assert loaded(documents).effective == made


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("workflows", "acme/order.step@1"),
        ("effects", "sys/timer.set@1"),
        ("modules", "acme/orders@1"),
        ("schemas", "sys/EffectError@1"),
    ],
)
def test_a_hash_of_any_section_is_compared(section: str, name: str) -> None:
    documents = good()
    entries = [entry for entry in documents[MANIFEST][section] if entry["name"] != name]
    documents[MANIFEST][section] = [{"name": name, "hash": f"blake3:{'1' * 64}"}, *entries]

    (line,) = refusal(written(documents))

    assert line.startswith(f"{MANIFEST}#/{section}/0/hash: the hash of {name}: expected blake3:111")


# A document written for the reference implementation, hashes left out.

AIR_V2: dict[str, Any] = {
    "air/manifest.air.json": {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [{"name": "demo/State@1"}, {"name": "demo/Start@1"}, {"name": "demo/Event@1"}],
        "modules": [{"name": "demo/timer_wasm@1"}],
        "workflows": [{"name": "demo/timer@1"}],
        "effects": [{"name": "demo/notify@1"}],
        "secrets": [],
        "routing": {"subscriptions": [{"event": "demo/Event@1", "workflow": "demo/timer@1"}]},
    },
    "air/module.air.json": [
        {
            "$kind": "defmodule",
            "name": "demo/timer_wasm@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module"}},
        },
        {
            "$kind": "defworkflow",
            "name": "demo/timer@1",
            "state": "demo/State@1",
            "event": "demo/Event@1",
            "context": "sys/WorkflowContext@1",
            "effects_emitted": ["sys/timer.set@1"],
            "determinism": "strict",
            "impl": {"module": "demo/timer_wasm@1", "entrypoint": "step"},
        },
        {
            "$kind": "defeffect",
            "name": "demo/notify@1",
            "params": "demo/Start@1",
            "receipt": "demo/State@1",
            "impl": {"module": "demo/timer_wasm@1", "entrypoint": "notify"},
        },
    ],
    "air/schemas.air.json": [
        schema("demo/State@1", {"record": {"pc": {"variant": {"Idle": {"unit": {}}}}}}),
        schema("demo/Start@1", {"record": {"deliver_at_ns": NAT, "note": {"option": TEXT}}}),
        schema(
            "demo/Event@1",
            {"variant": {"Start": {"ref": "demo/Start@1"}, "Fired": {"ref": "sys/TimerFired@1"}}},
        ),
    ],
}


def test_a_plain_air_2_document_loads_unchanged() -> None:
    """M-3."""
    air = {file: json.dumps(document).encode() for file, document in AIR_V2.items()}

    made = load({**air, "modules/timer_wasm.wasm": WASM}).effective

    assert made.workflows["demo/timer@1"].arms["sys/TimerFired@1"] == "Fired"
    assert made.effects["sys/timer.set@1"].receipt.name == "sys/TimerSetReceipt@1"
    assert made.executors is None
    assert judge(made.document) == made
