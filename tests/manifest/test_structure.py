"""The JSON Schemas, and that they agree with the code next to them (M-1 to M-4)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from aos.manifest import structure
from aos.manifest.forms import (
    ATTEMPTS_DEFAULT,
    BASE_MS_DEFAULT,
    CAP_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    canonical,
)
from aos.manifest.limits import (
    EFFECT_RANGES,
    FRESH_WORLD_LIMITS,
    STEP_RANGES,
    WORLD_RANGES,
    StepLimits,
)
from aos.values.errors import SchemaProblems
from aos.values.schema import compile_schemas
from tests.manifest.example import GOOD, schema

SCHEMAS: dict[str, Any] = {
    path.name: json.loads(path.read_text("utf-8"))
    for path in structure.schema_folder().glob("*.json")
}
COMMON = SCHEMAS["common.schema.json"]["$defs"]


KEY = "ed25519:" + "0" * 64


def validator(name: str) -> Draft202012Validator:
    resources = [(key, DRAFT202012.create_resource(value)) for key, value in SCHEMAS.items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    return Draft202012Validator(SCHEMAS[name], registry=registry)


def test_there_is_a_schema_for_each_form_and_the_file() -> None:
    kinds = {f"{kind}.schema.json" for kind in structure.NODE_KINDS}

    assert SCHEMAS.keys() == kinds | {
        "common.schema.json",
        "file.schema.json",
        "patch.schema.json",
    }
    for contents in SCHEMAS.values():
        Draft202012Validator.check_schema(contents)


@pytest.mark.parametrize("file", GOOD)
def test_an_editor_accepts_what_loading_accepts(file: str) -> None:
    validator("file.schema.json").validate(GOOD[file])


@pytest.mark.parametrize("odd", [{}, [1], {"$kind": "defschema"}, {"$kind": "x"}, 5])
def test_an_editor_refuses_what_loading_refuses(odd: Any) -> None:
    assert not validator("file.schema.json").is_valid(odd)


def test_limits_are_the_same_in_both_places() -> None:
    """M-40 to M-42."""
    effect = SCHEMAS["defeffect.schema.json"]["properties"]
    retry = effect["retry"]["properties"] | {"timeout_ms": effect["timeout_ms"]}
    retry_defaults = {
        "attempts": ATTEMPTS_DEFAULT,
        "base_ms": BASE_MS_DEFAULT,
        "cap_ms": CAP_MS_DEFAULT,
        "timeout_ms": TIMEOUT_MS_DEFAULT,
    }
    for said, ranges, defaults in (
        (COMMON["StepLimits"]["properties"], STEP_RANGES, asdict(StepLimits())),
        (COMMON["WorldLimits"]["properties"], WORLD_RANGES, asdict(FRESH_WORLD_LIMITS)),
        (retry, EFFECT_RANGES, retry_defaults),
    ):
        assert said == {
            name: {
                "type": "integer",
                "minimum": ranges[name].low,
                "maximum": ranges[name].high,
            }
            | ({} if default is None else {"default": default})
            for name, default in defaults.items()
        }
        assert all(default in ranges[name] for name, default in defaults.items() if default)


TEXT: dict[str, Any] = {"text": {}}
TYPES_THAT_ARE = [
    *(
        {form: {}}
        for form in [
            "bool",
            "int",
            "nat",
            "dec128",
            "bytes",
            "text",
            "time",
            "duration",
            "hash",
            "uuid",
            "unit",
        ]
    ),
    {"text": {}, "$comment": "words"},
    {"record": {}},
    {"record": {"a b": TEXT, "ü": {"option": TEXT}}},
    {"variant": {"A": {"unit": {}}}},
    {"list": {"set": TEXT}},
    {"map": {"key": {"uuid": {}}, "value": TEXT}},
    {"ref": "a/X@1"},
]
TYPES_THAT_ARE_NOT: list[Any] = [
    {},
    {"$comment": "words"},
    {"txt": {}},
    {"text": {"max": 5}},
    {"text": None},
    {"text": {}, "nat": {}},
    {"record": []},
    {"record": {"": TEXT}},
    {"record": {"$comment": TEXT}},
    {"record": {"a": "text"}},
    {"variant": {}},
    {"list": [TEXT]},
    {"map": {"key": TEXT}},
    {"map": {"key": {"bool": {}}, "value": TEXT}},
    {"map": {"key": {"ref": "a/X@1"}, "value": TEXT}},
    {"ref": 1},
    "text",
    None,
]


@pytest.mark.parametrize("type_", TYPES_THAT_ARE)
def test_both_accept_a_type(type_: Any) -> None:
    validator("defschema.schema.json").validate(schema("a/T@1", type_))
    compile_schemas({"a/T@1": type_, "a/X@1": TEXT})


@pytest.mark.parametrize("type_", TYPES_THAT_ARE_NOT)
def test_both_refuse_what_is_no_type(type_: Any) -> None:
    assert not validator("defschema.schema.json").is_valid(schema("a/T@1", type_))
    with pytest.raises(SchemaProblems):
        compile_schemas({"a/T@1": type_, "a/X@1": TEXT})


def test_every_field_of_a_form_is_read_or_refused() -> None:
    """No field that an author may write is lost: it is hashed, or a default, or refused."""
    not_hashed = {
        "$comment",
        "determinism",  # one value
        "upgrade",  # one supported value
        "migrate",
        "delivery",  # one supported value
        "secrets",
        "uses",  # written out when the manifest is loaded
        "schedules",
    }
    full: dict[str, dict[str, Any]] = {
        "defschema": schema("a/T@1", TEXT),
        "defmodule": {
            "$kind": "defmodule",
            "name": "a/m@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module"}},
            "abi": "aos/1",
        },
        "defworkflow": {
            "$kind": "defworkflow",
            "name": "a/w@1",
            "state": "a/T@1",
            "event": "a/T@1",
            "context": "a/T@1",
            "annotations": "a/T@1",
            "key_schema": "a/T@1",
            "effects_emitted": [],
            "impl": {"module": "a/m@1", "entrypoint": "step"},
            "limits": {"fuel": 1},
            "lifecycle": "explicit",
        },
        "defeffect": {
            "$kind": "defeffect",
            "name": "a/e@1",
            "params": "a/T@1",
            "receipt": "a/T@1",
            "impl": {"executor": "x"},
            "retry": {"attempts": 2},
            "timeout_ms": 1,
            "idempotency_scope": "world",
            "lane": ["a"],
        },
        "manifest": {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [],
            "modules": [],
            "workflows": [],
            "effects": [],
            "routing": {"subscriptions": [{"event": "a/T@1", "workflow": "a/w@1"}]},
            "executors": [],
            "limits": {"world": {"mailbox": 1}},
            "governance": {"approvers": [{"name": "a", "public_key": KEY}], "quorum": 1},
            "plans": [{"type": "order", "version": 1, "steps": [{"type": "SHIP"}]}],
        },
    }
    for kind, node in full.items():
        said = SCHEMAS[f"{kind}.schema.json"]["properties"].keys()
        assert structure.problems(node) == []
        assert node.keys() | not_hashed >= said
        assert canonical(node).keys() == node.keys() - ({"abi"} if kind == "defmodule" else set())
