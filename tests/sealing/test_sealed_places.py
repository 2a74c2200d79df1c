"""Sealed places: found in values of any form, and checked before the kernel (SL-1 to SL-14)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.host.door.writer import Item, spell
from aos.manifest.effective import Effective
from aos.manifest.load import ManifestProblems, load
from aos.manifest.packages import package
from aos.manifest.schedule_setting import set_value
from aos.manifest.schedules import ScheduleInvalid, schedule_of
from aos.manifest.sealed_places import (
    SEALED,
    SEALED_PACKAGE,
    changed,
    sealed_parts,
    sealing_problem,
    sealing_schemas,
)
from aos.sealing import Keyring
from aos.sealing.keyring import sealed_event, unsealed
from aos.values.cbor import encode
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas
from aos.values.spelling import base64_bytes, base64_text
from tests.cookbook.worlds import recipe
from tests.values.strategies import loosen, values_of

RING: Final = Keyring.generate()
REF: Final[dict[str, Any]] = {"ref": SEALED}
TYPES: Final[dict[str, Any]] = {
    SEALED: {"bytes": {}},
    "t/All@1": {
        "record": {
            "plain": {"text": {}},
            "one": REF,
            "maybe": {"option": REF},
            "inner": {"ref": "t/Inner@1"},
            "list": {"list": REF},
            "set": {"set": REF},
            "named": {"map": {"key": {"text": {}}, "value": REF}},
            "numbered": {"map": {"key": {"nat": {}}, "value": REF}},
            "choice": {"variant": {"Card": REF, "Cash": {"unit": {}}}},
            "blob": {"bytes": {}},
        }
    },
    "t/Inner@1": {"record": {"deep": {"option": {"list": {"option": REF}}}}},
    "t/None@1": {"record": {"blob": {"bytes": {}}}},
}
SCHEMAS: Final = compile_schemas(TYPES)
ALL: Final[Schema] = SCHEMAS["t/All@1"]


def plain(**more: Any) -> dict[str, Any]:
    return {
        "plain": "shown",
        "one": "secret-1",
        "maybe": None,
        "inner": {"deep": ["secret-2", None]},
        "list": ["secret-3", {"secret": 4}],
        "set": ["secret-5"],
        "named": {"b c": "secret-6", "a": "secret-7"},
        "numbered": [[7, "secret-8"]],
        "choice": {"Card": "secret-9"},
        "blob": "",
        **more,
    }


def test_the_schemas_with_sealed_places_are_those_that_reach_the_packages_schema() -> None:
    """SL-3"""
    assert sealing_schemas(TYPES, TYPES) == {SEALED, "t/All@1", "t/Inner@1"}
    own = {**TYPES, SEALED: {"text": {}}}
    assert sealing_schemas(own, own) == frozenset(), "an author's own schema of this name"
    assert sealing_schemas(["t/None@1"], {"t/None@1": TYPES["t/None@1"]}) == frozenset()


def test_every_place_of_every_form_is_found_with_its_path() -> None:
    """SL-3"""
    found = dict(sealed_parts(ALL, plain(), SCHEMAS))

    assert found == {
        "$.choice.$value": "secret-9",
        "$.inner.deep[0]": "secret-2",
        "$.list[0]": "secret-3",
        "$.list[1]": {"secret": 4},
        "$.named.a": "secret-7",
        '$.named["b c"]': "secret-6",
        "$.numbered[7]": "secret-8",
        "$.one": "secret-1",
        "$.set[]": "secret-5",
    }
    tagged = {"$tag": "Card", "$value": "x"}
    assert dict(sealed_parts(ALL, plain(choice=tagged), SCHEMAS))["$.choice.$value"] == "x"


def inlined(type_: Any) -> Any:
    """A type expression without refs."""
    if isinstance(type_, dict):
        return (
            inlined(TYPES[type_["ref"]])
            if "ref" in type_
            else {name: inlined(inside) for name, inside in type_.items()}
        )
    return type_


INLINED: Final = inlined(TYPES["t/All@1"])
FIELDS: Final = [*INLINED["record"], "$tag", "Card"]


@given(values_of(INLINED), st.randoms())
def test_a_value_is_found_in_as_the_schema_reads_it(value: Any, chance: Any) -> None:
    """The places of a value in normal form are those of any other way to write it."""
    normal = sorted(path for path, _ in sealed_parts(ALL, value, SCHEMAS))
    json_ = ALL.to_json(value)

    assert sorted(path for path, _ in sealed_parts(ALL, json_, SCHEMAS)) == normal
    assert changed(ALL, value, SCHEMAS, lambda _, part: part) == value
    loose = loosen(INLINED, value, chance)
    assert len([*sealed_parts(ALL, loose, SCHEMAS)]) >= len(normal), "a set may name one twice"


@given(
    st.recursive(
        st.none() | st.text() | st.binary() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
        max_leaves=20,
    )
)
def test_a_value_that_does_not_fit_is_left_to_the_schema(value: Any) -> None:
    changed(ALL, value, SCHEMAS, lambda _, part: part)
    sealing_problem(ALL, value, SCHEMAS)


def manifest_of() -> Effective:
    """The cookbook's world, without its folder."""
    air = recipe("sealed") / "air" / "generated.air.json"
    wasm = recipe("sealed").parents[2] / "modules/cookbook/sealed/sealed.wasm"
    path = "../../../modules/cookbook/sealed/sealed.wasm"
    files = {"air/generated.air.json": air.read_bytes(), path: wasm.read_bytes()}
    nodes = json.loads(files["air/generated.air.json"])
    for node in nodes:
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"]["path"] = f"../{path}"
    files["air/generated.air.json"] = json.dumps(nodes).encode()
    return load(files).effective


