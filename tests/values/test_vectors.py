"""The files of spec/vectors that another implementation would be tested with (README.md there)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aos.values.cbor import decode_ingress, decode_record
from aos.values.digests import content_hash, derive, digest, hash_text
from aos.values.errors import ValueProblem
from aos.values.expressions import FORMS
from aos.values.schema import Schema, SchemaProblems, compile_schemas, parse_json
from tests.values import naive

VECTORS: Final = Path(__file__).parents[2] / "spec" / "vectors"


def load(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return vectors


VALUES: Final = load("values.json")
REFUSED: Final = load("refused.json")
HASHES: Final = load("hashes.json")


def named(vectors: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def schema_of(vector: dict[str, Any]) -> Schema:
    name = "the type of the vector"
    return compile_schemas({**vector.get("schemas", {}), name: vector["type"]})[name]


@pytest.mark.parametrize("vector", named(VALUES))
def test_a_value_has_its_one_canonical_form(vector: dict[str, Any]) -> None:
    """V-10, V-12, V-45, V-51, V-61"""
    schema = schema_of(vector)
    data = bytes.fromhex(vector["value_cbor_hex"])

    value = schema.from_record(data)

    assert schema.encode(value) == naive.encode(value) == data
    assert schema.from_ingress(data) == data
    assert json.dumps(schema.to_json(value), sort_keys=True) == json.dumps(
        vector["json"], sort_keys=True
    )
    assert hash_text(content_hash(data)) == vector["hash"]
    for spelling in (vector["json"], *vector.get("also", [])):
        assert schema.encode(schema.from_json(json.dumps(spelling))) == data


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(vector, id=f"{vector['gate']}: {vector['name']}")
        for vector in REFUSED
        if vector["gate"] != "types"
    ],
)
def test_a_refused_vector_is_refused_at_its_place_with_its_message(vector: dict[str, Any]) -> None:
    """V-3, V-12 to V-16, V-50"""
    with pytest.raises(ValueProblem) as caught:
        read(vector)

    assert caught.value.path == vector["path"]
    assert vector["message"] in caught.value.message


def read(vector: dict[str, Any]) -> object:
    schema = schema_of(vector) if "type" in vector else None
    if vector["gate"] == "json":
        text = vector.get("text")
        if text is None:
            text = "".join(piece * times for piece, times in vector["text_runs"])
        return parse_json(text) if schema is None else schema.from_json(text)
    runs = vector.get("runs") or [[vector["hex"], 1]]
    data = b"".join(bytes.fromhex(piece) * times for piece, times in runs)
    if vector["gate"] == "record":
        return decode_record(data) if schema is None else schema.from_record(data)
    assert vector["gate"] == "ingress"
    return decode_ingress(data) if schema is None else schema.from_ingress(data)


@pytest.mark.parametrize(
    "vector", named([vector for vector in REFUSED if vector["gate"] == "types"])
)
def test_a_type_is_refused_there_and_so(vector: dict[str, Any]) -> None:
    """V-20 to V-27"""
    with pytest.raises(SchemaProblems) as caught:
        compile_schemas(vector["schemas"])

    (problem,) = [one for one in caught.value.problems if one.schema == vector["schema"]]
    assert problem.pointer == vector["pointer"]
    assert vector["message"] in problem.message


@pytest.mark.parametrize("vector", named(HASHES))
def test_a_hash_is_over_its_preimage(vector: dict[str, Any]) -> None:
    """V-60, V-61, V-63"""
    if vector["kind"] == "digest":
        parts = [schema_of(part).from_json_object(part["json"]) for part in vector["parts"]]
        preimage = bytes.fromhex(vector["preimage_hex"])
        assert naive.encode([vector["domain"], *parts]) == preimage
        assert hash_text(digest(vector["domain"], *parts)) == vector["hash"]
        assert hash_text(content_hash(preimage)) == vector["hash"]
    elif vector["kind"] == "content":
        assert hash_text(content_hash(bytes.fromhex(vector["data_hex"]))) == vector["hash"]
    else:
        material = bytes.fromhex(vector["key_material_hex"])
        output = derive(vector["context"], material, vector["size"])
        assert output.hex() == vector["output_hex"]


def test_names_are_unique_and_every_form_has_a_vector() -> None:
    for vectors in (VALUES, HASHES):
        names = [vector["name"] for vector in vectors]
        assert len(names) == len(set(names))
    refused = [(vector["gate"], vector["name"]) for vector in REFUSED]
    assert len(refused) == len(set(refused))
    assert {next(iter(vector["type"])) for vector in VALUES} == set(FORMS)
