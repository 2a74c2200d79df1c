"""The effective manifest, which the core reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.errors import Damage
from aos.manifest import forms, meaning
from aos.manifest.effective import Effective, _read
from aos.manifest.judging import judge
from aos.manifest.limits import StepLimits
from aos.manifest.load import load
from aos.manifest.names import RELEASED, RESERVED, SENT_TO_LINEAR
from aos.manifest.schedules import SENT_TO_SCHEDULES
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash, digest
from aos.values.errors import ValueProblem
from tests.manifest.example import (
    ARTIFACTS,
    GOOD,
    MANIFEST,
    SCHEMAS,
    WASM,
    good,
    key,
    loaded,
    node,
    schema,
    written,
)

ORDER = "acme/order.step@1"


def effective() -> Effective:
    return loaded().effective


def document(of: Effective) -> Any:
    return decode_record(of.document)


def test_a_document_reads_back_as_what_wrote_it() -> None:
    """M-46."""
    made = effective()

    read = judge(made.document)

    assert read == made
    assert (read.hash, read.manifest_hash) == (made.hash, made.manifest_hash)
    assert read.workflows.keys() == made.workflows.keys()
    assert read.workflows[ORDER].limits == made.workflows[ORDER].limits
    assert read.effects["acme/charge@1"].attempts == 3
    assert read.executors == made.executors
    assert read.modules == made.modules
    assert read.limits == made.limits


def test_the_document_has_everything_and_nothing_twice() -> None:
    """M-44."""
    made = effective()
    whole = document(made)

    assert set(whole) == {"semantics", "manifest", "definitions", "limits"}
    assert whole["semantics"] == 1
    places = [(node["$kind"], node["name"]) for node in whole["definitions"]]
    assert places == sorted(set(places))
    names = {name for _, name in places}
    assert {"sys/WorkflowContext@1", "sys/EffectError@1", "sys/TimerSetParams@1"} <= names
    assert "sys/BlobGetParams@1" not in names
    assert whole["limits"]["world"]["mailbox"] == 50
    assert whole["limits"]["workflows"] == {
        ORDER: StepLimits(fuel=2_000_000, events=16).to_document(),
        "acme/count@1": StepLimits(events=16).to_document(),
    }
    for section, kind in (("schemas", "defschema"), ("effects", "defeffect")):
        listed = [entry["name"] for entry in whole["manifest"][section]]
        assert listed == [name for placed, name in places if placed == kind]


def test_hashes_are_over_what_the_document_holds() -> None:
    """M-20, M-22, M-45."""
    made = effective()
    whole = document(made)

    assert made.hash == content_hash(made.document)
    assert made.manifest_hash == digest("aos/manifest/1", whole["manifest"])
    nodes = {(node["$kind"], node["name"]): node for node in whole["definitions"]}
    for name, workflow in made.workflows.items():
        assert workflow.hash == digest("aos/def/1", nodes["defworkflow", name])
    for name, effect in made.effects.items():
        assert effect.hash == digest("aos/def/1", nodes["defeffect", name])
    assert made.modules["acme/orders@1"].hash == content_hash(WASM)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("acme/OrderState@1", {"$comment": "more words"}),
        (ORDER, {"$comment": "words"}),
        (ORDER, {"upgrade": "quiesce", "lifecycle": "quiescent"}),
        ("acme/count@1", {"limits": {}}),
        ("acme/charge@1", {"retry": {"attempts": 3, "base_ms": 1_000}}),
        ("acme/charge@1", {"delivery": "at_least_once", "idempotency_scope": "cell"}),
        ("acme/orders@1", {"abi": "aos/1"}),
        ("manifest", {"secrets": [], "$comment": "words"}),
        ("manifest", {"limits": {"step": {"events": 16, "effects": 64}, "world": {"mailbox": 50}}}),
        ("manifest", {"schemas": []}),
        ("manifest", {"effects": [{"name": "sys/timer.set@1"}, {"name": "acme/charge@1"}]}),
    ],
)
def test_documents_with_equal_meaning_have_equal_hashes(name: str, change: dict[str, Any]) -> None:
    """M-21: comments, defaults, empty options and ambient names change no hash."""
    documents = good()
    node(documents, name).update(change)

    assert loaded(documents).effective == effective()


def test_op_is_hashed_as_workflow() -> None:
    """M-21."""
    documents = good()
    for entry in documents[MANIFEST]["routing"]["subscriptions"]:
        if "workflow" in entry:
            entry["op"] = entry.pop("workflow")

    assert loaded(documents).effective == effective()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("acme/OrderState@1", {"type": {"record": {"paid": {"bool": {}}}}}),
        (ORDER, {"lifecycle": "explicit"}),
        # Said for this workflow, so it holds whatever the manifest says of all.
        (ORDER, {"limits": {"fuel": 2_000_000, "events": 16}}),
        ("acme/charge@1", {"timeout_ms": 30_000}),
        ("manifest", {"limits": {}}),
    ],
)
def test_documents_with_different_meanings_have_different_hashes(
    name: str, change: dict[str, Any]
) -> None:
    documents = good()
    node(documents, name).update(change)

    changed = loaded(documents).effective

    assert changed.hash != effective().hash
    assert judge(changed.document) == changed


def with_ingress(*listed: str) -> Effective:
    documents = good()
    documents[MANIFEST]["routing"]["ingress"] = list(listed)
    return loaded(documents).effective


def test_a_manifest_without_a_list_accepts_every_event() -> None:
    """M-30b."""
    assert effective().ingress is None
    assert effective().is_open("acme/Tick@1")
    assert b"ingress" not in effective().document


@pytest.mark.parametrize("listed", [(), ("acme/Tick@1", "acme/Moved@1")])
def test_a_list_of_events_from_outside_is_all_that_is_accepted(listed: tuple[str, ...]) -> None:
    """M-30b, M-21: also where it is empty, which is no list that is absent."""
    found = with_ingress(*listed)

    assert found.ingress == frozenset(listed)
    assert [found.is_open(route.event) for route in found.subscriptions] == [
        route.event in listed for route in found.subscriptions
    ]
    assert found.hash != effective().hash
    assert judge(found.document).ingress == found.ingress
    document: Any = decode_record(found.document)
    assert document["manifest"]["routing"]["ingress"] == sorted(listed)


def test_the_order_of_the_events_from_outside_changes_no_byte() -> None:
    """M-22."""
    one, other = "acme/Placed@1", "acme/Moved@1"

    assert with_ingress(one, other).document == with_ingress(other, one).document


def test_a_manifest_without_routes_may_accept_nothing() -> None:
    """M-30b, M-21: the list stays where the rest of ``routing`` is left out."""
    documents = good()
    documents[MANIFEST]["routing"] = {"ingress": []}

    found = loaded(documents).effective

    assert found.ingress == frozenset()
    assert judge(found.document) == found


@pytest.mark.parametrize(
    ("package", "sent", "own"),
    [
        ("aos/linear@1", SENT_TO_LINEAR, {RESERVED, RELEASED}),
        ("aos/schedule@1", SENT_TO_SCHEDULES, {"aos/ScheduleDone@1"}),
    ],
)
def test_the_events_that_drive_a_package_count_as_listed(
    package: str, sent: frozenset[str], own: set[str]
) -> None:
    """M-30c: and those that only its workflows emit do not."""
    documents = good()
    documents[MANIFEST]["uses"] = [package]
    documents[MANIFEST]["routing"]["ingress"] = ["acme/Tick@1"]
    del documents[MANIFEST]["executors"]

    found = loaded(documents).effective

    assert found.ingress == frozenset({"acme/Tick@1", *sent})
    assert own <= found.schemas.keys()
    assert not any(found.is_open(event) for event in own)
    routed = {route.event for route in found.subscriptions if route.event.startswith("aos/")}
    assert routed - own == sent, "each event that drives it has a route"


def test_a_list_with_the_events_of_a_package_is_the_same_list() -> None:
    """M-30c."""
    documents = good()
    documents[MANIFEST]["uses"] = ["aos/linear@1"]
    documents[MANIFEST]["routing"]["ingress"] = []
    found = loaded(documents).effective

    documents[MANIFEST]["routing"]["ingress"] = [*sorted(SENT_TO_LINEAR)]

    assert loaded(documents).effective == found


def test_a_list_in_a_journal_cannot_lack_the_events_of_a_package() -> None:
    """M-30c, M-46."""
    documents = good()
    documents[MANIFEST]["uses"] = ["aos/linear@1"]
    documents[MANIFEST]["routing"]["ingress"] = []
    document: Any = decode_record(loaded(documents).effective.document)
    document["manifest"]["routing"]["ingress"].remove("aos/LinearClaim@1")

    with pytest.raises(Damage, match="aos/LinearClaim@1 must be listed"):
        judge(encode(document))


def test_a_list_of_subscriptions_keeps_its_order() -> None:
    """M-22: everything else that is a list of names is sorted."""
    documents = good()
    documents[MANIFEST]["routing"]["subscriptions"].reverse()
    documents[MANIFEST]["executors"].reverse()
    documents[MANIFEST]["workflows"].reverse()

    turned = loaded(documents).effective
    straight = effective()

    assert turned.subscriptions == straight.subscriptions[::-1]
    assert turned.manifest_hash != straight.manifest_hash
    documents[MANIFEST]["routing"]["subscriptions"].reverse()
    assert loaded(documents).effective == straight


def test_the_order_of_files_and_of_keys_changes_no_byte() -> None:
    """M-46."""
    turned = {file: json.dumps(turn(GOOD[file])).encode() for file in sorted(GOOD, reverse=True)}

    assert load({**ARTIFACTS, **turned}).effective.document == effective().document


def turn(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: turn(value[name]) for name in reversed(value)}
    return [turn(part) for part in value] if isinstance(value, list) else value


def test_the_seed_of_hashing_changes_no_byte() -> None:
    """M-46."""
    root = Path(__file__).parents[2]
    program = "from tests.manifest.example import loaded;print(loaded().effective.document.hex())"
    path = os.pathsep.join([str(root / "kernel"), str(root)])
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert printed == {effective().document.hex() + "\n"}


def test_routes_come_in_the_order_of_the_manifest() -> None:
    """M-30."""
    documents = good()
    documents[MANIFEST]["workflows"].append({"name": "acme/watch@1"})
    documents["air/watch.air.json"] = {
        **node(documents, "acme/count@1"),
        "name": "acme/watch@1",
        "event": "acme/Placed@1",
    }
    documents[MANIFEST]["routing"]["subscriptions"].insert(
        0, {"event": "acme/Placed@1", "workflow": "acme/watch@1"}
    )

    made = loaded(documents).effective

    placed = made.routes("acme/Placed@1")
    assert [route.workflow for route in placed] == ["acme/watch@1", ORDER]
    assert made.routes("acme/Charge@1") == ()
    assert [route.key({"order_id": "o-1", "cents": 5}) for route in placed] == [b"", b"\x63o-1"]


def test_a_key_is_read_through_records_and_arms() -> None:
    """M-34."""
    documents = good()
    documents[MANIFEST]["routing"]["subscriptions"].append(
        {"event": "acme/OrderEvent@1", "workflow": ORDER, "key_field": "$value.order_id"}
    )
    made = loaded(documents).effective
    (moved,) = made.routes("acme/Moved@1")
    (whole,) = made.routes("acme/OrderEvent@1")

    assert moved.key({"at": {"order": "o-2"}, "note": ""}) == encode("o-2")
    placed: Any = {"$tag": "Placed", "$value": {"order_id": "o-3", "cents": 1}}
    assert whole.key(placed) == encode("o-3")
    with pytest.raises(ValueProblem) as absent:
        whole.key({"$tag": "Moved", "$value": {"at": {"order": "o-2"}, "note": ""}})
    assert "key_field $value.order_id of acme/order.step@1" in str(absent.value)


def test_no_sender_delivers_a_continuation() -> None:
    """M-35: a sender cannot deliver another executor's receipts through an arm for receipts."""
    documents = good()
    documents[MANIFEST]["routing"]["subscriptions"].append(
        {"event": "acme/OrderEvent@1", "workflow": ORDER, "key_field": "$value.order_id"}
    )
    (whole,) = loaded(documents).effective.routes("acme/OrderEvent@1")

    with pytest.raises(ValueProblem) as refused:
        whole.key({"$tag": "Receipt", "$value": {}})

    assert str(refused.value) == (
        "$.$tag: arm Receipt carries a continuation, which only the kernel delivers"
    )