@pytest.fixture(scope="module")
def manifest() -> Effective:
    return manifest_of()


def test_the_package_adds_one_schema_and_no_module(manifest: Effective) -> None:
    """SL-2"""
    assert [node["name"] for node in package(SEALED_PACKAGE).definitions] == [SEALED]
    assert not package(SEALED_PACKAGE).files
    assert "card/Given@1" in manifest.sealing
    assert "card/Charged@1" not in manifest.sealing


def given_card(card: Any) -> dict[str | int, Any]:
    return {"order_id": "o-1", "cents": 500, "card": card}


NUMBER: Final = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (NUMBER, "found something that is not bytes (it is not shown)"),
        (base64_text(NUMBER.encode() * 4), "begins with the byte 0x01, found other bytes"),
        ({"number": NUMBER}, "found something that is not bytes (it is not shown)"),
        (None, "found something that is not bytes (it is not shown)"),
        (4111, "found something that is not bytes (it is not shown)"),
        (base64_text(RING.seal(NUMBER)[:40]), "at least 50 bytes, found 40: it was cut off"),
    ],
    ids=["text", "base64 of text", "a record", "null", "a number", "cut off"],
)
def test_a_plaintext_is_refused_before_the_kernel_and_not_quoted(
    card: object, expected: str, manifest: Effective
) -> None:
    """SL-10"""
    found = spell(Item(schema="card/Given@1", value=given_card(card)), manifest)

    message = getattr(found, "message", "")
    assert message.startswith("card/Given@1: $.card: expected a sealed value")
    assert expected in message
    assert "4111" not in message


def test_cbor_of_a_sender_is_checked_too(manifest: Effective) -> None:
    """SL-10"""
    open_ = spell(Item(schema="card/Given@1", value=encode(given_card(NUMBER.encode()))), manifest)
    good = encode(given_card(bytes(RING.seal(NUMBER))))

    assert "$.card: expected a sealed value" in getattr(open_, "message", "")
    assert getattr(spell(Item(schema="card/Given@1", value=good), manifest), "value", b"") == good
    garbage = spell(Item(schema="card/Given@1", value=b"\xff"), manifest)
    assert getattr(garbage, "value", b"") == b"\xff", "the kernel refuses what is not CBOR"


