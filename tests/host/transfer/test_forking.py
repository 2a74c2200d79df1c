"""Another world from any point of one (spec/bundle.md, B-70 to B-77)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted, Duplicate, Refusal
from aos.core.journal.inputs import CANCEL, KEEP_OPEN
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, KernelReceipt, Record
from aos.core.snapshot.take import take
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.door.writer import open_writer
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.adoption import Origin
from aos.host.folder.folder import WORLD_FILE, open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.process import RunSettings, run_world
from aos.host.transfer.adopting import adopt_world, origin_at
from aos.host.transfer.exporting import export_world
from aos.host.transfer.forking import fork_world
from aos.host.transfer.importing import import_world
from aos.prove.replay.replay_store import replay_store, verify_bundle
from aos.prove.verify.verify import verify_store
from aos.store.bundle.reader import open_bundle
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import content_hash, hash_text
from tests.cli.shell import in_silence, run
from tests.host.disk_world import Running
from tests.host.puppet import asks, asks_for, do, manifest
from tests.host.rig import seeded
from tests.host.transfer.test_bundle import (
    erase,
    frames,
    kill_half_way,
    replayed,
    run_out,
    send,
    value_of,
    world_contents,
)

ROOT = Path(__file__).parents[3]


def records(world: Path) -> list[Record]:
    return [from_bytes(data) for frame in frames(world) for data in frame.records]


def last(world: Path) -> int:
    return frames(world)[-1].header.last


def is_right(world: Path) -> None:
    """It is sound, and executed again it is the same."""
    with open_folder(world).open_store(readonly=True) as store:
        report = verify_store(store)
        assert report.is_sound, report.findings
        assert replay_store(store).seq == report.seq


@pytest.fixture
def parent(world: Path) -> Path:
    """A world with open effects, values outside its records, and frames of several records."""
    send(world, ("a", None), ("wait", asks("one", "two")), ("long", b"x" * 3000))
    with open_writer(world) as writer:
        list(writer.send([do(f"k{number}", submission_id=f"s{number}") for number in range(4)]))
    assert in_silence("run", "--until-idle", "--world", world) == 0
    return world


def test_a_fork_begins_as_its_parent_was_and_continues_by_itself(
    parent: Path, tmp_path: Path
) -> None:
    """B-70, B-71, B-74, B-76"""
    before = world_contents(parent)
    at = last(parent)

    made = fork_world(parent, tmp_path / "f", at=at, executors=["mail"])

    assert world_contents(parent) == before
    assert (made.at, made.parent, made.canceled, made.open_intents) == (
        at,
        open_folder(parent).world,
        2,
        0,
    )
    assert made.folder == open_folder(tmp_path / "f")
    assert made.folder.world not in (made.parent, init_world(tmp_path / "new").world)
    assert [each.hash for each in frames(tmp_path / "f")][: len(frames(parent))] == [
        each.hash for each in frames(parent)
    ]
    fork, *rest = records(tmp_path / "f")[at:]
    assert isinstance(fork, Fork)
    assert (fork.cut, fork.erased, fork.open_work) == (None, (), "cancel")
    assert all(isinstance(each, KernelReceipt) for each in rest)
    is_right(tmp_path / "f")
    assert sorted(each.name for each in (tmp_path / "f" / "keys").rglob("*.key")) == [
        "mail.key", "operator.key", "world.key",
    ]  # fmt: skip
    # Nothing runs in it before it is adopted; then it has a history of its own.
    assert origin_at(tmp_path / "f") is Origin.FORKED
    with pytest.raises(Refused, match="was forked and not adopted yet"):
        open_writer(tmp_path / "f")
    assert adopt_world(tmp_path / "f").origin is Origin.FORKED
    run_out(tmp_path / "f")
    send(tmp_path / "f", ("a", None), ("more", asks("three")))
    run_out(tmp_path / "f")
    is_right(tmp_path / "f")
    send(parent, ("a", None))
    is_right(parent)


def test_a_fork_from_every_record(parent: Path, tmp_path: Path) -> None:  # B-70, B-72
    ends = {frame.header.last for frame in frames(parent)}
    for at in range(1, last(parent) + 1):
        path = tmp_path / f"f{at}"
        made = fork_world(parent, path, at=at, sources=seeded(f"fork {at}"))
        found = records(path)
        fork = found[at]
        assert isinstance(fork, Fork)
        assert (fork.cut is None) == (at in ends)
        if fork.cut is not None:
            [whole] = [each for each in frames(parent) if each.hash == fork.cut]
            assert whole.header.first <= at < whole.header.last
        assert found[:at] == records(parent)[:at]
        is_right(path)
        with open_reader(parent, at=at) as one, open_reader(path, at=at) as other:
            assert {cell.id: cell.state for cell in one.state.cells.values()} == {
                cell.id: cell.state for cell in other.state.cells.values()
            }
            assert made.canceled + made.open_intents == len(one.state.intents)
            assert list(one.state.intents) == list(other.state.intents)


def test_a_fork_in_the_middle_of_a_cascade_continues_there(parent: Path, tmp_path: Path) -> None:
    """B-72: steps that had not run yet run in the fork."""
    steps = [each for each in records(parent) if each.KIND == "step"]
    fork_world(parent, tmp_path / "f", at=steps[1].seq)
    adopt_world(tmp_path / "f")
    run_out(tmp_path / "f")
    is_right(tmp_path / "f")
    run_out(parent)
    with open_reader(parent) as one, open_reader(tmp_path / "f") as other:
        assert {cell.id for cell in other.state.cells.values()} == {
            cell.id for cell in one.state.cells.values()
        }


def test_kept_effects_are_handed_to_no_executor_and_can_be_canceled(
    parent: Path, tmp_path: Path, echoes: str
) -> None:
    """B-73"""
    made = fork_world(parent, tmp_path / "f", at=last(parent), open_work=KEEP_OPEN)
    assert (made.canceled, made.open_intents) == (0, 2)
    adopt_world(tmp_path / "f")
    send(tmp_path / "f", ("own", asks("mine")))
    log = tmp_path / "log"
    words = ("run", "--until-idle", "--executors", echoes, "--world", tmp_path / "f")
    done = run(*words, env={"ECHO_LOG": str(log)})
    assert done.code == 0, done.err
    assert log.exists(), done.err
    assert log.read_text().split() == ["mine"]
    with open_reader(tmp_path / "f") as reader:
        kept = list(reader.state.intents)
    assert len(kept) == 2
    with open_writer(tmp_path / "f") as writer:
        for intent in kept:
            assert isinstance(writer.control(CANCEL, intent=intent), Admitted)
    run_out(tmp_path / "f")
    is_right(tmp_path / "f")
    # The parent carries them out, as if nothing had been.
    done = run(
        "run", "--until-idle", "--executors", echoes, "--world", parent, env={"ECHO_LOG": str(log)}
    )
    assert done.code == 0, done.err
    assert sorted(log.read_text().split()) == ["mine", "one", "two"]


EFFECTS = """
import os
from aos.worker import Executors, effect

