"""The log of a world whose first records were pruned begins with its snapshot (EX-29)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.host.folder.reader import open_reader
from aos.host.retention.pruning import prune_world
from aos.prove.event_log.journal_events import cell_name
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import hash_text
from tests.core.desk import cell_id, pay, tell, timer
from tests.host.on_disk import folder_of
from tests.prove.desks import Desk
from tests.prove.event_log.logs import read_json, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pruned world. Effects that are open at the cut are answered or canceled later."""
    world = Desk()
    for key in ("answered", "canceled", "removed", "both", "open"):
        tell(world, key, pay("p"), timer(world, "t"))
    tell(world, "failed", note="fail")
    tell(world, "ended", pay("p"))
    world.command("end", cell=cell_id("ended"), status="completed", why="done")
    tell(world, "gone", note="told")
    world.command("remove", cell=cell_id("gone"), why="gone")
    world.snapshot()
    world.run()
    world.settle(world.open_of("answered")[0], {"ref": "late"})
    world.run()
    world.command("cancel", intent=world.open_of("canceled")[0].intent)
    world.command("remove", cell=cell_id("removed"), why="gone")
    world.command("retry", cell=cell_id("failed"))
    tell(world, "both", pay("q"))
    tell(world, "ended", note="more")
    path = folder_of(world, tmp_path_factory.mktemp("pruned") / "world")
    prune_world(path)
    return path


@pytest.fixture
def store(folder: Path) -> Iterator[LmdbStore]:
    with LmdbStore.open(folder / "store", readonly=True) as opened:
        yield opened


def test_every_status_is_the_kernels(folder: Path, store: LmdbStore, tmp_path: Path) -> None:
    made = written(store, tmp_path / "log.json", "ocel")
    found = read_json(made.path)
    last = {id: statuses[-1][1] for id, statuses in found.statuses.items() if statuses}

    assert made.first > 1
    with open_reader(folder) as reader:
        state = reader.state
        cells = {cell_name(*cell.id): cell.status for cell in state.cells.values()}
        open_ones = {hash_text(each) for each in state.intents}
    named = {object for _, object, _ in found.links} | {cell for _, cell, _ in found.asked_by}
    assert {"t/desk@1 answered", "t/desk@1 failed", "t/desk@1 ended"} <= named
    assert {id: status for id, status in cells.items() if id in named} == {
        id: status for id, status in last.items() if id in cells
    }
    assert last["t/desk@1 removed"] == "deleted"
    assert {id for id, status in last.items() if status == "open"} == open_ones


def test_every_named_object_is_there(store: LmdbStore, tmp_path: Path) -> None:
    found = read_json(written(store, tmp_path / "log.json", "ocel", with_values=True).path)

    assert {object for _, object, _ in found.links} <= set(found.objects)
    assert {cell for _, cell, _ in found.asked_by} <= set(found.objects)
    assert any(name.startswith("value.") for each in found.attributes.values() for name in each), (
        "values are read with the manifest of the snapshot"
    )


def test_a_command_names_the_cell_of_an_effect_that_was_requested_before(
    store: LmdbStore, tmp_path: Path
) -> None:
    found = read_json(written(store, tmp_path / "log.json", "ocel").path)
    [command] = [id for id, (of, _) in found.events.items() if of == "operator cancel"]

    assert "t/desk@1 canceled" in {object for id, object, _ in found.links if id == command}
