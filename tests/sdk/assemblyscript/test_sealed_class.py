"""``aos.Sealed``: a value that a workflow in AssemblyScript carries unchanged (SL-52)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aos.author.assemblyscript import generate
from aos.core.decide.envelope import input_envelope
from aos.manifest.sealed_places import SEALED
from aos.sealing import Keyring
from aos.values.cbor import decode_record, encode
from tests.memory_world import schema, workflow
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast, guest_source

REF: Final = {"ref": SEALED}
NODES: Final = [
    schema("a/Given@1", {"record": {"card": REF}}),
    schema(
        "a/State@1",
        {"record": {"first": {"option": REF}, "last": REF, "all": {"list": REF}}},
    ),
    workflow("a/card@1", state="a/State@1", event="a/Given@1"),
]


def test_a_sealed_field_is_of_the_sdks_class_and_needs_no_definition() -> None:
    text = generate(NODES)

    assert "public card: aos.Sealed = new aos.Sealed()" in text
    assert "public first: aos.Sealed | null = null" in text
    assert "class Sealed" not in text


def test_a_workflow_stores_sealed_values_byte_for_byte(tmp_path: Path) -> None:
    wasm, _ = compile_wasm(tmp_path, NODES, guest_source("sealed.ts"), options=fast())
    guest = Guest(wasm)
    ring = Keyring.generate()
    one, two = ring.seal("one"), ring.seal("two")
    state: bytes | None = None
    for card in (one, two):
        event = encode({"card": card})
        ran = guest.run(
            "card", input_envelope(state=state, schema="a/Given@1", value=event, key=b"", ctx=None)
        )
        assert ran.output is not None
        output: Any = decode_record(ran.output)
        state = output["state"]
    guest.close()

    assert state is not None
    assert decode_record(state) == {"first": one, "last": two, "all": [one, two]}