@effect("host/echo@1")
def echo(params, ctx):
    with open(os.environ["ECHO_LOG"], "a") as log:
        log.write(params["word"] + "\\n")
    return params

echoes = Executors("echoes", [echo])
"""


@pytest.fixture
def echoes(tmp_path: Path) -> str:
    (tmp_path / "effects.py").write_text(EFFECTS)
    return f"{tmp_path / 'effects.py'}:echoes"


def test_the_node_signs_with_the_forks_own_key(world: Path, tmp_path: Path) -> None:  # B-75
    """The manifest that it has from the parent names the parent's key for the node."""
    timer = "sys/timer.set@1"
    node = bytes(open_folder(world).world_key().verify_key)
    with open_writer(world) as writer:
        applied = writer.apply(
            manifest(
                effects=(timer,),
                executors=[
                    {"name": "node", "public_key": f"ed25519:{node.hex()}", "effects": [timer]}
                ],
            )
        )
    assert isinstance(applied.answer, Admitted), applied.answer
    fork_world(world, tmp_path / "f", at=last(world))
    adopt_world(tmp_path / "f")
    send(tmp_path / "f", ("t", asks_for((timer, {"deliver_at_ns": 1, "key": None}))))
    ended = asyncio.run(run_idle(tmp_path / "f"))
    assert ended == {}
    assert "receipt" in {each.KIND for each in records(tmp_path / "f")}
    is_right(tmp_path / "f")