def test_a_workflow_wraps_what_its_arms_refer_to() -> None:
    """M-31."""
    order, count = (effective().workflows[name] for name in (ORDER, "acme/count@1"))
    value: Any = {"order_id": "o-1", "cents": 5}

    assert order.wrap("acme/Placed@1", value) == {"$tag": "Placed", "$value": value}
    assert order.wrap("acme/OrderEvent@1", value) is value
    assert order.wrap("acme/Tick@1", value) is None
    assert order.arms["sys/EffectReceiptEnvelope@1"] == "Receipt"
    assert count.wrap("acme/Tick@1", value) is value
    assert count.arms == {}


def test_an_event_may_have_another_name_in_front() -> None:
    documents = good()
    documents[SCHEMAS].append(schema("acme/Heard@1", {"ref": "acme/OrderEvent@1"}))
    node(documents, ORDER)["event"] = "acme/Heard@1"

    made = loaded(documents).effective.workflows[ORDER]

    assert made.wrap("acme/Moved@1", 1) == {"$tag": "Moved", "$value": 1}


def test_an_effect_knows_who_runs_it() -> None:
    """M-36."""
    documents = good()
    node(documents, "acme/charge@1")["impl"] = {"module": "acme/orders@1", "entrypoint": "charge"}
    node(documents, "acme/charge@1")["idempotency_scope"] = "world"

    by_module = loaded(documents).effective.effects["acme/charge@1"]
    by_name = effective().effects["acme/charge@1"]
    built_in = effective().effects["sys/timer.set@1"]

    assert by_module.executor == by_module.executor_module == "acme/orders@1"
    assert by_module.executor_entrypoint == "charge"
    assert by_module.executor_module_hash == content_hash(WASM)
    assert by_module.idempotency_scope == "world"
    assert (by_name.executor, by_name.executor_module) == ("billing", None)
    assert (by_name.attempts, by_name.base_ms, by_name.cap_ms) == (3, 1_000, 60_000)
    assert by_name.timeout_ms == 5_000
    assert built_in.executor == "node"


