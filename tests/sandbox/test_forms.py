"""How input goes in and output comes out (spec/sandbox.md, S-20 to S-25)."""

from __future__ import annotations

import struct

import pytest

from aos.core.faults import FaultKind
from aos.sandbox.caps import MIB, PAGE_BYTES
from tests.sandbox.bench import Bench, assemble

ECHOES = ["echo_packed", "echo_pair", "echo_return_pointer"]
FORMS = ["pair", "packed", "return_pointer"]


@pytest.mark.parametrize("module", ECHOES)
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 300], ids=["0", "1", "76800"])
def test_each_form_gives_the_input_back(bench: Bench, module: str, data: bytes) -> None:
    """S-21"""
    ran = bench.run(module, data)

    assert ran.output == data
    assert ran.fault is None
    assert ran.engine_text is None


def test_a_result_of_the_rust_form_lies_where_a_second_alloc_says(bench: Bench) -> None:
    """S-22: alloc(input length) first, then alloc(8)."""
    ran = bench.run("calls_of_alloc", b"three hundred".ljust(300))

    assert ran.output == struct.pack("<II", 300, 8)


@pytest.mark.parametrize("size", [1, PAGE_BYTES, 5 * PAGE_BYTES + 1])
def test_memory_that_grows_in_alloc_is_read_where_it_is_now(bench: Bench, size: int) -> None:
    """S-23"""
    data = bytes(range(251)) * (size // 251 + 1)

    ran = bench.run("echo_packed", data[:size])

    assert ran.output == data[:size]
    assert ran.pages == (2 if size <= 100_000 else 2 + size // PAGE_BYTES)


def test_memory_that_grows_between_all_calls_is_read_where_it_is_now(bench: Bench) -> None:
    """S-23"""
    ran = bench.run("alloc_grows", b"moved", memory_bytes=16 * MIB)

    assert ran.output == b"moved"
    assert ran.pages == 1 + 1 + 1 + 100


@pytest.mark.parametrize("form", FORMS)
def test_output_up_to_the_last_byte_is_taken_and_one_more_is_not(bench: Bench, form: str) -> None:
    """S-24"""
    end = 2 * PAGE_BYTES

    ran = bench.run("returns", struct.pack("<II", end - 5, 5), entrypoint=form)
    fault = bench.fault("returns", struct.pack("<II", end - 5, 6), entrypoint=form)

    assert ran.output == bytes(5)
    assert fault == (
        FaultKind.OUTPUT_MALFORMED,
        f"{form}: the output lies outside the memory: found 6 bytes at {end - 5}",
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("pointer", "length"),
    [(-1, 1), (0, -1), (-1, -1), (-16, 16), (-(2**31), 0), (0, 2**31 - 1), (2**31 - 1, 2**31 - 1)],
)
def test_negative_and_huge_ranges_are_unsigned_and_outside(
    bench: Bench, form: str, pointer: int, length: int
) -> None:
    """S-24: -1 is 4294967295 bytes, and a sum past 32 bits does not come round."""
    kind, message = bench.fault("returns", struct.pack("<ii", pointer, length), entrypoint=form)

    assert kind is FaultKind.OUTPUT_MALFORMED
    assert message.endswith(f"found {length % 2**32} bytes at {pointer % 2**32}")


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_output_may_lie_at_the_end_of_the_memory(bench: Bench, form: str) -> None:
    """S-24"""
    ran = bench.run("returns", struct.pack("<II", 2 * PAGE_BYTES, 0), entrypoint=form)

    assert ran.output == b""


@pytest.mark.parametrize("form", FORMS)
def test_output_at_the_limit_is_taken_and_one_byte_more_is_not(bench: Bench, form: str) -> None:
    """S-25"""
    ran = bench.run("returns", struct.pack("<II", 0, 99), entrypoint=form, output_bytes=99)
    fault = bench.fault("returns", struct.pack("<II", 0, 100), entrypoint=form, output_bytes=99)

    assert ran.output is not None
    assert len(ran.output) == 99
    assert fault == (
        FaultKind.OUTPUT_TOO_LARGE,
        f"{form}: the output is too large: expected at most 99 bytes, found 100",
    )


def test_one_module_serves_several_entrypoints(bench: Bench) -> None:
    outputs = {
        form: bench.run("returns", struct.pack("<II", 0, 3), entrypoint=form).output
        for form in FORMS
    }

    assert outputs == dict.fromkeys(FORMS, bytes(3))


def test_a_memory_without_pages_is_a_memory(bench: Bench) -> None:
    """S-24"""
    wat = """(module (memory (export "memory") 0)
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64) (i64.const 0)))"""

    empty, one = bench.run(assemble(wat)), bench.run(assemble(wat), b"x")

    assert (empty.output, empty.pages) == (b"", 0)
    assert one.fault is not None
    assert one.fault.kind is FaultKind.TRAP
