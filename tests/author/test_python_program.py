"""The definitions of a source file in Python: PF-1 to PF-26."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aos.author.errors import BuildFailed
from aos.author.python.flow_function import flow_state
from aos.author.python.python_program import PythonProgram, read_program
from aos.manifest.load import load
from tests.author.fakes import ROOT

HEAD = """\
from __future__ import annotations
from dataclasses import field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Literal
from aos.flow import Cx, Nat, by, effect, flow, other_flow, schema

"""
ORDER = """\
@schema("shop/Order@1")
class Order:
    order_id: str

"""
FLOW = """\
@flow("shop/order@1", key="order_id")
async def order(cx: Cx, placed: Order) -> None:
    pass
"""
PAGE = (ROOT / "spec" / "python-flows.md").read_text("utf-8")
EXAMPLE = PAGE.split("```python\n")[1].split("```")[0]


def program(text: str) -> PythonProgram:
    return read_program((HEAD + text).encode(), "flow.py")


def nodes(text: str) -> dict[str, dict[str, Any]]:
    """The definitions by name."""
    return {node["name"]: node for node in program(text).air("shop/m@1") if "name" in node}


def field_type(annotation: str) -> Any:
    text = f"""\
@schema("shop/A@1")
class A:
    x: int

@schema("shop/B@1")
class B:
    x: int

@schema("shop/Order@1")
class Order:
    order_id: str
    value: {annotation}

{FLOW}"""
    return nodes(text)["shop/Order@1"]["type"]["record"]["value"]


def problems(text: str, *, head: str = HEAD) -> list[str]:
    """The lines of the error, with lines counted behind the head."""
    with pytest.raises(BuildFailed) as failure:
        read_program((head + text).encode(), "flow.py")
    return str(failure.value).split("\n")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("bool", {"bool": {}}),
        ("int", {"int": {}}),
        ("str", {"text": {}}),
        ("bytes", {"bytes": {}}),
        ("Decimal", {"dec128": {}}),
        ("datetime", {"time": {}}),
        ("timedelta", {"duration": {}}),
        ("Annotated[int, Nat]", {"nat": {}}),
        ("list[str]", {"list": {"text": {}}}),
        ("set[int]", {"set": {"int": {}}}),
        (
            "dict[str, list[A]]",
            {"map": {"key": {"text": {}}, "value": {"list": {"ref": "shop/A@1"}}}},
        ),
        ("dict[Annotated[int, Nat], int]", {"map": {"key": {"nat": {}}, "value": {"int": {}}}}),
        ("A", {"ref": "shop/A@1"}),
        ('"A"', {"ref": "shop/A@1"}),
        ("int | None", {"option": {"int": {}}}),
        ("None | A", {"option": {"ref": "shop/A@1"}}),
        ("A | B", {"variant": {"A": {"ref": "shop/A@1"}, "B": {"ref": "shop/B@1"}}}),
        (
            "A | B | None",
            {"option": {"variant": {"A": {"ref": "shop/A@1"}, "B": {"ref": "shop/B@1"}}}},
        ),
        ('Literal["a", "b"]', {"variant": {"a": {"unit": {}}, "b": {"unit": {}}}}),
        ('Literal["a"] | None', {"option": {"variant": {"a": {"unit": {}}}}}),
        ("int = 3", {"int": {}}),
        ("list[int] = field(default_factory=list)", {"list": {"int": {}}}),
    ],
)
def test_an_annotation_gives_a_type_of_air(annotation: str, expected: Any) -> None:
    """PF-10, PF-13."""
    assert field_type(annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "remedy"),
    [
        ("float", "use int in the smallest unit, or Decimal"),
        ("list", "say of which type: list[str]"),
        ("dict", "say of which type: dict[str, int]"),
        ("tuple[int, int]", "use list"),
        ("Optional[int]", "write X | None"),
        ("Union[A, B]", "write A | B"),
        ("Any", "a schema has one type for each field"),
        ("dict[A, int]", "the key of a dict: expected str, int or Annotated[int, Nat], found A"),
        ("dict[Decimal, int]", "the key of a dict"),
        ("int | str", "a member of a union: expected different classes with @schema"),
        ("A | A", "a member of a union"),
        ("int | None | None", "None is there once"),
        ("None", "None alone has no value"),
        ("Unknown", "a type that no schema has: expected bool, int, str"),
        ("Literal[1]", "an arm of Literal: expected a text"),
        ('Literal["$a"]', "an arm of Literal: expected a text"),
        ('Literal["\\ud800"]', "an arm of Literal: expected a text"),
        ('Literal["a", "a"]', "Literal has 'a' twice"),
        ("Annotated[str, Nat]", "Annotated[int, Nat] is the only one"),
        ("'not a type['", "a type that no schema has"),
        ("list[int] = []", "write field(default_factory=list)"),
        ("ClassVar[int]", "only `receipt` of an effect is a ClassVar"),
        ("list[float]", "floats differ between machines"),
    ],
)
def test_any_other_annotation_is_refused_at_its_place_with_a_remedy(
    annotation: str, remedy: str
) -> None:
    """PF-3, PF-11."""
    with pytest.raises(BuildFailed) as failure:
        field_type(annotation)

    [text] = str(failure.value).split("\n")
    assert text.startswith("flow.py:19:")
    assert remedy in text


def test_the_example_of_the_page_gives_a_manifest_that_loads() -> None:
    """PF-14 to PF-25."""
    air = read_program(EXAMPLE.encode(), "flow.py").air("shop/flow.module@1")
    subscriptions = [
        {key: value for key, value in node.items() if key != "$kind"}
        for node in air
        if node["$kind"] == "subscription"
    ]
    definitions = [node for node in air if node["$kind"] != "subscription"]
    module = {
        "$kind": "defmodule",
        "name": "shop/flow.module@1",
        "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "m.wasm"}},
    }

    def named(kind: str) -> list[dict[str, str]]:
        return [{"name": node["name"]} for node in definitions if node["$kind"] == kind]

    manifest = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": named("defschema"),
        "modules": [{"name": "shop/flow.module@1"}],
        "workflows": named("defworkflow"),
        "effects": named("defeffect"),
        "routing": {"subscriptions": subscriptions},
    }
    files = {
        "air.json": json.dumps([*definitions, module, manifest]).encode(),
        "m.wasm": b"\0asm\1\0\0\0",
    }

    effective = load(files).effective

    document = effective.document
    for name in ("shop/Order@1", "shop/ChargeParams@1", "shop/OrderFlowEvent@1", "shop/order@1"):
        assert name.encode() in document


def test_a_flow_in_python_has_the_definitions_of_one_in_rust() -> None:
    """PF-24."""
    built = json.loads(
        (ROOT / "manifests/cookbook/flow_saga/air/generated.air.json").read_text("utf-8")
    )
    rust = {node["name"]: node for node in built if "name" in node}
    python = nodes(
        """\
