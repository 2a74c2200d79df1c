"""The panic message of a module, as its operator reads it (S-47)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, Aos
from tests.host.puppet import WASM

SAID = "step: panicked: puppet/src/lib.rs:"
INDEX = "index out of bounds: the len is 3 but the index is 5"
PLACE = r"step: panicked: puppet/src/lib\.rs:\d+:\d+: "


@pytest.fixture
def panicked(aos: Aos, tmp_path: Path) -> Path:
    """A world with three cells: one panicked, one trapped without words, one counted."""
    folder, world = tmp_path / "manifest", tmp_path / "world"
    folder.mkdir()
    air = (ROOT / "tests/modules/puppet.air.json").read_bytes()
    (folder / "puppet.air.json").write_bytes(air)
    (folder / "puppet.wasm").write_bytes(WASM.read_bytes())
    assert aos("init", world).code == 0
    assert aos("apply", folder, world=world).code == 0
    for key, do in (
        ("a", '{"$tag": "panic", "$value": "index"}'),
        ("b", '{"$tag": "trap"}'),
        ("c", '{"$tag": "count"}'),
    ):
        sent = aos("send", "puppet/Do@1", f'{{"key": "{key}", "do": {do}}}', world=world)
        assert sent.code == 0, sent.err
    return world


def test_run_and_inspect_show_the_words(aos: Aos, panicked: Path) -> None:
    ran = aos("run", "--until-idle", world=panicked)
    faults = aos("inspect", "faults", "--json", world=panicked).json["faults"]
    cell = aos("inspect", "cell", "puppet/counter@1", '"a"', world=panicked)
    trace = aos("trace", "puppet/counter@1", '"a"', world=panicked)

    assert ran.code == 0
    assert re.search(PLACE + re.escape(INDEX), ran.out + ran.err)
    by_key = {each["key"]: each["message"] for each in faults}
    assert re.fullmatch(PLACE + re.escape(INDEX), by_key["a"])
    assert by_key["b"] == "step: an unreachable instruction is reached"
    assert set(by_key) == {"a", "b"}
    for shown in (cell, trace):
        assert shown.code == 0, shown.err
        assert SAID in shown.out
        assert INDEX in shown.out


def test_both_engines_replay_the_words(aos: Aos, panicked: Path) -> None:
    aos("run", "--until-idle", world=panicked)

    native = aos("replay", "--json", world=panicked)
    pulley = aos("replay", "--engine", "pulley", "--json", world=panicked)

    assert (native.code, pulley.code) == (0, 0)
    assert native.json["identical"] is True
    assert native.json | {"seconds": 0} == pulley.json | {"seconds": 0}
