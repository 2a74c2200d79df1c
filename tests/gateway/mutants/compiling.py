"""Compile a mutant: the workspace of the modules in a folder of its own, with the patch applied."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from aos.author.sections import AIR_SECTION, take_sections
from aos.author.toolchain import TARGET, Toolchain, cargo_build
from tests.gateway.mutants.sources import ROOT, Mutant

MODULES: Final = ROOT / "modules"
WORK: Final = MODULES / "target" / "mutants"
"""A folder that stays, so that the SDK is compiled once for all mutants."""
SOURCES: Final = (".rs", ".toml", ".lock", ".json", ".md")


def is_comparable(toolchain: Toolchain) -> bool:
    """Whether this toolchain makes the same bytes as the one of the committed modules."""
    record = json.loads((MODULES / "BUILD.json").read_text("utf-8"))
    return all(record.get(field) == value for field, value in toolchain.identity().items())


def built(toolchain: Toolchain, mutant: Mutant) -> bytes:
    """The bytes of the mutant.

    Raises:
        StalePatch: The patch does not fit the sources.
        CalledProcessError: The compiler refused it.
    """
    workspace = WORK / "modules"
    _copy(workspace)
    file = workspace / "gateway" / "src" / mutant.file
    file.write_text(mutant.applied(file.read_text("utf-8")), "utf-8")
    arguments = ["--locked", "--offline", "--quiet", "--package", "gateway"]
    target = WORK / "wasm"
    call = cargo_build(toolchain, remap={workspace: "/modules"}, target=target, arguments=arguments)
    subprocess.run(call.command, cwd=workspace, env=dict(call.environment), check=True)
    made = target / TARGET / "release" / "gateway.wasm"
    return take_sections(made.read_bytes(), AIR_SECTION).wasm


def _copy(workspace: Path) -> None:
    """Bring the copy up to date; a file that has not changed keeps its time, so that cargo does not
    compile it again."""
    wanted: set[Path] = set()
    for folder, below, names in os.walk(MODULES):
        below[:] = sorted(set(below) - {"target", "node_modules"})
        for file in (Path(folder, name) for name in names if name.endswith(SOURCES)):
            copy = workspace / file.relative_to(MODULES)
            wanted.add(copy)
            if not copy.exists() or copy.read_bytes() != file.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
    for copy in [each for each in workspace.rglob("*.rs") if each not in wanted]:
        copy.unlink()
