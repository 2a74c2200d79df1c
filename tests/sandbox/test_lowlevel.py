"""The assumptions of the direct calls into wasmtime (spec/sandbox.md, S-2 and S-31).

When one of these fails after an upgrade of wasmtime, read ``lowlevel.py`` against the new header
before changing a number here.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import resource
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from wasmtime import _bindings

from aos.core.journal.ports import Call
from aos.errors import Refused
from aos.sandbox import config
from aos.sandbox.config import BEHAVIOUR, FEATURES, PULLEY, WASMTIME, fingerprint
from aos.sandbox.engine import MODULES_MAX, TRAP_WORDS, Sandbox
from aos.sandbox.lowlevel import LAYOUT, SIGNATURES, unconverted_functions
from aos.sandbox.program_module import joined
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import assemble
from tests.sandbox.test_program_module import PROGRAM, interpreter

ROOT = Path(__file__).parents[2]


def as_declared(kind: object) -> object:
    """One of the bindings' types as ``SIGNATURES`` writes it: any pointer is an address."""
    if kind is None or kind in {
        ctypes.c_bool,
        ctypes.c_size_t,
        ctypes.c_uint64,
        ctypes.c_int64,
        ctypes.c_void_p,
    }:
        return kind
    assert isinstance(kind, type)
    if issubclass(kind, ctypes._Pointer) or kind.__name__ == "CFunctionType":
        return ctypes.c_void_p
    raise AssertionError(f"a type that no direct call uses: {kind}")


def test_the_version_is_pinned_everywhere() -> None:
    """S-2"""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert version("wasmtime") == WASMTIME
    assert f"wasmtime=={WASMTIME}" in project["dependencies"]


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-2"""
    monkeypatch.setattr(config, "version", lambda _: "51.0.0")

    with pytest.raises(Refused, match=r"expected 50\.0\.1, found 51\.0\.0"):
        Bench()


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_signature_is_the_librarys(name: str) -> None:
    """S-31"""
    function = getattr(_bindings, f"_{name}")
    returns, takes = SIGNATURES[name]

    assert as_declared(function.restype) == returns
    assert tuple(map(as_declared, function.argtypes)) == takes


def test_each_argument_is_prepared_as_the_signature_declares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S-31: a plain number would be cut to 32 bits."""
    called: set[str] = set()

    def watched(name: str, function: Callable[..., object]) -> Callable[..., object]:
        takes = SIGNATURES[name][1]

        def call(*arguments: object) -> object:
            assert len(arguments) == len(takes)
            for argument, kind in zip(arguments, takes, strict=True):
                # The text of a prepared argument begins with its type's letter: <cparam 'P' (0x1)>.
                is_null = argument is None and kind is ctypes.c_void_p
                assert is_null or repr(argument).startswith(f"<cparam '{letter_of(kind)}' ")
            called.add(name)
            return function(*arguments)

        return call

    functions = unconverted_functions()
    monkeypatch.setattr(
        "aos.sandbox.lowlevel.unconverted_functions",
        lambda: {name: watched(name, function) for name, function in functions.items()},
    )
    bench = Bench()

    for module in ("echo_pair", "echo_packed", "echo_return_pointer"):
        assert bench.run(module, b"a word").output == b"a word"
    bench.fault("traps", entrypoint="zero")
    bench.fault("panic_words", entrypoint="literal")
    bench.fault("alloc_negative", b"x")
    bench.fault("segment_outside", b"x")
    assert bench.run(joined(interpreter(PROGRAM), b"a program")).output == b"a program"

    texts = {"wasmtime_trap_code", "wasm_trap_message", "wasm_trap_delete",
             "wasmtime_error_message", "wasmtime_error_delete", "wasm_byte_vec_delete"}  # fmt: skip
    assert called == set(SIGNATURES) - texts


def letter_of(kind: type) -> str:
    letter: str = kind._type_  # type: ignore[attr-defined]  # of every simple type of ctypes
    return letter


def test_each_layout_is_the_librarys() -> None:
    """S-31"""
    found = {name: ctypes.sizeof(getattr(_bindings, name)) for name in LAYOUT if "." not in name}
    found["wasmtime_extern.of"] = _bindings.wasmtime_extern.of.offset

    assert found == LAYOUT
    assert {
        field: getattr(_bindings.wasmtime_val_raw, field).offset for field in ("i32", "i64")
    } == {
        "i32": 0,
        "i64": 0,
    }
    assert ctypes.sizeof(_bindings.wasmtime_memory) <= LAYOUT["wasmtime_extern"] - 8
    assert ctypes.sizeof(_bindings.wasmtime_func) <= LAYOUT["wasmtime_extern"] - 8


