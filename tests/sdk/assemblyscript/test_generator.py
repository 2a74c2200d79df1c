"""The generator: what it writes, that it always writes the same, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from aos.author.assemblyscript import ASC_OPTIONS, generate, generate_system
from aos.author.errors import BuildFailed
from aos.core.decide.envelope import input_envelope
from aos.values.cbor import decode_record, encode
from aos.values.errors import SchemaProblems
from tests.memory_world import effect, schema, workflow
from tests.modules.guests import ROOT
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast, guest_source

SDK: Final = ROOT / "modules/sdk-assemblyscript"
CONFORMANCE: Final = ROOT / "modules/conformance"
TEXT: Final[dict[str, object]] = {"text": {}}
NAT: Final[dict[str, object]] = {"nat": {}}

Nodes = Sequence[Mapping[str, Any]]


def conformance_nodes() -> list[dict[str, Any]]:
    files = sorted((CONFORMANCE / "air").glob("*.air.json"))
    return [node for file in files for node in json.loads(file.read_text())]


def test_the_sdks_own_definitions_are_the_kernels() -> None:
    """After a change of the builtins, write the file again with ``generate_system``."""
    assert (SDK / "assembly/system.ts").read_text("utf-8") == generate_system()


def test_the_conformance_classes_are_those_of_its_air() -> None:
    written = CONFORMANCE / "assemblyscript/assembly/generated.ts"

    assert written.read_text("utf-8") == generate(conformance_nodes())


def test_a_schema_that_only_the_engine_of_flows_reads_gets_no_class() -> None:
    air = ROOT / "manifests/cookbook/flow_events/air"
    files = [json.loads((air / f"{name}.air.json").read_text()) for name in ("desk", "generated")]
    written = ROOT / "modules/cookbook/flow-events-desk/assembly/generated.ts"

    made = generate([node for file in files for node in file])

    assert made == written.read_text("utf-8")
    classes = [line.split()[2] for line in made.splitlines() if line.startswith("export class ")]
    assert {"Deliver", "DeliveryControl", "DeskState"} <= set(classes)
    assert not {"Flow", "FlowParent", "DeliveryFlowEvent"} & set(classes)


def test_the_order_of_the_definitions_does_not_matter() -> None:
    nodes = conformance_nodes()

    assert generate(nodes[::-1]) == generate(nodes) == generate([*nodes, *nodes])


def test_the_options_are_those_of_the_packages_configuration() -> None:
    options = json.loads((SDK / "asconfig.json").read_text())["options"]

    given: list[str] = []
    for name, value in options.items():
        if value is True:
            given.append(f"--{name}")
        for one in value if isinstance(value, list) else [value]:
            if one is not True:
                given += [f"--{name}", str(one)]
    assert tuple(given) == ASC_OPTIONS


def test_a_record_is_a_class() -> None:
    text = generate([schema("shop/Placed@1", {"record": {"order_id": TEXT, "by": NAT}})])

    assert text == guest_source("placed.ts")


ODD: Final = [
    schema("a/Item@1", {"record": {"class": TEXT, "x-y": NAT, "x_y": NAT, "1st": NAT, "é": TEXT,
                                   "Item": TEXT, "tag": TEXT, "r": NAT, "length": NAT}}),
    schema("b/Item@1", {"record": {"value": {"ref": "a/Item@1"}}}),
    schema("a/Item@2", {"record": {"own": {"ref": "b/Item@1"}}}),
    schema("a/Map@1", {"variant": {"new": {"ref": "a/Item@2"}, "Tag": NAT, "tag": TEXT,
                                   "a b": {"unit": {}}, "Item": {"option": {"ref": "a/Item@1"}}}}),
    schema("a/text-list@1", {"record": {"it": {"list": TEXT}}}),
    schema("a/State@1", {"record": {"map": {"ref": "a/Map@1"}, "it": {"ref": "a/text-list@1"}}}),
    schema("a/Put@1", {"record": {"put": {"ref": "a/State@1"}}}),
    workflow("a/odd-names.one@1", state="a/State@1", event="a/Put@1"),
]  # fmt: skip

ODD_SOURCE: Final = guest_source("odd.ts")


def test_odd_names_become_identifiers_and_stay_what_they_were(tmp_path: Path) -> None:
    wasm, _ = compile_wasm(tmp_path, ODD, ODD_SOURCE, options=fast())
    guest = Guest(wasm)
    event = encode({"put": {"map": {"$tag": "a b"}, "it": {"it": []}}})

    ran = guest.run(
        "step", input_envelope(state=None, schema="a/Put@1", value=event, key=b"", ctx=None)
    )

    guest.close()
    assert ran.output is not None
    output: Any = decode_record(ran.output)
    item = {
        "class": "c", "x-y": 1, "x_y": 2, "1st": 3, "é": "e", "Item": "i", "tag": "t", "r": 4,
        "length": 5,
    }  # fmt: skip
    assert decode_record(output["state"]) == {
        "it": {"it": ["x"]},
        "map": {"$tag": "new", "$value": {"own": {"value": item}}},
    }


EMPTY: Final = {"record": dict[str, Any]()}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [schema("a/AB@1", {"record": {"c": EMPTY}}), schema("a/ABC@1", EMPTY)],
            "two definitions need the class name ABC: the inline type a/AB@1.c and a/ABC@1",
        ),
        (
            [schema("a/A@1", {"record": {"b": EMPTY, "B": EMPTY}})],
            (
                "two definitions need the class name AB: the inline type a/A@1.b and "
                "the inline type a/A@1.B"
            ),
        ),
        (
            [schema("a/X@1", EMPTY), schema("a/X@1", NAT)],
            "a/X@1: it has two different definitions",
        ),
        (
            [schema("a/S@1", {"option": {"text": {}}, "$comment": "pending a/b@1"})],
            "a/S@1: the handle is of an unknown effect a/b@1",
        ),
        (
            [
                schema("a/S@1", {"text": {}, "$comment": "pending sys/timer.set@1"}),
            ],
            'does not fit the type: expected {"option": {"text": {}}}, found text',
        ),
        (
            [
                schema("a/S@1", {"list": {"text": {}}, "$comment": "pending set sys/timer.set@1"}),
            ],
            'expected {"map": {"key": …, "value": {"text": {}}}}, found list',
        ),
        (
            [schema("a/E@1", EMPTY), workflow("a/w@1", state="a/S@1", event="a/E@1")],
            "a/w@1: unknown schema a/S@1",
        ),
        (
            [schema("a/E@1", EMPTY), effect("a/e@1", "a/E@1", "a/R@1")],
            "a/e@1: unknown schema a/R@1",
        ),
        (
            [schema("a/E@1", {"list": NAT}), workflow("a/w@1", state="a/E@1", event="a/E@1")],
            "a/w@1: the event is of another type: expected a record, or a variant",
        ),
        (
            [
                schema("a/E@1", {"variant": {"A": EMPTY}}),
                workflow("a/w@1", state="a/E@1", event="a/E@1"),
            ],
            'a/E@1: the arm A of the event is not a ref: expected {"ref": name}',
        ),
        (
            [
                schema("a/X@1", EMPTY),
                schema("a/Y@1", EMPTY),
                schema("a/E@1", {"variant": {"a": {"ref": "a/X@1"}, "A": {"ref": "a/Y@1"}}}),
                workflow("a/w@1", state="a/X@1", event="a/E@1"),
            ],
            "a/E@1: two arms need the handler name onA",
        ),
        (
            [
                schema("a/E@1", EMPTY),
                schema(
                    "a/In@1",
                    {
                        "map": {"key": {"text": {}}, "value": {"text": {}}},
                        "$comment": "pending set sys/timer.set@1",
                    },
                ),
                schema("a/S@1", {"record": {"in": {"list": {"ref": "a/In@1"}}}}),
                workflow("a/w@1", state="a/S@1", event="a/E@1"),
            ],
            "a/w@1: the state has a handle of sys/timer.set@1, which the workflow does not ask for",
        ),
    ],
)
def test_nodes_that_cannot_be_generated_are_refused_in_a_sentence(
    nodes: Nodes, message: str
) -> None:
    with pytest.raises(BuildFailed) as refused:
        generate(nodes)

    assert message in str(refused.value)


def test_every_problem_of_the_types_is_told_at_once() -> None:
    with pytest.raises(SchemaProblems) as refused:
        generate([schema("a/A@1", {"txt": {}}), schema("a/B@1", {"ref": "a/C@1"})])

    assert "a/A@1" in str(refused.value)
    assert "a/C@1" in str(refused.value)


def test_a_comment_that_is_only_a_comment_makes_no_handle() -> None:
    nodes = [schema("a/S@1", {"record": {"a": {"text": {}, "$comment": "pending approval"}}})]

    assert "public a: string" in generate(nodes)
