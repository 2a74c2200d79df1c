"""The examples of a form of events (spec/page.md, PG-71)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from aos.manifest.builtin_definitions import SCHEMAS
from aos.page.send_form import PARTS_MAX, example_value
from aos.values.schema import Schema, compile_schemas
from tests.values.strategies import types

MANIFESTS = Path(__file__).parents[2] / "manifests"
BUILT_IN = {name: node["type"] for name, node in SCHEMAS.items()}
SEALED: Any = {"aos/Sealed@1": {"bytes": {}}}


def read_back(schemas: dict[str, Schema], name: str) -> Any:
    """The example of a schema, which the schema reads."""
    found = example_value(schemas[name], schemas)
    schemas[name].from_json(json.dumps(found))
    return found


@given(types)
def test_the_example_of_a_type_is_one_of_its_values(type_: Any) -> None:
    """PG-71"""
    schemas = compile_schemas({"t/Subject@1": type_})
    read_back(schemas, "t/Subject@1")


def schemas_of_manifests() -> dict[str, dict[str, Any]]:
    """The types of the schemas in each folder of a manifest; not of a project, whose build makes
    the other definitions."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(MANIFESTS.rglob("air/*.json")):
        if (file.parent.parent / "aos.toml").exists():
            continue
        nodes = json.loads(file.read_text("utf-8"))
        for each in nodes if isinstance(nodes, list) else [nodes]:
            if each["$kind"] == "defschema":
                folder = str(file.parent.parent.relative_to(MANIFESTS))
                found.setdefault(folder, {})[each["name"]] = each["type"]
    return found


OWN = schemas_of_manifests()


@pytest.mark.parametrize("folder", OWN)
def test_every_schema_of_our_manifests_has_an_example(folder: str) -> None:
    """PG-71"""
    schemas = compile_schemas({**BUILT_IN, **SEALED, **OWN[folder]})

    for name in OWN[folder]:
        read_back(schemas, name)


def test_an_example_shows_every_part_of_a_type() -> None:
    """PG-71"""
    text: Any = {"text": {}}
    event = {
        "record": {
            "bytes": {"bytes": {}}, "list": {"list": {"ref": "t/Item@1"}}, "no": {"bool": {}},
            "by_name": {"map": {"key": text, "value": {"nat": {}}}},
            "by_number": {"map": {"key": {"nat": {}}, "value": text}},
            "note": {"option": text}, "at": {"time": {}}, "cents": {"dec128": {}},
            "choice": {
                "variant": {
                    "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"}, "Off": {"unit": {}},
                }
            },
            "kind": {"variant": {"Named": text}}, "hash": {"hash": {}}, "id": {"uuid": {}},
        }
    }  # fmt: skip
    own = {"t/Event@1": event, "t/Item@1": {"record": {"sku": text, "quantity": {"nat": {}}}}}
    schemas = compile_schemas({**BUILT_IN, **own})

    assert read_back(schemas, "t/Event@1") == {
        "bytes": "AA==", "list": [{"sku": "text", "quantity": 1}], "no": False,
        "by_name": {"text": 1}, "by_number": [[1, "text"]], "note": None,
        "at": "2026-01-02T03:04:05Z", "cents": "1.5", "choice": "Off", "kind": {"Named": "text"},
        "hash": f"blake3:{'0' * 64}", "id": "00000000-0000-4000-8000-000000000000",
    }  # fmt: skip


def test_a_type_whose_values_are_huge_has_no_example() -> None:
    """PG-71: 20 small schemas, each with two of the next."""
    levels = 20
    own: dict[str, Any] = {
        f"t/L{n}@1": {"record": {"a": {"ref": f"t/L{n + 1}@1"}, "b": {"ref": f"t/L{n + 1}@1"}}}
        for n in range(levels)
    }
    schemas = compile_schemas({**own, f"t/L{levels}@1": {"text": {}}})

    assert example_value(schemas["t/L0@1"], schemas) is None
    assert example_value(schemas["t/L12@1"], schemas) is not None
    assert 2 ** (levels - 12) < PARTS_MAX < 2**levels
