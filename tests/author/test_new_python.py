"""aos new --lang python: a project whose workflow is a flow in Python (AU-20a, C-60)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aos.author.build import build, unreached
from aos.author.new import IN_CODE, IN_TEXT, new_project
from aos.author.project import PYTHON, RUST, read_project
from aos.author.toolchain import Console
from aos.errors import BadUsage
from aos.worker.load_executors import load
from tests.author.test_new import tree
from tests.cli.shell import ROOT, Aos

EFFECTS = ("charge", "refund", "ship", "ask")


def test_a_project_in_python_has_a_flow_its_effects_and_tests_and_no_sdk(tmp_path: Path) -> None:
    made = new_project(tmp_path / "tea-shop", lang=PYTHON)

    assert set(made.files) == {
        ".gitignore", "README.md", "aos.toml", "conftest.py", "effects.py", "flow.py",
        "tests/order.scenario.toml", "tests/test_tea_shop.py", "tests/test_tea_shop_unit.py",
    }  # fmt: skip
    for name, data in tree(made.folder).items():
        for word in (IN_TEXT, IN_CODE):
            assert word.encode() not in data, name


def test_its_effects_and_tests_in_a_world_are_those_of_the_flow_in_rust(tmp_path: Path) -> None:
    for lang in (PYTHON, RUST):
        (tmp_path / lang).mkdir()
        new_project(tmp_path / lang / "tea-shop", lang=lang, is_flow=True)

    python, rust = (tree(tmp_path / lang / "tea-shop") for lang in (PYTHON, RUST))
    for name in ("effects.py", "tests/test_tea_shop.py", "tests/order.scenario.toml"):
        assert python[name] == rust[name]


def test_a_new_project_builds_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = new_project(tmp_path / "tea-shop", lang=PYTHON)
    monkeypatch.setenv("PATH", "")

    built = build(read_project(made.folder), console=Console(report=lambda _: None))

    effective = built.loaded.effective
    assert unreached(effective) == ()
    assert set(effective.workflows["tea-shop/order@1"].effects_emitted) == {
        *(f"tea-shop/{name}@1" for name in EFFECTS),
        *("sys/timer.set@1", "sys/effect.cancel@1"),
    }
    monkeypatch.chdir(made.folder)
    assert list(load("effects.py:tea_shop").effects) == [f"tea-shop/{name}@1" for name in EFFECTS]


def test_its_unit_tests_run_without_a_world_or_a_build(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "tea-shop", lang=PYTHON).folder
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         str(folder / "tests/test_tea_shop_unit.py")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout
    assert not (folder / "build").exists()


def test_a_type_checker_accepts_the_flow_and_its_unit_tests(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "tea-shop", lang=PYTHON).folder

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache/new"),
         "flow.py", "tests/test_tea_shop_unit.py"],
        cwd=folder, env={**os.environ, "MYPYPATH": str(ROOT / "kernel")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert checked.stdout == "Success: no issues found in 2 source files\n"


@pytest.mark.parametrize(
    ("lang", "is_flow", "message"),
    [
        (PYTHON, False, "--reducer: expected --lang rust or assemblyscript, found python"),
        ("assemblyscript", True, "--flow: expected --lang rust or python, found assemblyscript"),
    ],
)
def test_a_language_without_such_a_workflow_is_refused(
    tmp_path: Path, lang: str, message: str, *, is_flow: bool
) -> None:
    with pytest.raises(BadUsage, match=message):
        new_project(tmp_path / "shop", lang=lang, is_flow=is_flow)

    assert list(tmp_path.iterdir()) == []


def test_the_command_makes_a_flow_and_refuses_a_reducer(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-60"""
    monkeypatch.chdir(tmp_path)

    made = aos("new", "shop", "--lang", "python")
    named = aos("new", "flows", "--lang", "python", "--flow")
    refused = aos("new", "other", "--lang", "python", "--reducer")
    both = aos("new", "other", "--lang", "rust", "--reducer", "--flow")
    plain = aos("new", "plain", "--lang", "rust", "--reducer")

    assert [ran.code for ran in (made, named, refused, both, plain)] == [0, 0, 2, 2, 0]
    assert "the workflow is in flow.py" in made.out
    assert "python has no reducers; --flow creates a project with a flow" in refused.err
    assert "--flow and --reducer: expected one of them" in both.err
    assert "#[workflow(" in (tmp_path / "plain/src/lib.rs").read_text()
    assert not (tmp_path / "other").exists()
