"""Modules made with the SDK: their size and form, and what the kernel never lets happen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from aos.core.decide.envelope import input_envelope
from aos.core.journal.faults import FaultKind
from aos.core.journal.ports import Ran
from aos.sandbox.inspect import check_module
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash, hash_text
from tests.memory_world import effect, schema, workflow
from tests.modules.guests import ROOT
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast, guest_source

COUNTER_BYTES_MAX: Final = 15_000
NAT: Final[dict[str, object]] = {"nat": {}}
TEXT: Final[dict[str, object]] = {"text": {}}

COUNTER: Final = [
    schema("demo/Add@1", {"record": {"counter": TEXT, "by": NAT}}),
    schema("demo/Id@1", TEXT),
    schema("demo/Count@1", {"record": {"count": NAT}}),
    schema("demo/Event@1", {"variant": {"Add": {"ref": "demo/Add@1"}}}),
    workflow("demo/counter@1", state="demo/Count@1", event="demo/Event@1", key_schema="demo/Id@1"),
]

COUNTER_SOURCE: Final = guest_source("counter.ts")

TRY: Final = [
    schema("t/Try@1", {"record": {"what": TEXT}}),
    schema("t/Work@1", {"record": {"n": NAT}}),
    schema("t/Event@1", {"variant": {
        "Try": {"ref": "t/Try@1"}, "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
    }}),
    schema("t/State@1", {"record": {
        "id": {"uuid": {}}, "hash": {"hash": {}}, "dec": {"dec128": {}}, "text": TEXT,
        "times": {"set": {"uuid": {}}},
        "by": {"map": {"key": {"uuid": {}}, "value": NAT}},
        "work": {"option": {"text": {}}, "$comment": "pending t/work@1"},
    }}),
    effect("t/work@1", "t/Work@1", "t/Work@1"),
    workflow("t/try@1", state="t/State@1", event="t/Event@1", effects=["t/work@1"]),
]  # fmt: skip

TRY_SOURCE: Final = guest_source("attempt.ts")


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    wasm, _ = compile_wasm(tmp_path_factory.mktemp("try"), TRY, TRY_SOURCE, options=fast())
    guest = Guest(wasm)
    yield guest
    guest.close()


def attempt(guest: Guest, what: str) -> Ran:
    return step(guest, {"$tag": "Try", "$value": {"what": what}})


def step(guest: Guest, event: Value, state: bytes | None = None) -> Ran:
    value = encode(event)
    given = input_envelope(state=state, schema="t/Event@1", value=value, key=b"", ctx=None)
    return guest.run("step", given)


def output(ran: Ran) -> Any:
    assert ran.output is not None, ran.fault
    return decode_record(ran.output)


def state(ran: Ran) -> Any:
    return decode_record(output(ran)["state"])


def fault(ran: Ran) -> tuple[str, str]:
    found: Mapping[str, Any] = output(ran)
    assert set(found) == {"fault"}
    return found["fault"]["kind"], found["fault"]["message"]


def test_an_event_for_another_world_is_its_schema_and_canonical_value(guest: Guest) -> None:
    """The params of ``sendTo`` (spec/world-send.md)."""
    [request] = output(attempt(guest, "send"))["effects"]

    assert request["effect"] == "sys/world.send@1"
    assert decode_record(request["params"]) == {
        "to": "bank", "schema": "t/Work@1", "value": encode({"n": 5}),
    }  # fmt: skip


def test_a_counter_is_small_and_imports_nothing(tmp_path: Path) -> None:
    wasm, _ = compile_wasm(tmp_path, COUNTER, COUNTER_SOURCE)

    assert len(wasm) < COUNTER_BYTES_MAX
    assert check_module(wasm, ["counter"]) == []
    # The text of log calls is left out: no workflow of this file logs.
    assert "a line that is".encode("utf-16-le") not in wasm
    event = encode({"$tag": "Add", "$value": {"counter": "a", "by": 2}})
    guest = Guest(wasm)
    ran = guest.run(
        "counter",
        input_envelope(
            state=encode({"count": 40}),
            schema="demo/Event@1",
            value=event,
            key=encode("a"),
            ctx=None,
        ),
    )
    guest.close()
    assert output(ran) == {"state": encode({"count": 42})}
    assert ran.fuel < 10_000


def test_the_example_of_the_readme_is_what_the_kernel_takes(tmp_path: Path) -> None:
    readme = (ROOT / "modules/sdk-assemblyscript/README.md").read_text("utf-8")
    air, source = (
        re.search(f"```{language}\n(.*?)```", readme, re.DOTALL) for language in ("json", "ts")
    )
    assert air is not None
    assert source is not None

    wasm, _ = compile_wasm(tmp_path, json.loads(air[1]), source[1], options=fast())

    assert check_module(wasm, ["counter"]) == []


def test_without_the_options_the_kernel_refuses_the_module(tmp_path: Path) -> None:
    wasm, _ = compile_wasm(
        tmp_path, COUNTER, COUNTER_SOURCE, options=["--runtime", "stub", "--optimizeLevel", "0"]
    )

    assert check_module(wasm, ["counter"])


@pytest.mark.parametrize("what", ["now", "random", "start"])
def test_a_function_that_needs_the_context_is_a_fault_without_it(guest: Guest, what: str) -> None:
    assert fault(attempt(guest, what)) == (
        "sdk_no_context",
        "the workflow does not declare sys/WorkflowContext@1",
    )


@pytest.mark.parametrize("what", ["uuid", "hash", "dec128"])
def test_a_text_that_is_not_of_its_type_is_not_written(guest: Guest, what: str) -> None:
    assert fault(attempt(guest, what)) == ("sdk_value", f"{what}: the text is not one")


def test_half_of_a_surrogate_pair_is_not_written(guest: Guest) -> None:
    assert fault(attempt(guest, "surrogate")) == ("sdk_value", "text: half of a surrogate pair")


def test_the_first_fault_counts(guest: Guest) -> None:
    assert fault(attempt(guest, "two faults")) == ("first", "one")


@pytest.mark.parametrize("what", ["below 0", "wrong arm"])
def test_a_mistake_of_the_author_is_a_trap(guest: Guest, what: str) -> None:
    found = attempt(guest, what).fault

    assert found is not None
    assert found.kind is FaultKind.TRAP


def test_values_are_written_in_normal_form(guest: Guest) -> None:
    found = state(attempt(guest, "normal forms"))

    lower = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
    assert (found["id"], found["dec"]) == (lower, "1.5")
    assert (found["times"], found["by"]) == ([lower], {lower: 2})


TEXTS: Final = {
    "0": "0 - -",
    "-0.00": "0 - -",
    "+007.50": "7.5 - -",
    "1e33": "1" + 33 * "0" + " - -",
    "1e34": "- - -",
    "1e-34": "0." + 33 * "0" + "1 - -",
    "1e-35": "- - -",
    "12.5E+2": "1250 - -",
    "1234567890123456789012345678901234": "1234567890123456789012345678901234 - -",
    "12345678901234567890123456789012345": "- - -",
    "1.": "- - -",
    ".5": "- - -",
    "1e": "- - -",
    "1e1000": "- - -",
    "1 ": "- - -",
    "--1": "- - -",
    "": "- - -",
    "00000000-0000-0000-0000-00000000000F": "- 00000000-0000-0000-0000-00000000000f -",
    "00000000-0000-0000-0000-00000000000g": "- - -",
    "00000000-0000-0000-0000-0000000\x1100\x1a0": "- - -",
    "0000000000000-0000-0000-0000-00000000": "- - -",
    "blake3:" + 64 * "0": "- - blake3:" + 64 * "0",
    "sha384:" + 96 * "a": "- - sha384:" + 96 * "a",
    "sha512:" + 128 * "f": "- - sha512:" + 128 * "f",
    "sha256:" + 64 * "A": "- - -",
    "sha256:" + 63 * "a": "- - -",
    "md5:" + 32 * "a": "- - -",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_checked_and_normalised(guest: Guest, text: str) -> None:
    assert state(attempt(guest, text))["text"] == TEXTS[text]


def receipt(payload: bytes, *, status: str = "ok", schema: str = "t/Work@1") -> Value:
    block: dict[str | int, Value] = dict.fromkeys(
        (
            "origin_workflow_hash", "origin_instance_key", "effect_hash", "executor_module",
            "executor_module_hash", "executor_entrypoint", "params_hash", "cost_cents",
        )
    )  # fmt: skip
    return {
        "$tag": "Receipt",
        "$value": {
            **block,
            "origin_module_id": "t/try@1",
            "intent_id": hash_text(content_hash(b"")),
            "effect": "t/work@1",
            "issuer_ref": "w",
            "receipt_payload": payload,
            "status": status,
            "emitted_at_seq": 1,
            "signature": b"",
            "payload_schema": schema,
        },
    }


def started(guest: Guest) -> bytes:
    found: bytes = output(attempt(guest, "start by name"))["state"]
    return found


def test_a_payload_that_cannot_be_read_is_a_fault(guest: Guest) -> None:
    before = started(guest)
    expected = "sdk_payload", "the receipt of t/work@1 is not of its schema"

    assert state(step(guest, receipt(encode({"n": 7})), before))["text"] == "7"
    for payload in (encode({"m": 7}), encode({"n": 7}) + b"\x00", b"", encode({"n": -1})):
        assert fault(step(guest, receipt(payload), before)) == expected
    error = receipt(encode({"code": "c"}), status="error", schema="sys/EffectError@1")
    assert fault(step(guest, error, before)) == expected
    # A receipt of no pending effect is not decoded.
    assert state(step(guest, receipt(b"")))["text"] == "not mine"


def test_an_input_that_cannot_be_read_is_a_fault(guest: Guest) -> None:
    good: Value = {"$tag": "Try", "$value": {"what": "x"}}
    cases = [
        (step(guest, {"$tag": "Other", "$value": None}), "event: an unknown arm at byte 19"),
        (step(guest, {"$tag": "Try"}), "event: expected $value at byte 10"),
        (step(guest, good, b"\xa0"), "state: a field is missing or unknown at byte 1"),
        (step(guest, good, b"\x00"), "state: expected record at byte 0"),
    ]  # fmt: skip
    for ran, message in cases:
        assert fault(ran) == ("sdk_input", message)
    assert fault(guest.run("step", b"")) == (
        "sdk_input",
        "input: cut short: expected map at byte 0",
    )


def test_every_cut_of_an_input_is_a_fault(guest: Guest) -> None:
    whole = input_envelope(
        state=started(guest),
        schema="t/Event@1",
        value=encode({"$tag": "Try", "$value": {"what": "x"}}),
        key=b"",
        ctx=None,
    )
    for length in range(len(whole)):
        kind, message = fault(guest.run("step", whole[:length]))
        assert kind == "sdk_input"
        assert message.startswith("input: ")


def test_the_package_names_no_place_to_download_from() -> None:
    lock = json.loads((ROOT / "modules/package-lock.json").read_text())

    for name, package in lock["packages"].items():
        assert not str(package.get("resolved", "")).startswith("http"), name
