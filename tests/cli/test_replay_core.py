"""``aos replay --core``: a world is decided again by either kernel (spec/core.md, CR-32)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aos.errors import Damage
from aos.fastcore.core_kind import CoreKind
from aos.fastcore.fast_kernel import FastKernel
from aos.host.folder.folder import open_folder
from aos.prove.replay.replay_report import ReplayReport
from aos.prove.replay.replay_store import replay_store
from aos_cli.commands import replay as replay_command
from tests.cli.shell import Aos


@pytest.fixture
def fast_kernels(monkeypatch: pytest.MonkeyPatch) -> list[FastKernel]:
    """The second kernels that the test opens."""
    kernels: list[FastKernel] = []
    begin = FastKernel.__init__

    def begun(self: FastKernel, *arguments: object, **named: object) -> None:
        kernels.append(self)
        begin(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FastKernel, "__init__", begun)
    return kernels


def test_every_core_gives_the_same_report_and_is_named_in_the_first_line(
    aos: Aos, settled: Path, fast_kernels: list[FastKernel]
) -> None:
    """C-40, CR-32"""
    reports = {}
    for core in ("python", "fast", "both"):
        text = aos("replay", "--core", core, world=settled)
        document = aos("replay", "--core", core, "--json", world=settled).json
        assert text.code == 0
        names = "cores python and fast" if core == "both" else f"core {core}"
        assert text.out.splitlines()[0].endswith(f"to record {document['seq']} ({names})")
        assert document.pop("core") == core
        assert document.pop("seconds") > 0
        reports[core] = document

    assert reports["python"] == reports["fast"] == reports["both"]
    assert len(fast_kernels) == 4


def test_a_replay_from_a_snapshot_and_of_a_bundle_takes_either_core(
    aos: Aos, settled: Path, tmp_path: Path
) -> None:
    world, file = tmp_path / "world", tmp_path / "world.aos"
    shutil.copytree(settled, world)
    assert aos("adopt", world=world).code == 0
    assert aos("snapshot", world=world).code == 0
    assert aos("export", file, world=world).code == 0

    assert aos("replay", "--core", "both", "--from", "snapshot", world=world).code == 0
    assert aos("replay", file, "--core", "both").code == 0


def test_outcomes_that_differ_are_damage(
    aos: Aos, settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-32"""
    with open_folder(settled).open_store(readonly=True) as store:
        report = replay_store(store).to_document()
    del report["identical"]

    def replayed(*_: object, core: CoreKind, **__: object) -> ReplayReport:
        values = {**report, "steps": 1 if core is CoreKind.FAST else 2, "erasures": ()}
        for name in ("world", "frame", "log_root", "state_root"):
            values[name] = bytes(32)
        return ReplayReport(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(replay_command, "replay_store", replayed)

    ran = aos("replay", "--core", "both", world=settled)

    assert ran.code == Damage.exit_code
    assert "the two cores disagree about this journal" in ran.err


def test_a_candidate_goes_without_a_core(aos: Aos, settled: Path) -> None:
    ran = aos("replay", "--against", "x.wasm", "--core", "fast", world=settled)

    assert (ran.code, "--core goes without --against" in ran.err) == (2, True)
