"""A world whose states are deltas: files, copies and upkeep are those of any other world (ST-90 to
ST-95)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Ref, Step
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.retention.gc import collect_world
from aos.host.retention.marking import BASE
from aos.host.retention.pruning import prune_world
from aos.host.retention.rebuilding import rebuild_world
from aos.host.transfer.adopting import adopt_world
from aos.host.transfer.exporting import export_world
from aos.host.transfer.forking import fork_world
from aos.host.transfer.importing import import_world
from aos.prove.replay.replay_store import replay_store, verify_bundle
from aos.prove.verify.verify_world import verify_world
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.cli.shell import in_silence
from tests.copies import copied
from tests.host.transfer.test_bundle import erase, frames, replayed, world_contents

KEEPER = Path(__file__).parents[3] / "benchmarks" / "worlds" / "keeper.air.json"
STEPS = 40


def note(step: int) -> str:
    return "the first part of every note " * 200 + f"step {step}" * (step % 3 + 1)


def steps(world: Path, first: int, last: int) -> None:
    with open_writer(world) as writer:
        for step in range(first, last):
            value = encode({"key": "cell", "item": step, "note": note(step)})
            [answer] = writer.send([Item(schema="bench/Keep@1", value=value)])
            assert isinstance(answer, Admitted)
    assert in_silence("run", "--until-idle", "--world", world) == 0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "world"
    init_world(path)
    with open_writer(path) as writer:
        assert isinstance(writer.apply(load_manifest_files(KEEPER)).answer, Admitted)
    steps(path, 0, STEPS)
    assert len(deltas(path)) > STEPS - 4
    return path


@pytest.fixture
def world(kept: Path, tmp_path: Path) -> Path:
    return copied(kept, tmp_path / "world")


def states(world: Path) -> list[Hash]:
    records = [from_bytes(data) for frame in frames(world) for data in frame.records]
    return [
        each.state.hash
        for each in records
        if isinstance(each, Step) and isinstance(each.state, Ref)
    ]


def deltas(world: Path) -> list[Hash]:
    with open_folder(world).open_store(readonly=True) as store:
        return [each for each in store.blob_hashes() if store.delta(each) is not None]


def is_sound(world: Path) -> None:
    report = verify_world(world)
    assert report.is_sound, report.findings
    with open_folder(world).open_store(readonly=True) as store:
        if store.cut() is None:
            assert replay_store(store).seq == report.seq
        for hash in store.blob_hashes():
            assert content_hash(store.blob(hash)) == hash


def test_its_export_is_that_of_a_world_of_whole_states(world: Path, tmp_path: Path) -> None:
    """ST-90, ST-95: the file has whole states, and the import makes deltas of them again."""
    export_world(world, tmp_path / "b")
    import_world(tmp_path / "b", tmp_path / "w")

    assert verify_bundle(tmp_path / "b").is_sound
    assert replayed(tmp_path / "b") == verify_world(world).seq
    assert world_contents(tmp_path / "w") == world_contents(world)
    assert deltas(tmp_path / "w") == deltas(world)
    export_world(tmp_path / "w", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "b").read_bytes()


def test_it_is_adopted_and_runs_on(world: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    world.rename(copy)
    adopt_world(copy)
    steps(copy, STEPS, STEPS + 5)

    assert len(states(copy)) == STEPS + 5
    is_sound(copy)


def test_a_fork_of_it_reads_all_states(world: Path, tmp_path: Path) -> None:
    fork_world(world, tmp_path / "fork", at=frames(world)[-1].header.last)

    is_sound(tmp_path / "fork")
    assert deltas(tmp_path / "fork") == deltas(world)
    assert set(states(world)) <= set(states(tmp_path / "fork"))


def test_its_rows_are_rebuilt_and_it_stays_as_it_was(world: Path) -> None:
    before = world_contents(world)

    assert not any(rebuild_world(world).changed.values())

    assert world_contents(world) == before
    is_sound(world)


def test_a_state_in_the_middle_of_a_chain_is_erased(world: Path) -> None:
    """ST-93."""
    gone = states(world)[10]
    erase(world, gone)
    steps(world, STEPS, STEPS + 5)

    assert gone not in deltas(world)
    with open_folder(world).open_store(readonly=True) as store:
        assert store.erased(gone) is not None
        for hash in states(world):
            if hash != gone:
                store.blob(hash)
    assert verify_world(world).is_sound


def test_a_pruned_world_keeps_the_bases_of_its_states_and_nothing_else(world: Path) -> None:
    """ST-92, RT-16."""
    assert in_silence("snapshot", "--world", world) == 0
    prune_world(world)
    steps(world, STEPS, STEPS + 3)
    found = collect_world(world, keep=1)
    needed = found.kept_by_reason[BASE].blobs

    assert found.removed.blobs > 0
    assert 0 < needed <= 31
    is_sound(world)
    assert collect_world(world, keep=1).removed.blobs == 0
