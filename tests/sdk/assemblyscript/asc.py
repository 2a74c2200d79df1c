"""Compile AssemblyScript in a folder of the test's own, with the compiler of modules/."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from aos.author.assemblyscript import ASC_OPTIONS, generate
from aos.core.journal.ports import Call, Ran
from aos.sandbox.engine import Sandbox
from aos.values.digests import content_hash
from tests.modules.guests import ROOT
from tests.tools import missing

MODULES: Final = ROOT / "modules"
COMPILER: Final = MODULES / "node_modules/assemblyscript/bin/asc.js"

FAST: Final = ("--optimizeLevel", "0", "--shrinkLevel", "0")
"""For what is only run: half the time of a real build."""


def guest_source(name: str) -> str:
    """A file of ``guests/``."""
    return (Path(__file__).parent / "guests" / name).read_text("utf-8")


@cache
def require_compiler() -> str:
    """The path of node, with the compiler installed; or skip."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        missing("AssemblyScript needs node and npm")
    ran = subprocess.run(
        [sys.executable, MODULES / "build-assemblyscript", "--install"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        missing(f"the AssemblyScript compiler cannot be installed: {ran.stderr}")
    return node


def compile_wasm(
    folder: Path,
    nodes: Sequence[Mapping[str, Any]],
    source: str,
    *,
    options: Sequence[str] = ASC_OPTIONS,
    exits: int = 0,
) -> tuple[bytes, str]:
    """Write and compile a project; the module and what the compiler said."""
    node = require_compiler()
    assembly = folder / "assembly"
    assembly.mkdir(parents=True, exist_ok=True)
    (assembly / "generated.ts").write_text(generate(nodes), "utf-8")
    (assembly / "index.ts").write_text(source, "utf-8")
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES / "node_modules")
    ran = subprocess.run(
        [node, str(COMPILER), "assembly/index.ts", "--outFile", "module.wasm", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == exits, ran.stdout + ran.stderr
    made = folder / "module.wasm"
    return made.read_bytes() if made.exists() else b"", ran.stderr


def fast() -> tuple[str, ...]:
    """ASC_OPTIONS without optimising."""
    kept = ASC_OPTIONS[: ASC_OPTIONS.index("--optimizeLevel")]
    return kept + FAST + ASC_OPTIONS[ASC_OPTIONS.index("--use") :]


class Guest:
    """One module, called as the kernel would."""

    def __init__(self, wasm: bytes) -> None:
        self.hash = content_hash(wasm)
        self.sandbox = Sandbox({self.hash: wasm}.__getitem__)

    def run(self, entrypoint: str, data: bytes) -> Ran:
        return self.sandbox.run(
            Call(
                module=self.hash,
                entrypoint=entrypoint,
                input=data,
                fuel=10**9,
                memory_bytes=64 << 20,
                output_bytes=1 << 20,
            )
        )

    def close(self) -> None:
        self.sandbox.close()