async def run_idle(world: Path) -> dict[bytes, Refusal]:
    ended = await run_world(
        world, RunSettings(executors=lambda _read, _world: [TimerExecutor()], until_idle=True)
    )
    assert ended.is_idle
    return {bytes(intent): why for intent, why in ended.refused.items()}


def test_the_dedup_window_stays(parent: Path, tmp_path: Path) -> None:  # B-71
    fork_world(parent, tmp_path / "f", at=last(parent))
    adopt_world(tmp_path / "f")
    with open_writer(tmp_path / "f") as writer:
        [answer] = writer.send([do("k2", submission_id="s2")])
    assert isinstance(answer, Duplicate)


def test_forks_of_forks(parent: Path, tmp_path: Path) -> None:  # B-70
    fork_world(parent, tmp_path / "f1", at=5)
    adopt_world(tmp_path / "f1")
    send(tmp_path / "f1", ("one", asks("x")))
    run_out(tmp_path / "f1")
    middle = last(tmp_path / "f1")
    fork_world(tmp_path / "f1", tmp_path / "f2", at=middle)
    # From a record that the first fork has from its own parent.
    fork_world(tmp_path / "f1", tmp_path / "f3", at=4)
    for name, ancestors in (("f2", 2), ("f3", 1)):
        adopt_world(tmp_path / name)
        send(tmp_path / name, ("two", asks("y")))
        run_out(tmp_path / name)
        is_right(tmp_path / name)
        with open_reader(tmp_path / name) as reader:
            assert len(reader.state.ancestors) == ancestors
    assert records(tmp_path / "f3")[:4] == records(parent)[:4]


def test_a_fork_is_exported_imported_and_restarted(parent: Path, tmp_path: Path) -> None:  # B-70
    fork_world(parent, tmp_path / "f", at=5)
    adopt_world(tmp_path / "f")
    for key in ("one", "two"):
        send(tmp_path / "f", (key, asks("x")))
        run_out(tmp_path / "f")
        assert in_silence("snapshot", "--world", tmp_path / "f") == 0
    export_world(tmp_path / "f", tmp_path / "b")
    report = verify_bundle(tmp_path / "b")
    assert report.is_sound, report.findings
    assert replayed(tmp_path / "b") == report.seq
    with open_bundle(tmp_path / "b") as bundle:
        assert bundle.header.world == open_folder(tmp_path / "f").world
    import_world(tmp_path / "b", tmp_path / "w")
    assert world_contents(tmp_path / "w") == world_contents(tmp_path / "f")
    adopt_world(tmp_path / "w", keys=tmp_path / "f" / "keys")
    with open_reader(tmp_path / "w") as one, open_reader(tmp_path / "f") as other:
        assert take(one.state, content_hash) == take(other.state, content_hash)
    is_right(tmp_path / "w")
    # A part of its own can be exported, what it has from its parent not.
    made = export_world(tmp_path / "f", tmp_path / "part", to=6)
    assert verify_bundle(tmp_path / "part").is_sound
    assert made.seq >= 6
    with pytest.raises(Refused, match="is of the world that this one was forked of"):
        export_world(tmp_path / "f", tmp_path / "old", to=4)


def test_snapshots_of_the_parent_are_the_forks_too(parent: Path, tmp_path: Path) -> None:  # B-71
    assert in_silence("snapshot", "--world", parent) == 0
    send(parent, ("later", None))
    run_out(parent)
    fork_world(parent, tmp_path / "f", at=last(parent))
    with open_folder(tmp_path / "f").open_store(readonly=True) as store:
        assert len(list(store.snapshots())) == 1
    is_right(tmp_path / "f")
    adopt_world(tmp_path / "f")
    with open_reader(tmp_path / "f") as reader:
        assert reader.state.ancestors


