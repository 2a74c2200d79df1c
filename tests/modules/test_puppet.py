"""The puppet does what its event says; and through it the guest's CBOR codec meets ours."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.decide.envelope import input_envelope, read_output
from aos.core.journal.faults import FaultKind
from aos.core.journal.ports import Call, Ran
from aos.manifest.load import Loaded
from aos.sandbox.engine import Sandbox
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem
from tests.memory_world import MemoryWorld
from tests.modules.guests import ROOT, Case, WasmWorld

U64 = 2**64


@pytest.fixture
def counter(puppet: Loaded, sandbox: Sandbox) -> Case:
    return Case(puppet, sandbox, "puppet/counter@1", "a")


@pytest.fixture
def opaque(puppet: Loaded, sandbox: Sandbox) -> Case:
    return Case(puppet, sandbox, "puppet/opaque@1", "a")


def do(case: Case, operation: object) -> Any:
    return case.send("puppet/Do@1", {"key": "a", "do": operation})


def test_it_counts_keeps_and_deletes_its_state(counter: Case) -> None:
    states = [do(counter, name).state for name in ("count", "count", "keep", "delete", "count")]

    assert states == [1, 2, 2, None, 1]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("trap", FaultKind.TRAP),
        ("loop", FaultKind.FUEL),
        ({"eat_memory": 1 << 30}, FaultKind.MEMORY),
        ({"recurse": 10_000_000}, FaultKind.STACK),
        ({"big_output": (1 << 20) + 1}, FaultKind.OUTPUT_TOO_LARGE),
        ("bad_pointer", FaultKind.OUTPUT_MALFORMED),
        ({"big_output": 10}, FaultKind.OUTPUT_MALFORMED),
        ({"fault": "as I was told"}, FaultKind.GUEST),
    ],
)
def test_it_goes_wrong_in_the_way_that_it_is_told(
    counter: Case, operation: object, kind: FaultKind
) -> None:
    do(counter, "count")

    stepped = do(counter, operation)

    assert stepped.fault is not None
    assert stepped.fault.kind is kind, stepped.fault
    assert stepped.state == 1


SOURCE = (ROOT / "modules/puppet/src/lib.rs").read_text("utf-8")
LINES = dict(enumerate(SOURCE.splitlines(), start=1))


@pytest.mark.parametrize(
    ("way", "place", "words"),
    [
        ("literal", 'panic!("out', "out of eggs"),
        ("unwrap", "egg.unwrap()", "called `Option::unwrap()` on a `None` value"),
        ("expect", 'egg.expect("', "an egg"),
        (
            "error",
            'egg.ok_or(Broken("yolk"))',
            'called `Result::unwrap()` on an `Err` value: Broken("yolk")',
        ),
        ("index", "eggs[way", "index out of bounds: the len is 3 but the index is 5"),
        ("overflow", "(sum + way", "attempt to add with overflow"),
        ("assert", "assert_eq!", "assertion `left == right` failed   left: 3  right: 6"),
        ("while it speaks", 'panic!("of', "of "),
        ("another way", "other => panic", "another way"),
        ("", "other => panic", ""),
        ("\x1b[31mred\u202e", "other => panic", "\ufffd[31mred\ufffd"),
    ],
)
def test_a_panic_says_where_and_why(counter: Case, way: str, place: str, words: str) -> None:
    """SD-28, SR-10"""
    [line] = [number for number, text in LINES.items() if place in text]

    stepped = do(counter, {"panic": way})

    assert stepped.fault is not None
    assert stepped.fault.kind is FaultKind.TRAP
    where = re.escape(f"step: panicked: puppet/src/lib.rs:{line}:")
    assert re.fullmatch(rf"{where}\d+: {re.escape(words)}", stepped.fault.message), stepped.fault


def test_a_long_panic_is_cut_between_characters(counter: Case) -> None:
    stepped = do(counter, {"panic": "long"})

    assert stepped.fault is not None
    said = stepped.fault.message.removeprefix("step: panicked: ")
    assert said.endswith(": " + "🥚" * said.count("🥚"))
    assert 509 <= len(said.encode()) <= 512


def test_a_panic_of_the_library_names_the_library(counter: Case) -> None:
    stepped = do(counter, {"panic": "capacity"})

    assert stepped.fault is not None
    assert stepped.fault.message.endswith(": capacity overflow")
    assert "library/alloc/src/" in stepped.fault.message


def test_a_trap_without_a_panic_has_no_words(counter: Case) -> None:
    stepped = do(counter, "trap")

    assert stepped.fault is not None
    assert stepped.fault.message == "step: an unreachable instruction is reached"


def test_within_its_limits_it_eats_and_recurses_and_counts(counter: Case) -> None:
    assert do(counter, {"eat_memory": 1 << 20}).state == 1
    assert do(counter, {"recurse": 100}).state == 2


def test_it_returns_the_output_that_it_is_given(counter: Case) -> None:
    timer: dict[str | int, Value] = {
        "effect": "sys/timer.set@1",
        "params": encode({"deliver_at_ns": 5}),
        "issuer_ref": "t",
    }
    output = encode({"state": encode(7), "effects": [timer], "status": "completed"})

    stepped = counter._deliver("puppet/Do@1", {"key": "a", "do": {"$tag": "out", "$value": output}})

    assert (stepped.state, stepped.status, stepped.refs) == (7, "completed", ["t"])
    assert stepped.effects[0].params == {"deliver_at_ns": 5, "key": None}


def test_it_shows_the_input_that_it_was_given(opaque: Case) -> None:
    stepped = do(opaque, "echo_input")

    envelope: Any = decode_record(stepped.state)
    assert envelope["version"] == 1
    assert envelope["event"]["schema"] == "puppet/Event@1"
    assert decode_record(envelope["event"]["key"]) == "a"


def test_a_receipt_tells_it_what_to_do_next_by_its_reference(
    puppet: Loaded, sandbox: Sandbox
) -> None:
    world = WasmWorld(puppet, sandbox)
    last = encode({"state": encode(42), "status": "completed"})
    timer: dict[str | int, Value] = {
        "effect": "sys/timer.set@1",
        "params": encode({"deliver_at_ns": 0}),
        "issuer_ref": f"out:{last.hex()}",
    }
    first = encode({"state": encode(1), "effects": [timer]})
    world.send("puppet/Do@1", {"key": "a", "do": {"$tag": "out", "$value": first}})
    world.run()

    [intent] = world.open()
    world.settle(intent, {"delivered_at_ns": 0, "key": None})
    world.run()

    assert world.state_of("puppet/counter@1", "a") == 42
    assert world.cell("puppet/counter@1", "a").status == "completed"


def test_a_world_of_puppets_needs_nothing_but_its_manifest(
    puppet: Loaded, sandbox: Sandbox
) -> None:
    world: MemoryWorld = WasmWorld(puppet, sandbox)
    for key in ("a", "b", "a"):
        world.send("puppet/Do@1", {"key": key, "do": {"$tag": "count"}})
    world.run()

    assert world.state_of("puppet/counter@1", "a") == 2
    assert world.state_of("puppet/counter@1", "b") == 1


# --- The guest's codec against ours ---------------------------------------------------------------


def recode(sandbox: Sandbox, puppet: Loaded, data: bytes) -> bytes | None:
    """Decode and encode ``data`` with the guest's codec; None if the guest refuses it."""
    workflow = puppet.effective.workflows["puppet/opaque@1"]
    value = encode({"$tag": "Do", "$value": {"key": "a", "do": {"$tag": "recode", "$value": data}}})
    envelope = input_envelope(
        state=None, schema=workflow.event.name, value=value, key=encode("a"), ctx=None
    )
    ran: Ran = sandbox.run(
        Call(
            module=workflow.module.hash,
            entrypoint="step",
            input=envelope,
            fuel=10**9,
            memory_bytes=1 << 25,
            output_bytes=1 << 22,
        )
    )
    assert ran.output is not None, ran.fault
    answer: Any = decode_record(ran.output)
    if "fault" in answer:
        assert answer["fault"]["kind"] == "malformed_cbor"
        return None
    output = read_output(ran.output, max_bytes=1 << 22)
    assert output.state is not None
    held: Any = decode_record(output.state)
    assert isinstance(held, bytes)
    return held