@schema("trip/Requested@1")
class Requested:
    trip_id: str

@flow("trip/booking@1", key="trip_id")
async def trip(cx: Cx, requested: Requested) -> None:
    pass
"""
    )

    assert flow_state() == rust["aos/Flow@1"]["type"]
    for name in ("trip/BookingControl@1", "trip/BookingFlowEvent@1"):
        assert python[name]["type"] == rust[name]["type"]
    ours, theirs = python["trip/booking@1"], rust["trip/booking@1"]
    for name in ("state", "event", "context", "limits", "lifecycle"):
        assert ours[name] == theirs[name]


def test_effects_of_the_file_that_it_uses_are_emitted_in_order() -> None:
    """PF-15, PF-16, PF-25."""
    effect = """\
@effect("shop/{name}@1", executor="shop", timeout_ms=5, delivery="at_most_once")
class {of_class}:
    \"\"\"Do it
    once.

    More.\"\"\"
    id: str
    receipt: ClassVar[type[Order]]

"""
    pairs = [("c", "C"), ("unused", "U"), ("a", "A")]
    classes = "".join(effect.format(name=name, of_class=of_class) for name, of_class in pairs)
    air = nodes(ORDER + classes + FLOW.replace("pass", 'await cx.step("x", A("1")); C("2")'))

    emitted = air["shop/order@1"]["effects_emitted"]
    assert emitted == ["shop/c@1", "shop/a@1", "sys/timer.set@1", "sys/effect.cancel@1"]
    assert air["shop/c@1"] == {
        "$kind": "defeffect",
        "$comment": "Do it once.",
        "name": "shop/c@1",
        "params": "shop/CParams@1",
        "receipt": "shop/Order@1",
        "impl": {"executor": "shop"},
        "timeout_ms": 5,
        "delivery": "at_most_once",
    }
    assert air["shop/CParams@1"]["type"] == {"record": {"id": {"text": {}}}}


def test_messages_are_routed_by_the_key_of_the_flow_or_by_a_path() -> None:
    """PF-22."""
    text = f"""\
{ORDER}
@schema("shop/Cancel@1")
class Cancel:
    order_id: str

