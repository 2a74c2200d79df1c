"""States that a new module takes over, all or none (spec/kernel.md, K-76 to K-78)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.decide.migration import migrated_blobs
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.journal.records import Manifest, Migrated
from aos.core.limits import Limits
from aos.core.snapshot.take import rebase, take
from aos.core.state.cell_index import CellIndex
from aos.errors import Damage
from aos.manifest.load import Loaded
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.cases import (
    ARMS,
    CASE,
    COUNTED,
    PAY,
    TEXT,
    case,
    cases,
    cell,
    folds_again,
    go,
    loaded,
    log_of,
    module,
    nodes,
    pay,
    tell,
)
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Trap,
    air,
    ask,
    route,
    schema,
    state_of,
    workflow,
)

FROM: dict[str, Any] = {"migrate": {"from": "c/Log@1", "entrypoint": "migrate"}}
NEW = "c/Counted@1"
Migration = Callable[[Envelope], Any]


def count(envelope: Envelope) -> Envelope:
    log = state_of(envelope)
    return {"state": encode({"log": log, "count": len(log)})}


def to_counted(version: int = 2, **more: Any) -> Loaded:
    """Another state schema, and the migration to it."""
    given = nodes(**{**FROM, **more})
    given.append(schema(NEW, COUNTED))
    next(each for each in given if each["name"] == CASE)["state"] = NEW
    given = [each for each in given if each["name"] != "c/Log@1"]
    return air(given, [route("c/Go@1", CASE, "id")], version=version)


def migrating(version: str = "v2c", with_: Migration = count) -> Callable[[Envelope], Any]:
    step = module(version)
    return lambda envelope: with_(envelope) if "from" in envelope else step(envelope)


def migrate(
    world: MemoryWorld, with_: Migration = count, *, mode: str = MIGRATE, new: Loaded | None = None
) -> Any:
    answer = world.apply(new or to_counted(), {CASE: migrating(with_=with_)}, mode=mode)
    world.run()
    return answer


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def in_many_states() -> MemoryWorld:
    """Cells at rest, with an effect open, with mail to run, failed, and completed."""
    world = cases()
    for id in ("rests", "fails", "rests too"):
        tell(world, id)
    tell(world, "waits", 1)
    tell(world, "done", note="done")
    tell(world, "fails", note="fail")
    world.send("c/Go@1", go("ready", note="queued"))
    return world


@pytest.mark.parametrize("most", [1, 4096])
@pytest.mark.parametrize("in_slice", [1, 2, 4096])
def test_every_state_is_what_the_new_module_makes_of_it(most: int, in_slice: int) -> None:
    """K-76: in every layer of storage; the work of a cell in flight continues."""
    world = in_many_states()
    world.state.limits = Limits(slice_cells=in_slice)
    world.state.cells.keep(most)
    world.seal()

    assert isinstance(migrate(world), Admitted)
    pay(world, "waits")
    world.control("skip", cell=case("fails"))
    tell(world, "rests")

    assert log_of(world, "rests") == ["v1 go", "v2c go"]
    assert log_of(world, "rests too") == ["v1 go"]
    assert log_of(world, "waits") == ["v1 go", "v2c paid"]
    assert log_of(world, "ready") == ["v2c queued"]
    assert log_of(world, "fails") == ["v1 go"]
    assert world.state_of(CASE, "done") == {"log": ["v1 done"], "count": 1}
    assert cell(world, "done").declared == "completed"
    new = world.effective.workflows[CASE]
    assert {each.module_hash for each in world.state.cells.values()} == {new.module.hash}
    folds_again(world)


def test_the_outcome_is_the_same_in_whatever_slices() -> None:
    found = set()
    for in_slice in (1, 3, 4096):
        world = cases()
        world.state.limits = Limits(slice_cells=in_slice)
        for n in range(200):
            world.send("c/Go@1", go(f"{n}"))
        world.run()
        migrate(world)
        (record,) = [each for each in world.records() if isinstance(each, Manifest) and each.mode]
        found.add(record.migrated)
        assert record.migrated[0].count == 200
    assert len(found) == 1


def test_a_migration_is_told_what_it_is_to_do() -> None:
    """K-77."""
    seen: list[Envelope] = []

    def note(envelope: Envelope) -> Envelope:
        seen.append(envelope)
        return count(envelope)

    world = cases()
    tell(world, "a")
    new = to_counted()
    old_hash, new_hash = (hash_of(each, name) for each, name in (
        (world.loaded, "c/Log@1"), (new, NEW),
    ))  # fmt: skip
    migrate(world, note)
    assert seen == [
        {
            "version": 1,
            "state": encode(["v1 go"]),
            "from": {"schema": "c/Log@1", "hash": old_hash},
            "to": {"schema": NEW, "hash": new_hash},
            "key": encode("a"),
        }
    ]


def hash_of(manifest: Loaded, name: str) -> str:
    from aos.values.cbor import decode_record

    document: Any = decode_record(manifest.effective.document)
    return str(next(e["hash"] for e in document["manifest"]["schemas"] if e["name"] == name))


# Refusals


def trap(envelope: Envelope) -> Any:
    if envelope["key"] == encode("b"):
        raise Trap
    return count(envelope)


def wrong(output: Any) -> Migration:
    return lambda envelope: output if envelope["key"] == encode("b") else count(envelope)


COUNT: Value = {"log": [], "count": 0}


@pytest.mark.parametrize(
    ("with_", "problem"),
    [
        (trap, "trap: unreachable"),
        (wrong({"fault": {"kind": "no", "message": "way"}}), "guest: no: way"),
        (wrong({"state": None}), "state_invalid: a migration returns a state, found null"),
        (wrong({"state": encode(["v1 go"])}), "state_invalid: c/Counted@1: $: expected record, "),
        (wrong({"state": b"\xbf\xff"}), "state_invalid: c/Counted@1: "),
        (wrong({"state": encode(COUNT), "status": "failed"}), "output_malformed: a migration "),
        (
            wrong({"state": encode(COUNT), "effects": [ask(PAY, {"n": 1})]}),
            "output_malformed: a migration returns a state and nothing else",
        ),
        (wrong(b"\xff"), "output_malformed: the output is not CBOR: "),
        (wrong({"state": encode({"log": ["x" * 70_000], "count": 1})}), "state_invalid: state: "),
    ],
)  # fmt: skip
def test_one_cell_that_cannot_be_taken_over_refuses_the_manifest(
    with_: Migration, problem: str
) -> None:
    """K-76: and nothing has changed."""
    world = cases()
    for id in "abc":
        tell(world, id, 1 if id == "c" else 0)
    before = take(world.state, content_hash).document
    new = to_counted(limits={"state_bytes": 65_536})

    answer = refused(migrate(world, with_, new=new))

    assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT
    (blocker,) = answer.blockers
    assert (blocker.kind, blocker.cell) == ("migration_failed", case("b"))
    assert blocker.detail.startswith(problem)
    assert take(world.state, content_hash).document == before
    tell(world, "b")
    assert log_of(world, "b") == ["v1 go", "v1 go"]


def test_every_cell_that_fails_is_named_up_to_a_thousand() -> None:
    world = cases()
    world.state.limits = Limits(blockers=3)
    for n in range(5):
        tell(world, f"{n}")
    answer = refused(migrate(world, lambda _: {"state": None}))
    assert len(answer.blockers) == 3


def test_a_migration_runs_when_it_is_asked_for_and_not_otherwise() -> None:
    world = cases()
    tell(world, "a")
    answer = refused(migrate(world, mode=STRICT))
    assert [each.kind for each in answer.blockers] == ["cell_does_not_fit"]
    assert isinstance(migrate(world, mode=PIN), Admitted)
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 go"]


def test_a_migration_from_another_schema_is_not_run() -> None:
    world = cases()
    tell(world, "a")
    other: dict[str, Any] = {"migrate": {"from": "c/Older@1", "entrypoint": "migrate"}}
    answer = refused(migrate(world, new=to_counted(**other)))
    assert [each.kind for each in answer.blockers] == ["cell_does_not_fit"]

    tell(world, "b", 1)
    same = loaded(2, **other)
    answer = refused(migrate(world, new=same))
    assert answer.rule is Rule.WORLD_IS_NOT_QUIESCENT


def test_an_unchanged_workflow_is_not_migrated_again() -> None:
    """K-76: a manifest may keep the migration of an earlier change."""
    calls: list[bytes] = []

    def note(envelope: Envelope) -> Envelope:
        calls.append(envelope["key"])
        return {"state": envelope["state"]}

    def again(n: int, **more: Any) -> Loaded:
        other = [schema(f"o/S{n}@1", {"unit": {}}), workflow(
            f"o/w{n}@1", state=f"o/S{n}@1", event="c/Go@1",
        )]  # fmt: skip
        return air([*nodes(**FROM, **more), *other], [route("c/Go@1", CASE, "id")], version=1)

    world = cases()
    tell(world, "a")
    run = {CASE: migrating("v1", note)}
    assert isinstance(world.apply(again(1), run, mode=MIGRATE), Admitted)
    assert calls == [encode("a")]
    assert isinstance(world.apply(again(2), run, mode=MIGRATE), Admitted)
    assert calls == [encode("a")]


def test_mail_and_open_effects_must_fit_the_new_version() -> None:
    """K-75 says what of them."""
    world = cases()
    tell(world, "a", 1)
    keeps = to_counted()
    given = nodes(arms={}, effects=[], **FROM)
    given += [
        schema(NEW, COUNTED),
        schema("o/S@1", {"unit": {}}),
        schema("o/Event@1", {"variant": {"Go": {"ref": "c/Go@1"}, **ARMS}}),
        workflow("o/other@1", state="o/S@1", event="o/Event@1", effects=[PAY]),
    ]
    next(each for each in given if each["name"] == CASE)["state"] = NEW
    given = [each for each in given if each["name"] != "c/Log@1"]
    answer = refused(migrate(world, new=air(given, [route("c/Go@1", CASE, "id")], version=2)))
    assert "has no arm for its receipt" in answer.blockers[0].detail
    assert isinstance(migrate(world, new=keeps), Admitted)


def test_pinned_instances_are_migrated_from_the_version_that_they_run_under() -> None:
    world = cases(lifecycle="explicit")
    tell(world, "old")
    tell(world, "rests")
    wider: dict[str, Any] = {"list": {"option": TEXT}}
    assert isinstance(
        world.apply(loaded(2, state=wider, lifecycle="explicit"), {CASE: module("v2")}, mode=PIN),
        Admitted,
    )
    tell(world, "new")
    assert isinstance(migrate(world, new=to_counted(3, lifecycle="explicit")), Admitted)
    for id in ("old", "new", "rests"):
        tell(world, id)
    assert log_of(world, "old") == log_of(world, "rests") == ["v1 go", "v2c go"]
    assert log_of(world, "new") == ["v2 go", "v2c go"]
    assert len(world.state.eras.all) == 1
    folds_again(world)


def test_a_failed_cell_of_another_time_is_left_as_it_is() -> None:
    """K-102: its state is looked at when it is retried."""
    world = cases()
    tell(world, "a")
    tell(world, "a", note="fail")
    number: dict[str, Any] = {"nat": {}}
    assert isinstance(world.apply(loaded(2, state=number), {CASE: module("v2")}), Admitted)
    tell(world, "b")
    answer = world.apply(
        to_counted(3), {CASE: migrating(with_=lambda _: {"state": None})}, mode=MIGRATE
    )
    world.run()
    assert isinstance(answer, Admitted)
    assert log_of(world, "a") == ["v1 go"]
    assert refused(world.control("retry", cell=case("a"))).rule is Rule.CELL_DOES_NOT_FIT
    folds_again(world)


# Journal, snapshots


def frames_replayed(world: MemoryWorld) -> int:
    report = replay(world.frames, world.read, world.runner)
    return report.seq


def test_a_replay_migrates_again_and_finds_another_outcome() -> None:
    """K-78."""
    world = in_many_states()
    migrate(world)
    pay(world, "waits")
    assert frames_replayed(world) == world.state.next_seq - 1

    new = world.effective.workflows[CASE].module.hash
    other = migrating(with_=lambda _: {"state": encode({"log": [], "count": 7})})
    world.runner.modules = {**world.runner.modules, new: other}
    with pytest.raises(Divergence, match="replay differs in migrated"):
        frames_replayed(world)


def test_a_snapshot_from_before_does_not_bring_the_old_states_back() -> None:
    """One may be in the making while the manifest comes."""
    world = cases()

    def put(data: bytes) -> Hash:
        world.blobs[content_hash(data)] = data
        return content_hash(data)

    for n in range(20):
        tell(world, f"{n}")
    taken = take(world.state, put)
    migrate(world)
    tell(world, "3")

    rebase(world.state, taken)

    assert log_of(world, "3") == ["v1 go", "v2c go"]
    assert world.state_of(CASE, "4") == {"log": ["v1 go"], "count": 1}
    folds_again(world)


def test_values_made_by_a_migration_are_named_by_its_record() -> None:
    world = in_many_states()
    migrate(world)
    (record,) = [each for each in world.records() if isinstance(each, Manifest) and each.mode]
    (migrated,) = record.migrated
    found = dict(migrated_blobs(migrated, world.read))
    assert found.pop(migrated.root) == "a node of an index"
    assert len(found) == 2  # four of the five cells have one and the same state
    assert all(world.read(each) for each in found)


def test_a_record_that_migrates_other_cells_is_damage() -> None:
    world = cases()
    tell(world, "a")
    tell(world, "b", 1)
    migrate(world)
    (record,) = [each for each in world.records() if isinstance(each, Manifest) and each.mode]
    (migrated,) = record.migrated
    index = CellIndex(migrated.root, migrated.count, world.read)
    key = content_hash(encode("b"))

    def put(data: bytes) -> Hash:
        world.blobs[content_hash(data)] = data
        return content_hash(data)

    entry = index.get(content_hash(encode("a")))
    assert entry is not None
    without = index.updated({key: None, Hash(bytes(32)): entry}, put)
    assert without.root is not None
    forged = [
        (replace(migrated, count=3), "migrates 3 cells of c/case@1, where there are 2"),
        (Migrated(workflow=CASE, root=without.root, count=2), "leaves out a cell of it"),
    ]
    for each, problem in forged:
        other = cases()
        tell(other, "a")
        tell(other, "b", 1)
        other.blobs.update(world.blobs)
        with pytest.raises(Damage, match=problem):
            other.kernel.append(replace(record, migrated=(each,)), {})
    with pytest.raises(Damage, match="is no manifest of mode"):
        cases().kernel.append(replace(record, seq=3, serial=1, mode=None), {})


# Where the blobs go


def test_the_blobs_of_a_migration_are_kept_as_they_come() -> None:
    """K-78: they need not all be in memory, and count by nothing but the record."""
    world = cases()
    for n in range(150):
        world.send("c/Go@1", go(f"{n}"))
    world.run()
    kept: list[Mapping[Hash, bytes]] = []

    def keep(blobs: Mapping[Hash, bytes]) -> None:
        kept.append(dict(blobs))
        world.blobs.update(blobs)

    world.limits, world.keep = Limits(kept_bytes=1000, slice_cells=5), keep
    world.restart()
    assert isinstance(migrate(world), Admitted)
    assert len(kept) > 10
    assert sum(map(len, world.sealed[-1].blobs.values())) < 3000 + len(world.effective.document)
    tell(world, "7")
    assert log_of(world, "7") == ["v1 go", "v2c go"]
    folds_again(world)


def test_a_host_that_cannot_keep_them_stops_it_and_nothing_has_changed() -> None:
    world = cases()
    tell(world, "a")
    before = take(world.state, content_hash).document

    def full(_: Mapping[Hash, bytes]) -> None:
        raise OSError("full")

    world.limits, world.keep = Limits(kept_bytes=10), full
    world.restart()
    with pytest.raises(OSError, match="full"):
        migrate(world)
    assert take(world.state, content_hash).document == before