def test_each_trap_code_means_what_the_words_say() -> None:
    """S-40"""
    names = {member.value: member.name for member in _bindings.wasmtime_trap_code_enum}

    assert {code: names[code].removeprefix("WASMTIME_TRAP_CODE_") for code in TRAP_WORDS} == {
        1: "MEMORY_OUT_OF_BOUNDS",
        3: "TABLE_OUT_OF_BOUNDS",
        4: "INDIRECT_CALL_TO_NULL",
        5: "BAD_SIGNATURE",
        6: "INTEGER_OVERFLOW",
        7: "INTEGER_DIVISION_BY_ZERO",
        8: "BAD_CONVERSION_TO_INTEGER",
        9: "UNREACHABLE_CODE_REACHED",
    }
    assert names[0].endswith("STACK_OVERFLOW")
    assert names[11].endswith("OUT_OF_FUEL")


def test_every_feature_that_the_library_knows_is_decided() -> None:
    """S-3: a new version's new features fail here, not in production."""
    known = {
        name.removeprefix("wasmtime_config_").removesuffix("_set")
        for name, _ in inspect.getmembers(_bindings, inspect.isfunction)
        if name.startswith("wasmtime_config_wasm_") and name.endswith("_set")
    }
    parts_of_components = {name for name in known if name.startswith("wasm_component_model_")}

    assert known - parts_of_components == {
        name for name in (*FEATURES, *BEHAVIOUR) if name.startswith("wasm_")
    }
    assert not FEATURES["wasm_component_model"]


def test_the_fingerprint_tells_engines_apart() -> None:
    """S-5"""
    live = fingerprint(stack_bytes=512 * 1024, target=None)

    assert live == Sandbox(bytes).fingerprint
    assert set(live) == {"wasmtime", "target", "engine"}
    assert live["wasmtime"] == WASMTIME
    others = [
        fingerprint(stack_bytes=4 << 20, target=None),
        fingerprint(stack_bytes=512 * 1024, target=PULLEY),
    ]
    assert len({live["engine"], *(other["engine"] for other in others)}) == 3
    assert others[1]["target"] == "pulley64"


def test_unusable_settings_are_refused() -> None:
    for size in (1, 1 << 30):
        with pytest.raises(Refused, match="the stack of a guest is out of range"):
            Sandbox(bytes, stack_bytes=size)
    with pytest.raises(Refused, match="unknown engine target"):
        Sandbox(bytes, target="x86")


def test_memory_stays_bounded_over_many_runs(bench: Bench) -> None:
    """S-32: stores, traps, errors and texts are freed on every way out."""
    good = [
        bench.call("echo_packed", b"x" * 300),
        bench.call("echo_return_pointer", b"x" * 300),
        bench.call("survivor"),
        bench.call("every_feature"),
    ]
    bad = [
        bench.call("traps", entrypoint="zero"),
        bench.call("fuel_loop", fuel=100),
        bench.call("segment_outside", b"x"),
        bench.call("alloc_negative", b"x"),
        bench.call("returns", b"\0\0\0\0\0\0\1\0", entrypoint="pair", output_bytes=10),
        bench.call("panic_words", entrypoint="literal"),
    ]

    # One leaked store, trap or text a run would be more than 2 MiB.
    assert growth(bench, good, runs=20_000) < 1 << 20
    assert growth(bench, bad[:3], runs=20_000) < 1 << 20
    assert growth(bench, bad, runs=10_000) < 1 << 20


def growth(bench: Bench, calls: list[Call], *, runs: int) -> int:
    """By how many bytes the process is larger after so many runs than after the first few."""
    run = bench.sandbox.run
    for _ in range(1000):
        for call in calls:
            run(call)
    gc.collect()
    before = resident_bytes()
    for _ in range(runs // len(calls)):
        for call in calls:
            run(call)
    gc.collect()
    return resident_bytes() - before


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_compiled_code_stays_bounded() -> None:
    """S-33"""
    bench = Bench()
    wat = """(module (memory (export "memory") 1)
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "step") (param i32 i32) (result i64) (i64.const {})))"""

    for _ in range(2):
        for length in range(MODULES_MAX + 3):
            ran = bench.run(assemble(wat.format(length)))
            assert ran.output == bytes(length)

    assert len(bench.sandbox._modules) == MODULES_MAX


def test_two_sandboxes_take_turns() -> None:
    """S-34"""
    one, other = Bench(), Bench()

    for _ in range(10):
        assert one.run("echo_pair", b"one").output == b"one"
        assert other.run("echo_packed", b"other").output == b"other"
        one.fault("traps", entrypoint="zero")
    one.sandbox.close()
    one.sandbox.close()
    other.echoes()
