"""What hostile and broken modules do, and the words for it (spec/sandbox.md, S-40 to S-46).

``bench.fault`` runs each twice, expects the same end, and runs a good module after each.
"""

from __future__ import annotations

import struct

import pytest

from aos.core.faults import ENVIRONMENTAL, Fault, FaultKind
from aos.sandbox import config
from aos.sandbox.caps import MIB, PAGE_BYTES, TABLE_ELEMENTS_MAX
from aos.sandbox.engine import TRAP_WORDS
from tests.sandbox.bench import MEMORY_BYTES, PAGES, Bench, assemble

TRAPS = {
    "unreachable": "an unreachable instruction is reached",
    "load": "a memory access is out of bounds",
    "store": "a memory access is out of bounds",
    "fill": "a memory access is out of bounds",
    "init": "a memory access is out of bounds",
    "simd": "a memory access is out of bounds",
    "table": "a table access is out of bounds",
    "element": "a table access is out of bounds",
    "empty": "an indirect call meets an empty table element",
    "type": "an indirect call meets a function of another type",
    "overflow": "an integer operation overflows",
    "float_range": "an integer operation overflows",
    "zero": "an integer is divided by zero",
    "float": "a float has no integer value",
}


@pytest.mark.parametrize(("entrypoint", "words"), TRAPS.items())
def test_each_trap_has_its_own_words(bench: Bench, entrypoint: str, words: str) -> None:
    """S-40"""
    assert bench.fault("traps", entrypoint=entrypoint) == (FaultKind.TRAP, f"{entrypoint}: {words}")


def test_every_word_for_a_trap_is_met() -> None:
    """S-40"""
    assert set(TRAPS.values()) == set(TRAP_WORDS.values())


def test_the_engines_text_goes_beside_the_fault(bench: Bench) -> None:
    """S-41"""
    ran = bench.run("traps", entrypoint="zero")

    assert ran.fault is not None
    assert ran.engine_text is not None
    assert "integer divide by zero" in ran.engine_text
    assert "wasm backtrace" not in ran.fault.message


def test_a_loop_without_end_uses_all_fuel(bench: Bench) -> None:
    """S-42"""
    fault = bench.fault("loop_forever", fuel=1000)
    ran = bench.run("loop_forever", fuel=1000)

    assert fault == (FaultKind.FUEL, "step: all 1000 units of fuel are used")
    assert ran.fuel == 1000


def test_alloc_pays_from_the_same_fuel(bench: Bench) -> None:
    """S-42"""
    assert bench.fault("alloc_loops", fuel=1000) == (
        FaultKind.FUEL,
        "alloc: all 1000 units of fuel are used",
    )


def test_one_unit_of_fuel_decides(bench: Bench) -> None:
    """S-42: a call must have fuel left when it ends, so what it consumed is always exact."""
    needed = bench.run("survivor").fuel

    assert bench.run("survivor", fuel=needed + 1).fault is None
    for fuel in (1, needed - 1, needed):
        assert bench.fault("survivor", fuel=fuel) == (
            FaultKind.FUEL,
            f"{'alloc' if fuel == 1 else 'step'}: all {fuel} units of fuel are used",
        )


def test_with_rising_fuel_a_trap_is_first_a_fuel_fault(bench: Bench) -> None:
    """S-42"""
    kinds = [bench.fault("traps", entrypoint="zero", fuel=fuel)[0] for fuel in range(1, 40)]

    first_trap = kinds.index(FaultKind.TRAP)
    assert first_trap > 2
    assert set(kinds[:first_trap]) == {FaultKind.FUEL}
    assert set(kinds[first_trap:]) == {FaultKind.TRAP}


def test_moving_bytes_in_bulk_costs_fuel_by_the_byte(bench: Bench) -> None:
    """S-42: else one instruction would buy any amount of time."""
    wat = """(module (memory (export "memory") 16)
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64)
        (memory.fill (i32.const 0) (i32.const 1) (i32.const 1000000))
        (memory.copy (i32.const 0) (i32.const 8) (i32.const 1000000))
        (i64.const 0)))"""

    assert bench.run(assemble(wat)).fuel > 2_000_000


