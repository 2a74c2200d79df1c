"""WASM bytes -> Outline: the facts about a module that our rules need.

It reads lengths, types and declarations, never instructions, so its time is proportional to the
number of declarations. The bytes may be hostile: every read is bounded by its section, all lists
together by ``ENTRIES_MAX``, every number by its bits.

    module  = 00 61 73 6d  01 00 00 00  section*
    section = id:byte  size:u32  content[size]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aos.sandbox.caps import BODY_BYTES_MAX, ENTRIES_MAX, LOCALS_MAX, MODULE_BYTES_MAX

MAGIC: Final = b"\0asm"
VERSION: Final = b"\1\0\0\0"
COMPONENT: Final = b"\x0d\0\1\0"

CUSTOM: Final = 0
TYPE: Final = 1
IMPORT: Final = 2
FUNCTION: Final = 3
TABLE: Final = 4
MEMORY: Final = 5
GLOBAL: Final = 6
EXPORT: Final = 7
START: Final = 8
ELEMENT: Final = 9
CODE: Final = 10
DATA: Final = 11
DATA_COUNT: Final = 12

_VALUE_TYPES: Final = {
    0x7F: "i32",
    0x7E: "i64",
    0x7D: "f32",
    0x7C: "f64",
    0x7B: "v128",
    0x70: "funcref",
    0x6F: "externref",
}
_KINDS: Final = ("function", "table", "memory", "global")
_GLOBAL: Final = _KINDS.index("global")

# Flags of a memory's or table's limits.
_HAS_MAXIMUM: Final = 1
_SHARED: Final = 2
_WIDE: Final = 4
_PAGE_SIZE: Final = 8

# Flags of an element segment.
_NOT_ACTIVE: Final = 1
_EXPLICIT: Final = 2
_EXPRESSIONS: Final = 4

_FUNCTION_TYPE: Final = 0x60
_TABLE_WITH_VALUE: Final = 0x40
_END: Final = 0x0B
_SIMD_PREFIX: Final = 0xFD
_V128_CONST: Final = 12
# The instructions of a constant expression and the length of what follows them; 0 is a number.
_I32_CONST: Final = 0x41
_CONSTANTS: Final = {_I32_CONST: 0, 0x42: 0, 0x43: 4, 0x44: 8, 0x23: 0, 0xD0: 1, 0xD2: 0}


class Unreadable(Exception):
    """The bytes are not a module, or use a feature that is not supported here.

    Attributes:
        offset: Index of the first invalid byte.
    """

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(f"{message} (byte {offset})")
        self.offset = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    module: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleExport:
    """One export. ``type`` is that of a function, as in ``(i32) -> i32``; None for other kinds.
    ``value`` is that of an immutable i32 global, as an unsigned number."""

    kind: str
    type: str | None
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionBody:
    """The code of a function that exceeds a cap."""

    function: int
    size: int
    locals: int


@dataclass(slots=True, kw_only=True)
class Outline:
    """The declarations of a module, in its own order. Memories count pages, tables elements."""

    imports: list[Import] = field(default_factory=list)
    memories: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    exports: dict[str, ModuleExport] = field(default_factory=dict)
    has_start: bool = False
    large_bodies: list[FunctionBody] = field(default_factory=list)


def outline(wasm: bytes) -> Outline:
    """Read a module. Raises ``Unreadable`` at the first invalid byte.

    A module that it accepts may still be invalid: the engine validates it.
    """
    return _Reader(wasm).module()


def compiled_part(wasm: bytes) -> bytes:
    """The module without its custom sections, if it is longer than ``MODULE_BYTES_MAX`` (S-10).
    Bytes behind the last whole section stay, so that ``outline`` finds what is wrong with them."""
    if len(wasm) <= MODULE_BYTES_MAX:
        return wasm
    parts, at = [wasm[:8]], 8
    reader = _Reader(wasm)
    while at < len(wasm):
        try:
            _, end = reader.section(at)
        except Unreadable:
            parts.append(wasm[at:])
            break
        if wasm[at] != CUSTOM:
            parts.append(wasm[at:end])
        at = end
    return b"".join(parts)


def constants(wasm: bytes) -> bytes:
    """The content of a module's data section, where compilers put the texts of its code.

    Raises:
        Unreadable: A section goes past the end of the module.
    """
    data_section = b""
    for at, _, end in sections(wasm):
        if wasm[at] == DATA:
            data_section = wasm[at:end]
    return data_section


def sections(wasm: bytes) -> Iterator[tuple[int, int, int]]:
    """The start of each section, the start of its content, and its end.

    Raises:
        Unreadable: A section goes past the end of the module.
    """
    reader, at = _Reader(wasm), len(MAGIC) + len(VERSION)
    while at < len(wasm):
        start, content, at = at, *reader.section(at)
        yield start, content, at


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSegment:
    """One data segment: the positions of the segment (``at``) and of its bytes in the module.
    ``address`` is that of an active segment, None if the module computes it."""

    at: int
    begin: int
    end: int
    is_passive: bool
    address: int | None


def data_segments(wasm: bytes) -> list[DataSegment]:
    """The data segments of a module.

    Raises:
        Unreadable: ``outline`` raises it, too.
    """
    for at, _, _ in sections(wasm):
        if wasm[at] == DATA:
            return _Reader(wasm).segments(at)
    return []


class _Reader:
    """A position in the bytes, and the declarations found before it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)
        self._entries = 0
        self._types: list[str] = []
        self._functions: list[int] = []
        # Position of each global's initial value; 0 unless it is an immutable i32.
        self._globals: list[int] = []
        self._outline = Outline()

    def module(self) -> Outline:
        if self._data[:4] != MAGIC:
            raise Unreadable("this is not a WASM module: it does not begin with \\0asm", offset=0)
        if self._data[4:8] == COMPONENT:
            raise Unreadable("this is a component, not a module", offset=4)
        if self._data[4:8] != VERSION:
            raise Unreadable("this is not version 1 of the WASM format", offset=4)
        self._at = 8
        readers = {
            TYPE: self._type,
            IMPORT: self._import,
            FUNCTION: self._function,
            TABLE: self._table,
            MEMORY: self._memory,
            GLOBAL: self._global,
            EXPORT: self._export,
            ELEMENT: self._element,
            DATA: self._segment,
        }
        seen_sections: set[int] = set()
        while self._at < len(self._data):
            start = self._at
            section = self._byte()
            size = self._u32()
            if size > len(self._data) - self._at:
                raise Unreadable(f"section {section} is longer than the module", offset=start)
            self._end = self._at + size
            self._spend(1)
            if section != CUSTOM and section in seen_sections:
                raise Unreadable(f"section {section} appears twice", offset=start)
            seen_sections.add(section)
            if section in readers:
                for _ in range(self._count()):
                    readers[section]()
            elif section == START:
                self._outline.has_start = True
                self._u32()
            elif section == CODE:
                for index in range(self._count()):
                    self._body(index)
            elif section == DATA_COUNT:
                self._u32()
            elif section == CUSTOM:
                self._at = self._end
            else:
                raise Unreadable(f"section {section} belongs to no allowed feature", offset=start)
            if self._at != self._end:
                raise Unreadable(f"section {section} has bytes left over", offset=self._at)
            self._end = len(self._data)
        return self._outline

    def section(self, start: int) -> tuple[int, int]:
        """The start of the content, and the end, of the section that begins at ``start``. Raises
        ``Unreadable``."""
        self._at = start + 1
        size = self._u32()
        if size > len(self._data) - self._at:
            raise Unreadable("a section is longer than the module", offset=start)
        return self._at, self._at + size

    def segments(self, start: int) -> list[DataSegment]:
        """The entries of the data section that begins at ``start``. Raises ``Unreadable``."""
        self.section(start)
        return [self._data_segment() for _ in range(self._count())]

    # Sections, one entry each.

    def _type(self) -> None:
        start = self._at
        if self._byte() != _FUNCTION_TYPE:
            raise Unreadable("a type is not a function type (GC is not allowed)", offset=start)
        takes = ", ".join(self._value_type() for _ in range(self._count()))
        results = [self._value_type() for _ in range(self._count())]
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        self._types.append(f"({takes}) -> {result}")

    def _import(self) -> None:
        module, name = self._name(), self._name()
        start = self._at
        kind = self._byte()
        if kind == 0:
            self._functions.append(self._u32())
        elif kind == 1:
            self._value_type()
            self._limits("table")
        elif kind == 2:
            self._limits("memory")
        elif kind == 3:
            self._value_type()
            self._byte()
            self._globals.append(0)
        else:
            raise Unreadable(f"import kind {kind} belongs to no allowed feature", offset=start)
        self._outline.imports.append(Import(module=module, name=name, kind=_KINDS[kind]))

    def _function(self) -> None:
        self._functions.append(self._u32())

    def _table(self) -> None:
        start = self._at
        if self._data[self._at : self._at + 1] == bytes([_TABLE_WITH_VALUE]):
            raise Unreadable(
                "a table has an initial value (function references are not allowed)", offset=start
            )
        self._value_type()
        self._outline.tables.append(self._limits("table"))

    def _memory(self) -> None:
        self._outline.memories.append(self._limits("memory"))

    def _global(self) -> None:
        kind = self._value_type()
        is_mutable = self._byte()
        self._globals.append(0 if is_mutable or kind != "i32" else self._at)
        self._constant()

    def _export(self) -> None:
        name = self._name()
        start = self._at
        kind = self._byte()
        index = self._u32()
        if kind >= len(_KINDS):
            raise Unreadable(f"export kind {kind} belongs to no allowed feature", offset=start)
        signature = None
        if kind == 0:
            if index >= len(self._functions) or self._functions[index] >= len(self._types):
                raise Unreadable("an export names a function that is not there", offset=start)
            signature = self._types[self._functions[index]]
        value = None
        if kind == _GLOBAL and index < len(self._globals):
            value = self._value_at(self._globals[index])
        self._outline.exports[name] = ModuleExport(kind=_KINDS[kind], type=signature, value=value)

    def _element(self) -> None:
        start = self._at
        flags = self._u32()
        if flags > (_NOT_ACTIVE | _EXPLICIT | _EXPRESSIONS):
            raise Unreadable(f"element segment has unknown flags {flags}", offset=start)
        if not flags & _NOT_ACTIVE:
            if flags & _EXPLICIT:
                self._u32()
            self._constant()
        if flags & (_NOT_ACTIVE | _EXPLICIT):
            self._byte()
        read = self._constant if flags & _EXPRESSIONS else self._u32
        for _ in range(self._count()):
            read()

    def _body(self, index: int) -> None:
        start = self._at
        size = self._u32()
        body = self._at
        if size > self._end - body:
            raise Unreadable(f"the body of function {index} leaves its section", offset=start)
        declared = 0
        for _ in range(self._count()):
            declared += self._u32()
            self._value_type()
        if self._at > body + size:
            raise Unreadable(f"the locals of function {index} leave its body", offset=start)
        if size > BODY_BYTES_MAX or declared > LOCALS_MAX:
            over = FunctionBody(function=index, size=size, locals=declared)
            self._outline.large_bodies.append(over)
        self._at = body + size

    def _segment(self) -> None:
        start = self._at
        flags = self._u32()
        if flags > 2:
            raise Unreadable(f"data segment has unknown flags {flags}", offset=start)
        if flags == 2:
            self._u32()
        if flags != 1:
            self._constant()
        self._skip(self._u32())

    def _data_segment(self) -> DataSegment:
        at = self._at
        flags = self._u32()
        if flags == 2:
            self._u32()
        address = None
        if flags != 1:
            address = self._value_at(self._at)
            self._constant()
        size = self._u32()
        begin = self._at
        self._skip(size)
        return DataSegment(
            at=at, begin=begin, end=begin + size, is_passive=flags == 1, address=address
        )

    # Parts of entries.

    def _limits(self, kind: str) -> int:
        """Read limits and return the minimum."""
        start = self._at
        flags = self._byte()
        for flag, feature in (
            (_SHARED, "shared (threads are"),
            (_WIDE, "64-bit (memory64 is"),
            (_PAGE_SIZE, "of custom page size (these are"),
        ):
            if flags & flag:
                raise Unreadable(f"a {kind} is {feature} not allowed)", offset=start)
        if flags > _HAS_MAXIMUM:
            raise Unreadable(f"a {kind} has unknown flags {flags}", offset=start)
        minimum = self._u32()
        if flags & _HAS_MAXIMUM:
            self._u32()
        return minimum

    def _constant(self) -> None:
        """Skip an initial value: one instruction and the end."""
        start = self._at
        code = self._byte()
        if code == _SIMD_PREFIX and self._u32() == _V128_CONST:
            self._skip(16)
        elif code not in _CONSTANTS:
            raise Unreadable("an initial value begins with no constant", offset=start)
        elif _CONSTANTS[code]:
            self._skip(_CONSTANTS[code])
        else:
            self._number()
        start = self._at
        if self._byte() != _END:
            raise Unreadable(
                "an initial value is computed (extended constants are not allowed)", offset=start
            )

    def _value_at(self, at: int) -> int | None:
        """The value of a skipped ``i32.const``, modulo 2^32; None for another instruction."""
        if not at or self._data[at] != _I32_CONST:
            return None
        value = shift = 0
        byte = 0x80
        while byte & 0x80:
            at += 1
            byte = self._data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
        return (value - (1 << shift) if byte & 0x40 else value) & 0xFFFF_FFFF

    def _value_type(self) -> str:
        start = self._at
        code = self._byte()
        name = _VALUE_TYPES.get(code)
        if name is None:
            raise Unreadable(f"value type 0x{code:02x} belongs to no allowed feature", offset=start)
        return name

    def _name(self) -> str:
        size = self._u32()
        start = self._at
        self._skip(size)
        return self._data[start : self._at].decode(errors="replace")

    def _count(self) -> int:
        count = self._u32()
        self._spend(count)
        return count

    def _spend(self, entries: int) -> None:
        self._entries += entries
        if self._entries > ENTRIES_MAX:
            raise Unreadable(
                f"the module declares more than {ENTRIES_MAX} entries", offset=self._at
            )

    def _byte(self) -> int:
        at = self._at
        if at >= self._end:
            raise Unreadable("the section ends early", offset=at)
        self._at = at + 1
        return self._data[at]

    def _skip(self, size: int) -> None:
        if size > self._end - self._at:
            raise Unreadable("the section ends early", offset=self._at)
        self._at += size

    def _u32(self) -> int:
        """An unsigned LEB128 number of at most 5 bytes and 32 bits."""
        start = self._at
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise Unreadable("a number is longer than 5 bytes", offset=start)
        if value > 0xFFFF_FFFF:
            raise Unreadable("a number is larger than 32 bits", offset=start)
        return value

    def _number(self) -> None:
        """Skip a signed or unsigned LEB128 number of at most 10 bytes."""
        start = self._at
        for _ in range(10):
            if self._byte() < 0x80:
                return
        raise Unreadable("a number is longer than 10 bytes", offset=start)
