"""Each README of the cookbook is true: what it says to type works, and shows what it says."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest

from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import COOKBOOK, PATTERNS, ROOT, recipe

__all__ = ["bin_"]

SHOWN: Final = {
    "saga": (
        r"trip/booking@1\tt-1\tcompleted",
        r"sold_out",
        r"asks trip/cancel@1",
        r"emits trip/Undone@1",
        r'"undo": \[\{"\$tag": "Flight"\}, \{"\$tag": "Hotel"\}\]',
    ),
    "choreography": (
        r"market/delivery@1\to-1\tcompleted",
        r"market/delivery@1\to-2\trunning",
        r"emits market/ParcelRefused@1",
        r"emits market/PaymentReturned@1",
    ),
    "backoff": (
        r'"attempt":3',
        r"report/fetching@1\tr-2\tcompleted",
        r'emits report/GivenUp@1 .*"too late"',
    ),
    "idempotency": (r"unknown_outcome", r"asks bank/look@1", r"emits bank/Paid@1"),
    "fence": (
        r"3  sent before",
        r'"repeats": 2',
        r'emits seat/Answered@1 .*"r-2".*"Taken"',
    ),
    "fan_in": (
        r"emits quote/Closed@1 .*ede",
        r"canceled",
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_the_commands_of_a_readme_print_the_output_that_it_shows(name: str, bin_: Path) -> None:
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)

    found = "".join(follow(block, bin_=bin_) for block in blocks(recipe(name) / "README.md"))

    for each in SHOWN[name]:
        assert re.search(each, found), f"{each}\n{found}"
    if name == "idempotency":
        lines = Path("books.jsonl").read_text().splitlines()
        assert len(lines) == 2, lines


def test_each_pattern_has_a_scenario_that_passes(bin_: Path) -> None:
    (block,) = blocks(COOKBOOK / "README.md")
    Path("manifests").symlink_to(ROOT / "manifests")
    Path("modules").symlink_to(ROOT / "modules")

    found = follow(block, bin_=bin_)

    assert "6 scenarios passed" in found
    for name in PATTERNS:
        assert f"cookbook/{name}/" in found


def test_every_pattern_is_in_the_index_and_every_link_leads_somewhere() -> None:
    index = (COOKBOOK / "README.md").read_text()
    for name in PATTERNS:
        assert f"]({name}/README.md)" in index
    pages = [COOKBOOK / "README.md", COOKBOOK.parent / "README.md"]
    pages += [recipe(name) / "README.md" for name in PATTERNS]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"


def test_every_folder_of_the_cookbook_is_a_pattern_with_a_module_and_tests() -> None:
    folders = {each.name for each in os.scandir(COOKBOOK) if each.is_dir() and each.name[0] != "_"}

    assert folders == set(PATTERNS)
    for name in PATTERNS:
        crate = name.replace("_", "-")
        assert (ROOT / "modules" / "cookbook" / crate / f"{crate}.wasm").is_file()
        assert (Path(__file__).parent / f"test_{name}.py").is_file()
        assert (recipe(name) / "effects.py").is_file()
