"""modules/pyflow: the crates and patches of the interpreter of flows in Python (PY-2)."""

from __future__ import annotations

import re

from tests.modules.guests import ROOT

PYFLOW = ROOT / "modules/pyflow"


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
