"""The words of a panic, beyond what each module of the corpus shows (S-47, S-48)."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
import wasmtime

from aos.core.journal.faults import MESSAGE_BYTES_MAX, FaultKind
from aos.sandbox.caps import PANIC_BYTES_MAX
from aos.sandbox.inspect import check_module, panic_address
from aos.sandbox.module import outline
from aos.sandbox.show import plain
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import assemble, wasm

MODULES = Path(__file__).resolve().parents[2] / "modules"
BUILT = [
    name
    for record in ("BUILD.json", "BUILD-assemblyscript.json")
    for name in json.loads((MODULES / record).read_text("utf-8"))["modules"]
    if name.endswith(".wasm")
]
MESSAGE = "step: panicked: eggs"


def says(address: int) -> str:
    return f"""(module
      (memory (export "memory") 1)
      (global (export "aos_panic") i32 (i32.const {address}))
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64)
        (i64.store (i32.const {address}) (i64.const 0x7367676500000004)) unreachable))"""


@pytest.mark.parametrize(
    "address", [0, 1, 63, 64, 127, 128, 8191, 8192, 16_383, 16_384, 65_527, 65_528]
)
def test_the_address_is_read_as_the_engine_reads_it(bench: Bench, address: int) -> None:
    module = assemble(says(address))

    assert panic_address(outline(module)) == address
    assert bench.fault(module) == (FaultKind.TRAP, MESSAGE)


@pytest.mark.parametrize(
    ("text", "address"),
    [("-1", 2**32 - 1), ("-64", 2**32 - 64), ("0x80000000", 2**31), ("0x7fffffff", 2**31 - 1)],
)
def test_an_address_has_no_sign(text: str, address: int) -> None:
    module = assemble(f'(module (global (export "aos_panic") i32 (i32.const {text})))')

    assert panic_address(outline(module)) == address


def test_a_number_may_be_written_longer_than_it_needs_to_be(bench: Bench) -> None:
    """As linkers do, which fill it in later."""
    short = assemble(says(64))
    found = short.index(b"\x7f\0\x41\xc0\0\x0b")
    longer = b"\x7f\0\x41\xc0\x80\x80\x80\0\x0b"
    # The section's length is two bytes before its first global, after its id; the count follows it.
    assert short[found - 3 : found] == b"\x06\x07\x01"
    module = short[: found - 2] + b"\x0a\x01" + longer + short[found + 6 :]

    assert check_module(module, ["step"]) == []
    assert bench.fault(module) == (FaultKind.TRAP, MESSAGE)


def test_imported_globals_count_too() -> None:
    module = assemble(
        """(module
          (import "a" "b" (global i32))
          (global $here i32 (i32.const 7))
          (export "aos_panic" (global $here)))"""
    )

    assert panic_address(outline(module)) == 7


def test_an_imported_global_is_no_address() -> None:
    module = assemble(
        '(module (import "a" "b" (global $it i32)) (export "aos_panic" (global $it)))'
    )

    assert panic_address(outline(module)) is None


@pytest.mark.parametrize("name", BUILT)
def test_every_built_module_has_an_address_and_the_engine_says_the_same(name: str) -> None:
    module = MODULES / name
    store = wasmtime.Store()
    exports = wasmtime.Instance(store, wasmtime.Module.from_file(store.engine, module), []).exports(
        store
    )
    told = exports["aos_panic"]

    assert isinstance(told, wasmtime.Global)
    assert told.value(store) == panic_address(outline(module.read_bytes()))
    assert isinstance(exports["memory"], wasmtime.Memory)
    assert 4 + PANIC_BYTES_MAX + told.value(store) <= exports["memory"].data_len(store)


def test_a_module_with_another_abi_has_words_too(bench: Bench) -> None:
    """Of the form that writes where its answer is, too."""
    guest = (MODULES / "agentos-guest/agentos-guest.wasm").read_bytes()

    kind, message = bench.fault(guest, b"\xf6")

    assert kind is FaultKind.TRAP
    assert message.startswith("step: panicked: agentos-guest/src/cbor.rs:")
    assert message.endswith(": expected a nat")


def test_with_rising_fuel_a_panic_has_all_of_its_words_or_is_a_fuel_fault(bench: Bench) -> None:
    found = [bench.fault("panic_words", entrypoint="literal", fuel=fuel) for fuel in range(1, 80)]

    first = [kind for kind, _ in found].index(FaultKind.TRAP)
    assert first > 2
    assert {kind for kind, _ in found[:first]} == {FaultKind.FUEL}
    assert set(found[first:]) == {
        (FaultKind.TRAP, "literal: panicked: src/lib.rs:42:13: out of eggs")
    }


def test_reading_the_words_costs_nothing(bench: Bench) -> None:
    """Fuel and pages are those of the same module that says none."""
    silent = assemble(says(64).replace("aos_panic", "another"))

    spoken, quiet = bench.run(assemble(says(64))), bench.run(silent)

    assert (spoken.fuel, spoken.pages) == (quiet.fuel, quiet.pages)
    assert spoken.fault != quiet.fault


def test_words_of_an_earlier_call_are_gone(bench: Bench) -> None:
    said = bench.fault("panic_words", entrypoint="literal")
    unsaid = bench.fault("panic_words", entrypoint="unchanged")

    assert said[1].endswith("out of eggs")
    assert unsaid == (FaultKind.TRAP, "unchanged: an unreachable instruction is reached")


def test_the_longest_words_of_all_fit_a_record(bench: Bench) -> None:
    """Each byte a control, behind the longest name of an entrypoint."""
    name = "é" * 256
    module = assemble(
        f"""(module
          (memory (export "memory") 1)
          (global (export "aos_panic") i32 (i32.const 0))
          (func (export "alloc") (param i32) (result i32) (i32.const 4096))
          (func (export "{name}") (param i32 i32) (result i64)
            (i32.store (i32.const 0) (i32.const {PANIC_BYTES_MAX}))
            (memory.fill (i32.const 4) (i32.const 27) (i32.const {PANIC_BYTES_MAX}))
            unreachable))"""
    )

    _, message = bench.fault(module, entrypoint=name)

    assert message == f"{name}: panicked: {PANIC_BYTES_MAX * chr(0xFFFD)}"
    assert len(message.encode()) <= MESSAGE_BYTES_MAX


def test_characters_that_control_a_terminal_are_replaced() -> None:
    """S-48: all that Unicode calls a control, a separator of lines, or a direction."""
    for code in range(0x3100):
        obeyed = unicodedata.category(chr(code)) in {"Cc", "Zl", "Zp"} or unicodedata.bidirectional(
            chr(code)
        ) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        shown = plain(chr(code).encode()) if not 0xD800 <= code < 0xE000 else ""
        if code in (0x09, 0x0A, 0x0D):
            assert shown == " "
        elif obeyed:
            assert shown == "\N{REPLACEMENT CHARACTER}", hex(code)


def test_plain_text_is_kept() -> None:
    for text in ("", "src/lib.rs:1:2: é", "日本語", "🦆", "a\u0301", "שלום", "\u00a0"):
        assert plain(text.encode()) == text
    for never in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok\xc3"):
        assert plain(never) == ""


def test_a_module_of_the_corpus_with_another_export_of_that_name_is_taken() -> None:
    for name in ("panic_mutable", "panic_wide", "panic_float", "panic_function", "panic_table"):
        assert check_module(wasm(name), ["step"]) == []
        assert panic_address(outline(wasm(name))) is None
