"""How input goes in and output comes out (spec/sandbox.md, S-20 to S-25)."""

from __future__ import annotations

import struct

import pytest

from aos.sandbox.caps import PAGE_BYTES
from tests.sandbox.bench import Bench

ECHOES = ["echo_packed", "echo_pair", "echo_return_pointer"]
FORMS = ["pair", "packed", "return_pointer"]


@pytest.mark.parametrize("module", ECHOES)
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 300], ids=["0", "1", "76800"])
def test_each_form_gives_the_input_back(bench: Bench, module: str, data: bytes) -> None:
    """S-21"""
    ran = bench.run(module, data)

    assert ran.output == data
    assert ran.fault is None
    assert ran.engine_text is None


@pytest.mark.parametrize("size", [1, PAGE_BYTES, 5 * PAGE_BYTES + 1])
def test_memory_that_grows_in_alloc_is_read_where_it_is_now(bench: Bench, size: int) -> None:
    """S-23"""
    data = bytes(range(251)) * (size // 251 + 1)

    ran = bench.run("echo_packed", data[:size])

    assert ran.output == data[:size]
    assert ran.pages == (2 if size <= 100_000 else 2 + size // PAGE_BYTES)


def test_one_module_serves_several_entrypoints(bench: Bench) -> None:
    outputs = {
        form: bench.run("returns", struct.pack("<II", 0, 3), entrypoint=form).output
        for form in FORMS
    }

    assert outputs == dict.fromkeys(FORMS, bytes(3))
