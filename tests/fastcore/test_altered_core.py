"""A core that is not the one of this release is refused in words, before any of it runs (CR-19)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import wasmtime

from aos.errors import Damage
from aos.fastcore import buffer
from aos.fastcore.buffer import CoreCode
from tests.modules.guests import ROOT

SHIPPED = ROOT / "kernel/aos/fastcore"


def test_a_core_with_another_hash_is_refused(tmp_path: Path) -> None:
    wasm = bytearray((SHIPPED / "core.wasm").read_bytes())
    wasm[-1] ^= 1
    (tmp_path / "core.wasm").write_bytes(wasm)
    shutil.copyfile(SHIPPED / "core.sha256", tmp_path / "core.sha256")

    with pytest.raises(Damage) as refused:
        buffer.read_core(tmp_path)

    words = str(refused.value)
    assert "the second kernel was altered after it was built" in words
    assert (SHIPPED / "core.sha256").read_text().strip() in words
    assert "--core python" in words


@pytest.mark.parametrize("name", ["core.wasm", "core.sha256"])
def test_a_core_without_one_of_its_files_is_refused(tmp_path: Path, name: str) -> None:
    for each in {"core.wasm", "core.sha256"} - {name}:
        shutil.copyfile(SHIPPED / each, tmp_path / each)

    with pytest.raises(Damage, match="the second kernel cannot be read") as refused:
        buffer.read_core(tmp_path)

    assert name in str(refused.value)
    assert "--core python" in str(refused.value)


def test_the_shipped_core_is_read() -> None:
    assert buffer.read_core(SHIPPED) == (SHIPPED / "core.wasm").read_bytes()


@pytest.mark.parametrize("imported", ['"aos" "clock"', '"wasi_snapshot_preview1" "fd_write"'])
def test_a_core_with_an_import_too_many_is_refused(imported: str) -> None:
    wat = f'(module (import "aos" "read" (func)) (import {imported} (func)))'

    with pytest.raises(Damage, match="asks its host for more than a core may") as refused:
        CoreCode(bytes(wasmtime.wat2wasm(wat)))

    module, name = imported.replace('"', "").split()
    assert f"also {module}.{name}" in str(refused.value)