def test_a_plaintext_in_a_schedule_is_refused_and_not_quoted() -> None:
    """SL-10: the manifest, with its schedules, is journaled."""
    entry = schedule_of(
        {"id": "s", "every_ms": 3_600_000, "event": "t/Inner@1", "value": {"deep": [NUMBER]}}
    )
    with pytest.raises(ScheduleInvalid, match=r"\$\.deep\[0\]: expected a sealed") as problem:
        set_value(entry, SCHEMAS, ())
    assert "4111" not in str(problem.value)

    sealed = schedule_of(
        {
            "id": "s",
            "every_ms": 3_600_000,
            "event": "t/Inner@1",
            "value": {"deep": [base64_text(RING.seal(NUMBER))]},
        }
    )
    assert set_value(sealed, SCHEMAS, ())["event"] == "t/Inner@1"


def test_a_manifest_that_lacks_the_package_is_told_to_use_it() -> None:
    """SL-2"""
    nodes = [
        {"$kind": "defschema", "name": "t/A@1", "type": {"record": {"card": REF}}},
        {
            "$kind": "manifest",
            "air_version": "2",
            **{section: [] for section in ("schemas", "modules", "workflows", "effects")},
        },
    ]
    with pytest.raises(ManifestProblems) as problem:
        load({"air/a.air.json": json.dumps(nodes).encode()})

    assert str(problem.value).endswith(
        'unknown schema aos/Sealed@1 (add "uses": ["aos/sealed@1"] to the manifest)'
    )


def test_an_event_is_sealed_place_by_place_and_a_resend_has_the_same_bytes(
    manifest: Effective,
) -> None:
    """SL-11, SL-23"""
    sealed = sealed_event(RING, manifest, "card/Given@1", given_card(NUMBER), "id-1")
    again = sealed_event(RING, manifest, "card/Given@1", given_card(NUMBER), "id-1")
    other = sealed_event(RING, manifest, "card/Given@1", given_card(NUMBER), "id-2")

    assert sealed == again != other
    assert isinstance(sealed, dict)
    assert RING.open(base64_bytes(sealed["card"]) or b"") == NUMBER
    assert {**sealed, "card": NUMBER} == given_card(NUMBER)
    assert unsealed(RING, {"a": [sealed]}) == {"a": [given_card(NUMBER)]}


def test_a_value_that_is_sealed_already_is_passed_on_if_the_keyring_opens_it(
    manifest: Effective,
) -> None:
    """SL-11"""
    good = RING.seal(NUMBER)
    carried = given_card({"$sealed": base64_text(good)})
    sealed = sealed_event(RING, manifest, "card/Given@1", carried, None)
    assert sealed == given_card(base64_text(good))

    altered = bytes(good[:-1]) + bytes([good[-1] ^ 1])
    for bad, why in (
        (base64_text(good[:45]), "it was cut off"),
        (base64_text(altered), "it was altered or cut off"),
        (base64_text(Keyring.generate().seal(NUMBER)), "which is not in the keyring"),
        (NUMBER, "is not bytes"),
        (5, "is not bytes"),
    ):
        with pytest.raises(ValueProblem) as problem:
            sealed_event(RING, manifest, "card/Given@1", given_card({"$sealed": bad}), None)
        assert str(problem.value).startswith("$.card: $sealed: ")
        assert why in str(problem.value)
        assert "4111" not in str(problem.value)


def test_no_value_is_sealed_where_none_is_given(manifest: Effective) -> None:
    """SL-11"""
    with pytest.raises(ValueProblem, match=r"\$\.card: expected a value to seal, found null"):
        sealed_event(RING, manifest, "card/Given@1", given_card(None), None)
    without = {"order_id": "o-1", "cents": 5}
    assert sealed_event(RING, manifest, "card/Given@1", without, None) == without


def test_text_that_only_looks_sealed_is_shown_as_it_is() -> None:
    """SL-14"""
    other = base64_text(Keyring.generate().seal("x"))
    document = {"a": other, "b": "A" * 100, "c": "A?" * 50, "d": [1, None, True], "e": ""}

    assert unsealed(RING, document) == document
