"""aos new --flow: a project whose workflow is a flow (AU-20a, C-60)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.author.new import IN_CODE, IN_TEXT, new_project
from aos.author.project import ASSEMBLYSCRIPT, RUST
from aos.errors import BadUsage
from aos.worker.load_executors import load
from tests.author.real import NEWCOMERS, check_tools, others_day
from tests.author.test_new import tree
from tests.cli.shell import Aos, run

SIZE_MAX = 130_000
OWN = {
    "aos.toml",
    "README.md",
    "effects.py",
    "src/lib.rs",
    "tests/order.scenario.toml",
    "tests/test_tea_shop.py",
}


def test_a_flow_has_the_files_of_a_project_in_rust_with_its_own_workflow(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "flow").mkdir()
    plain = new_project(tmp_path / "plain/tea-shop", lang=RUST)
    flow = new_project(tmp_path / "flow/tea-shop", lang=RUST, is_flow=True)

    one, other = tree(plain.folder), tree(flow.folder)
    assert flow.files == plain.files
    assert {name for name in one if one[name] != other[name]} == OWN
    for name in OWN:
        for word in (IN_TEXT, IN_CODE):
            assert word.encode() not in other[name], name
    assert b"#[flow(" in other["src/lib.rs"]
    assert b"\n#![deny(unused_must_use)]" in other["src/lib.rs"]


def test_executors_of_a_new_flow_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_project(tmp_path / "tea-shop", lang=RUST, is_flow=True)
    monkeypatch.chdir(tmp_path / "tea-shop")

    executors = load("effects.py:tea_shop")

    names = ("charge", "refund", "ship", "ask")
    assert list(executors.effects) == [f"tea-shop/{name}@1" for name in names]


def test_a_flow_in_a_language_without_flows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadUsage, match="--flow: expected --lang rust or python, found assemblyscript"
    ):
        new_project(tmp_path / "shop", lang=ASSEMBLYSCRIPT, is_flow=True)

    assert list(tmp_path.iterdir()) == []


def test_the_command_makes_a_flow(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-60"""
    monkeypatch.chdir(tmp_path)

    made = aos("new", "shop", "--lang", "rust", "--flow")
    refused = aos("new", "other", "--lang", "assemblyscript", "--flow")

    assert (made.code, refused.code) == (0, 2)
    assert "#[flow(" in (tmp_path / "shop/src/lib.rs").read_text()
    assert not (tmp_path / "other").exists()


@pytest.mark.long
@others_day("flow", NEWCOMERS)
def test_a_newcomer_gets_from_nothing_to_a_flow_that_is_tested_and_runs(tmp_path: Path) -> None:
    check_tools(RUST)
    assert run("new", "tea-shop", "--lang", RUST, "--flow", cwd=tmp_path).code == 0
    folder = tmp_path / "tea-shop"

    built = run("build", cwd=folder, timeout=300)
    tested = run("test", cwd=folder, timeout=120)
    event = 'tea-shop/Placed@1 {"order_id": "o-1", "cents": 1000000}\n'  # ends without a month
    ran = run("dev", "--until-idle", cwd=folder, input=event, timeout=120)

    assert built.code == 0, built.out + built.err
    assert "warning" not in built.err
    assert len((folder / "build/tea-shop.wasm").read_bytes()) < SIZE_MAX
    assert tested.code == 0, tested.out + tested.err
    assert "1 scenario passed" in tested.out
    assert "7 passed" in tested.out
    assert ran.code == 0, ran.out + ran.err
    assert "over_limit" in ran.out
