"""modules/build-assemblyscript: the committed modules are what the sources make, from any path."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modules.guests import ROOT
from tests.sdk.assemblyscript.asc import require_compiler
from tests.tools import long_form

pytestmark = pytest.mark.rotated(3)

SCRIPT = ROOT / "modules/build-assemblyscript"
RECORD = ROOT / "modules/BUILD-assemblyscript.json"
LEFT_OUT = shutil.ignore_patterns("target", "*.rs", "__pycache__", "node_modules")


def modules() -> dict[str, str]:
    """Name -> folder below modules/, as the script has them."""
    found: dict[str, str] = runpy.run_path(str(SCRIPT))["MODULES"]
    return found


def copied(tmp_path: Path) -> Path:
    """Copy the sources to another folder, with the compiler that is installed here."""
    require_compiler()
    folder = tmp_path / "elsewhere"
    for name in ("sdk-assemblyscript", *modules().values()):
        shutil.copytree(ROOT / "modules" / name, folder / name, ignore=LEFT_OUT)
    for name in ("build-assemblyscript", "BUILD-assemblyscript.json", "package-lock.json"):
        shutil.copy(ROOT / "modules" / name, folder / name)
    installed = folder / "node_modules"
    installed.mkdir()
    for each in (ROOT / "modules/node_modules").iterdir():
        target = folder / "sdk-assemblyscript" if each.name == "aos-sdk" else each
        (installed / each.name).symlink_to(target)
    return folder


def check(folder: Path, *names: str, **environment: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, folder / "build-assemblyscript", "--check", *names],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_committed_modules_are_those_that_their_record_names() -> None:
    record = json.loads(RECORD.read_text())

    assert set(record["modules"]) == set(modules())
    for name, folder in modules().items():
        wasm = (ROOT / "modules" / folder / f"{name}.wasm").read_bytes()
        assert record["modules"][name] == {
            "sha256": hashlib.sha256(wasm).hexdigest(),
            "size_bytes": len(wasm),
        }
        assert str(ROOT).encode() not in wasm


@pytest.mark.long
def test_the_sources_make_the_committed_bytes_from_any_path_and_others_do_not(
    tmp_path: Path,
) -> None:
    folder = copied(tmp_path)
    names = list(modules()) if long_form() else ["as-counter"]

    code, said = check(folder, *names)
    assert code == 0, said
    assert said.count("identical") == len(names)

    source = folder / "sdk-assemblyscript/assembly/workflow.ts"
    source.write_text(source.read_text("utf-8").replace('"message"', '"massage"'), "utf-8")
    code, said = check(folder, "as-counter")
    assert code == 1
    assert "DIFFERS" in said


def test_without_node_it_says_what_to_install(tmp_path: Path) -> None:
    require_compiler()
    (tmp_path / "build-assemblyscript").write_bytes(SCRIPT.read_bytes())
    shutil.copy(ROOT / "modules/package-lock.json", tmp_path)

    code, said = check(tmp_path, PATH="/nowhere")

    assert code == 3
    assert "npm was not found on the PATH" in said
    assert "apt-get install nodejs npm" in said
