"""The reasons for which a module is refused (spec/sandbox.md, S-10 to S-17)."""

from __future__ import annotations

import random
import time

import pytest

from aos.errors import Damage, Refused
from aos.sandbox.caps import (
    ENTRIES_MAX,
    FILE_BYTES_MAX,
    MIB,
    MODULE_BYTES_MAX,
    PAGE_BYTES,
)
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import ModuleRefused, check_module
from aos.sandbox.module import Unreadable, compiled_part, outline
from aos.values.digests import content_hash
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import assemble, wasm

HEADER = b"\0asm\1\0\0\0"


def section(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + number(len(content)) + content


def number(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@pytest.mark.parametrize("name", ["echo_packed", "echo_pair", "echo_return_pointer"])
def test_a_good_module_has_no_problems(name: str) -> None:
    assert check_module(wasm(name), ["step"]) == []


def test_a_module_at_the_size_cap_is_read_and_one_byte_more_is_not() -> None:
    """S-10"""
    module = wasm("echo_pair")
    name = b"\1x"
    room = MODULE_BYTES_MAX - len(module) - 1 - len(number(MODULE_BYTES_MAX)) - len(name)
    padded = module + section(0, name + bytes(room))
    assert len(padded) == MODULE_BYTES_MAX

    assert check_module(padded, ["step"]) == []
    assert "the section ends early" in check_module(padded + b"\0", ["step"])[0]


def test_custom_sections_do_not_count_for_the_size_of_a_module() -> None:
    """S-10: data for debuggers may be most of a file."""
    module = wasm("echo_pair")
    debug = section(0, b"\1x" + bytes(MODULE_BYTES_MAX))
    data = section(11, b"\0" + bytes(MODULE_BYTES_MAX))

    assert check_module(debug + module, ["step"]) != []
    assert check_module(module + debug, ["step"]) == []
    part = compiled_part(module + debug)
    assert check_module(part, ["step"]) == []
    assert compiled_part(module[:8] + debug + module[8:] + debug) == part
    assert compiled_part(module + debug + b"\5\x80") == part + b"\5\x80"
    (problem,) = check_module(module + debug + data, ["step"])
    assert problem.startswith(
        f"the module is too large: expected at most {MODULE_BYTES_MAX} bytes without custom"
    )


def test_a_file_has_a_bound_too() -> None:
    """S-10"""
    whole = wasm("echo_pair") + section(0, b"\1x" + bytes(FILE_BYTES_MAX))

    assert check_module(whole, ["step"]) == [
        f"the file is too large: expected at most {FILE_BYTES_MAX} bytes, found {len(whole)}"
    ]


def test_the_limit_of_a_step_bounds_the_memory_too() -> None:
    """S-12"""
    assert check_module(wasm("echo_pair"), ["step"], memory_bytes=PAGE_BYTES) == [
        (
            "the module's memory begins larger than a step may have:"
            " expected at most 1 pages of 65536 bytes, found 2"
        )
    ]


def test_a_hostile_module_cannot_fill_the_log() -> None:
    names = "".join(f'(import "{"m" * 5000}" "{index}" (global i32))' for index in range(500))

    problems = check_module(assemble(f"(module {names})"), ["x" * 5000])

    assert len(problems) == 33
    assert problems[-1].endswith("problems more")
    assert sum(map(len, problems)) < 10_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin with \\0asm (byte 0)"),
        (b"\0asm", "not version 1 of the WASM format (byte 4)"),
        (b"\0asm\2\0\0\0", "not version 1 of the WASM format (byte 4)"),
        (HEADER + b"\1", "the section ends early (byte 9)"),
        (HEADER + b"\1\x80\x80\x80\x80\x80\0", "a number is longer than 5 bytes (byte 9)"),
        (HEADER + b"\1\xff\xff\xff\xff\x7f", "a number is larger than 32 bits (byte 9)"),
        (HEADER + b"\1\x7f", "section 1 is longer than the module (byte 8)"),
        (HEADER + section(1, b"\1\x60\0\0") * 2, "section 1 appears twice (byte 14)"),
        (HEADER + section(1, b"\0\0"), "section 1 has bytes left over (byte 11)"),
        (
            HEADER + section(1, b"\xff\xff\xff\xff\x0f"),
            "declares more than 400000 entries (byte 15)",
        ),
        (HEADER + section(1, b"\1\x60\xff\xff\xff\xff\x0f"), "more than 400000 entries (byte 17)"),
        (HEADER + section(1, b"\1\x60\1"), "the section ends early (byte 13)"),
        (HEADER + section(2, b"\1\x7f"), "the section ends early (byte 12)"),
        (
            HEADER + section(2, b"\1\0\0\7\0"),
            "import kind 7 belongs to no allowed feature (byte 13)",
        ),
        (HEADER + section(5, b"\1\x10\1"), "a memory has unknown flags 16 (byte 11)"),
        (
            HEADER + section(7, b"\1\1x\0\0"),
            "an export names a function that is not there (byte 13)",
        ),
        (HEADER + section(9, b"\1\x08"), "element segment has unknown flags 8 (byte 11)"),
        (HEADER + section(10, b"\1\x7f"), "the body of function 0 leaves its section (byte 11)"),
        (
            HEADER + section(10, b"\1\1\1\1\x7f"),
            "the locals of function 0 leave its body (byte 11)",
        ),
        (HEADER + section(11, b"\1\3"), "data segment has unknown flags 3 (byte 11)"),
        (HEADER + section(11, b"\1\1\x7f"), "the section ends early (byte 13)"),
        (HEADER + section(6, b"\1\x7f\0\x41" + b"\x80" * 11), "longer than 10 bytes (byte 14)"),
        (HEADER + section(99, b""), "section 99 belongs to no allowed feature (byte 8)"),
    ],
)
def test_bytes_that_cannot_be_followed_are_refused(content: bytes, message: str) -> None:
    """S-10"""
    with pytest.raises(Unreadable) as caught:
        outline(content)

    assert str(caught.value).endswith(message)
    assert check_module(content, ["step"])[0] == f"the module cannot be read: {caught.value}"


