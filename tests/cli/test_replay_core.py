"""``aos replay --core``: a world is decided again by either kernel (spec/core.md, CR-32)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aos.core.journal.inputs import StartInput
from aos.core.journal.records import Start
from aos.errors import Damage
from aos.fastcore.core_kind import CORE_VARIABLE, HOST_ENTRY, CoreKind
from aos.fastcore.fast_kernel import FastKernel
from aos.host.folder.folder import open_folder
from aos.prove.replay import second_opinion
from aos.prove.replay.replay_report import ReplayReport
from aos.prove.replay.replay_store import replay_store
from aos.prove.replay.second_opinion import core_of_store
from aos_cli.commands import replay as replay_command
from tests.cli.shell import Aos
from tests.host import puppet
from tests.run_core import other_core, run_core


@contextmanager
def start_records_naming(core: str | None) -> Iterator[None]:
    """Start records that are written here name this core; None: none, as those of earlier
    releases."""

    begin = StartInput.__init__

    def begun(self: StartInput, *, host: tuple[tuple[str, str], ...]) -> None:
        entries = [entry for entry in host if entry[0] != HOST_ENTRY]
        named = [] if core is None else [(HOST_ENTRY, core)]
        begin(self, host=tuple(sorted(entries + named)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StartInput, "__init__", begun)
        yield


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
    writer = run_core().value
    reports = {}
    for core in ("python", "fast", "both"):
        text = aos("replay", "--core", core, world=settled)
        document = aos("replay", "--core", core, "--json", world=settled).json
        assert text.code == 0
        names = "cores python and fast" if core == "both" else f"core {core}"
        assert text.out.splitlines()[0].endswith(
            f"to record {document['seq']} ({names}, written by {writer})"
        )
        assert (document.pop("core"), document.pop("written_by")) == (core, writer)
        assert document.pop("seconds") > 0
        reports[core] = document

    assert reports["python"] == reports["fast"] == reports["both"]
    assert len(fast_kernels) == 4


def test_the_core_that_did_not_write_the_journal_decides_again(
    aos: Aos,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fast_kernels: list[FastKernel],
) -> None:
    """C-40, CR-32"""
    monkeypatch.delenv(CORE_VARIABLE)

    def cores() -> tuple[str, str]:
        file = tmp_path / "world.aos"
        assert aos("export", file, "--force", world=world).code == 0
        fast_kernels.clear()
        text = aos("replay", world=world).out.splitlines()[0]
        document = aos("replay", file, "--json").json
        assert text.endswith(f"(core {document['core']}, written by {document['written_by']})")
        assert len(fast_kernels) == (2 if document["core"] == "fast" else 0)
        return document["core"], document["written_by"]

    def ran_with(core: str | None) -> None:
        assert aos("adopt", world=world).code == 0
        assert aos("send", puppet.DO, '{"key": "ada"}', world=world).code == 0
        with start_records_naming(core):
            assert aos("run", "--until-idle", world=world).code == 0

    assert cores() == ("fast", "python")  # no process has run it
    ran_with(None)
    assert cores() == ("fast", "python")
    ran_with("fast")
    assert cores() == ("python", "fast")
    assert aos("send", puppet.DO, '{"key": "bob"}', world=world).code == 0
    assert cores() == ("python", "fast")  # records after the start
    ran_with("python")
    assert cores() == ("fast", "python")
    ran_with("third")
    assert cores() == ("fast", "third")


def test_the_environment_names_the_core_of_a_replay_and_the_option_goes_first(
    aos: Aos, settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-8b, CR-32"""

    def core(*words: str) -> str:
        document: dict[str, str] = aos("replay", "--json", *words, world=settled).json
        return document["core"]

    writer = run_core()
    monkeypatch.setenv(CORE_VARIABLE, "python")
    assert core() == "python"
    assert core("--core", "fast") == "fast"
    monkeypatch.setenv(CORE_VARIABLE, "fast")
    assert core() == "fast"
    assert core("--core", "python") == "python"
    monkeypatch.setenv(CORE_VARIABLE, "")
    assert core() == other_core(writer).value
    monkeypatch.setenv(CORE_VARIABLE, "rust")
    refused = aos("replay", world=settled)
    assert (refused.code, refused.err) == (
        2, "aos: AOS_CORE: expected python or fast, found 'rust'\n",
    )  # fmt: skip


def test_a_replay_without_the_second_core_is_damage_and_not_one_by_the_first(
    aos: Aos, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-32"""
    assert aos("send", puppet.DO, '{"key": "ada"}', world=world).code == 0
    assert aos("run", "--until-idle", "--core", "python", world=world).code == 0
    monkeypatch.delenv(CORE_VARIABLE)
    monkeypatch.setenv("AOS_CORE_DIR", str(tmp_path))

    refused = aos("replay", world=world)

    assert (refused.code, refused.out) == (Damage.exit_code, "")
    assert "the second kernel cannot be read" in refused.err
    assert "--core python" in refused.err
    assert aos("replay", "--core", "python", world=world).code == 0


def test_a_journal_with_an_unreadable_end_is_replayed_by_the_second_core(
    aos: Aos, settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that names the core is then behind the damage."""

    def unreadable(*_: object, **__: object) -> Start:
        raise Damage("unreadable")

    monkeypatch.setattr(second_opinion, "last_start", unreadable)

    with open_folder(settled).open_store(readonly=True) as store:
        assert core_of_store(store) == "python"


def test_an_audit_names_the_core_that_decided_again(
    aos: Aos, settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EX-64"""
    writer = run_core()
    by_writer = aos("audit", "--replay", "--json", world=settled).json["replay"]
    monkeypatch.delenv(CORE_VARIABLE)
    by_other = aos("audit", "--replay", "--json", world=settled).json["replay"]

    assert by_writer.pop("core") == by_writer["written_by"] == writer.value
    assert by_other.pop("core") == other_core(writer).value
    assert by_writer == by_other
    page = aos("audit", "--replay", world=settled).out
    assert "Kernel that decided again" in page


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