@schema("shop/Extend@1")
class Extend:
    order: Order

{FLOW.replace('"order_id"', '"order_id", listens=[Cancel, by(Extend, "order.order_id")]')}"""
    air = program(text).air("shop/m@1")

    routes = {node["event"]: node for node in air if node["$kind"] == "subscription"}
    assert routes["shop/Cancel@1"]["key_field"] == "order_id"
    assert routes["shop/Extend@1"]["key_field"] == "order.order_id"
    assert routes["shop/OrderControl@1"]["creates"] is False
    event = next(node for node in air if node.get("name") == "shop/OrderFlowEvent@1")
    assert list(event["type"]["variant"])[-2:] == ["M0", "M1"]


SHIP = """\
@schema("shop/Parcel@1")
class Parcel:
    id: str

SHIP = other_flow("shop/ship@1", input=Parcel, output=Parcel, key="id")
"""


def test_a_flow_that_calls_and_is_called_has_the_definitions_of_one_in_rust() -> None:
    """PF-24, PF-27: as tests/flows of the SDK has them."""
    built = json.loads((ROOT / "modules/sdk-rust/tests/flows/flows.nodes.json").read_text("utf-8"))
    rust = {node["name"]: node for node in built if "name" in node}
    routes = {node["event"]: node for node in built if node["$kind"] == "subscription"}
    text = """\
@schema("t/{input}@1")
class {input}:
    id: str

CHILD = other_flow("t/child@1", input={input}, output=str, key="id")

@flow("t/{name}@1", key="id", {arguments})
async def run(cx: Cx, go: {input}) -> str:
    return "x"