def test_executors_are_none_only_when_the_list_is_absent() -> None:
    """M-37."""
    documents = good()
    del documents[MANIFEST]["executors"]
    assert loaded(documents).effective.executors is None

    executors = effective().executors
    assert executors is not None
    assert executors["billing"].public_key.hex() == key(2).removeprefix("ed25519:")
    assert executors["billing"].effects == {"acme/charge@1"}
    assert len(executors["billing"].retired_keys) == 1


def test_a_manifest_may_be_empty() -> None:
    empty = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [],
        "modules": [],
        "workflows": [],
        "effects": [],
    }
    made = loaded({"manifest.air.json": empty}).effective

    assert document(made)["definitions"] == []
    assert judge(made.document) == made


SMALL: dict[str, Any] = {
    "air/small.air.json": [
        schema("a/Tick@1", {"record": {"n": {"nat": {}}}}),
        {
            "$kind": "defmodule",
            "name": "a/m@1",
            "runtime": {
                "kind": "wasm",
                "artifact": {"kind": "wasm_module", "path": "../modules/orders.wasm"},
                "build": {"note": "x"},
            },
        },
        {
            "$kind": "defworkflow",
            "name": "a/w@1",
            "state": "a/Tick@1",
            "event": "a/Tick@1",
            "key_schema": "a/Tick@1",
            "effects_emitted": [],
            "impl": {"module": "a/m@1", "entrypoint": "step"},
            "limits": {"fuel": 7},
        },
        {
            "$kind": "defeffect",
            "name": "a/e@1",
            "params": "a/Tick@1",
            "receipt": "a/Tick@1",
            "impl": {"executor": "x"},
            "retry": {"attempts": 2},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [],
            "modules": [{"name": "a/m@1"}],
            "workflows": [{"name": "a/w@1"}],
            "effects": [{"name": "a/e@1"}],
            "executors": [{"name": "x", "public_key": key(5), "effects": ["a/e@1"]}],
        },
    ]
}