EDGES = [0, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63, U64 - 1]
INTEGERS = st.sampled_from([*EDGES, *(-1 - edge for edge in EDGES)]) | st.integers(-U64, U64 - 1)
TEXTS = st.sampled_from(["", "a", "$tag", "ä", "\U0001f600", "x" * 24, "x" * 256]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXTS | st.binary(max_size=300),
    lambda inside: st.lists(inside, max_size=5) | st.dictionaries(TEXTS | INTEGERS, inside),
    max_leaves=20,
)


def vectors(file: str) -> list[Any]:
    found: list[Any] = json.loads((ROOT / "spec/vectors" / file).read_text())
    return found


def test_the_guest_reads_and_writes_every_vector(sandbox: Sandbox, puppet: Loaded) -> None:
    for vector in vectors("values.json"):
        data = bytes.fromhex(vector["value_cbor_hex"])
        assert recode(sandbox, puppet, data) == data, vector["name"]


def test_the_guest_refuses_what_is_refused_whatever_its_type(
    sandbox: Sandbox, puppet: Loaded
) -> None:
    refused = [
        each for each in vectors("refused.json") if each["gate"] == "record" and "type" not in each
    ]
    assert len(refused) > 50
    for vector in refused:
        runs = vector.get("runs") or [[vector["hex"], 1]]
        data = b"".join(bytes.fromhex(hex) * times for hex, times in runs)
        assert recode(sandbox, puppet, data) is None, vector["name"]


@given(value=VALUES)
def test_a_value_that_we_encode_is_read_and_written_alike_by_the_guest(
    value: Value, sandbox: Sandbox, puppet: Loaded
) -> None:
    assert recode(sandbox, puppet, encode(value)) == encode(value)


@given(value=VALUES, at=st.integers(0, 400), change=st.integers(0, 255))
def test_a_value_that_we_refuse_is_refused_by_the_guest(
    value: Value, at: int, change: int, sandbox: Sandbox, puppet: Loaded
) -> None:
    data = bytearray(encode(value))
    data[at % len(data)] ^= change

    try:
        ours: bytes | None = encode(decode_record(bytes(data)))
    except ValueProblem:
        ours = None

    assert recode(sandbox, puppet, bytes(data)) == ours


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x9b" + b"\xff" * 8,
        b"\xbb" + b"\x7f" * 8,
        b"\x5b" + b"\xff" * 8,
        b"\x81" * 100_000,
        b"\x9a\x00\x0f\xff\xff" + b"\xf6" * 0xFFFFF,
        b"\x9a\x00\x00\xff\xff" * 64 + b"\xf6" * 0xFFFF,
        b"\xff",
        b"\xfb" + b"\x00" * 8,
    ],
    ids=["empty", "list", "map", "bytes", "deep", "wide", "wide and deep", "break", "float"],
)
def test_hostile_bytes_are_refused_in_bounded_time_and_memory(
    sandbox: Sandbox, puppet: Loaded, data: bytes
) -> None:
    assert recode(sandbox, puppet, data) is None
