"""An interpreter with a program in a data segment (spec/pyflow.md, PY-10, PY-11), and the two apart
again, so that the interpreter is compiled once for all programs (spec/sandbox.md, S-58).

    0 ....... stack, constants, variables ....... | program | the heap grows from here
                  aos_program: [address, length]

The exported global ``aos_program`` is the address of two u32, which a segment fills in.

Rule 1: ``split`` is exact. It returns only parts of which ``joined`` makes the same bytes, and of
which the memory of a new instance can be made without the two segments.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aos.sandbox.caps import PAGE_BYTES
from aos.sandbox.module import (
    DATA,
    DATA_COUNT,
    MEMORY,
    DataSegment,
    Outline,
    Unreadable,
    compiled_part,
    data_segments,
    outline,
    sections,
)

PLACE: Final = "aos_program"

_PLACE_FORM: Final = struct.Struct("<II")
_I32_CONST: Final = b"\x41"
_END: Final = b"\x0b"
_ACTIVE: Final = b"\x00"
_SEGMENTS: Final = 2
_HEAD_BYTES: Final = 8


class NoInterpreter(ValueError):
    """The module has no place for a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramModule:
    """A module as an interpreter and a program. ``place`` is the address of the two u32, ``start``
    that of the program: the end of the interpreter's memory, which grows by ``pages``."""

    interpreter: bytes
    program: bytes
    place: int
    start: int

    @property
    def pages(self) -> int:
        return -(-len(self.program) // PAGE_BYTES)

    @property
    def place_bytes(self) -> bytes:
        """The content of the two u32."""
        return _PLACE_FORM.pack(self.start, len(self.program))

    @property
    def writes(self) -> tuple[tuple[int, bytes], ...]:
        """The address and the bytes of both segments."""
        return (self.place, self.place_bytes), (self.start, self.program)


def joined(interpreter: bytes, program: bytes) -> bytes:
    """The interpreter with this program.

    Raises:
        Unreadable: The interpreter is not a module.
        NoInterpreter: It has no place for a program, or has no data section.
    """
    facts = outline(interpreter)
    export = facts.exports.get(PLACE)
    if export is None or export.value is None or len(facts.memories) != 1:
        raise NoInterpreter(
            f"the module has no place for a program: expected the exported global {PLACE} and one "
            "memory, as the interpreter of this release has them"
        )
    start = facts.memories[0] * PAGE_BYTES
    parts = ProgramModule(interpreter=interpreter, program=program, place=export.value, start=start)
    return _joined(parts)


def split(wasm: bytes, facts: Outline) -> ProgramModule | None:
    """A module as an interpreter and its program; None for any other module. ``facts`` is its
    outline."""
    export = facts.exports.get(PLACE)
    if export is None or export.value is None or len(facts.memories) != 1:
        return None
    segments = data_segments(wasm)
    if len(segments) < _SEGMENTS:
        return None
    *others, named, last = segments
    start, place = last.address, export.value
    if not start or start % PAGE_BYTES or place + _PLACE_FORM.size > start:
        return None
    if not all(_is_below(segment, start) for segment in others):
        return None
    parts = ProgramModule(
        interpreter=_interpreter(wasm, start, others),
        program=wasm[last.begin : last.end],
        place=place,
        start=start,
    )
    is_named = named.address == place and wasm[named.begin : named.end] == parts.place_bytes
    if not is_named or not _may_grow(parts) or _joined(parts) != wasm:
        return None
    return parts


def program_module(wasm: bytes) -> ProgramModule | None:
    """As ``split``, of a module that was not read before; None if it cannot be read."""
    part = compiled_part(wasm)
    try:
        return split(part, outline(part))
    except Unreadable:
        return None


def _is_below(segment: DataSegment, end: int) -> bool:
    """Whether a segment needs no memory from ``end`` on: it is passive, or ends before."""
    if segment.is_passive:
        return True
    return segment.address is not None and segment.address + segment.end - segment.begin <= end


def _joined(parts: ProgramModule) -> bytes:
    wasm, pages = parts.interpreter, parts.start // PAGE_BYTES + parts.pages
    added = b"".join(_segment(address, data) for address, data in parts.writes)
    contents = dict(_sections(wasm))
    if DATA not in contents:
        raise NoInterpreter(
            "the interpreter has no data section: expected the module of this release"
        )
    count, at = _read_u32(contents[DATA])
    changed = {
        MEMORY: _memory(contents[MEMORY], pages),
        DATA: leb128(count + _SEGMENTS) + contents[DATA][at:] + added,
    }
    return _with_sections(wasm, changed, segments=_SEGMENTS)


def _interpreter(wasm: bytes, start: int, others: list[DataSegment]) -> bytes:
    """The module without its last two segments and their memory."""
    begin, end = (others[0].at, others[-1].end) if others else (0, 0)
    changed = {
        MEMORY: _memory(dict(_sections(wasm))[MEMORY], start // PAGE_BYTES),
        DATA: leb128(len(others)) + wasm[begin:end],
    }
    return _with_sections(wasm, changed, segments=-_SEGMENTS)


def _with_sections(wasm: bytes, changed: Mapping[int, bytes], *, segments: int) -> bytes:
    """The module with other contents of some sections, and another count of data segments."""
    chunks = [wasm[:_HEAD_BYTES]]
    for kind, content in _sections(wasm):
        body = changed.get(kind, content)
        if kind == DATA_COUNT:
            body = leb128(max(0, _read_u32(content)[0] + segments))
        chunks.append(bytes([kind]) + leb128(len(body)) + body)
    return b"".join(chunks)


def _may_grow(parts: ProgramModule) -> bool:
    """Whether the interpreter's memory may have the program's pages, too."""
    memory = next(body for kind, body in _sections(parts.interpreter) if kind == MEMORY)
    if not memory[1]:
        return True
    pages, size = _read_u32(memory[2:])
    return pages + parts.pages <= _read_u32(memory[2 + size :])[0]


def _sections(wasm: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each section of a module that ``outline`` has read."""
    for start, content, end in sections(wasm):
        yield wasm[start], wasm[content:end]


def _memory(body: bytes, pages: int) -> bytes:
    """One memory with another initial size."""
    _, size = _read_u32(body[2:])
    return body[:2] + leb128(pages) + body[2 + size :]


def _segment(address: int, data: bytes) -> bytes:
    return _ACTIVE + _I32_CONST + _s32(address) + _END + leb128(len(data)) + data


def _read_u32(data: bytes) -> tuple[int, int]:
    """A number at the beginning of some bytes, and its length."""
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    raise NoInterpreter("the interpreter is damaged: a number has no end")


def leb128(number: int) -> bytes:
    """An unsigned LEB128 number."""
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