ODD: list[Any] = [None, True, -1, 10**15, "x", b"x", [1], {}, {1: 1}]


def changed(value: Any) -> Iterator[Any]:
    """Every document with one part of it replaced, removed or added to."""
    if isinstance(value, dict):
        for name in value:
            yield {other: part for other, part in value.items() if other != name}
            yield from ({**value, name: inside} for inside in changed(value[name]))
        yield {**value, "odd": 1}
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield [*value[:index], *value[index + 1 :]]
            yield from ([*value[:index], new, *value[index + 1 :]] for new in changed(part))
        if value:
            yield [*value, value[-1]]
    yield from (odd for odd in ODD if odd != value or type(odd) is not type(value))


def test_a_changed_document_is_damage_unless_it_is_another_document() -> None:
    """M-46: any bytes raise nothing but Damage, and each document that is read is written alike."""
    made = loaded(SMALL).effective
    refused = accepted = 0
    for other in changed(document(made)):
        data = encode(other)
        try:
            read = judge(data)
        except Damage:
            refused += 1
            continue
        accepted += 1
        assert read.document == data
        assert read.hash != made.hash

    # A limit, a note of a tool, or no list of executors: few single changes make another manifest.
    assert accepted < refused / 20


def test_any_bytes_read_as_the_journal_s_are_damage_or_a_view_of_them() -> None:
    """M-46: a world trusts its journal, and still no bytes in it raise another exception."""
    made = loaded(SMALL).effective
    read = 0
    for other in [*changed(document(made)), *ODD]:
        data = encode(other)
        try:
            view = Effective.from_document(data)
        except Damage:
            continue
        read += 1
        assert view.document == data

    assert read > 0
    assert Effective.from_document(made.document) == made


