"""Modules that are valid and still too costly to compile (spec/sandbox.md, S-18)."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from aos.sandbox import trial
from aos.sandbox.cache import ModuleCache
from aos.sandbox.caps import MIB
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import check_module
from aos.sandbox.trial import TRIAL_MEMORY_BYTES, TRIAL_SECONDS, trial_problem
from aos.values.digests import content_hash
from tests.sandbox import corpus
from tests.sandbox.corpus import assemble, wasm
from tests.tools import long_form

HINT = "(make its largest functions smaller, or compile it with less inlining)"
TIME = f"the module takes the compiler too much time: expected at most {{}} seconds {HINT}"
MEMORY = f"the module takes the compiler too much memory: expected at most {{}} bytes {HINT}"


@functools.cache
def bomb(functions: int) -> bytes:
    """Within every cap, and many seconds for the compiler: many locals that all meet each other."""
    chance = random.Random(1)
    lines = []
    for index in range(8000):
        a, b, c = (chance.randrange(1000) for _ in range(3))
        lines.append(f"(local.set {a} (i32.add (local.get {b}) (local.get {c})))")
        if index % 3 == 0:
            lines.append(f"(br_if {index % 7} (local.get {b}))")
    body = "(loop " * 7 + "".join(lines) + ")" * 7
    all_of_them = ("(func (local " + "i32 " * 1000 + ")" + body + ")") * functions
    return assemble(f"""(module
      (memory (export "memory") 1)
      {all_of_them}
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64) (i64.const 0)))""")


def test_a_good_module_passes() -> None:
    assert trial_problem(wasm("every_feature")) is None


def test_a_sandbox_runs_the_code_of_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-18, S-50"""
    module = wasm("every_feature")
    cache = ModuleCache(tmp_path / "cache")
    assert trial_problem(module, cache=cache) is None

    monkeypatch.setattr(wasmtime, "Module", OnlyStored)
    sandbox = Sandbox({content_hash(module): module}.__getitem__, cache=cache)
    sandbox.prepare(content_hash(module), "step")
    sandbox.close()


class OnlyStored(wasmtime.Module):
    """A module that can be deserialized, but not compiled."""

    def __init__(self, *_: object) -> None:
        pytest.fail("it compiles")


def test_a_module_whose_code_is_there_has_no_second_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-18"""
    module = wasm("every_feature")
    cache = ModuleCache(tmp_path / "cache")
    assert trial_problem(module, cache=cache) is None
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it starts a child"))

    assert trial_problem(module, cache=cache) is None

    [file] = (tmp_path / "cache").iterdir()
    file.write_bytes(b"x" + file.read_bytes()[1:])
    with pytest.raises(pytest.fail.Exception, match="it starts a child"):
        trial_problem(module, cache=cache)


def test_the_code_of_a_refused_module_is_not_kept(tmp_path: Path) -> None:
    """S-18"""
    cache = ModuleCache(tmp_path / "cache")

    assert trial_problem(bomb(4), cache=cache, seconds=1) == TIME.format(1)
    assert trial_problem(wasm("atomics"), cache=cache) is not None
    assert not list((tmp_path / "cache").glob("*.code"))


BOMBS = [name for name in corpus.names() if corpus.read(name).costly is not None]


@pytest.mark.long
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_the_corpus_is_stopped(name: str) -> None:
    """Valid and within every cap. The long form tries the limits with which manifests are applied,
    which takes half a minute of compiling."""
    seconds, memory_bytes = 1, 128 * MIB
    if long_form():
        seconds, memory_bytes = TRIAL_SECONDS, TRIAL_MEMORY_BYTES
    elif corpus.read(name).costly == "memory":
        seconds = TRIAL_SECONDS
    else:
        memory_bytes = TRIAL_MEMORY_BYTES
    expected = {"time": TIME.format(seconds), "memory": MEMORY.format(memory_bytes)}

    assert check_module(wasm(name), ["step"]) == []
    problem = trial_problem(wasm(name), seconds=seconds, memory_bytes=memory_bytes)

    assert problem == expected[corpus.read(name).costly or ""]


def test_both_kinds_of_bomb_are_there() -> None:
    assert {corpus.read(name).costly for name in BOMBS} == {"time", "memory"}


def test_a_module_whose_locals_all_meet_each_other_is_stopped() -> None:
    assert check_module(bomb(4), ["step"]) == []
    assert trial_problem(bomb(4), seconds=1) == TIME.format(1)


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Sends a signal to each compiling process as soon as it began; gives their numbers."""

    def each(number: int) -> list[int]:
        begun: list[int] = []
        really = subprocess.Popen.__init__

        def begin(self: Any, *arguments: Any, **more: Any) -> None:
            really(self, *arguments, **more)
            begun.append(self.pid)
            os.kill(self.pid, number)

        monkeypatch.setattr(subprocess.Popen, "__init__", begin)
        return begun

    return each


def test_a_compiler_that_gets_no_processor_is_stopped_and_says_nothing_about_the_module(
    signalled: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By real time: here its process is stopped, as on a machine that is too busy."""
    begun = signalled(signal.SIGSTOP)
    monkeypatch.setattr(trial, "BUSY_TIMES", 2)

    assert trial_problem(bomb(4), seconds=1) == (
        "the compiler did not end within 2 seconds, of which it had the processor for less than 1 "
        "(try again when this machine is less busy)"
    )
    [pid] = begun
    assert not Path(f"/proc/{pid}").exists()


def test_a_compiler_that_crashes_is_a_problem_of_the_module(
    signalled: Callable[[int], list[int]],
) -> None:
    signalled(signal.SIGSEGV)

    assert trial_problem(bomb(4)) == "the compiler does not survive the module: found SIGSEGV"


def test_a_compiler_that_is_killed_for_its_memory_is_told_so(
    signalled: Callable[[int], list[int]],
) -> None:
    """As the system's own killer does it, before our limit is reached."""
    signalled(signal.SIGKILL)

    assert trial_problem(bomb(4)) == MEMORY.format(TRIAL_MEMORY_BYTES)


def test_the_caps_refuse_first_and_nothing_is_compiled() -> None:
    """The one-megabyte bomb in one function is refused immediately, for the size of its body."""
    huge = wasm("body_of_a_bomb")
    start = time.process_time()

    problems = check_module(huge, ["step"])

    assert time.process_time() - start < 2
    assert len(huge) > 1_400_000
    assert len(problems) == 1
    assert problems[0].startswith("the code of function 0 is too large")


def test_messages_of_the_engine_are_returned() -> None:
    assert trial_problem(wasm("atomics")) == (
        "the engine does not take the module: Invalid input WebAssembly code at offset 70:"
        " threads support is not enabled"
    )


def test_an_error_that_only_the_compiler_finds_is_returned() -> None:
    """More branches than it takes, which validation does not count."""
    wat = """(module (memory (export "memory") 1)
      (func (param i32) (br_table {65521 * 0 } 0 (local.get 0)))
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64) (i64.const 0)))"""
    module = assemble(wat)

    assert check_module(module, ["step"]) == []
    problem = trial_problem(module)
    assert problem is not None
    assert "exceeds the implementation limit of 65520" in problem
