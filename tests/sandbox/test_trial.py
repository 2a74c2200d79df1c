"""Modules that are valid and still too costly to compile (spec/sandbox.md, S-18)."""

from __future__ import annotations

import functools
import random

import pytest

from aos.sandbox.caps import MIB
from aos.sandbox.inspect import check_module
from aos.sandbox.trial import trial_problem
from tests.sandbox.bench import assemble, wasm


@functools.cache
def bomb() -> bytes:
    """Within every cap, and many seconds for the compiler: many locals that all meet each other."""
    chance = random.Random(1)
    lines = []
    for index in range(8000):
        a, b, c = (chance.randrange(1000) for _ in range(3))
        lines.append(f"(local.set {a} (i32.add (local.get {b}) (local.get {c})))")
        if index % 3 == 0:
            lines.append(f"(br_if {index % 7} (local.get {b}))")
    body = "(loop " * 7 + "".join(lines) + ")" * 7
    functions = ("(func (local " + "i32 " * 1000 + ")" + body + ")") * 4
    return assemble(f"""(module
      (memory (export "memory") 1)
      {functions}
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64) (i64.const 0)))""")


def test_a_good_module_passes() -> None:
    assert trial_problem(wasm("every_feature")) is None


@pytest.mark.parametrize(
    ("seconds", "memory_bytes", "problem"),
    [
        (
            1,
            1024 * MIB,
            (
                "the module takes the compiler too much time: expected at most 1 seconds"
                " (make its largest functions smaller, or compile it with less inlining)"
            ),
        ),
        (
            30,
            64 * MIB,
            (
                "the module takes the compiler too much memory: expected at most 67108864 bytes"
                " (make its largest functions smaller, or compile it with less inlining)"
            ),
        ),
    ],
    ids=["time", "memory"],
)
def test_a_costly_module_is_stopped(seconds: int, memory_bytes: int, problem: str) -> None:
    assert check_module(bomb(), ["step"]) == []
    assert trial_problem(bomb(), seconds=seconds, memory_bytes=memory_bytes) == problem


def test_what_the_engine_says_comes_back() -> None:
    assert trial_problem(wasm("refused/atomics")) == (
        "the engine does not take the module: Invalid input WebAssembly code at offset 30:"
        " threads support is not enabled"
    )
