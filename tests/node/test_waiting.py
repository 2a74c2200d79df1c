"""A wait has the same outcome wherever the follower is when an event's answer arrives (N-115)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aos.core.journal.frame import Tip
from aos.core.journal.records import CellId
from aos.core.state.fold import fold
from aos.core.state.state import empty
from aos.node.waiting import OutcomeWait, OutcomeWaits
from tests.core.desk import cell_id, desks, pay, tell
from tests.memory_world import MemoryWorld

KEY = "a"


class Frames:
    """The part of a store that a wait reads."""

    def __init__(self, world: MemoryWorld, last: int) -> None:
        self._frames = [each for each in world.frames if each.header.first <= last]

    def frames(self, first: int, last: int) -> Any:
        return [
            each for each in self._frames if first <= each.header.last and each.header.first <= last
        ]

    def frame_at(self, seq: int) -> Any:
        for each in self._frames:
            if each.header.first <= seq <= each.header.last:
                return each
        return None


def outcome(
    world: MemoryWorld, seq: int, cell: CellId, arrives: int, *, until_settled: bool
) -> tuple[OutcomeWait, bool]:
    """Wait for an event whose answer arrives once record ``arrives`` is folded; then fold the
    rest."""
    records = world.records()
    state = empty(Tip(world=world.state.tip.world), world.read)

    async def act() -> tuple[list[OutcomeWait], bool]:
        waiting = OutcomeWaits()
        task = None
        for record in records:
            fold(state, record, world.read)
            waiting.on_record(record, state)
            if record.seq == arrives:
                store = cast("Any", Frames(world, record.seq))
                task = asyncio.ensure_future(
                    waiting.wait(seq, [cell], until_settled=until_settled, seconds=0.2, store=store)
                )
                await asyncio.sleep(0)
        assert task is not None
        found = await task
        assert len(waiting) == 0
        return found

    [wait], is_over = asyncio.run(act())
    return wait, is_over


def event_seq(world: MemoryWorld, number: int) -> int:
    return [each.seq for each in world.records() if each.KIND == "event"][number]


def everywhere(
    world: MemoryWorld, seq: int, *, until_settled: bool
) -> set[tuple[bool, bool, str, int | None]]:
    found = set()
    for arrives in range(2, world.state.next_seq):
        wait, is_over = outcome(world, seq, cell_id(KEY), arrives, until_settled=until_settled)
        found.add((is_over, wait.has_run, wait.status, None if wait.run is None else wait.run.seq))
    return found


def test_ran_is_the_step_that_took_the_event_and_settled_the_last_one() -> None:
    world = desks()
    tell(world, KEY, pay())
    [intent] = world.open()
    world.settle(intent, {"ref": "r"})
    world.run()
    first, last = [each.seq for each in world.steps()]
    seq = event_seq(world, 0)

    assert everywhere(world, seq, until_settled=False) == {(True, True, "waiting", first)}
    assert everywhere(world, seq, until_settled=True) == {(True, True, "running", last)}


def test_an_open_effect_keeps_a_cell_from_being_settled() -> None:
    world = desks()
    tell(world, KEY, pay())
    [step] = world.steps()

    found = everywhere(world, event_seq(world, 0), until_settled=True)

    assert {(is_over, has_run) for is_over, has_run, _, _ in found} == {(False, True)}
    assert {seq for _, _, _, seq in found} == {step.seq}


def test_a_fault_at_the_event_ends_the_wait_and_the_event_has_not_run() -> None:
    world = desks()
    tell(world, KEY, note="fail")
    [fault] = world.steps()
    seq = event_seq(world, 0)

    for until_settled in (False, True):
        found = everywhere(world, seq, until_settled=until_settled)
        assert found == {(True, False, "failed", fault.seq)}


def test_an_event_behind_a_fault_is_not_waited_for() -> None:
    world = desks()
    tell(world, KEY, note="fail")
    tell(world, KEY)
    seq = event_seq(world, 1)

    for until_settled in (False, True):
        found = everywhere(world, seq, until_settled=until_settled)
        assert {each[:3] for each in found} == {(True, False, "failed")}


def test_an_event_that_deletes_its_cell_has_run() -> None:
    world = desks()
    tell(world, KEY)
    tell(world, KEY, note="delete")
    _, last = world.steps()
    seq = event_seq(world, 1)

    assert {each[:2] for each in everywhere(world, seq, until_settled=False)} == {(True, True)}
    found = everywhere(world, seq, until_settled=True)
    assert found == {(True, True, "deleted", last.seq)}


def test_an_earlier_event_of_the_same_cell_ends_no_wait() -> None:
    world = desks()
    tell(world, KEY, note="one")
    tell(world, KEY, note="two")
    tell(world, KEY, note="three")
    steps = [each.seq for each in world.steps()]

    for number, step in enumerate(steps):
        found = everywhere(world, event_seq(world, number), until_settled=False)
        assert {each[3] for each in found} == {step}
        assert {each[:2] for each in found} == {(True, True)}