"""

    child = program(text.format(input="Work", name="child", arguments="callable=True"))
    probe = program(text.format(input="Go", name="probe", arguments="calls=[CHILD]"))

    air = [*child.air("t/m@1"), *probe.air("t/m@1")]
    ours = {node["name"]: node for node in air if "name" in node}
    for name in ("t/ChildCall@1", "t/ChildFlowEvent@1", "t/ProbeReturn@1"):
        assert ours[name]["type"] == rust[name]["type"]
    assert list(ours["t/ProbeFlowEvent@1"]["type"]["variant"]) == [
        "Start", "Control", "Receipt", "Rejected", "Return",
    ]  # fmt: skip
    for event in ("t/ChildCall@1", "t/ProbeReturn@1"):
        [route] = [node for node in air if node.get("event") == event]
        assert route == routes[event]
    assert probe.flow.returned == "t/ProbeReturn@1"
    assert child.flow.returned is None
    assert [other.facts() for other in probe.flow.others] == [
        {
            "call": "t/ChildCall@1",
            "input": "t/Go@1",
            "output": {"text": {}},
            "control": "t/ChildControl@1",
            "key_field": "id",
        }
    ]


def test_annotations_are_those_of_the_workflow() -> None:
    """PF-28."""
    text = ORDER + FLOW.replace('key="order_id"', 'key="order_id", annotations=Order')

    assert nodes(text)["shop/order@1"]["annotations"] == "shop/Order@1"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("calls=[SHIP]", "calls=[ORDER]", "calls of the flow: expected a list of flows"),
        ("calls=[SHIP]", "calls=[]", "add SHIP to calls=[…] of @flow"),
        ("SHIP, Parcel", "ORDER, Parcel", "the flow of cx.call or cx.spawn: expected a name"),
        ("output=Parcel", "output=list[str]", "the result of shop/ship@1: expected a class"),
        ("output=Parcel", "output=float", "use int in the smallest unit, or Decimal"),
        ("input=Parcel", "input=str", "whose input is a class of this file with @schema"),
        (', key="id")', ")", "the flow shop/ship@1: expected other_flow("),
        ("shop/ship@1", "ship", "the name of another flow: expected a text NAMESPACE/NAME@VERSION"),
        (', key="id")', ', key="id", keys=1)', "an argument of other_flow: expected input"),
        ("SHIP = other", "SHIP = [other", "a flow of another file: expected NAME = other_flow("),
        ("calls=[SHIP]", "callable=1", "callable of shop/order@1: expected True or False"),
        ("calls=[SHIP]", "annotations=str", "the annotations of the flow: expected a class"),
        ('await cx.call("s", SHIP, Parcel("1"))', "cx.annotate(placed)", "add annotations=CLASS"),
        ("await cx.call", "cx.call", "an operation without await"),
    ],
)
def test_a_wrong_call_is_refused(old: str, new: str, expected: str) -> None:
    """PF-3, PF-27, PF-28."""
    flow = FLOW.replace('"order_id"', '"order_id", calls=[SHIP]')
    text = ORDER + SHIP + flow.replace("pass", 'await cx.call("s", SHIP, Parcel("1"))')
    assert program(text).flow.calls_others
    assert old in text
    wrong = text.replace(old, new)
    wrong = wrong.replace('key="id")', 'key="id")]') if "[other" in new else wrong

    assert any(expected in line for line in problems(wrong)), problems(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ORDER, "flow.py:1:1: the file has no flow"),
        (ORDER + FLOW + FLOW, "is a second flow; the first is order in line 13"),
        (ORDER + FLOW.replace("async def", "def"), "found def order(cx: Cx, placed: Order)"),
        (ORDER + FLOW.replace("cx: Cx, ", ""), "a flow is a function with two parameters"),
        (ORDER + FLOW.replace(" -> None", ""), "has no type of its result"),
        (ORDER + FLOW.replace(": Order", ""), "the input of the flow"),
        (
            ORDER + FLOW.replace('"shop/order@1"', '"order"'),
            "expected a text NAMESPACE/NAME@VERSION",
        ),
        (
            ORDER + FLOW.replace('"shop/order@1"', '"sys/order@1"'),
            "the namespace sys is that of AOS",
        ),
        (
            ORDER + FLOW.replace('"shop/order@1"', 'f"shop/order@1"'),
            "expected a text NAMESPACE/NAME@VERSION",
        ),
        (ORDER + FLOW.replace(', key="order_id"', ""), "names no key"),
        (
            ORDER + FLOW.replace('"order_id"', '"id"'),
            "expected one of its fields: order_id, found 'id'",
        ),
        (ORDER + FLOW.replace('"order_id"', "KEY"), "write the value itself"),
        (ORDER.replace("str", "bool") + FLOW, "expected a field of the type str, int or Annotated"),
        (ORDER + FLOW.replace('"order_id"', '"order_id", keys=3'), "found keys"),
        (ORDER + FLOW.replace('"order_id"', '"order_id", **x'), "found **"),
        (
            ORDER + FLOW.replace('"order_id"', '"order_id", upgrade="x"'),
            "expected 'quiesce' or 'in_place'",
        ),
        (
            ORDER + FLOW.replace('"order_id"', '"order_id", listens=[Order]'),
            "Order is already the input",
        ),
        (
            ORDER + FLOW.replace('"order_id"', '"order_id", listens=Order'),
            "listens of the flow: expected a list",
        ),
        (
            ORDER + FLOW.replace('"order_id"', '"order_id", listens=[X]'),
            "a schema that the flow listens for",
        ),
        (
            ORDER + FLOW.replace("pass", 'await cx.listen("x", Order)'),
            "add Order to listens=[…] of @flow",
        ),
        (ORDER + ORDER + FLOW, "the class Order is there twice"),
        (ORDER + ORDER.replace("class Order", "class Other") + FLOW, "have the name shop/Order@1"),
        (ORDER + "    order_id: int\n" + FLOW, "has the field order_id twice"),
        (ORDER + "    x = 3\n" + FLOW, "give the field a type"),
        (ORDER + "    inner: Order\n" + FLOW, "the schema shop/Order@1 contains itself"),
        ("@dataclass\n" + ORDER + FLOW, "remove the others; @schema makes a dataclass by itself"),
        (
            ORDER.replace('("shop/Order@1")', "") + FLOW,
            '@schema of Order: expected @schema("shop/Order@1")',
        ),
        (
            ORDER.replace('"shop/Order@1"', '"shop/Order@1", frozen=1') + FLOW,
            "expected True or False",
        ),
    ],
)
def test_a_wrong_declaration_is_refused(text: str, expected: str) -> None:
    """PF-5, PF-18, PF-20 to PF-23."""
    assert any(expected in line for line in problems(text)), problems(text)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    receipt: ClassVar[type[Order]]\n", "", "the effect Charge names no receipt"),
        ("ClassVar[type[Order]]", "Order", "the receipt of an effect: expected receipt: ClassVar"),
        ("ClassVar[type[Order]]", "ClassVar[type[X]]", "the receipt of an effect"),
        (', executor="shop"', "", 'add executor="NAME"'),
        (', executor="shop"', ', executor="shop", receipt=Order', "write receipt: ClassVar"),
        (', executor="shop"', ', executor="shop", timeout_ms=0', "a number from 1 to 86,400,000"),
        (
            ', executor="shop"',
            ', executor="shop", timeout_ms=True',
            "a number from 1 to 86,400,000",
        ),
    ],
)
def test_a_wrong_effect_is_refused(old: str, new: str, expected: str) -> None:
    """PF-15, PF-16."""
    effect = """\
