"""kernel/rust-core/build: core.wasm is what the sources make, from any path of a checkout."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from aos.author.recorded_build import INCOMPARABLE, MISSING, USAGE
from tests.modules.guests import ROOT
from tests.scripts import script_at
from tests.tools import long_form, missing

CRATE = ROOT / "kernel/rust-core"
CORE = ROOT / "kernel/aos/fastcore/core.wasm"
SIZE_BYTES_MAX = 4_000_000


def test_the_committed_core_is_the_one_that_its_record_names() -> None:
    record = json.loads((CRATE / "BUILD.json").read_text())
    data = CORE.read_bytes()
    hash = CORE.with_suffix(".sha256").read_bytes()

    assert record["modules"] == {
        name: {"sha256": hashlib.sha256(file).hexdigest(), "size_bytes": len(file)}
        for name, file in {"core.wasm": data, "core.sha256": hash}.items()
    }
    assert hash.decode() == f"{hashlib.sha256(data).hexdigest()}\n"
    assert record["rustc"].startswith("rustc ")
    assert len(data) < SIZE_BYTES_MAX


def test_the_committed_core_was_built_from_these_sources() -> None:
    """Needs no compiler. The long form builds it again."""
    recorded = json.loads((CRATE / "BUILD.json").read_text())["sources"]

    assert script_at(CRATE / "build").BUILD.sources_hash() == recorded, "run make core"


def test_no_path_of_the_machine_that_built_it_is_in_the_core() -> None:
    data = CORE.read_bytes()

    for leak in (b"/root", b"/home", b"/usr", b"/work/", b"/tmp", str(ROOT).encode()):
        assert leak not in data


@dataclass(frozen=True)
class Checked:
    """The answer of `build --check` in a copy of the crate, and the file that it built."""

    code: int
    output: str
    core: Path


def copy_and_check(parent: Path) -> Checked:
    crate, into = parent / "kernel/rust-core", parent / "into"
    shutil.copytree(CRATE, crate, ignore=shutil.ignore_patterns("target"))
    committed = parent / "kernel/aos/fastcore/core.wasm"
    committed.parent.mkdir(parents=True)
    for suffix in (".wasm", ".sha256"):
        shutil.copyfile(CORE.with_suffix(suffix), committed.with_suffix(suffix))
    ran = subprocess.run(
        [sys.executable, crate / "build", "--check", "--into", into],
        capture_output=True,
        text=True,
        check=False,
    )
    return Checked(ran.returncode, ran.stdout + ran.stderr, into / "core.wasm")


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="the long form builds the core: a minute")
def test_the_sources_make_the_committed_bytes_in_another_place(tmp_path: Path) -> None:
    checked = copy_and_check(tmp_path / "quite different")
    if checked.code == MISSING:
        missing(checked.output)
    if checked.code != INCOMPARABLE:
        assert checked.code == 0, checked.output
        return
    # Another toolchain makes other bytes: then they must at least be the same everywhere.
    other = copy_and_check(tmp_path / "a second place, with a longer name")
    assert checked.core.read_bytes() == other.core.read_bytes()


def test_a_folder_goes_with_check_only(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, CRATE / "build", "--into", tmp_path], capture_output=True, check=False
    )

    assert ran.returncode == USAGE


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, CRATE / "build", "--check"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == MISSING
    assert "kernel/rust-core/build: no Rust compiler that can build WASM" in ran.stderr
