"""Custom sections of a WASM module: what a compiler left in it for its tools (AU-40).

module  = 00 61 73 6d  01 00 00 00  section*
section = id:byte  size:u32  content[size]
custom  = 00  size:u32  name_size:u32  name  data
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aos.authoring.errors import BuildFailed
from aos.sandbox.module import CUSTOM, MAGIC, VERSION

AIR_SECTION: Final = "aos.air"

_HEAD_BYTES: Final = 8
_U32_BYTES_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StrippedModule:
    """A module without the custom sections of one name, and what these held."""

    wasm: bytes
    data: tuple[bytes, ...]


def take_sections(wasm: bytes, name: str) -> StrippedModule:
    """Take all custom sections of that name out of a module.

    Raises:
        BuildFailed: The bytes are no module whose sections can be followed.
    """
    kept, data = [wasm[:_HEAD_BYTES]], []
    for start, content, end in _sections(wasm):
        found = _custom(wasm, content, end) if wasm[start] == CUSTOM else None
        if found is not None and found[0] == name.encode():
            data.append(found[1])
        else:
            kept.append(wasm[start:end])
    return StrippedModule(wasm=b"".join(kept), data=tuple(data))


def _sections(wasm: bytes) -> Iterator[tuple[int, int, int]]:
    """Where each section begins, where its content does, and where it ends."""
    if wasm[:_HEAD_BYTES] != MAGIC + VERSION:
        raise BuildFailed("the compiler's output is no WASM module: it does not begin as one")
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
    """An unsigned LEB128 number, and where what follows it begins."""
    value = 0
    for number, byte in enumerate(wasm[at : at + _U32_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, at + number + 1
    raise BuildFailed(f"the compiler's output is damaged: a number at byte {at} has no end")
