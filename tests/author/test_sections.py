"""Custom sections, taken out of a module (AU-40)."""

from __future__ import annotations

import pytest

from aos.author.definitions import read_section
from aos.author.errors import BuildFailed
from aos.author.sections import AIR_SECTION, take_sections
from tests.host import puppet


def number(value: int) -> bytes:
    made = b""
    while value > 0x7F:
        made, value = made + bytes([value & 0x7F | 0x80]), value >> 7
    return made + bytes([value])


def custom(name: str, data: bytes) -> bytes:
    content = number(len(name)) + name.encode() + data
    return b"\0" + number(len(content)) + content


WASM = puppet.WASM.read_bytes()
LONG = b"x" * 300


def test_a_section_is_taken_out_and_every_other_byte_stays() -> None:
    head, rest = WASM[:8], WASM[8:]
    whole = head + custom("a", b"1") + custom(AIR_SECTION, LONG) + rest + custom(AIR_SECTION, b"2")

    found = take_sections(whole, AIR_SECTION)

    assert found.wasm == head + custom("a", b"1") + rest
    assert found.data == (LONG, b"2")


def test_a_module_without_the_section_stays_as_it_is() -> None:
    found = take_sections(WASM, AIR_SECTION)

    assert (found.wasm, found.data) == (WASM, ())


def test_a_module_that_is_cut_off_anywhere_is_refused_or_ends_between_sections() -> None:
    whole = WASM[:8] + custom(AIR_SECTION, b"{}") + custom("b", b"")
    ends = {8, 8 + len(custom(AIR_SECTION, b"{}")), len(whole)}

    for size in range(len(whole) + 1):
        if size in ends:
            take_sections(whole[:size], AIR_SECTION)
        else:
            with pytest.raises(BuildFailed):
                take_sections(whole[:size], AIR_SECTION)


@pytest.mark.parametrize(
    "wasm",
    [
        b"",
        b"\0asm\x0d\0\1\0",
        WASM[:8] + b"\0\xff\xff\xff\xff\xff\x01",
        WASM[:8] + b"\0\x02\x7fx",
        WASM[:8] + b"\0\x80",
    ],
)
def test_a_file_that_is_no_module_is_refused(wasm: bytes) -> None:
    with pytest.raises(BuildFailed, match="the compiler's output"):
        take_sections(wasm, AIR_SECTION)


def test_a_section_is_lines_of_objects() -> None:
    assert list(read_section(b'{"a": 1}\n\n{"b": 2}\n', "m")) == [{"a": 1}, {"b": 2}]
    assert list(read_section(b"", "m")) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "expected UTF-8, found byte 0"),
        (b'{"a": 1}\n{', "line 2: "),
        (b"[]", "line 1: expected an object"),
        (b'{"a": 1, "a": 2}', "line 1: "),
    ],
)
def test_a_section_that_is_something_else_is_refused_with_its_place(
    data: bytes, message: str
) -> None:
    with pytest.raises(BuildFailed) as refused:
        list(read_section(data, "shop"))

    assert str(refused.value).startswith("module shop, section aos.air")
    assert message in str(refused.value)
