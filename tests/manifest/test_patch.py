"""Patches: apply(patch(a, b), a) == b, and what a patch refuses (spec/governance.md, GV-10)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aos.manifest import patching
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.load import load
from aos.manifest.patch import OPS_MAX, Patch, PatchInvalid, Remove, Replace, Set, read_patch
from aos.manifest.patching import apply_patch, check_patch, patch_between
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash, hash_text
from aos.values.json_text import parse_json
from tests.manifest.example import (
    ARTIFACTS,
    MANIFEST,
    NAT,
    SCHEMAS,
    TEXT,
    WORKFLOWS,
    good,
    key,
    node,
    schema,
)
from tests.manifest.test_structure import validator

Documents = dict[str, Any]
Change = Callable[[Documents], None]


def approvers(names: str, quorum: int) -> Change:
    block = {
        "approvers": [{"name": name, "public_key": key(40 + ord(name) % 16)} for name in names],
        "quorum": quorum,
    }
    return lambda documents: documents[MANIFEST].update(governance=block)


def list_builtin(section: str, name: str) -> Change:
    return lambda documents: documents[MANIFEST][section].append({"name": name})


def add_workflow(documents: Documents) -> None:
    documents[WORKFLOWS].append(
        {
            "$kind": "defworkflow", "name": "acme/tock@1", "state": "acme/Tock@1",
            "event": "acme/Tock@1", "effects_emitted": [],
            "impl": {"module": "acme/orders@1", "entrypoint": "tock"}, "limits": {"fuel": 7},
        }
    )  # fmt: skip
    documents[SCHEMAS].append(schema("acme/Tock@1", {"record": {"count": NAT}}))
    documents[MANIFEST]["workflows"].append({"name": "acme/tock@1"})


def drop_count(documents: Documents) -> None:
    documents[WORKFLOWS] = [each for each in documents[WORKFLOWS] if each["name"] != "acme/count@1"]
    documents[SCHEMAS] = [each for each in documents[SCHEMAS] if each["name"] != "acme/Tick@1"]
    manifest = documents[MANIFEST]
    manifest["workflows"] = [
        each for each in manifest["workflows"] if each["name"] != "acme/count@1"
    ]
    routes = manifest["routing"]["subscriptions"]
    routes[:] = [each for each in routes if each["event"] != "acme/Tick@1"]


def add_secret(documents: Documents) -> None:
    documents[SCHEMAS].append(
        {"$kind": "defsecret", "name": "acme/token@1", "binding_id": "env:TOKEN"}
    )
    documents[MANIFEST]["secrets"] = [{"name": "acme/token@1"}]


CHANGES: tuple[Change, ...] = (
    approvers("abc", 2),
    lambda documents: node(documents, "acme/charge@1").update(retry={"attempts": 9}),
    lambda documents: node(documents, "acme/order.step@1").update(
        effects_emitted=["acme/charge@1"]
    ),
    list_builtin("effects", "sys/http.request@1"),
    list_builtin("schemas", "sys/BlobPutResult@1"),
    add_workflow,
    add_secret,
    lambda documents: documents[MANIFEST]["routing"]["subscriptions"].reverse(),
    lambda documents: documents[MANIFEST].update(limits={"world": {"mailbox": 7}}),
    lambda documents: documents[MANIFEST]["executors"][1].pop("retired_keys"),
    lambda documents: documents[MANIFEST].pop("executors"),
    drop_count,
    lambda documents: documents[MANIFEST]["routing"].update(ingress=["acme/Placed@1"]),
    approvers("ab", 1),
)
"""Changes of the good manifest, all of which can be made together, in this order."""


@cache
def with_changes(
    chosen: frozenset[int], wasm: bytes = ARTIFACTS["modules/orders.wasm"]
) -> Effective:
    documents = good()
    for index in sorted(chosen):
        CHANGES[index](documents)
    files = {file: json.dumps(document).encode() for file, document in documents.items()}
    return load({**files, "modules/orders.wasm": wasm}).effective


def base() -> Effective:
    return with_changes(frozenset())


SOME = st.frozensets(st.integers(0, len(CHANGES) - 1))
BYTES = st.sampled_from([ARTIFACTS["modules/orders.wasm"], b"\0asm\1\0\0\0 other orders"])


@settings(max_examples=20)
@given(SOME, BYTES, SOME, BYTES)
@example(frozenset(), b"\0asm\1\0\0\0 x", frozenset(range(len(CHANGES) - 1)), b"\0asm\1\0\0\0 y")
@example(frozenset({3, 4}), b"\0asm\1\0\0\0 x", frozenset({2}), b"\0asm\1\0\0\0 x")
def test_a_patch_leads_from_one_manifest_to_the_other(
    first: frozenset[int], wasm: bytes, second: frozenset[int], other: bytes
) -> None:
    old, new = with_changes(first, wasm), with_changes(second, other)
    if old == new:
        with pytest.raises(PatchInvalid, match="the two manifests are the same"):
            patch_between(old, new)
        return

    patch = patch_between(old, new)

    assert apply_patch(old, patch).document == new.document
    check_patch(old, patch, new)
    assert Patch.from_document(patch.document) == patch
    assert read_patch(parse_json(json.dumps(patch.to_json()))) == patch
    validator("patch.schema.json").validate(patch.to_json())


def test_a_built_in_definition_is_in_a_patch_only_if_the_author_lists_it() -> None:
    """A workflow that no longer sets timers drops the effect and its schemas by itself."""
    old, emits_less = with_changes(frozenset({10})), with_changes(frozenset({2, 10}))

    patch = patch_between(old, emits_less)

    assert "sys/timer.set@1" in old.effects
    assert "sys/timer.set@1" not in apply_patch(old, patch).effects
    assert [type(op) for op in patch.ops] == [Replace]


def test_limits_that_no_manifest_sets_may_be_those_of_an_older_release() -> None:
    """A journal replays under a release with other defaults (M-43)."""
    new = with_changes(frozenset({1}))
    document: Any = decode_record(new.document)
    document["limits"]["world"]["dedup_rows"] = 12_345
    older = judge(encode(document))
    patch = patch_between(base(), new)

    check_patch(base(), patch, older)

    assert apply_patch(base(), patch) == new != older


def test_a_patch_that_leads_elsewhere_is_told_apart() -> None:
    patch = patch_between(base(), with_changes(frozenset({1})))

    with pytest.raises(PatchInvalid, match="the patch leads to another manifest: expected blake3:"):
        check_patch(base(), patch, with_changes(frozenset({1, 5})))
    with pytest.raises(PatchInvalid, match="the patch leads to another manifest: expected blake3:"):
        check_patch(base(), patch, with_changes(frozenset({0})))


HASH = hash_text(content_hash(b"another"))


def patch_of(*ops: object, of: str | None = None) -> dict[str, Any]:
    return {"$kind": "patch", "base": of or hash_text(base().hash), "ops": list(ops)}


TICK = schema("acme/Tick@1", {"record": {"count": NAT}})


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (patch_of({"add": {"node": TICK}}, of=HASH), "/base: the patch is for another manifest"),
        (patch_of({"add": {"node": TICK}}), "acme/Tick@1 is in the manifest already, with blake3:"),
        (
            patch_of({"replace": {"node": TICK, "pre_hash": HASH}}),
            (f"/ops/0/replace/pre_hash: acme/Tick@1 is not what the patch was made for: expected "
            f"{HASH}, found blake3:"),
        ),
        (
            patch_of({"replace": {"node": schema("acme/New@1", TEXT), "pre_hash": HASH}}),
            f"expected {HASH}, found nothing",
        ),
        (
            patch_of({"remove": {"kind": "defschema", "name": "sys/TimerSetParams@1",
                                 "pre_hash": HASH}}),
            f"expected {HASH}, found nothing",
        ),
        (
            patch_of({"set": {"field": "governance", "value": None, "pre_hash": HASH}}),
            ("/ops/0/set/pre_hash: governance is not what the patch was made for: expected "
            f"{HASH}, found nothing"),
        ),
        (
            patch_of({"set": {"field": "limits", "value": {"world": {"mailbox": 1}},
                              "pre_hash": None}}),
            "expected nothing, found blake3:",
        ),
        (
            patch_of({"add": {"node": schema("acme/New@1", {"ref": "acme/Nope@1"})}}),
            "the patch leads to an invalid manifest: acme/New@1#/type",
        ),
        (
            patch_of({"add": {"node": schema("sys/Mine@1", TEXT)}}),
            "sys/Mine@1 cannot be defined",
        ),
        (
            patch_of({"set": {"field": "governance", "pre_hash": None, "value": {
                "approvers": [{"name": "ann", "public_key": key(2)}], "quorum": 1}}}),
            ("manifest#/governance/approvers/0/public_key: this key is already that of executor "
            "billing"),
        ),
    ],
)  # fmt: skip
def test_a_patch_that_does_not_fit_names_what_is_there(patch: Any, message: str) -> None:
    with pytest.raises(PatchInvalid) as problem:
        apply_patch(base(), read_patch(patch))

    assert message in str(problem.value)


@pytest.mark.parametrize(
    "patch",
    [
        None, 5, [], {}, {"$kind": "patch"}, {**patch_of({"add": {"node": TICK}}), "more": 1},
        {**patch_of({"add": {"node": TICK}}), "$kind": "manifest"}, patch_of(),
        patch_of(*[{"add": {"node": TICK}}] * (OPS_MAX + 1)),
        patch_of({"add": {"node": TICK}, "remove": {}}), patch_of({"drop": {"node": TICK}}),
        patch_of({"add": {"node": {"$kind": "manifest"}}}), patch_of({"add": {}}),
        patch_of({"add": {"node": {"$kind": "defschema", "name": "a/B@1"}}}),
        patch_of({"replace": {"node": TICK, "pre_hash": "sha256:00"}}),
        patch_of({"remove": {"kind": "defplan", "name": "a/B@1", "pre_hash": HASH}}),
        patch_of({"remove": {"kind": "defschema", "name": 1, "pre_hash": HASH}}),
        patch_of({"set": {"field": "schemas", "value": [], "pre_hash": None}}),
        patch_of({"set": {"field": "limits", "value": 5, "pre_hash": None}}),
        patch_of({"set": {"field": "limits", "value": {}, "pre_hash": 1}}),
        patch_of({"add": {"node": {
            "$kind": "defmodule", "name": "a/m@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module"}}}}}),
    ],
)  # fmt: skip
def test_neither_the_reader_nor_an_editor_takes_what_is_no_patch(patch: Any) -> None:
    with pytest.raises(PatchInvalid) as problem:
        read_patch(patch)

    assert len(str(problem.value)) < 400
    # JSON Schema alone does not require the hash of a module's bytes: a manifest's file has none.
    is_module = isinstance(patch, dict) and "defmodule" in str(patch)
    assert is_module or not validator("patch.schema.json").is_valid(patch)


def test_a_patch_has_one_spelling_in_a_journal() -> None:
    patch = patch_between(base(), with_changes(frozenset({1})))
    spelled: Any = decode_record(patch.document)
    spelled["ops"][0]["replace"]["node"]["$comment"] = "words"

    with pytest.raises(PatchInvalid, match="not in its canonical spelling"):
        Patch.from_document(encode(spelled))
    with pytest.raises(PatchInvalid, match="not canonical CBOR"):
        Patch.from_document(patch.document[:-1])
    with pytest.raises(PatchInvalid):
        Patch.from_document(encode([1]))


def test_operations_count_one_after_the_other() -> None:
    limits = base()
    document: Any = decode_record(limits.document)
    before = content_hash(encode(document["manifest"]["limits"]))
    halfway = {"world": {"mailbox": 9}}
    first = Set("limits", halfway, before)
    second = Set("limits", None, content_hash(encode(halfway)))  # type: ignore[arg-type]

    found = apply_patch(limits, Patch(limits.hash, (first, second)))

    assert found.limits.mailbox == 100_000
    with pytest.raises(PatchInvalid, match="/ops/1/set/pre_hash"):
        apply_patch(limits, Patch(limits.hash, (first, first)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**64) | st.floats(allow_nan=False) | st.binary()
    | st.sampled_from(["", "defschema", "acme/Tick@1", "sys/timer.set@1", HASH, "governance"]),
    lambda inside: st.lists(inside, max_size=3)
    | st.dictionaries(
        st.sampled_from(["add", "set", "node", "$kind", "name", "type", "field", "record"]),
        inside, max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip
NODES = st.fixed_dictionaries(
    {"$kind": st.sampled_from(["defschema", "defworkflow", "defeffect", "defmodule", "defsecret"]),
     "name": st.sampled_from(["acme/Tick@1", "acme/X@1", "sys/X@1", "x"])},
    optional={"type": JSON, "impl": JSON, "effects_emitted": JSON, "runtime": JSON},
)  # fmt: skip
OPS = st.one_of(
    st.builds(lambda node: {"add": {"node": node}}, NODES | JSON),
    st.builds(
        lambda field, value: {"set": {"field": field, "value": value, "pre_hash": None}},
        st.sampled_from(["routing", "executors", "plans", "schedules", "governance"]),
        JSON
        | st.fixed_dictionaries({"approvers": st.lists(JSON, max_size=2), "quorum": JSON})
        | st.lists(JSON, max_size=2),
    ),
    JSON,
)


@given(st.lists(OPS, min_size=1, max_size=3))
def test_a_patch_of_anything_is_refused_or_leads_to_a_manifest(ops: list[Any]) -> None:
    try:
        patch = read_patch(patch_of(*ops))
        found = apply_patch(base(), patch)
    except PatchInvalid:
        return
    assert judge(found.document) == found


@given(st.data())
def test_an_altered_patch_is_refused_or_leads_to_a_manifest(data: st.DataObject) -> None:
    patch = patch_between(base(), with_changes(frozenset({0, 1, 3, 5, 6})))
    raw = bytearray(patch.document)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = apply_patch(base(), Patch.from_document(bytes(raw)))
    except PatchInvalid:
        return
    assert judge(found.document) == found


def test_a_patch_of_a_thousand_places_is_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "OPS_MAX", 1)
    with pytest.raises(PatchInvalid, match="the manifests differ in 2 places: expected at most 1"):
        patch_between(base(), with_changes(frozenset({0, 1})))


def test_removing_a_workflow_is_one_removal_for_each_of_its_definitions() -> None:
    patch = patch_between(base(), with_changes(frozenset({11})))

    removed = [op.name for op in patch.ops if isinstance(op, Remove)]
    assert removed == ["acme/Tick@1", "acme/count@1"]
