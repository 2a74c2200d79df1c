"""Manifests applied over work in flight and stored states, on disk, with real modules."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.faults import Fault
from aos.core.journal.inputs import MIGRATE, PIN, STRICT, ManifestInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import slot_bytes
from aos.core.limits import Limits
from aos.core.state.version import is_pinned
from aos.errors import AosError
from aos.host.apply import stored_states
from aos.host.apply.apply import Applied, sign_manifest
from aos.host.apply.dry_run import dry_run_of
from aos.host.door import direct
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.transfer.exporting import export_world
from aos.host.transfer.importing import import_world
from aos.host.world.pipeline import Pipeline
from aos.host.world.restored_world import restored_world
from aos.manifest.load import Loaded
from aos.prove.replay.replay_store import replay_store
from aos.prove.verify.verify_world import verify_world
from aos.sandbox.inspect import ModuleRefused
from aos.store.errors import NoRoom
from aos.values.cbor import decode_record, encode
from tests.copies import copied
from tests.host.puppet import PUPPET, do
from tests.host.rig import eventually
from tests.host.test_crash import start
from tests.host.test_process import send, until, while_running
from tests.host.upgrades import migrating, state_is, state_of, version, waits
from tests.run_seed import rotated

TEXT: dict[str, Any] = {"text": {}}
NAT: dict[str, Any] = {"nat": {}}
MAYBE: dict[str, Any] = {"option": NAT}


@pytest.fixture
def lived(lived_once: Path, tmp_path: Path) -> Path:
    """A world with one cell in flight for good and one at rest."""
    return copied(lived_once, tmp_path / "world")


@pytest.fixture(scope="module")
def lived_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lived") / "world"
    init_world(path)
    assert isinstance(apply(path, version(1)).answer, Admitted)
    send(path, do("waits", waits()), do("rests"))
    steps(path)
    return path


def steps(path: Path) -> None:
    """Run all mail; open effects stay open."""

    async def quiet() -> None:
        def is_done() -> bool:
            with open_reader(path) as reader:
                return not reader.state.ring

        await until(is_done)

    while_running(path, quiet)


def apply(path: Path, loaded: Loaded, **more: object) -> Applied:
    with open_writer(path) as writer:
        return writer.apply(loaded, **more)  # type: ignore[arg-type]  # a table of options


def refused(applied: Applied) -> Refusal:
    assert isinstance(applied.answer, Refusal), applied.answer
    return applied.answer


def replays(path: Path) -> None:
    with open_reader(path) as reader:
        assert replay_store(reader.store).seq == reader.seq


def test_a_pinned_cell_runs_the_module_that_it_started_with(lived: Path) -> None:
    """K-72: by the module that a step ran, under the real sandbox."""
    assert refused(apply(lived, version(2))).rule is Rule.WORLD_IS_NOT_QUIESCENT
    assert isinstance(apply(lived, version(2), mode=PIN).answer, Admitted)

    send(lived, do("waits", waits()), do("rests"), do("new"))
    steps(lived)

    one, two = (version(n).effective.workflows[PUPPET].module.hash for n in (1, 2))
    with open_reader(lived) as reader:
        ran = {cell.id[1]: cell.module_hash for cell in reader.state.cells.values()}
        pinned = [
            cell.id[1] for cell in reader.state.cells.values() if is_pinned(reader.state, cell)
        ]
    assert ran == {encode("waits"): one, encode("rests"): two, encode("new"): two}
    assert pinned == [encode("waits")]
    replays(lived)


def test_a_dry_run_says_what_would_become_of_how_many(lived: Path) -> None:
    """H-71."""
    strict = dry_run_of(lived, version(2))
    pin = dry_run_of(lived, version(2), mode=PIN)
    assert strict.fates is not None
    assert pin.fates is not None
    assert strict.fates.by_workflow == {PUPPET: {"waited_for": 1, "goes_on": 1}}
    assert pin.fates.by_workflow == {PUPPET: {"pinned": 1, "goes_on": 1}}
    assert [len(strict.blockers), len(pin.blockers)] == [2, 0]

    narrow = version(2, edit=state_is(TEXT))
    kept = dry_run_of(lived, narrow, mode=PIN)
    assert kept.fates is not None
    assert (kept.blockers, kept.fates.by_workflow) == ((), {PUPPET: {"pinned": 1, "kept": 1}})


def command(path: Path, loaded: Loaded, mode: str) -> ManifestInput:
    folder = open_folder(path)
    with open_reader(path) as reader:
        return sign_manifest(
            loaded.effective,
            world=reader.state.world,
            serial=reader.state.serial,
            operators=reader.state.operators,
            key=folder.operator_key(),
            mode=mode,
        )


def test_a_child_reports_its_progress_and_the_cells_that_do_not_fit(lived: Path) -> None:
    """H-74."""
    fits = stored_states.look(lived, command(lived, version(2, edit=state_is(MAYBE)), STRICT))
    assert fits.blockers == ()
    with open_reader(lived) as reader:
        assert fits.seq == reader.seq

    found = stored_states.look(lived, command(lived, version(2, edit=state_is(TEXT)), STRICT))
    assert {(each.kind, each.cell) for each in found.blockers} == {
        ("cell_does_not_fit", (PUPPET, encode(id))) for id in ("rests", "waits")
    }
    pin = stored_states.look(lived, command(lived, version(2, edit=state_is(TEXT)), PIN))
    assert pin.blockers == ()
    assert found.blockers[0].detail.startswith("its state is no host/Count@1")


def test_a_look_that_cannot_be_taken_is_told(tmp_path: Path, lived: Path) -> None:
    with pytest.raises(AosError, match="there is no such folder"):
        stored_states.look(tmp_path / "nothing", command(lived, version(2), PIN))


def test_a_running_world_is_checked_by_another_process(lived: Path, tmp_path: Path) -> None:
    """H-74, and what the running process then runs."""
    log = tmp_path / "log"
    host = start(lived, log)
    try:
        eventually(lambda: log.exists() and "started" in log.read_text(), "it is up")
        answer = refused(apply(lived, version(2, edit=state_is(TEXT))))
        assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT
        assert encode("rests") in [each.cell[1] for each in answer.blockers]
        assert isinstance(apply(lived, version(2, edit=state_is(TEXT)), mode=PIN).answer, Admitted)
        assert isinstance(apply(lived, version(2, edit=state_is(MAYBE)), mode=PIN).answer, Admitted)
        send(lived, do("rests", state_of(None)), do("waits"))
        with open_reader(lived) as reader:
            eventually(lambda: bool(reader.refresh()) or not reader.state.ring, "it has run")
    finally:
        host.send_signal(signal.SIGINT)
        assert host.wait(120) == 0
    replays(lived)


@pytest.mark.parametrize("mode", [STRICT, PIN])
def test_a_host_that_is_killed_while_it_applies_has_the_old_manifest_or_the_new(
    mode: str, tmp_path: Path
) -> None:
    """H-72: whatever the mode, and everything runs on."""
    world = tmp_path / "world"
    init_world(world)
    apply(world, version(1))
    random = Random(f"kill {mode}")
    for round_ in range(2):
        before = in_force(world)
        loaded = version(2 + round_, edit=state_is(MAYBE if round_ % 2 == 0 else NAT))
        log = tmp_path / f"log{round_}"
        host = start(world, log)
        answers: list[Applied] = []
        try:
            eventually(lambda log=log: log.exists() and "started" in log.read_text(), "up")  # type: ignore[misc]
            waiting = do(f"waits {round_}", waits() if mode == PIN else None)
            send(world, waiting, *(do(f"{round_} {n}") for n in range(20)))
            applying = threading.Thread(target=_apply, args=(world, loaded, mode, answers))
            applying.start()
            time.sleep(random.choice((0.05, 0.4, 0.7, 1.0)))
        finally:
            host.send_signal(signal.SIGKILL)
            host.wait()
        applying.join()
        after = in_force(world)
        assert after in (before, loaded.effective.hash)
        if answers:
            assert after == loaded.effective.hash
        replays(world)
    send(world, do("last"))
    steps(world)
    with open_reader(world) as reader:
        assert reader.state.cells[PUPPET, encode("last")].fault is None


def _apply(world: Path, loaded: Loaded, mode: str, answers: list[Applied]) -> None:
    try:
        applied = apply(world, loaded, mode=mode)
    except AosError:
        return  # the host was killed before it answered
    if isinstance(applied.answer, Admitted):
        answers.append(applied)


def in_force(world: Path) -> bytes:
    with open_reader(world) as reader:
        assert reader.manifest is not None
        return reader.manifest.hash


# Migrations, by a real module


def states(world: Path) -> dict[object, object]:
    with open_reader(world) as reader:
        return {
            decode_record(cell.id[1]): None
            if cell.state is None
            else decode_record(slot_bytes(cell.state, reader.store.blob))
            for cell in reader.state.cells.values()
        }


def counted(path: Path, *counts: int) -> Path:
    """A world with a cell for each of ``counts``, which has counted so far."""
    init_world(path)
    apply(path, version(1))
    for number, times in enumerate(counts):
        send(path, *(do(f"{number}") for _ in range(times)))
    send(path, do("waits", waits()))
    steps(path)
    return path


def test_a_module_takes_over_the_states_of_the_one_before(tmp_path: Path) -> None:
    """K-76, H-75: no process runs the world; work in flight continues."""
    world = counted(tmp_path / "world", 1, 2, 3)
    dry = dry_run_of(world, migrating(), mode=MIGRATE)
    assert dry.blockers == ()
    assert dry.fates is not None
    assert dry.fates.by_workflow == {PUPPET: {"migrated": 4}}
    assert states(world)["2"] == 3

    answer = apply(world, migrating(), mode=MIGRATE).answer

    assert isinstance(answer, Admitted)
    assert states(world) == {"0": [2], "1": [4], "2": [6], "waits": [2]}
    with open_reader(world) as reader:
        frame = reader.store.frame_at(answer.seq)
        assert frame is not None
        assert [from_bytes(data).KIND for data in frame.records] == ["manifest"]
        before = reader.store.frame_at(answer.seq - 1)
        assert before is not None
        assert from_bytes(before.records[-1]).KIND == "start"
    send(world, do("0"))
    steps(world)
    assert states(world)["0"] == [1]
    replays(world)
    verifies(world)


def verifies(world: Path) -> None:
    report = verify_world(world)
    assert report.is_sound, report.findings


def test_a_cell_that_cannot_be_taken_over_leaves_everything_as_it_was(
    tmp_path: Path,
) -> None:
    world = counted(tmp_path / "world", 1, 7, 2)
    dry = dry_run_of(world, migrating(), mode=MIGRATE)
    applied = apply(world, migrating(), mode=MIGRATE)
    for found in (dry.blockers, refused(applied).blockers):
        assert [(each.kind, each.cell[1]) for each in found] == [("migration_failed", encode("1"))]
        assert found[0].detail.startswith("trap: ")
    assert states(world) == {"0": 1, "1": 7, "2": 2, "waits": 1}

    shown = dry_run_of(world, migrating(), mode=MIGRATE, show=2).states
    assert [(converted.cell[1], converted.old_state) for converted in shown] == [
        (encode("1"), encode(7)), (shown[1].cell[1], shown[1].old_state),
    ]  # fmt: skip
    assert isinstance(shown[0].result, Fault)
    doubled = {encode(n): encode([2 * n]) for n in (1, 2)}
    assert shown[1].result == doubled[shown[1].old_state]
    send(world, do("1"))
    steps(world)
    assert states(world)["1"] == 8
    replays(world)


def test_a_module_without_the_entrypoint_does_not_come_in(tmp_path: Path) -> None:
    """H-72."""
    world = counted(tmp_path / "world", 1)
    with pytest.raises(ModuleRefused, match="takes_over"):
        apply(world, migrating(entrypoint="takes_over"), mode=MIGRATE)


def test_a_running_world_is_migrated_and_runs_on(tmp_path: Path) -> None:
    world = counted(tmp_path / "world", 1, 2)
    log = tmp_path / "log"
    host = start(world, log)
    try:
        eventually(lambda: log.exists() and "started" in log.read_text(), "it is up")
        send(world, do("1"))
        assert isinstance(apply(world, migrating(), mode=MIGRATE).answer, Admitted)
        send(world, do("new"))
    finally:
        host.send_signal(signal.SIGINT)
        assert host.wait(120) == 0
    assert states(world) == {"0": [2], "1": [6], "waits": [2], "new": [1]}
    replays(world)


@pytest.fixture(scope="module")
def many_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with 403 stored states."""
    world = counted(tmp_path_factory.mktemp("many") / "world", 1, 2)
    send(world, *(do(f"cell {n}") for n in range(400)))
    steps(world)
    return world