def test_values_that_the_parent_erased_later_are_listed(
    world: Path, tmp_path: Path
) -> None:  # B-77
    [seq] = send(world, ("a", b"secret" * 300))
    run_out(world)
    at = last(world)
    value = value_of(world, seq)
    erase(world, value)
    send(world, ("b", b"later" * 300))

    fork_world(world, tmp_path / "f", at=at)

    fork = records(tmp_path / "f")[at]
    assert isinstance(fork, Fork)
    assert fork.erased == (value,)
    data = (tmp_path / "f" / "store" / "data.mdb").read_bytes()
    assert b"secret" not in data
    assert b"later" * 300 not in data
    is_right(tmp_path / "f")
    export_world(tmp_path / "f", tmp_path / "b")
    assert verify_bundle(tmp_path / "b").is_sound
    # Before it had run, the world needed it.
    with pytest.raises(Refused, match=rf"{hash_text(value)} was erased since, and it was mail of"):
        fork_world(world, tmp_path / "early", at=seq)
    assert list((tmp_path / "early").iterdir()) == []


def test_a_world_is_forked_while_it_runs(parent: Path, tmp_path: Path) -> None:  # B-76
    with Running(parent) as running:
        send(parent, ("live", None))
        fork_world(parent, tmp_path / "f", at=5)
        assert running.stop()[0] == 0
    is_right(tmp_path / "f")


@pytest.mark.parametrize("at", [0, 99_999])
def test_a_record_that_is_not_there_is_said(parent: Path, tmp_path: Path, at: int) -> None:
    """B-70"""
    with pytest.raises(BadUsage, match=f"record {at}: there is no such record"):
        fork_world(parent, tmp_path / "f", at=at)
    assert not (tmp_path / "f").exists()


def test_a_failure_on_the_way_leaves_nothing(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-76"""
    with pytest.raises(Refused, match="there is a world already"):
        fork_world(parent, parent, at=3)
    with pytest.raises(BadUsage, match="expected a letter"):
        fork_world(parent, tmp_path / "f", at=3, executors=["../x"])
    (tmp_path / "f").mkdir()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LmdbStore, "append", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        fork_world(parent, tmp_path / "f", at=3)
    monkeypatch.undo()
    missing = next(iter(open_folder(parent).open_store(readonly=True).blob_hashes()))
    blob = LmdbStore.blob

    def without(store: LmdbStore, hash: bytes) -> bytes:
        if hash == missing:
            raise Damage("it is missing")
        return blob(store, missing if hash == missing else hash)  # type: ignore[arg-type]

    monkeypatch.setattr(LmdbStore, "blob", without)
    with pytest.raises(Damage, match="it is missing"):
        fork_world(parent, tmp_path / "f", at=last(parent))
    assert list((tmp_path / "f").iterdir()) == []


KILLED = """
import sys, time
from pathlib import Path
from aos.host.transfer import forking
from aos.store.lmdb_store import LmdbStore
append = LmdbStore.append
def slow(store, *given, **more):
    append(store, *given, **more)
    print("half", flush=True)
    time.sleep(60)
LmdbStore.append = slow
forking.fork_world(Path(sys.argv[1]), Path(sys.argv[2]), at=5)
"""


def test_a_killed_fork_leaves_a_folder_that_the_next_one_finishes(
    parent: Path, tmp_path: Path
) -> None:
    """B-76"""
    kill_half_way(KILLED, parent, tmp_path / "f")
    assert not (tmp_path / "f" / WORLD_FILE).exists()
    with pytest.raises(BadUsage, match="this world is not finished"):
        open_reader(tmp_path / "f")
    fork_world(parent, tmp_path / "f", at=5)
    is_right(tmp_path / "f")


def test_a_manifestless_world_is_forked_too(tmp_path: Path) -> None:  # B-70
    init_world(tmp_path / "new")
    fork_world(tmp_path / "new", tmp_path / "f", at=1)
    adopt_world(tmp_path / "f")
    with open_writer(tmp_path / "f") as writer:
        assert isinstance(writer.apply(manifest()).answer, Admitted)
    is_right(tmp_path / "f")