def test_memory_that_is_used_up_is_a_memory_fault(bench: Bench) -> None:
    """S-43"""
    for entrypoint, words in [
        ("step", "an unreachable instruction is reached"),
        ("address", "a memory access is out of bounds"),
    ]:
        assert bench.fault("memory_eater", entrypoint=entrypoint) == (
            FaultKind.MEMORY,
            f"{entrypoint}: {words}, with all {MEMORY_BYTES} bytes of memory in use",
        )
        assert bench.run("memory_eater", entrypoint=entrypoint).pages == PAGES


def test_alloc_that_finds_no_memory_is_a_memory_fault(bench: Bench) -> None:
    """S-43"""
    kind, message = bench.fault("alloc_full", b"abc")

    assert kind is FaultKind.MEMORY
    assert message == (
        "alloc: the range that it gave lies outside the memory, with all 4194304 bytes of memory"
        " in use: found 3 bytes at 4294967295"
    )


def test_a_trap_that_has_nothing_to_do_with_full_memory_stays_a_trap(bench: Bench) -> None:
    """S-43"""
    assert bench.fault("memory_eater", entrypoint="divides") == (
        FaultKind.TRAP,
        "divides: an integer is divided by zero",
    )


def test_a_module_that_is_refused_memory_may_go_on(bench: Bench) -> None:
    """S-43: a failed grow is an answer to the guest, not a fault."""
    ran = bench.run("memory_eater", b"well", entrypoint="returns")

    assert (ran.output, ran.pages) == (b"well", PAGES)


def test_one_leap_over_the_limit_is_a_trap(bench: Bench) -> None:
    """S-43: nobody is told that a grow was refused, and the memory is not in use."""
    assert bench.fault("memory_eater", entrypoint="leaps")[0] is FaultKind.TRAP


@pytest.mark.parametrize("pages", [1, 2, 3, 17])
def test_the_memory_limit_counts_whole_pages(bench: Bench, pages: int) -> None:
    """S-43"""
    odd = pages * PAGE_BYTES + 1

    assert bench.run("memory_eater", entrypoint="returns", memory_bytes=odd).pages == pages
    assert bench.fault("memory_eater", memory_bytes=odd)[0] is FaultKind.MEMORY


def test_memory_that_begins_over_the_limit_is_a_memory_fault(bench: Bench) -> None:
    """S-43: decided before anything is instantiated."""
    ran = bench.run("echo_pair", b"x", memory_bytes=2 * PAGE_BYTES - 1)

    assert bench.fault("echo_pair", b"x", memory_bytes=2 * PAGE_BYTES - 1) == (
        FaultKind.MEMORY,
        (
            "step: the module's memory begins larger than the limit:"
            " expected at most 131071 bytes, found 131072"
        ),
    )
    assert (ran.fuel, ran.pages) == (0, 0)
    assert bench.run("echo_pair", b"x", memory_bytes=2 * PAGE_BYTES).output == b"x"


def test_recursion_without_end_uses_up_the_stack(bench: Bench) -> None:
    """S-44: environmental, because how deep is too deep depends on the machine code."""
    fault = bench.fault("recursion", struct.pack("<I", 2**32 - 1))

    assert fault == (FaultKind.STACK, "step: the guest's stack is used up")
    assert FaultKind.STACK in ENVIRONMENTAL


def test_replay_has_room_for_what_ran_live() -> None:
    """S-44"""
    live, replay = Bench(), Bench(stack_bytes=4 * MIB)
    depth = struct.pack("<I", 50_000)

    live_kind = live.fault("recursion", depth)[0]
    ran = replay.run("recursion", depth)
    replay_kind = replay.fault("recursion", struct.pack("<I", 2**32 - 1))[0]

    assert (live_kind, ran.output, replay_kind) == (FaultKind.STACK, depth, FaultKind.STACK)