@pytest.mark.long
@pytest.mark.parametrize("delay_s", rotated([0.0, 0.15, 0.3]))
def test_a_host_that_is_killed_while_it_migrates_has_all_states_or_none(
    delay_s: float, many_once: Path, tmp_path: Path
) -> None:
    """K-76: whatever it had written by then, only the record makes it count."""
    world = copied(many_once, tmp_path / "world")
    log = tmp_path / "log"
    host = start(world, log)
    answers: list[Applied] = []
    try:
        eventually(lambda: log.exists() and "started" in log.read_text(), "it is up")
        applying = threading.Thread(target=_apply, args=(world, migrating(), MIGRATE, answers))
        applying.start()
        time.sleep(delay_s)
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    applying.join()
    found = states(world)
    is_new = in_force(world) == migrating().effective.hash
    assert len(found) == 403
    assert {type(each) for each in found.values()} == {list if is_new else int}
    assert is_new or not answers
    replays(world)
    if not is_new:
        assert isinstance(apply(world, migrating(), mode=MIGRATE).answer, Admitted)
        assert states(world)["cell 7"] == [2]
        replays(world)


def test_states_are_written_as_they_are_made_and_a_full_disk_refuses_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K-78: nothing of it counts without the record."""
    world = counted(tmp_path / "world", *range(2, 6))
    before = states(world)
    monkeypatch.setattr(
        direct, "restored_world", partial(restored_world, limits=Limits(kept_bytes=4))
    )

    def full(self: object, blobs: object) -> Future[None]:
        failed: Future[None] = Future()
        failed.set_exception(NoRoom("no room", needed_bytes=1, free=0))
        return failed

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "keep", full)
        answer = refused(apply(world, migrating(), mode=MIGRATE))
    assert answer.rule is Rule.WORLD_IS_BUSY
    assert answer.message.startswith("the migration was given up: no room")
    assert states(world) == before

    assert isinstance(apply(world, migrating(), mode=MIGRATE).answer, Admitted)
    assert states(world)["3"] == [10]
    replays(world)
    verifies(world)


def test_a_bundle_has_what_a_migration_made(tmp_path: Path) -> None:
    world = counted(tmp_path / "world", 1, 2)
    apply(world, migrating(), mode=MIGRATE)
    export_world(world, tmp_path / "w.aos")
    import_world(tmp_path / "w.aos", tmp_path / "again")
    assert states(tmp_path / "again") == states(world)
    replays(tmp_path / "again")