def test_a_world_reads_its_own_manifest_without_judging_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """M-46."""
    made = effective()
    _read.cache_clear()
    monkeypatch.setattr(meaning, "check", None)
    monkeypatch.setattr(forms, "canonical", None)

    assert Effective.from_document(made.document) == made


def test_a_flipped_bit_is_damage_or_another_limit() -> None:
    made = loaded(SMALL).effective
    for position in range(0, len(made.document), 11):
        flipped = bytearray(made.document)
        flipped[position] ^= 1
        try:
            read = judge(bytes(flipped))
        except Damage:
            continue
        assert read.hash != made.hash
        assert read.document == bytes(flipped)


def test_damage_says_what_is_wrong() -> None:
    whole = document(loaded(SMALL).effective)
    whole["limits"]["world"]["mailbox"] = 0

    with pytest.raises(Damage) as damage:
        judge(encode(whole))

    assert str(damage.value) == (
        "effective manifest: limits: mailbox may not be 0"
        " (restore the world from a copy, or use the release that wrote it)"
    )
    assert damage.value.exit_code == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"semantics": 2}, "semantics: expected nat 1, found nat 2"),
        ({"definitions": 7}, "not the document of a manifest"),
        ({"manifest": {}}, "not the document of a manifest"),
    ],
)
def test_a_world_says_why_a_document_is_none(change: dict[str | int, Any], problem: str) -> None:
    """The text is that of every implementation of the core, so nothing in it is Python's."""
    whole = document(loaded(SMALL).effective)

    with pytest.raises(Damage) as damage:
        Effective.from_document(encode({**whole, **change}))

    assert str(damage.value) == (
        f"effective manifest: {problem}"
        " (restore the world from a copy, or use the release that wrote it)"
    )


def test_limits_are_read_and_not_filled_in_again() -> None:
    """M-43: a later release with other defaults still reads what was meant."""
    whole = document(loaded(SMALL).effective)
    whole["limits"]["world"]["mailbox"] = 123
    whole["limits"]["workflows"]["a/w@1"]["events"] = 4

    read = judge(encode(whole))

    assert read.limits.mailbox == 123
    assert read.workflows["a/w@1"].limits.events == 4


def test_files_are_bytes_and_nothing_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded()  # the JSON Schemas are read once
    monkeypatch.setattr(Path, "read_text", None)
    monkeypatch.setattr("builtins.open", None)

    assert load(written(GOOD)).effective == judge(effective().document)


def test_governance_is_read_back_and_one_spelling_of_it_is_hashed() -> None:
    """GV-1: approvers in the order of their names, no default written out."""
    documents = good()
    people = [{"name": name, "public_key": key(60 + index)} for index, name in enumerate("cab")]
    documents[MANIFEST]["governance"] = {"approvers": people, "quorum": 2, "shadow_records": 0}
    turned = good()
    turned[MANIFEST]["governance"] = {"approvers": people[::-1], "quorum": 2}

    made = loaded(documents).effective

    assert made == loaded(turned).effective
    assert document(made)["manifest"]["governance"].keys() == {"approvers", "quorum"}
    governance = judge(made.document).governance
    assert governance is not None
    assert [each.name for each in governance.approvers] == ["a", "b", "c"]
    assert (governance.quorum, governance.shadow_records) == (2, 0)
    assert governance.key("b") is not None
    assert governance.key("d") is None
    assert loaded().effective.governance is None
    assert "governance" not in document(effective())["manifest"]


@pytest.mark.parametrize(
    "change",
    [
        {"approvers": []},
        {"quorum": 4},
        {"quorum": 0},
        {"quorum": -1},
        {"quorum": True},
        {"shadow_records": -5},
        {"shadow_records": 0},
        {"shadow_records": 10**10},
        {"approvers": [{"name": "", "public_key": key(60)}]},
        {"approvers": [{"name": "a", "public_key": key(2)}]},
        {"approvers": [{"name": "a", "public_key": "ed25519:" + "0" * 64}]},
    ],
)
def test_a_forged_governance_block_is_damage(change: dict[str, Any]) -> None:
    """GV-1: a document is checked as strictly as an author's file."""
    documents = good()
    people = [{"name": name, "public_key": key(60 + index)} for index, name in enumerate("abc")]
    documents[MANIFEST]["governance"] = {"approvers": people, "quorum": 1}
    forged = document(loaded(documents).effective)
    forged["manifest"]["governance"].update(change)

    with pytest.raises(Damage, match=r"governance|quorum|spelling"):
        judge(encode(forged))
