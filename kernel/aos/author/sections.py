"""Custom sections of a WASM module, in which a compiler leaves data for tools (AU-40).

module  = 00 61 73 6d  01 00 00 00  section*
section = id:byte  size:u32  content[size]
custom  = 00  size:u32  name_size:u32  name  data
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aos.author.errors import BuildFailed
from aos.sandbox.module import CUSTOM, MAGIC, VERSION
from aos.sandbox.program_module import leb128

AIR_SECTION: Final = "aos.air"

_HEAD_BYTES: Final = 8
_U32_BYTES_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StrippedModule:
    """A module without the custom sections of one name, and their contents."""

    wasm: bytes
    data: tuple[bytes, ...]


def take_sections(wasm: bytes, name: str) -> StrippedModule:
    """Remove all custom sections of that name from a module.

    Raises:
        BuildFailed: The bytes are not a well-formed module.
    """
    chunks, data = [wasm[:_HEAD_BYTES]], []
    for start, content, end in sections(wasm):
        section = _custom(wasm, content, end) if wasm[start] == CUSTOM else None
        if section is not None and section[0] == name.encode():
            data.append(section[1])
        else:
            chunks.append(wasm[start:end])
    return StrippedModule(wasm=b"".join(chunks), data=tuple(data))


def with_section(wasm: bytes, name: str, data: bytes) -> bytes:
    """A module with one more custom section, at its end."""
    named = leb128(len(name.encode())) + name.encode() + data
    return wasm + bytes([CUSTOM]) + leb128(len(named)) + named


def sections(wasm: bytes) -> Iterator[tuple[int, int, int]]:
    """(start of the section, start of its content, end) of each section."""
    if wasm[:_HEAD_BYTES] != MAGIC + VERSION:
        raise BuildFailed("the compiler's output is not a WASM module: its first bytes differ")
    at = _HEAD_BYTES
    while at < len(wasm):
        size, content = _u32(wasm, at + 1)
        if content + size > len(wasm):
            raise BuildFailed(f"the compiler's output is cut off: section at byte {at}")
        yield at, content, content + size
        at = content + size


def _custom(wasm: bytes, content: int, end: int) -> tuple[bytes, bytes]:
    size, at = _u32(wasm, content)
    if at + size > end:
        raise BuildFailed(f"the compiler's output is damaged: custom section at byte {content}")
    return wasm[at : at + size], wasm[at + size : end]


def _u32(wasm: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number, and the position after it."""
    value = 0
    for number, byte in enumerate(wasm[at : at + _U32_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, at + number + 1
    raise BuildFailed(f"the compiler's output is damaged: a number at byte {at} has no end")
