"""modules/pyflow: the interpreter of flows in Python, its crates and its record (PY-1 to PY-4)."""

from __future__ import annotations

import hashlib
import json
import re

from aos.sandbox.inspect import check_module
from tests.modules.guests import ROOT
from tests.scripts import script_at

PYFLOW = ROOT / "modules/pyflow"
WASM = PYFLOW / "pyflow.wasm"
SIZE_BYTES_MAX = int(7.5 * 2**20)
PATH = re.compile(rb"/(?:root|home|work|tmp|usr/src|usr/lib)/[\w./-]+")


def test_the_committed_interpreter_is_the_one_that_its_record_names() -> None:
    """PY-3"""
    record = json.loads((PYFLOW / "BUILD.json").read_text())
    data = WASM.read_bytes()

    facts = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    assert record["modules"] == {"pyflow.wasm": facts}
    assert record["rustc"].startswith("rustc ")


def test_the_committed_interpreter_was_built_from_these_sources() -> None:
    """PY-3. Needs no compiler."""
    recorded = json.loads((PYFLOW / "BUILD.json").read_text())["sources"]

    assert script_at(PYFLOW / "build").BUILD.sources_hash() == recorded, "run make pyflow"


def test_it_is_a_module_of_the_sandbox_without_imports() -> None:
    """PY-1, PY-4: a module with an import would be refused."""
    data = WASM.read_bytes()

    assert len(data) <= SIZE_BYTES_MAX
    assert check_module(data, ["step"], memory_bytes=64 * 2**20) == []


def test_no_path_of_the_machine_that_built_it_is_in_the_interpreter() -> None:
    assert PATH.findall(WASM.read_bytes()) == []


def test_each_crate_has_a_hash_and_none_an_address() -> None:
    """PY-2"""
    listed = (PYFLOW / "crates.lock").read_text()
    packages = listed.split("[[package]]")[1:]

    ours = [package for package in packages if "checksum = " not in package]
    assert [re.findall('name = "(.*)"', package) for package in ours] == [
        ["aos-sdk"],
        ["aos-sdk-macros"],
        ["pyflow"],
    ]
    assert "://" not in listed
    assert 'name = "monty"\nversion = "1.4.0"' in listed


def test_a_patch_names_only_the_crates_of_the_interpreter() -> None:
    """PY-2"""
    patches = sorted((PYFLOW / "patches").glob("*.patch"))

    assert [int(patch.name[:4]) for patch in patches] == list(range(1, len(patches) + 1))
    for patch in patches:
        paths = re.findall(r"^\+\+\+ b/(.*)$", patch.read_text(), re.MULTILINE)
        assert paths
        assert all(path.startswith(("monty/", "monty-types/")) for path in paths)
