"""How limits decide, beyond what each module of the corpus shows (spec/sandbox.md, S-40 to S-46).

``bench.fault`` runs each twice, expects the same end, and runs a good module after each.
"""

from __future__ import annotations

import struct
from typing import NoReturn

import pytest

from aos.core.journal.faults import Fault, FaultKind
from aos.sandbox import config
from aos.sandbox.caps import MIB, PAGE_BYTES
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import assemble


def test_the_engines_text_accompanies_the_fault(bench: Bench) -> None:
    """S-41"""
    ran = bench.run("traps", entrypoint="zero")

    assert ran.fault is not None
    assert ran.engine_text is not None
    assert "integer divide by zero" in ran.engine_text
    assert "wasm backtrace" not in ran.fault.message


def test_the_engines_text_cannot_colour_a_terminal(bench: Bench) -> None:
    """S-41"""
    text = bench.run("trap_in_red").engine_text

    assert text is not None
    assert "\N{REPLACEMENT CHARACTER}[31m" in text
    assert "\x1b" not in text


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


@pytest.mark.parametrize("pages", [1, 2, 3, 17])
def test_the_memory_limit_counts_whole_pages(bench: Bench, pages: int) -> None:
    """S-43"""
    odd = pages * PAGE_BYTES + 1

    assert bench.run("memory_eater", entrypoint="returns", memory_bytes=odd).pages == pages
    assert bench.fault("memory_eater", memory_bytes=odd)[0] is FaultKind.MEMORY


def test_replay_has_room_for_what_ran_live() -> None:
    """S-44"""
    live, replay = Bench(), Bench(stack_bytes=4 * MIB)
    depth = struct.pack("<I", 50_000)

    live_kind = live.fault("stack_direct", depth)[0]
    ran = replay.run("stack_direct", depth)
    replay_kind = replay.fault("stack_direct", struct.pack("<I", 2**32 - 1))[0]

    assert (live_kind, ran.output, replay_kind) == (FaultKind.STACK, depth, FaultKind.STACK)


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

    class Unreadable(bytearray):
        def __getitem__(self, _: object) -> NoReturn:
            raise MemoryError

    call = bench.call("echo_packed", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(bench.sandbox._runner, "_view", lambda _: Unreadable())
        for _ in range(5):
            ran = bench.sandbox.run(call)

    assert ran.fault is not None
    assert ran.fault.kind is FaultKind.HOST_MEMORY
    bench.echoes()
