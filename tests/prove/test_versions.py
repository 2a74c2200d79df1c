"""Worlds in which instances ran under several manifests: replayed, verified and shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import MIGRATE, PIN
from aos.core.journal.records import Faulted, Manifest, Migrated, Step
from aos.errors import Damage
from aos.manifest.load import Loaded
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify import verify_store
from aos.read.views.cell_view import cell as cell_view
from aos.read.views.cell_view import cells as cells_view
from aos.read.views.journal_view import journal, record
from aos.read.views.view import View
from aos.read.views.world_view import manifest as manifest_view
from aos.read.views.world_view import world as world_view
from aos.values.digests import Hash, hash_text
from tests.core.cases import CASE, COUNTED, apply, cases, loaded, pay, tell
from tests.core.decide.test_migrate import migrating, to_counted
from tests.memory_world import MemoryWorld, air, route, schema, workflow
from tests.prove.journals import head_of, replaced, resealed, store_of, verify_frames


@cache
def pinned() -> MemoryWorld:
    """One cell ended under its own manifest, one is pinned with a state of its own schema, one
    failed pinned."""
    world = cases()
    for id in ("ends", "stays", "fails"):
        tell(world, id, 1)
    apply(world, 2, PIN, code="v2c", state=COUNTED)
    tell(world, "ends")
    pay(world, "ends")
    tell(world, "fails", note="fail")
    tell(world, "new")
    world.blobs.update(loaded().modules)
    world.blobs.update(loaded(2).modules)
    return world


@cache
def migrated() -> MemoryWorld:
    world = cases()
    tell(world, "a")
    tell(world, "b", 1)
    world.apply(to_counted(), {CASE: migrating()}, mode=MIGRATE)
    world.run()
    pay(world, "b")
    world.blobs.update(loaded().modules)
    world.blobs.update(to_counted().modules)
    return world


@pytest.mark.parametrize("make", [pinned, migrated])
def test_such_a_world_is_replayed_and_sound(make: Callable[[], MemoryWorld]) -> None:
    world = make()
    report = replay(world.frames, world.read, world.runner, head=head_of(world.frames))
    assert report.seq == world.state.next_seq - 1
    verified = verify_store(store_of(world))
    assert verified.is_sound, verified.findings


def only(world: MemoryWorld, kind: type, **fields: Any) -> Any:
    (found,) = [
        each
        for each in world.records()
        if isinstance(each, kind)
        and all(getattr(each, name) == value for name, value in fields.items())
    ]
    return found


@pytest.mark.parametrize("under", [None, 1, 7, 99])
def test_a_step_under_another_manifest_than_the_instances_is_found(under: int | None) -> None:
    world = pinned()
    step = next(each for each in world.records() if isinstance(each, Step) and each.under)
    frames = resealed(world.frames, step.seq, lambda found: replaced(found, under=under))
    with pytest.raises(Divergence, match="replay differs in under"):
        replay(frames, world.read, world.runner)
    kinds = {each.kind for each in verify_frames(frames, world.read).findings}
    assert FindingKind.RECORD_CANNOT_FOLLOW in kinds


def test_a_manifest_of_another_mode_than_was_signed_is_found() -> None:
    world = pinned()
    manifest = only(world, Manifest, mode=PIN)
    for fields in ({"mode": MIGRATE}, {"leaves": ("x/y@1",)}):
        frames = resealed(world.frames, manifest.seq, lambda found, f=fields: replaced(found, **f))  # type: ignore[misc]
        report = verify_frames(frames, world.read)
        assert FindingKind.SIGNATURE_WRONG in {each.kind for each in report.findings}


def test_migrated_states_are_read_and_missing_ones_are_found() -> None:
    world = migrated()
    manifest = only(world, Manifest, mode=MIGRATE)
    (made,) = manifest.migrated

    def without_root(hash: Hash, /) -> bytes:
        if hash == made.root:
            raise Damage("it is gone")
        return world.read(hash)

    report = verify_frames(world.frames, without_root)
    found = next(each for each in report.findings if each.kind is FindingKind.BLOB_DAMAGED)
    assert found.record == manifest.seq
    assert "cells that were migrated cannot be read: it is gone" in str(found)

    other = (Migrated(workflow=CASE, root=made.root, count=1),)
    frames = resealed(world.frames, manifest.seq, lambda found: replaced(found, migrated=other))
    with pytest.raises(Divergence, match=r"replay differs in migrated\[0\].count: expected 1"):
        replay(frames, world.read, world.runner)


def view(world: MemoryWorld) -> View:
    return View(world.state, store_of(world))


def test_cells_say_which_version_they_run() -> None:
    """A-63, A-63a."""
    world = pinned()
    shown = view(world)
    rows = {row["key"]: row["version"] for row in cells_view(shown)["cells"]}
    modules = {
        number: hash_text(loaded(number, **more).effective.workflows[CASE].module.hash)
        for number, more in ((1, {}), (2, {"state": COUNTED}))
    }
    assert {key: (each["is_pinned"], each["record"]) for key, each in rows.items()} == {
        "ends": (True, 2), "stays": (True, 2), "fails": (True, 2), "new": (False, 9),
    }  # fmt: skip
    assert rows["stays"]["module_hash"] == modules[1]
    assert rows["new"]["module_hash"] == modules[2]
    for found in (world_view(shown)["versions"], manifest_view(shown)["versions"]):
        assert [(each["record"], each["in_force"], each["cells"]) for each in found] == [
            (2, False, 3), (9, True, 1),
        ]  # fmt: skip
        assert found[0]["by_workflow"] == {CASE: 3}
    assert cell_view(shown, CASE, "stays")["state"] == ["v1 go"]
    assert cell_view(shown, CASE, "new")["state"] == {"log": ["v2c go"], "count": 1}


def test_records_are_read_with_the_manifest_that_they_ran_under() -> None:
    """A-33, A-35."""
    world = pinned()
    shown = view(world)
    steps = [each for each in world.records() if isinstance(each, Step) and each.under]
    found = record(shown, steps[0].seq)
    assert (found["under"], found["state"]) == (2, ["v1 go", "v1 go"])
    (listed,) = journal(shown, first=steps[0].seq, limit=1)["records"]
    assert listed["summary"].endswith("under the manifest of 2")
    fault = only(world, Faulted)
    assert record(shown, fault.seq)["under"] == 2
    manifest = only(world, Manifest, mode=PIN)
    assert record(shown, manifest.seq)["mode"] == "pin"
    made = only(migrated(), Manifest, mode=MIGRATE)
    (entry,) = record(view(migrated()), made.seq)["migrated"]
    assert (entry["workflow"], entry["cells"]) == (CASE, 2)


def test_a_workflow_that_is_gone_is_said_to_be() -> None:
    world = cases()
    tell(world, "a")
    other = cases_of_another()
    assert isinstance(world.apply(other, leaves=(CASE,)), Admitted)
    world.run()
    (row,) = cells_view(view(world))["cells"]
    assert row["key"] == "a"
    assert row["version"]["module"] is None
    assert row["version"]["module_hash"] is None


def cases_of_another() -> Loaded:
    nodes = [
        schema("o/E@1", {"record": {"n": {"nat": {}}}}),
        schema("o/S@1", {"unit": {}}),
        workflow("o/o@1", state="o/S@1", event="o/E@1"),
    ]
    return air(nodes, [route("o/E@1", "o/o@1")])
