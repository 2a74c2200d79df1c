"""The SDK's codec, in a guest, against spec/vectors/ (SR-1, SR-2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from aos.core.journal.ports import Call
from aos.manifest import names
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.expressions import without_comments
from aos.sandbox.engine import Sandbox
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash
from tests.modules.guests import MODULES, ROOT
from tests.sdk.rust.examples import read_nodes

VECTORS: Final = ROOT / "spec/vectors"
SIZE_BYTES_MAX: Final = 140_000
WASM: Final = (MODULES / "sdk-rust/tests/vectors/vectors.wasm").read_bytes()

LIMITS: Final = frozenset(
    {"65,537 items", "over a mebibyte", "65 levels", "absent fields, 60,000 records of 70"}
)
"""Vectors for the limits of the ingress gate. A module only gets values within them."""


class Guest:
    """The guest that knows the types of the vectors."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def ask(self, question: Any) -> tuple[str, Any]:
        """(arm, value) of its answer."""
        ran = self.sandbox.run(
            Call(
                module=content_hash(WASM),
                entrypoint="ask",
                input=encode(question),
                fuel=10**9,
                memory_bytes=64 << 20,
                output_bytes=16 << 20,
            )
        )
        assert ran.output is not None, ran.fault
        answer: Any = decode_record(ran.output)
        return answer["$tag"], answer["$value"]

    @cache  # noqa: B019  # one guest a module
    def types(self) -> list[Any]:
        return [json.loads(text) for text in self.ask({"$tag": "Types"})[1]]

    def recode(self, type: object, data: bytes) -> tuple[str, Any]:
        index = self.types().index(type)
        return self.ask({"$tag": "Recode", "$value": {"index": index, "bytes": data}})


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    sandbox = Sandbox({content_hash(WASM): WASM}.__getitem__)
    yield Guest(sandbox)
    sandbox.close()


def vectors(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((VECTORS / name).read_text())
    return found


def data_of(vector: dict[str, Any]) -> bytes:
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    return b"".join(bytes.fromhex(hex) * times for hex, times in vector["runs"])


def test_every_value_is_read_and_written_as_the_same_bytes(guest: Guest) -> None:
    for vector in vectors("values.json"):
        data = bytes.fromhex(vector["value_cbor_hex"])

        assert guest.recode(vector["type"], data) == ("Bytes", data), vector["name"]
        assert guest.ask({"$tag": "Item", "$value": data}) == ("Bytes", data), vector["name"]


def test_no_prefix_of_a_value_is_read(guest: Guest) -> None:
    event = next(each for each in vectors("values.json") if len(each["value_cbor_hex"]) > 200)
    data = bytes.fromhex(event["value_cbor_hex"])

    for length in range(len(data)):
        assert guest.recode(event["type"], data[:length])[0] == "Misfit"


def test_a_value_that_a_gate_refuses_is_refused(guest: Guest) -> None:
    refused = [each for each in vectors("refused.json") if each["gate"] in ("ingress", "record")]
    met = set()
    for vector in refused:
        data = data_of(vector)
        if vector["gate"] == "ingress" and vector["name"] in LIMITS:
            met.add(vector["name"])
            continue
        if "type" in vector:
            assert guest.recode(vector["type"], data)[0] == "Misfit", vector["name"]
        else:
            assert guest.ask({"$tag": "Item", "$value": data})[0] == "Misfit", vector["name"]
    assert met == LIMITS


def test_the_named_types_of_the_vectors_are_those_of_the_guest() -> None:
    named = {node["name"]: node["type"] for node in read_nodes("sdk-rust/tests/vectors/vectors")}

    given = {
        name: type
        for vector in vectors("values.json")
        for name, type in vector.get("schemas", {}).items()
    }
    assert named == given


def test_a_misfit_says_where_and_what(guest: Guest) -> None:
    record: Any = {"record": {"a": {"nat": {}}}}

    assert guest.recode(record, bytes.fromhex("a1616200")) == ("Misfit", "byte 1: expected a")
    assert guest.recode(record, bytes.fromhex("a1616120")) == ("Misfit", "byte 3: expected a nat")


def test_a_module_with_every_type_and_json_is_small() -> None:
    """SR-33 for the whole SDK: the functions for JSON are the largest part that authors choose."""
    assert len(WASM) < SIZE_BYTES_MAX


def test_the_kernels_schemas_are_the_kernels(guest: Guest) -> None:
    definitions = [json.loads(text) for text in guest.ask({"$tag": "Definitions"})[1]]

    for definition in definitions:
        ours = SCHEMAS[definition["name"]]["type"]
        assert without_comments(definition["type"]) == ours, definition["name"]
    # The context is not decoded as one value; some schemas are only for modules of the AgentOS SDK,
    # or for documents that no effect carries.
    assert {each["name"] for each in definitions} == (
        {name for name in SCHEMAS if not is_only_theirs(name)} - {names.CONTEXT}
    )


def is_only_theirs(schema: str) -> bool:
    words = (
        "Pending", "BytesOr", "Gov", "PureContext", "BlobEdge", "LlmToolCall", "LlmOutput",
        "LlmRuntimeArgs", "WorkspaceTree", "WorkspaceEntry", "WorkspaceName",
    )  # fmt: skip
    return schema.removeprefix("sys/").startswith(words)


def test_there_is_a_typed_way_to_every_effect_of_the_kernel(guest: Guest) -> None:
    effects = {
        each["name"]: (each["params"], each["receipt"])
        for each in map(json.loads, guest.ask({"$tag": "Effects"})[1])
    }

    assert effects == {
        name: (node["params"], node["receipt"])
        for name, node in EFFECTS.items()
        if name not in names.UNSUPPORTED_EFFECTS
    }