@pytest.mark.parametrize(
    ("module", "data", "message"),
    [
        ("alloc_traps", b"x", "alloc: an unreachable instruction is reached"),
        (
            "alloc_garbage",
            b"x",
            "alloc: the range that it gave lies outside the memory: found 1 bytes at 4294967280",
        ),
        (
            "alloc_last_byte",
            b"ab",
            "alloc: the range that it gave lies outside the memory: found 2 bytes at 65535",
        ),
        (
            "alloc_garbage_for_result",
            b"x",
            "alloc: the range that it gave lies outside the memory: found 8 bytes at 65529",
        ),
        ("bad_segment", b"x", "instantiate: a memory access is out of bounds"),
        ("bad_elements", b"x", "instantiate: a table access is out of bounds"),
    ],
)
def test_broken_modules_trap(bench: Bench, module: str, data: bytes, message: str) -> None:
    """S-45"""
    assert bench.fault(module, data) == (FaultKind.TRAP, message)


def test_alloc_may_give_the_last_byte(bench: Bench) -> None:
    """S-45"""
    assert bench.run("alloc_last_byte", b"a").output == b"a"


def test_tables_grow_to_the_cap_and_no_further(bench: Bench) -> None:
    """S-12"""
    ran = bench.run("table_eater")

    assert ran.output == struct.pack("<I", TABLE_ELEMENTS_MAX)


def test_nothing_survives_a_call(bench: Bench) -> None:
    """S-30: globals, memory, grown pages, tables and dropped segments all begin anew."""
    outputs = {bench.run("survivor").output for _ in range(3)}

    assert outputs == {bytes([1 + 1 + 2])}


def test_nothing_survives_a_fault(bench: Bench) -> None:
    """S-30"""
    needed = bench.run("survivor").fuel

    for fuel in range(1, needed):
        assert bench.run("survivor", fuel=fuel).fault is not None
    assert bench.run("survivor").output == bytes([1 + 1 + 2])


def test_a_call_is_a_function_of_its_arguments(bench: Bench) -> None:
    """S-1: another sandbox, with other modules run before, answers the same."""
    other = Bench()
    for name in ("traps", "memory_eater"):
        other.run(name, entrypoint="unreachable" if name == "traps" else "step")

    for name, entrypoint in [("echo_pair", "step"), ("traps", "zero"), ("memory_eater", "address")]:
        first = bench.run(name, b"x", entrypoint=entrypoint)
        assert other.run(name, b"x", entrypoint=entrypoint) == first


def test_every_nan_that_arithmetic_makes_is_the_same(bench: Bench) -> None:
    """S-4"""
    odd = struct.pack("<Q", 0xFFF4_DEAD_BEEF_0001)

    ran = bench.run("nan", odd)

    assert ran.output == struct.pack("<QI", 0x7FF8_0000_0000_0000, 0x7FC0_0000)


def test_the_allowed_features_work(bench: Bench) -> None:
    """S-3"""
    assert bench.run("every_feature").output == bytes([42, 42, 255, 8])


def test_a_machine_without_room_is_environmental(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-46"""
    monkeypatch.setattr(config, "POOL", {**config.POOL, "total_memories": 0})
    bench = Bench()

    ran = bench.run("echo_pair", b"x")

    assert ran.fault == Fault(
        kind=FaultKind.HOST_MEMORY, message="instantiate: the machine had no memory for it"
    )
    assert ran.fault.environmental
    assert ran.engine_text is not None


def test_an_interpreter_without_room_is_environmental(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-46: the store is deleted on this way out too."""

    def no_room(*_: object) -> bytes:
        raise MemoryError

    call = bench.call("echo_packed", b"x")
    with monkeypatch.context() as patch:
        patch.setattr("aos.sandbox.lowlevel.ctypes.string_at", no_room)
        for _ in range(5):
            ran = bench.sandbox.run(call)

    assert ran.fault is not None
    assert ran.fault.kind is FaultKind.HOST_MEMORY
    bench.echoes()
