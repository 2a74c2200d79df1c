"""From aos new to a running workflow with the real compilers, as a newcomer does it (AU-20, AU-6).

One test for each language, because all its parts need its first build. The short form takes one
language a day: the tutorials build with both.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from aos.authoring.errors import ToolMissing
from aos.authoring.project import ASSEMBLYSCRIPT, LANGUAGES, RUST
from aos.authoring.toolchain import find_toolchain
from tests.authoring.test_new import tree
from tests.cli.shell import run
from tests.run_seed import rotated
from tests.tools import missing

SIZE_MAX = 40_000


def check_tools(lang: str) -> None:
    if lang == ASSEMBLYSCRIPT and (shutil.which("node") is None or shutil.which("npm") is None):
        missing("there is no node or no npm on the PATH")
    try:
        find_toolchain() if lang == RUST else None
    except ToolMissing as problem:
        missing(str(problem))


@pytest.mark.long
@pytest.mark.parametrize("lang", rotated(LANGUAGES))
def test_a_newcomer_gets_from_nothing_to_a_running_workflow(lang: str, tmp_path: Path) -> None:
    check_tools(lang)
    assert run("new", "tea-shop", "--lang", lang, cwd=tmp_path).code == 0
    folder = tmp_path / "tea-shop"

    built = run("build", cwd=folder, timeout=300)
    if "npm ci failed" in built.err:
        missing(f"npm cannot install AssemblyScript here: {built.err}")

    assert built.code == 0, built.err
    assert built.out.startswith("build/tea-shop.wasm  ")
    wasm = (folder / "build/tea-shop.wasm").read_bytes()
    assert len(wasm) < SIZE_MAX
    for leak in (b"/root", b"/home", b"/usr", b"/work", b"/tmp", b"aos.air"):
        assert leak not in wasm
    its_tests_pass(folder)
    it_runs(folder)
    if lang == RUST:  # the languages differ in the build only, and the other compiler is slow
        aos_dev_runs_it(folder)
        checked = run("build", "--check", cwd=folder, timeout=120)
        assert checked.code == 0, checked.out + checked.err
    the_same_bytes_are_made_in_another_place(folder, tmp_path / "quite another place")
    what_the_compiler_has_to_say_is_shown(folder, lang)


def its_tests_pass(folder: Path) -> None:
    found = run("test", cwd=folder, timeout=120)

    assert found.code == 0, found.out + found.err
    assert "1 scenario passed" in found.out
    assert "6 passed" in found.out


def it_runs(folder: Path) -> None:
    """In a world that is to stay, with the commands of its README."""
    events = [("o-1", 1250), ("big-1", 1_000_000)]
    lines = "".join(
        json.dumps({"schema": "tea-shop/Placed@1", "value": {"order_id": order, "cents": cents}})
        + "\n"
        for order, cents in events
    )
    aos = partial(run, cwd=folder, env={"AOS_WORLD": "world"})

    done = [
        aos("init", "world"),
        aos("apply", "."),
        aos("send", "-", input=lines),
        aos("run", "--until-idle", "--executors", "effects.py:tea_shop"),
    ]
    paid, declined = (aos("trace", "order", order) for order, _ in events)

    assert [each.code for each in done] == [0] * 4, done
    assert 'emits tea-shop/Paid@1 {"charge":"ch-' in paid.out
    assert 'emits tea-shop/Declined@1 {"reason":"over_limit","order_id":"big-1"}' in declined.out


def aos_dev_runs_it(folder: Path) -> None:
    event = 'tea-shop/Placed@1 {"order_id": "slow-1", "cents": 1250}\n'

    found = run("dev", "--until-idle", cwd=folder, input=event, timeout=120)

    assert found.code == 0, found.out + found.err
    assert '{"lines":["attempt 2 of 4: bank_closed"]}' in found.out
    assert 'emits tea-shop/Paid@1 {"charge":"ch-' in found.out


def the_same_bytes_are_made_in_another_place(folder: Path, place: Path) -> None:
    """AU-6"""
    left = shutil.ignore_patterns("target", "node_modules", "build", "air", "world", ".aos")
    shutil.copytree(folder, place / "tea-shop", ignore=left)
    shutil.copytree(folder / "air", place / "tea-shop/air")
    installed = folder / "node_modules"
    if installed.exists():
        (place / "tea-shop" / "node_modules").symlink_to(installed)  # 100 MB, which are not copied

    built = run("build", cwd=place / "tea-shop", timeout=120)

    assert built.code == 0, built.out + built.err
    assert tree(place / "tea-shop/build") == tree(folder / "build")
    assert tree(place / "tea-shop/air") == tree(folder / "air")


def what_the_compiler_has_to_say_is_shown(folder: Path, lang: str) -> None:
    """AU-4"""
    name, right, wrong, words = {
        RUST: ("src/lib.rs", "Phase::Paid;", "Phase::Payed;", "named `Payed` found"),
        ASSEMBLYSCRIPT: ("assembly/index.ts", "Phase.Paid()", "Phase.Payed()", "'Payed' does not"),
    }[lang]
    before = (folder / name).read_text()
    (folder / name).write_text(before.replace(right, wrong))

    refused = run("build", cwd=folder, timeout=120)

    assert refused.code == 1
    assert words in refused.err
    assert name in refused.err
