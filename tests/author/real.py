"""Checks of a project that the real compilers have built (AU-4, AU-6).

The tutorials build one in each language, so their test checks these as well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from aos.author.errors import ToolMissing
from aos.author.project import ASSEMBLYSCRIPT, LANGUAGES, RUST
from aos.author.sdk import SDK_FOLDERS
from aos.author.toolchain import find_toolchain
from tests.author.test_new import tree
from tests.cli.shell import run
from tests.run_seed import rotated
from tests.tools import long_form, missing

SIZE_BYTES_MAX: Final = 40_000
TUTORIALS: Final = (RUST, ASSEMBLYSCRIPT, "flow", "python flow")
NEWCOMERS: Final = ("workflow", "flow", "python", "stranger")
"""Each gets from nothing to a running world."""
LIFETIMES: Final = (
    *(("migration", lang) for lang in SDK_FOLDERS),
    *(("wheel", lang) for lang in LANGUAGES),
)
"""Other items that take the real compilers long. The short form of the tests takes
another item of each of these lists each day."""
BUILD_S: Final = 120.0


def others_day(item: object, choices: Sequence[object]) -> pytest.MarkDecorator:
    """Skip a test in the short form, except on the day of this item."""
    return pytest.mark.skipif(item not in rotated(choices), reason="the day of another item")


def check_tools(lang: str) -> None:
    """Skip the test if a tool that builds ``lang`` is missing."""
    if lang == ASSEMBLYSCRIPT and (shutil.which("node") is None or shutil.which("npm") is None):
        missing("there is no Node.js with npm, so AssemblyScript cannot be built")
    try:
        find_toolchain() if lang == RUST else None
    except ToolMissing as problem:
        missing(str(problem))


def is_small_and_names_no_path(wasm: Path) -> None:
    data = wasm.read_bytes()

    assert len(data) < SIZE_BYTES_MAX
    for leak in (b"/root", b"/home", b"/usr", b"/work", b"/tmp", b"aos.air"):
        assert leak not in data


def is_up_to_date(folder: Path) -> None:
    checked = run("build", "--check", cwd=folder, timeout=BUILD_S)

    assert checked.code == 0, checked.out + checked.err


def makes_the_same_bytes_in_another_place(folder: Path, place: Path) -> None:
    """AU-6, AU-36: with the shared SDK; the long form compiles it again."""
    left = shutil.ignore_patterns("target", "node_modules", "build", "air", "world", ".aos")
    shutil.copytree(folder, place, ignore=left)
    shutil.copytree(folder / "air", place / "air")
    installed = folder / "node_modules"
    if installed.exists():
        (place / "node_modules").symlink_to(installed)  # 100 MB, which are not copied

    if long_form():
        cache = place.with_name("another cache")
        cache.mkdir()
        (cache / "rust-std").symlink_to(Path(os.environ["AOS_CACHE_DIR"], "rust-std"))
        built = run("build", cwd=place, timeout=BUILD_S, env={"AOS_CACHE_DIR": str(cache)})
    else:
        built = run("build", cwd=place, timeout=BUILD_S)

    assert built.code == 0, built.out + built.err
    assert tree(place / "build") == tree(folder / "build")
    assert tree(place / "air") == tree(folder / "air")


def shows_what_the_compiler_says(folder: Path, lang: str) -> None:
    """AU-4"""
    name, right, wrong, words = {
        RUST: ("src/lib.rs", "Phase::Paid;", "Phase::Payed;", "named `Payed` found"),
        ASSEMBLYSCRIPT: ("assembly/index.ts", "Phase.Paid()", "Phase.Payed()", "'Payed' does not"),
    }[lang]
    before = (folder / name).read_text()
    assert right in before
    (folder / name).write_text(before.replace(right, wrong))

    refused = run("build", cwd=folder, timeout=BUILD_S)

    assert refused.code == 1
    assert words in refused.err
    assert name in refused.err
