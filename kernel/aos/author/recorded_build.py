"""Compiled files that are committed with a record of their build (AU-30 to AU-35).

The record, BUILD.json, names the toolchain, a hash of the sources and the hash of each file. So
``--check`` can build the files again and compare the bytes, and a test without a compiler notices
files that are older than their sources.
"""

# ruff: noqa: S603, T201  # scripts use it that run compilers and print

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.author.errors import ToolMissing
from aos.author.toolchain import ToolCall, Toolchain, find_toolchain

FAILED: Final = 1
USAGE: Final = 2
MISSING: Final = 3
INCOMPARABLE: Final = 4
"""Exit codes of a build script; 0 means done, or identical."""

_SKIPPED: Final = frozenset({"target", "node_modules"})
_SOURCES: Final = (
    ".rs",
    ".cbor",
    ".patch",
    "prelude.py",
    "Cargo.toml",
    "Cargo.lock",
    "crates.lock",
)
"""How the names of files end that a build reads; sources include data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBuild:
    """The files that one build script makes from Rust sources.

    Attributes:
        script: The script, as a user calls it from the root of a checkout.
        sources: The folder of the sources and of the record.
        files: The folder of the files; their names are relative to it.
        trial: How to try files that another toolchain made; ``{into}`` is their folder.
        left_out: Names of folders and files that are no sources of these files.
        libraries: Folders elsewhere whose files are sources, too.
    """

    script: str
    sources: Path
    files: Path
    trial: str
    left_out: frozenset[str] = frozenset()
    libraries: tuple[Path, ...] = ()

    @property
    def record(self) -> Path:
        return self.sources / "BUILD.json"

    def toolchain(self) -> Toolchain:
        """Find a toolchain and print what it is, or exit."""
        try:
            toolchain = find_toolchain()
        except ToolMissing as problem:
            raise self.stop(MISSING, str(problem)) from None
        identity = toolchain.identity()
        print(f"compiler  {toolchain.rustc}: {identity['rustc'].splitlines()[0]}")
        print(f"cargo     {toolchain.cargo}: {identity['cargo']}")
        print(f"std       {toolchain.sources or identity['std']}")
        print(f"linker    {toolchain.linker or toolchain.rustc}: {identity['linker']}")
        return toolchain

    def run(self, call: ToolCall) -> None:
        """Run the compiler, or exit if it refuses the sources."""
        # The compiler writes source paths into the module; in this folder they are relative.
        ran = subprocess.run(call.command, cwd=self.sources, env=call.environment, check=False)
        if ran.returncode != 0:
            raise self.stop(FAILED, "the compiler refused; see above.")

    def stop(self, code: int, message: str) -> SystemExit:
        print(f"{self.script}: {message}", file=sys.stderr)
        return SystemExit(code)

    def replace(self, built: Mapping[str, bytes], identity: Mapping[str, str]) -> int:
        """Write the files and their record; return the exit code."""
        for name, data in built.items():
            path = self.files / name
            before = path.read_bytes() if path.exists() else None
            path.write_bytes(data)
            print(f"{_line(name, data)}  {'unchanged' if data == before else 'written'}")
        made = {name: _facts(data) for name, data in built.items()}
        record = {**identity, "sources": self.sources_hash(), "modules": made}
        self.record.write_text(json.dumps(record, indent=2) + "\n")
        return 0

    def check(self, built: Mapping[str, bytes], identity: Mapping[str, str], into: Path) -> int:
        """Write the files to ``into`` and compare them with the committed ones, if the toolchain is
        that of the record; return the exit code."""
        for name, data in built.items():
            path = into / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        record = json.loads(self.record.read_text())
        different = [field for field, value in identity.items() if record.get(field) != value]
        if different:
            print(f"{', '.join(different)}: another than in BUILD.json, so bytes are not compared.")
            print(f"Rebuilt modules are in {into}; {self.trial.format(into=into)}")
            return INCOMPARABLE
        worst = 0
        for name, data in built.items():
            committed = self.files / name
            same = committed.exists() and committed.read_bytes() == data
            recorded = record["modules"].get(name) == _facts(data)
            word = "identical" if same and recorded else "DIFFERS"
            worst = max(worst, 0 if same and recorded else FAILED)
            print(f"{_line(name, data)}  {word}")
        if worst:
            print(
                "The sources make other bytes than are committed: "
                f"run {self.script} and commit them."
            )
        return worst

    def sources_hash(self) -> str:
        """The SHA-256 of everything that the files are built from, with the names of the files."""
        digest = hashlib.sha256()
        for root in (self.sources, *self.libraries):
            for folder, below, files in os.walk(root):
                below[:] = sorted(set(below) - _SKIPPED - self.left_out)
                for name in sorted(set(files) - self.left_out):
                    if name.endswith(_SOURCES):
                        file = Path(folder, name)
                        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
                        digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()


def _facts(data: bytes) -> dict[str, str | int]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}


def _line(name: str, data: bytes) -> str:
    return f"{name:45} {len(data):6} bytes  sha256 {hashlib.sha256(data).hexdigest()[:16]}"