def test_every_prefix_and_every_flipped_byte_is_read_or_refused_and_never_worse() -> None:
    """S-10"""
    module = wasm("every_feature")
    hostile = [module[:size] for size in range(len(module))]
    hostile += [
        module[:at] + bytes([byte]) + module[at + 1 :]
        for at in range(len(module))
        for byte in (0x00, 0x7F, 0x80, 0xFF, module[at] ^ 1)
    ]

    refused = 0
    for content in hostile:
        try:
            outline(content)
        except Unreadable:
            refused += 1
    assert 0 < refused < len(hostile)


def test_random_sections_are_read_or_refused() -> None:
    """S-10"""
    chance = random.Random(7)
    for _ in range(2000):
        content = HEADER
        for kind in sorted(chance.sample(range(13), 3)):
            alphabet = b"\0\1\2\3\4\x0b\x23\x41\x60\x70\x7f\x80\xff"
            content += section(kind, bytes(chance.choices(alphabet, k=chance.randrange(12))))
        check_module(content, ["step"])


@pytest.mark.parametrize(
    "content",
    [
        section(1, number(ENTRIES_MAX) + b"\x60\0\0" * ENTRIES_MAX),
        section(1, number(ENTRIES_MAX // 2) + b"\x60\1\x7f\0" * ENTRIES_MAX),
        section(6, number(ENTRIES_MAX) + b"\x7f\0\x41\0\x0b" * ENTRIES_MAX),
        section(9, number(3) + (b"\1\0" + number(ENTRIES_MAX // 3) + b"\0" * 140_000) * 3),
        section(0, b"\0") * (8 * MIB // 3 - 10),
    ],
    ids=["types", "parameters", "globals", "elements", "sections"],
)
def test_reading_the_most_crowded_module_takes_about_a_second(content: bytes) -> None:
    """S-10"""
    start = time.process_time()

    check_module(HEADER + content, ["step"])

    assert time.process_time() - start < 4


def test_a_module_that_was_altered_at_rest_does_not_run() -> None:
    """S-17"""
    good, other = wasm("echo_pair"), wasm("echo_packed")
    bench = Bench()
    call = bench.call("echo_pair")
    bench.modules[content_hash(good)] = other

    with pytest.raises(Damage, match="are not those of its hash"):
        bench.sandbox.run(call)


def test_an_entrypoint_that_is_not_there_is_refused_and_nothing_runs(bench: Bench) -> None:
    """S-17"""
    with pytest.raises(ModuleRefused) as caught:
        bench.run("echo_pair", entrypoint="stop")

    assert caught.value.exit_code == Refused.exit_code
    assert str(caught.value).startswith("module blake3:")
    assert 'export "stop"' in str(caught.value)


def test_a_second_entrypoint_is_checked_as_the_first(bench: Bench) -> None:
    """S-17"""
    assert bench.run("returns", bytes(8), entrypoint="pair").output == b""

    with pytest.raises(ModuleRefused, match='export "memory": expected a function'):
        bench.run("returns", entrypoint="memory")
    with pytest.raises(ModuleRefused, match="found a function \\(i32\\) -> i32"):
        bench.run("returns", entrypoint="alloc")


def test_a_module_can_be_compiled_ahead() -> None:
    loads: list[bytes] = []

    def load(name: bytes) -> bytes:
        loads.append(name)
        return wasm("echo_pair")

    sandbox = Sandbox(load)
    call = Bench().call("echo_pair", b"x")
    sandbox.prepare(call.module, "step")
    sandbox.prepare(call.module, "step")

    assert sandbox.run(call).output == b"x"
    assert len(loads) == 1
