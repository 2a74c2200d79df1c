"""Put a program into the interpreter of flows in Python (spec/pyflow.md, PY-10 to PY-13).

The interpreter is a module that was built before, so a project needs no compiler. Its program is a
data segment behind all other memory:

    0 ....... stack, constants, variables ....... | program | the heap grows from here
                  aos_program: [address, length]

The exported global ``aos_program`` is the address of two u32, which a second segment fills in.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from aos.author.errors import BuildFailed
from aos.author.sections import sections
from aos.sandbox.caps import PAGE_BYTES
from aos.sandbox.module import DATA, DATA_COUNT, MEMORY, Outline, Unreadable, outline
from aos.values.cbor import encode

PLACE: Final = "aos_program"

_I32_CONST: Final = b"\x41"
_END: Final = b"\x0b"
_ACTIVE: Final = b"\x00"
_SEGMENTS: Final = 2


def with_program(interpreter: bytes, program: Mapping[str, Any]) -> bytes:
    """The interpreter with this program (PY-12), which it encodes as canonical CBOR.

    Raises:
        BuildFailed: The module is no interpreter, or has a program already.
    """
    try:
        facts = outline(interpreter)
    except Unreadable as problem:
        raise BuildFailed(f"the interpreter is not a WASM module: {problem}") from problem
    place, pages = _place(facts)
    value: Any = dict(program)
    data = encode(value)
    start = pages * PAGE_BYTES
    added = _segment(place, struct.pack("<II", start, len(data))) + _segment(start, data)
    chunks, has_data = [interpreter[:8]], False
    for begin, content, end in sections(interpreter):
        body = interpreter[content:end]
        match interpreter[begin]:
            case kind if kind == MEMORY:
                body = _memory(body, pages + -(-len(data) // PAGE_BYTES))
            case kind if kind == DATA_COUNT:
                body = _u32(_read_u32(body)[0] + _SEGMENTS)
            case kind if kind == DATA:
                count, at = _read_u32(body)
                body, has_data = _u32(count + _SEGMENTS) + body[at:] + added, True
        chunks.append(interpreter[begin : begin + 1] + _u32(len(body)) + body)
    if not has_data:
        raise BuildFailed(
            "the interpreter has no data section: expected the module of this release"
        )
    return b"".join(chunks)


def _place(facts: Outline) -> tuple[int, int]:
    export = facts.exports.get(PLACE)
    if export is None or export.value is None or len(facts.memories) != 1:
        raise BuildFailed(
            f"the module has no place for a program: expected the exported global {PLACE} and one "
            "memory, as the interpreter of this release has them"
        )
    return export.value, facts.memories[0]


def _memory(body: bytes, pages: int) -> bytes:
    """One memory with another initial size."""
    flags = body[1]
    _, after = _read_u32(body[2:])
    return body[:1] + bytes([flags]) + _u32(pages) + body[2 + after :]


def _segment(address: int, data: bytes) -> bytes:
    return _ACTIVE + _I32_CONST + _s32(address) + _END + _u32(len(data)) + data


def _read_u32(data: bytes) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    raise BuildFailed("the interpreter is damaged: a number has no end")


def _u32(number: int) -> bytes:
    chunks = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        chunks.append(low | (0x80 if number else 0))
        if not number:
            return bytes(chunks)


def _s32(number: int) -> bytes:
    """Signed LEB128 of a number below 2**31: one bit of the last byte is its sign."""
    chunks = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        is_last = number == 0 and not low & 0x40
        chunks.append(low | (0 if is_last else 0x80))
        if is_last:
            return bytes(chunks)
