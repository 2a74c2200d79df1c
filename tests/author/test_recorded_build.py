"""Compiled files that are committed with a record of their build (AU-30 to AU-35)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.author.recorded_build import FAILED, INCOMPARABLE, RecordedBuild

COMPILER = {"rustc": "rustc 1.96.0", "linker": "LLD 14"}


@pytest.fixture
def build(tmp_path: Path) -> RecordedBuild:
    """A folder of sources with one file, which COMPILER has built."""
    (tmp_path / "sources/src").mkdir(parents=True)
    (tmp_path / "files/a").mkdir(parents=True)
    build = RecordedBuild(
        script="sources/build",
        sources=tmp_path / "sources",
        files=tmp_path / "files",
        trial="try them with FILES={into}",
        left_out=frozenset({"examples"}),
    )
    assert build.replace({"a/a.wasm": b"bytes"}, COMPILER) == 0
    return build


def test_a_build_records_its_sources_with_their_names(build: RecordedBuild) -> None:
    def recorded() -> Any:
        build.replace({"a/a.wasm": b"bytes"}, COMPILER)
        return json.loads(build.record.read_text())["sources"]

    source, manifest = build.sources / "src/lib.rs", build.sources / "Cargo.toml"
    recorded_hashes = [recorded()]
    source.write_text("// one")
    recorded_hashes.append(recorded())
    source.write_text("// two")
    recorded_hashes.append(recorded())
    source.rename(source.with_name("main.rs"))
    recorded_hashes.append(recorded())
    manifest.write_text("[package]")
    recorded_hashes.append(recorded())
    (build.sources / "Cargo.lock").write_text("version = 4")
    recorded_hashes.append(recorded())
    (build.sources / "src/data.cbor").write_bytes(b"\x01")
    recorded_hashes.append(recorded())
    assert len(set(recorded_hashes)) == len(recorded_hashes)

    for name in ("target/debug/x.rs", "a/node_modules/x.rs", "README.md", "examples/x.rs"):
        (build.sources / name).parent.mkdir(parents=True, exist_ok=True)
        (build.sources / name).write_text("not a source")
    assert recorded() == recorded_hashes[-1]


def test_the_sources_of_a_library_elsewhere_are_sources_too(
    build: RecordedBuild, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "lib.rs").write_text("// one")
    with_library = replace(build, libraries=(library,))

    before = with_library.sources_hash()
    (library / "lib.rs").write_text("// two")

    assert build.sources_hash() != before
    assert with_library.sources_hash() != before


def test_the_same_bytes_by_the_same_compiler_are_identical(
    build: RecordedBuild, tmp_path: Path
) -> None:
    assert build.check({"a/a.wasm": b"bytes"}, COMPILER, tmp_path / "into") == 0


def test_other_bytes_by_the_same_compiler_differ(
    build: RecordedBuild, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.check({"a/a.wasm": b"other"}, COMPILER, tmp_path / "into") == FAILED
    assert "run sources/build and commit them" in capsys.readouterr().out


def test_a_record_that_does_not_fit_the_bytes_differs(build: RecordedBuild, tmp_path: Path) -> None:
    build.record.write_text(build.record.read_text().replace('"size_bytes": 5', '"size_bytes": 6'))

    assert build.check({"a/a.wasm": b"bytes"}, COMPILER, tmp_path / "into") == FAILED


def test_another_compiler_is_not_compared_with(
    build: RecordedBuild, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "into"

    code = build.check({"a/a.wasm": b"other"}, {**COMPILER, "linker": "LLD 15"}, into)

    assert code == INCOMPARABLE
    assert (into / "a/a.wasm").read_bytes() == b"other"
    assert (build.files / "a/a.wasm").read_bytes() == b"bytes"
    assert f"try them with FILES={into}" in capsys.readouterr().out
