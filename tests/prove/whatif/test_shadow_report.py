"""A report is the same whatever the store keeps, and is never too long (SH-1, SH-33, SH-51)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from aos.core.journal.shadow_report import REPORT_BYTES_MAX
from aos.errors import Refused
from aos.host.folder.making import init_world
from aos.prove.replay.difference import FieldDifference
from aos.prove.verify.journal_source import source_of_store
from aos.prove.whatif import shadow_report
from aos.prove.whatif.shadow_course import FirstDifference, ShadowTally
from aos.prove.whatif.step_comparison import DIFFERENCES_KEPT
from aos.read.views.proposal_view import read_report
from tests.cli.shell import here
from tests.memory_world import MemoryWorld
from tests.prove.journals import PLACED, SECOND, store_of
from tests.prove.whatif.naive_world import Rule, versioned
from tests.prove.whatif.shadows import beginnings, shadow_bytes


def test_a_report_does_not_depend_on_the_snapshots_that_are_kept() -> None:
    world = MemoryWorld(versioned(1), Rule(deadline_ns=5 * SECOND).modules())
    world.blobs.update(world.loaded.modules)
    for number in (5, 3, 9, 1, 7):
        world.send(PLACED, {"order_id": f"o{number}", "amount": number})
        world.run()
    world.snapshot()
    world.run()
    for number in (8, 2):
        world.send(PLACED, {"order_id": f"o{number}", "amount": number})
        world.run()
    source = source_of_store(store_of(world))
    [at] = source.snapshots()
    first = min(seq for seq in beginnings(source) if seq > at)

    kept, folded = (
        shadow_bytes(world, versioned(2), Rule(tries=3).modules(), first=first, source=each)
        for each in (source, replace(source, snapshots=dict))
    )

    assert kept == folded
    blockers = read_report(kept)["blockers"]
    assert blockers["total"] == len(blockers["first"]) > 5
    assert blockers["first"] == sorted(blockers["first"], key=lambda each: each["cell"]["key"])


def fitted(lists: dict[str, Any], *, cells: int, pending: int) -> Any:
    data = shadow_report._fitted(
        {"allowlists": lists}, [{"cell": "x" * 9000}] * cells, cells, [{"e": "y" * 900}] * pending
    )
    assert len(data) <= REPORT_BYTES_MAX
    return read_report(data)


@pytest.mark.parametrize("cells", [0, 1, 3, 100])
@pytest.mark.parametrize("pending", [0, 1, 9, 1000])
def test_a_long_report_leaves_out_lists_and_then_allowed_differences(
    cells: int, pending: int
) -> None:
    alike = {"recorded": ["x" * 100] * 10, "shadow": ["x" * 100] * 10}
    other = {"recorded": ["x"], "shadow": None}
    small = fitted({"w": alike}, cells=cells, pending=pending)
    assert small["allowlists"] == {"w": alike}
    assert len(small["differences"]) + small["left_out"] == cells

    large = {f"w{number}": alike for number in range(1200)}
    found = fitted({**large, "v": other}, cells=cells, pending=pending)
    assert found["allowlists"] == {"v": other}

    with pytest.raises(Refused, match="without its lists"):
        fitted({name: {**alike, "shadow": None} for name in large}, cells=cells, pending=pending)


def test_the_fields_are_those_of_the_cells_that_differ_first_however_late_they_are_noted() -> None:
    tally = ShadowTally()
    least: dict[tuple[str, bytes], int] = {}
    some = random.Random(7)
    for _ in range(5 * DIFFERENCES_KEPT):
        cell, at = ("t/w@1", b"%d" % some.randrange(400)), some.randrange(10_000)
        difference = FieldDifference(field="state", recorded=at, recomputed=None)
        tally.differs(
            cell, FirstDifference(at=at, on="x", classes=("state",), differences=(difference,))
        )
        least[cell] = min(at, least.get(cell, at))

    order = sorted(tally.cells, key=lambda cell: (tally.cells[cell].first.at, cell))
    for cell in order[:DIFFERENCES_KEPT]:
        first = tally.cells[cell].first
        assert [each.recorded for each in first.differences] == [first.at] == [least[cell]]
    with_fields = [cell for cell in order if tally.cells[cell].first.differences]
    assert DIFFERENCES_KEPT <= len(with_fields) <= 2 * DIFFERENCES_KEPT


def test_a_pruned_world_without_a_manifest_has_nothing_to_shadow(tmp_path: Any) -> None:
    world = tmp_path / "world"
    init_world(world)
    for words in (("run", "--until-idle"), ("snapshot",), ("run", "--until-idle"),
                  ("journal", "prune", "--before", "newest")):  # fmt: skip
        done = here(*words, "--world", world)
        assert done.code == 0, done

    found = here("shadow", "manifests/orders", "--world", world)

    assert found.code == 2, found
    assert "has no manifest" in found.err
