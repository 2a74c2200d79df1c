"""WASM bytes (spec/sandbox.md, S-10 to S-16)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import wasmtime

from aos.sandbox.caps import BODY_BYTES_MAX, ENTRIES_MAX, LOCALS_MAX
from aos.sandbox.config import LIVE_STACK_BYTES, build_engine
from aos.sandbox.inspect import check_module
from aos.sandbox.module import Outline, Unreadable, outline
from tests.sandbox import corpus

RUNS: Final = 2_000
SMALL: Final = 2000
TOKENS: Final = (
    b"\0asm\1\0\0\0", b"\x60\x02\x7f\x7f\x01\x7e", b"\x06memory\x02\x00", b"\x05alloc\x00",
    b"\x04step\x00", b"\x41\x00\x0b", b"\x42\x00\x0b", b"\x23\x00\x0b",
    b"\x70\x00\x01", b"\xfd\x0c",
    b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x00", b"\x00\x00", b"\xd2\x00\x0b", b"\xd0\x70\x0b",
)  # fmt: skip


def target(data: bytes) -> None:
    """A module is read or Unreadable, and what the engine takes is read as the engine reads it."""
    try:
        found = outline(data)
    except Unreadable as problem:
        found = None
        at = problem.offset
    else:
        at = 0
    assert 0 <= at <= len(data)
    problems = check_module(data, ["step"])
    assert all(each.isprintable() and len(each) < 5000 for each in problems)
    if found is None:
        assert problems
    if not problems:
        assert found is not None
        _as_the_engine_says(data, found)


def _as_the_engine_says(data: bytes, found: Outline) -> None:
    """Compile it, which a module without problems allows, and compare what it declares."""
    assert len(data) < SMALL + BODY_BYTES_MAX
    try:
        module = wasmtime.Module(_engine(), data)
    except wasmtime.WasmtimeError:
        return  # valid, and over a limit of the compiler's: the trial says so
    exports = {each.name: each.type for each in module.exports}
    assert set(exports) == set(found.exports)
    assert not module.imports
    assert not found.imports
    for name, export in found.exports.items():
        kind = exports[name]
        if isinstance(kind, wasmtime.FuncType):
            takes, gives = map(str, kind.params), [str(each) for each in kind.results]
            given = gives[0] if len(gives) == 1 else f"({', '.join(gives)})"
            assert export.type == f"({', '.join(takes)}) -> {given}"
        assert (export.kind == "function") == isinstance(kind, wasmtime.FuncType)
        assert (export.kind == "memory") == isinstance(kind, wasmtime.MemoryType)
        if isinstance(kind, wasmtime.MemoryType):
            assert found.memories == [kind.limits.min]
    assert not found.large_bodies
    assert LOCALS_MAX < ENTRIES_MAX


@cache
def _engine() -> wasmtime.Engine:
    return build_engine(stack_bytes=LIVE_STACK_BYTES, target=None)


def seeds() -> Iterator[bytes]:
    for name in corpus.names():
        if corpus.path_of(name).parent.name not in {"bombs", "caps"}:
            data = corpus.wasm(name)
            if len(data) < SMALL:
                yield data
