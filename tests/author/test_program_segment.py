"""Programs in the prebuilt interpreter of flows in Python (spec/pyflow.md, PY-10 to PY-13)."""

from __future__ import annotations

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from aos.author.errors import BuildFailed
from aos.author.program_segment import with_program
from aos.sandbox.module import outline
from aos.values.cbor import Value, encode

PAGE = 65_536
INTERPRETER = wasmtime.wat2wasm(
    """
    (module
      (memory (export "memory") 2 100)
      (global (export "aos_program") i32 (i32.const 70000))
      (data (i32.const 16) "constants"))
    """
)


def memory_of(wasm: bytes) -> bytes:
    """The memory of a new instance."""
    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, wasm), [])
    memory = instance.exports(store)["memory"]
    assert isinstance(memory, wasmtime.Memory)
    return bytes(memory.read(store))


@given(size=st.one_of(st.integers(0, 300), st.integers(PAGE - 40, PAGE + 40)))
def test_the_program_is_behind_the_memory_and_its_place_names_it(size: int) -> None:
    """PY-11"""
    program: dict[str | int, Value] = {"source": "x" * size}

    memory = memory_of(with_program(bytes(INTERPRETER), {"source": "x" * size}))

    encoded = encode(program)
    address = int.from_bytes(memory[70_000:70_004], "little")
    length = int.from_bytes(memory[70_004:70_008], "little")
    assert address == 2 * PAGE
    assert memory[address : address + length] == encoded
    assert len(memory) == (2 + -(-len(encoded) // PAGE)) * PAGE
    assert memory[16:25] == b"constants"


def test_another_module_is_refused() -> None:
    """PY-11"""
    without = wasmtime.wat2wasm('(module (memory (export "memory") 2) (data (i32.const 0) "a"))')
    no_data = wasmtime.wat2wasm(
        """(module (memory (export "memory") 2)
             (global (export "aos_program") i32 (i32.const 8)))"""
    )
    for wasm, problem in (
        (bytes(without), "no place for a program: expected the exported global aos_program"),
        (bytes(no_data), "has no data section"),
        (b"\0asm", "is not a WASM module"),
    ):
        with pytest.raises(BuildFailed, match=problem):
            with_program(wasm, {})


def test_a_count_of_segments_is_kept_right() -> None:
    """PY-11: a module with passive segments has one."""
    counted = wasmtime.wat2wasm(
        """
        (module
          (memory (export "memory") 1)
          (global (export "aos_program") i32 (i32.const 0))
          (data $later "abc")
          (func (memory.init $later (i32.const 0) (i32.const 0) (i32.const 3))))
        """
    )
    made = with_program(bytes(counted), {"a": 1})

    assert outline(made).memories == [2]
    assert memory_of(made)[PAGE : PAGE + 4] == encode({"a": 1})