@effect("shop/charge@1", executor="shop")
class Charge:
    id: str
    receipt: ClassVar[type[Order]]

"""
    assert old in effect
    assert any(expected in line for line in problems(ORDER + effect.replace(old, new) + FLOW))


def test_all_problems_are_reported_in_the_order_of_the_file() -> None:
    """PF-3. Columns count characters."""
    text = ORDER.replace("str", "float") + "    é: int; b: tuple\n" + FLOW.replace("pass", "del x")

    places = [line.split(": ")[0] for line in problems(text)]
    assert places == ["flow.py:10:15", "flow.py:12:16", "flow.py:13:27", "flow.py:15:5"]


def test_at_most_fifty_problems_are_reported() -> None:
    """PF-3."""
    fields = "".join(f"    f{number}: float\n" for number in range(60))
    texts = problems(ORDER + fields + FLOW)

    assert len(texts) == 51
    assert texts[-1] == "flow.py: 10 further problems"


def encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            encoded("x = 1\n", "utf-16"),
            "flow.py:1:1: the encoding of the source: expected UTF-8, found UTF-16",
        ),
        (encoded("x = 1\n", "utf-32"), "found UTF-32"),
        (encoded("x = 1\n", "utf-16-le"), "a zero byte at byte 1"),
        (
            b"x = 1\n# \xe9\n",
            "flow.py:2: the encoding of the source: expected UTF-8, found byte 0xe9",
        ),
        (b"# coding: latin-1\nx = 1\n", "expected UTF-8, found a comment that declares iso-8859-1"),
        (b"# coding: klingon\n", "declares klingon"),
        (b"def f():\n\tx = 1\n        y = 2\n", "indent with spaces only"),
        (b"def f():\n    x = 1\n  y = 2\n", "lines of one block begin in the same column"),
        (b"x = (\n", "flow.py:1:5: no valid Python: '(' was never closed: found 'x = ('"),
        (b"x = '\\N{nothing}'\n", "no valid Python"),
        (b"x = " + b"9" * 5000 + b"\n", "no valid Python"),
        (b"x = " + b"-" * 5000 + b"1\n", "at most 100 levels"),
        (b"x = " + b"1 + " * 150 + b"1\n", "expressions or blocks are nested too deeply"),
        (b"x = 1\n" * 100_000, "at most 524,288 bytes, found 600,000"),
        (b"", "flow.py:1:1: the file has no flow"),
    ],
    ids=range(15),
)
def test_bytes_that_are_no_program_are_refused(data: bytes, expected: str) -> None:
    """PF-2, PF-4."""
    with pytest.raises(BuildFailed) as failure:
        read_program(data, "flow.py")

    assert expected in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_file_with_other_line_ends_gives_the_same_definitions(mark: bytes, end: bytes) -> None:
    """PF-2."""
    data = mark + EXAMPLE.encode().replace(b"\n", end)

    assert read_program(data, "x").air("m") == read_program(EXAMPLE.encode(), "x").air("m")


def test_the_file_is_not_executed() -> None:
    """PF-1."""
    assert program("raise SystemExit(1)\n" + ORDER + FLOW).flow.name == "shop/order@1"
