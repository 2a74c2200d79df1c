"""A running world keeps its compiled modules for the next start (spec/sandbox.md, S-50 to S-57)."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime

from aos.host.folder.folder import open_folder
from aos.prove.replay.replay_store import replay_store
from aos.prove.verify.verify_world import verify_world
from aos.values.cbor import encode
from tests.host.puppet import do
from tests.host.test_process import Echo, run, send, states


class Compiler:
    """Counts the modules compiled in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        really = wasmtime.Module

        class Counted(really):  # type: ignore[misc, valid-type]  # the class as it is installed
            def __init__(inner, given: wasmtime.Engine, wasm: bytes) -> None:  # noqa: N805  # ours is self
                self.runs += 1
                super().__init__(given, wasm)

        monkeypatch.setattr(wasmtime, "Module", Counted)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    monkeypatch.setenv("AOS_CACHE_DIR", str(tmp_path / "modules"))
    return Compiler(monkeypatch)


def step(world: Path, key: str, notes: list[str]) -> None:
    """One start of the world, with a step of its module."""
    send(world, do(key))
    run(world, Echo(), until_idle=True, report=notes.append)


def test_a_second_start_compiles_nothing(world: Path, tmp_path: Path, compiler: Compiler) -> None:
    notes: list[str] = []

    step(world, "a", notes)
    step(world, "b", notes)

    assert compiler.runs == 1
    assert len(list((tmp_path / "modules").glob("*.code"))) == 1
    assert notes == []
    assert not list(world.rglob("*.code"))


def test_spoilt_code_changes_no_result_and_is_told(
    world: Path, tmp_path: Path, compiler: Compiler
) -> None:
    notes: list[str] = []
    step(world, "a", notes)
    (file,) = (tmp_path / "modules").glob("*.code")
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)

    step(world, "b", notes)

    assert compiler.runs == 2
    assert len(notes) == 1
    assert "is damaged: the module is compiled again" in notes[0]
    assert set(states(world).values()) == {encode(1)}
    with open_folder(world).open_store(readonly=True) as store:
        assert replay_store(store).identical
    assert verify_world(world).is_sound


def test_a_folder_inside_the_world_is_not_used(
    world: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-56"""
    monkeypatch.setenv("AOS_CACHE_DIR", str(world / "modules"))
    notes: list[str] = []

    step(world, "a", notes)
    step(world, "b", notes)

    assert compiler.runs == 2
    assert not (world / "modules").exists()
    assert "the folder lies inside the world's own" in notes[0]


def test_an_empty_name_turns_it_off(
    world: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-50"""
    monkeypatch.setenv("AOS_CACHE_DIR", "")
    notes: list[str] = []

    step(world, "a", notes)
    step(world, "b", notes)

    assert (compiler.runs, notes) == (2, [])
