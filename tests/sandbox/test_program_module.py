"""An interpreter with a program runs as it was compiled whole, and is compiled once (S-58)."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from aos.core.journal.ports import Ran
from aos.sandbox import engine as engines
from aos.sandbox.cache import ModuleCache
from aos.sandbox.caps import PAGE_BYTES
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import check_module
from aos.sandbox.module import outline
from aos.sandbox.program_module import NoInterpreter, joined, program_module, split
from aos.sandbox.trial import trial_problem
from aos.values.digests import content_hash
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import FUEL, MEMORY_BYTES

STEP = """
  (func (export "step") (param $at i32) (param $length i32) (result i64)
    {body})"""


def interpreter(
    body: str, *, memory: str = "2 16", data: str = '(data (i32.const 16) "constants")'
) -> bytes:
    """A module with a place for a program at 1,000. Its input is at 2,000."""
    return bytes(
        wasmtime.wat2wasm(f"""
        (module
          (memory (export "memory") {memory})
          (global (export "aos_program") i32 (i32.const 1000))
          (func (export "alloc") (param i32) (result i32) (i32.const 2000))
          {STEP.format(body=body)}
          {data})
        """)
    )


# (pointer << 32) | length of the output
PACKED = "(i64.or (i64.shl (i64.extend_i32_u {pointer}) (i64.const 32)) (i64.extend_i32_u {size}))"
PLACE = PACKED.format(pointer="(i32.const 1000)", size="(i32.const 8)")
PROGRAM = PACKED.format(pointer="(i32.load (i32.const 1000))", size="(i32.load (i32.const 1004))")
BODIES = {
    "the place": PLACE,
    "the program": PROGRAM,
    "the bytes behind the program": PACKED.format(
        pointer="(i32.add (i32.load (i32.const 1000)) (i32.load (i32.const 1004)))",
        size="(i32.const 40)",
    ),
    "the constants": PACKED.format(pointer="(i32.const 16)", size="(i32.const 9)"),
    "the size of the memory": "(i32.store (i32.const 3000) (memory.size))"
    + PACKED.format(pointer="(i32.const 3000)", size="(i32.const 4)"),
    "a memory that grows": "(i32.store (i32.const 3000) (memory.grow (i32.const 3)))"
    "(i32.store (i32.const 3004) (memory.grow (i32.const 100)))"
    + PACKED.format(pointer="(i32.const 3000)", size="(i32.const 8)"),
    "a write behind the program": "(i32.store8 (i32.sub (i32.mul (memory.size) (i32.const 65536))"
    " (i32.const 1)) (i32.const 7))" + PLACE,
    "a trap behind the memory": "(drop (i32.load (i32.mul (memory.size) (i32.const 65536))))"
    + PLACE,
    "a loop without an end": "(loop (br 0)) (unreachable)",
}


def both(wasm: bytes, *, fuel: int = FUEL, memory_bytes: int = MEMORY_BYTES) -> tuple[Ran, Ran]:
    """Run a module split, and compiled whole."""
    runs = []
    for is_whole in (False, True):
        bench = Bench()
        with pytest.MonkeyPatch.context() as patch:
            if is_whole:
                patch.setattr(engines, "split", lambda _wasm, _facts: None)
            runs.append(bench.run(wasm, b"input", fuel=fuel, memory_bytes=memory_bytes))
        bench.sandbox.close()
    return runs[0], runs[1]


def without_text(ran: Ran) -> Ran:
    return ran._replace(engine_text=None)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("size", [1, 9, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1])
def test_an_instance_is_the_same_as_that_of_the_whole_module(body: str, size: int) -> None:
    """S-58: output, fault, fuel and pages."""
    wasm = joined(interpreter(BODIES[body]), bytes(n % 251 for n in range(size)))
    assert program_module(wasm) is not None

    apart, whole = both(wasm, fuel=100_000)

    assert without_text(apart) == without_text(whole)


@pytest.mark.parametrize("pages", [1, 2, 3, 4])
def test_a_step_with_less_memory_ends_as_that_of_the_whole_module(pages: int) -> None:
    """S-58: the program needs the third page."""
    wasm = joined(interpreter(BODIES["a memory that grows"]), b"program")

    apart, whole = both(wasm, memory_bytes=pages * PAGE_BYTES)

    assert without_text(apart) == without_text(whole)
    assert (apart.fault is None) == (pages >= 3)


@given(program=st.binary(max_size=300), pages=st.integers(1, 4))
def test_the_parts_are_those_that_were_joined(program: bytes, pages: int) -> None:
    """S-58"""
    base = interpreter(PLACE, memory=f"{pages} 16")
    wasm = joined(base, program)

    parts = program_module(wasm)

    assert parts is not None
    assert (parts.program, parts.start) == (program, pages * PAGE_BYTES)
    assert joined(parts.interpreter, program) == wasm
    assert program_module(parts.interpreter) is None


def with_segments(*, place: int = 1000, address: int, length: int, more: str = "") -> bytes:
    """A module whose own segments look like those of a program."""
    named = (address.to_bytes(4, "little") + length.to_bytes(4, "little")).hex()
    quoted = "".join(f"\\{named[at : at + 2]}" for at in range(0, 16, 2))
    return interpreter(
        PLACE,
        memory="3 16",
        data=f'{more} (data (i32.const {place}) "{quoted}")(data (i32.const {address}) "program")',
    )


NOT_SPLIT = {
    "another length": with_segments(address=2 * PAGE_BYTES, length=8),
    "another place": with_segments(place=1004, address=2 * PAGE_BYTES, length=7),
    "no page": with_segments(address=2 * PAGE_BYTES + 4, length=7),
    "a page too many": with_segments(address=PAGE_BYTES, length=7),
    "a segment where the program is": with_segments(
        address=2 * PAGE_BYTES, length=7, more=f'(data (i32.const {2 * PAGE_BYTES}) "other")'
    ),
}


def test_segments_in_the_form_of_a_program_are_one() -> None:
    """S-58: the control of the next test."""
    assert program_module(with_segments(address=2 * PAGE_BYTES, length=7)) is not None


@pytest.mark.parametrize("case", NOT_SPLIT)
def test_a_module_in_any_other_form_is_compiled_whole(case: str) -> None:
    """S-58"""
    wasm = NOT_SPLIT[case]

    assert program_module(wasm) is None
    apart, whole = both(wasm)
    assert without_text(apart) == without_text(whole)


def test_a_program_that_the_memory_has_no_room_for_is_not_split_off() -> None:
    """S-58, S-16: the module is not valid."""
    wasm = joined(interpreter(PLACE, memory="2 2"), b"program")

    assert split(wasm, outline(wasm)) is None
    assert check_module(wasm, ["step"]) != []


def test_code_that_names_the_segments_of_its_program_is_compiled_whole() -> None:
    """S-58: without these segments it is not valid."""
    body = "(data.drop 1) (data.drop 2)" + PROGRAM
    more = '(data (i32.const 16) "a") (data (i32.const 20) "b") (data (i32.const 24) "c")'
    base = interpreter(body, data=more)
    wasm = joined(base, b"program")
    hostile = wasm.replace(b"\xfc\x09\x02", b"\xfc\x09\x04", 1)
    assert hostile != wasm
    assert program_module(hostile) is not None

    apart, whole = both(hostile)

    assert without_text(apart) == without_text(whole)
    assert apart.output == b"program"


def test_bytes_that_are_no_interpreter_are_refused() -> None:
    bare = bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1))'))

    with pytest.raises(NoInterpreter, match="no place for a program"):
        joined(bare, b"")
    assert program_module(b"\0asm") is None
    assert program_module(bare) is None


def test_an_interpreter_is_compiled_once_for_all_its_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S-58: also without a cache, as in a replay."""
    compiled: list[bytes] = []
    compile_whole = Sandbox._compile_whole

    def counted(self: Sandbox, module: object, wasm: bytes) -> wasmtime.Module:
        compiled.append(wasm)
        return compile_whole(self, module, wasm)  # type: ignore[arg-type]

    monkeypatch.setattr(Sandbox, "_compile_whole", counted)
    bench = Bench()

    outputs = [
        bench.run(joined(interpreter(PROGRAM), program)).output for program in (b"one", b"another")
    ]

    assert outputs == [b"one", b"another"]
    assert len(compiled) == 1


def test_the_trial_of_one_program_is_that_of_every_other(tmp_path: Path) -> None:
    """S-18, S-58: the code of the interpreter is in the cache."""
    cache = ModuleCache(tmp_path / "cache")
    first, second = (joined(interpreter(PROGRAM), program) for program in (b"one", b"two"))
    assert trial_problem(first, cache=cache) is None
    stored = sorted((tmp_path / "cache").iterdir())

    assert trial_problem(second, cache=cache) is None

    assert sorted((tmp_path / "cache").iterdir()) == stored
    [file] = stored
    parts = program_module(first)
    assert parts is not None
    assert content_hash(parts.interpreter).hex() in file.name
