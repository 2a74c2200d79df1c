"""The built-in definitions (M-50 to M-52)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import pytest
from blake3 import blake3

from aos.manifest import builtin_definitions, structure
from aos.manifest.effective import definition_hash
from aos.manifest.forms import canonical
from aos.manifest.judging import judge
from aos.manifest.load import load
from aos.values.cbor import decode_record, encode
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas
from tests.manifest.example import MANIFEST, good, loaded, node

VECTORS = Path(__file__).parents[2] / "spec" / "vectors" / "manifest.json"


def vectors() -> Any:
    return json.loads(VECTORS.read_text("utf-8"))


def digest(domain: str, value: Any) -> str:
    """Written a second time, with another encoder: every map here has text keys only."""
    return "blake3:" + blake3(cbor2.dumps([domain, value], canonical=True)).hexdigest()


def test_the_definitions_are_well_formed_and_canonical() -> None:
    for nodes in (builtin_definitions.SCHEMAS, builtin_definitions.EFFECTS):
        for name, definition in nodes.items():
            assert structure.problems(definition) == []
            assert canonical(definition) == definition
            assert definition["name"] == name
    compile_schemas({name: node["type"] for name, node in builtin_definitions.SCHEMAS.items()})


def test_the_definitions_are_those_that_were_published() -> None:
    """M-50: a world of any age holds these hashes; an edit is a new name."""
    found = {
        definition["name"]: hash_text(definition_hash(dict(definition)))
        for nodes in (builtin_definitions.SCHEMAS, builtin_definitions.EFFECTS)
        for definition in nodes.values()
    }

    assert found == vectors()["builtins"]


def test_the_example_has_the_hashes_that_were_published() -> None:
    """M-20 to M-22, M-45."""
    example = vectors()["example"]
    files = {name: json.dumps(contents).encode() for name, contents in example["files"].items()}
    artifacts = {name: bytes.fromhex(data) for name, data in example["artifacts"].items()}

    made = load({**files, **artifacts}).effective

    assert made.document.hex() == example["document"]
    assert hash_text(made.hash) == example["effective_hash"]
    assert hash_text(made.manifest_hash) == example["manifest_hash"]
    read = judge(bytes.fromhex(example["document"]))
    assert read == made


@pytest.mark.parametrize("listed", vectors()["ingress"], ids=lambda each: str(each["ingress"]))
def test_a_list_of_events_from_outside_has_the_hashes_that_were_published(listed: Any) -> None:
    """M-30b, M-21, M-22: the example with such a list, an empty one too."""
    example = vectors()["example"]
    files = {name: json.dumps(contents).encode() for name, contents in example["files"].items()}
    artifacts = {name: bytes.fromhex(data) for name, data in example["artifacts"].items()}
    for name, contents in example["files"].items():
        for each in contents:
            if each["$kind"] == "manifest":
                each["routing"]["ingress"] = listed["ingress"]
                files[name] = json.dumps(contents).encode()

    made = load({**files, **artifacts}).effective

    assert hash_text(made.hash) == listed["effective_hash"]
    assert hash_text(made.manifest_hash) == listed["manifest_hash"]
    document = cbor2.loads(bytes.fromhex(example["document"]))
    document["manifest"]["routing"]["ingress"] = sorted(listed["ingress"])
    assert digest("aos/manifest/1", document["manifest"]) == listed["manifest_hash"]
    assert made.document == cbor2.dumps(document, canonical=True)


def test_a_document_without_the_limit_of_window_time_keeps_its_bytes_and_meaning() -> None:
    """M-43a."""
    example = vectors()["example"]
    older, newer = bytes.fromhex(example["older"]["document"]), bytes.fromhex(example["document"])

    read = judge(older)

    assert hash_text(read.hash) == example["older"]["effective_hash"]
    assert read.limits.dedup_step_ns is None
    both = cbor2.loads(older), cbor2.loads(newer)
    assert both[1]["limits"]["world"].pop("dedup_step_ns") == 3600 * 10**9
    assert both[0] == both[1]


def test_another_encoder_computes_the_same_hashes() -> None:
    example = vectors()["example"]
    document = cbor2.loads(bytes.fromhex(example["document"]))

    assert digest("aos/manifest/1", document["manifest"]) == example["manifest_hash"]
    hashes = {
        definition["name"]: digest("aos/def/1", definition)
        for definition in document["definitions"]
        if definition["$kind"] != "defmodule"
    }
    assert hashes == example["definition_hashes"]
    listed = {
        entry["name"]: entry["hash"]
        for section in ("schemas", "workflows", "effects")
        for entry in document["manifest"][section]
    }
    assert listed == hashes
    assert (
        "blake3:" + blake3(bytes.fromhex(example["document"])).hexdigest()
        == (example["effective_hash"])
    )


# http.request headers (M-52).


def http_params() -> Schema:
    documents = good()
    del documents[MANIFEST]["executors"]
    node(documents, "acme/order.step@1")["effects_emitted"].append("sys/http.request@1")
    return loaded(documents).effective.effects["sys/http.request@1"].params


def request(header: Any) -> Any:
    """Params as an author or a module may write them: absent options left out."""
    return {"method": "GET", "url": "https://example.org/", "headers": {"accept": header}}


@pytest.mark.parametrize("header", ["text/html", {"$tag": "literal", "$value": "text/html"}])
def test_a_header_may_be_plain_text(header: Any) -> None:
    params = http_params()

    data = params.from_ingress(encode(request(header)))

    normal: Any = params.normalise(request(header))
    assert normal["headers"] == {"accept": {"$tag": "literal", "$value": "text/html"}}
    assert decode_record(data) == normal == params.from_record(data)
    assert params.from_ingress(data) == data


def test_json_takes_plain_headers_too() -> None:
    params = http_params()

    normal: Any = params.from_json(json.dumps(request("text/html")))

    assert normal["headers"] == {"accept": {"$tag": "literal", "$value": "text/html"}}
    assert params.from_json_object(params.to_json(normal)) == normal


def test_the_record_gate_knows_one_form() -> None:
    params = http_params()
    plain: Any = {**request("text/html"), "body": None, "body_ref": None}

    with pytest.raises(ValueProblem):
        params.from_record(encode(plain))


def test_a_secret_is_refused_at_every_gate() -> None:
    params = http_params()
    secret = {"$tag": "secret", "$value": {"alias": "acme/key@1", "version": 1}}
    whole: Any = {**request(secret), "body": None, "body_ref": None}
    gates: list[Callable[[], object]] = [
        lambda: params.normalise(whole),
        lambda: params.from_ingress(encode(request(secret))),
        lambda: params.from_ingress(encode(whole)),
        lambda: params.from_json_object(request(secret)),
    ]

    for refuse in gates:
        with pytest.raises(ValueProblem) as refused:
            refuse()
        assert str(refused.value) == (
            "$.headers.accept: secrets are not supported by this version: expected text"
        )


@pytest.mark.parametrize("odd", [None, [], {"headers": 5}, {"headers": {"a": 1}}])
def test_an_invalid_request_is_refused_as_before(odd: Any) -> None:
    params = http_params()

    with pytest.raises(ValueProblem):
        params.normalise(odd)
    with pytest.raises(ValueProblem):
        params.from_json_object(odd)
