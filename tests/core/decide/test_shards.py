"""Refusals of the kernel of a shard: K-40a and K-85a, and GR-12, GR-13 of groups.md."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.records import Step
from aos.manifest.load import Loaded
from aos.manifest.shards import shard_of_key
from aos.values.cbor import encode
from tests.core.group_shop import (
    CUSTOMER,
    LIST,
    LOG,
    LOOK,
    MODULES,
    NOTED,
    ORDER,
    PLACED,
    PLACEMENTS,
    RATED,
    RATES,
    RESOLVE,
    SHIPPED,
    MemoryGroup,
    in_shard,
    shop,
)
from tests.memory_world import MemoryWorld

SHARDS = 4


def customer_of(shard: int, number: int = 0) -> str:
    """A customer in this shard of four; another one for each number."""
    names = (f"c-{candidate}" for candidate in range(1000))
    return [name for name in names if shard_of_key(encode(name), SHARDS) == shard][number]


def world_of(shard: int, loaded: Loaded | None = None) -> MemoryWorld:
    return MemoryWorld(in_shard(loaded or shop(), shard, SHARDS), MODULES)


def placed(order: str, note: str = "x") -> Any:
    return {"order": order, "note": note}


def noted(key: str = "", note: str = "x") -> Any:
    return {"key": key, "note": note}


def answers(world: MemoryWorld, order: str) -> list[str]:
    """How the kernel answered the questions of an order, in their order."""
    lines: Any = world.state_of(ORDER, order)
    return [line for line in lines if line.startswith("sys/")]


def test_an_event_for_a_key_of_another_shard_is_refused_and_changes_nothing() -> None:
    """K-40a."""
    world, near, far = world_of(1), customer_of(1), customer_of(2)
    next_seq = world.kernel.next_seq

    refused = [world.send(PLACED, placed(f"{far}|o-1")), world.send(SHIPPED, noted(far))]

    for answer, cell in zip(refused, (f'{ORDER} "{far}|o-1"', f'{CUSTOMER} "{far}"'), strict=True):
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.KEY_OF_ANOTHER_SHARD
        assert answer.message.endswith(
            f": {cell} is in shard 2 of 4, and this world is shard 1 (send it to the group)"
        )
    assert world.kernel.next_seq == next_seq
    assert isinstance(world.send(PLACED, placed(f"{near}|o-1")), Admitted)
    assert isinstance(world.send(SHIPPED, noted(near)), Admitted)


def test_an_unkeyed_workflow_is_in_the_first_shard_alone() -> None:
    """K-40a, GR-3."""
    first, third = world_of(0), world_of(2)

    answer = third.send(NOTED, noted())

    assert isinstance(answer, Refusal)
    assert (answer.rule, answer.message) == (
        Rule.KEY_OF_ANOTHER_SHARD,
        f"{NOTED}: {LOG} is in shard 0 of 4, and this world is shard 2 (send it to the group)",
    )
    assert isinstance(first.send(NOTED, noted()), Admitted)


def test_a_workflow_in_each_shard_takes_events_in_each() -> None:
    """GR-5, GR-22."""
    group = MemoryGroup(shop(), 3)

    assert all(isinstance(answer, Admitted) for answer in group.send(RATED, noted(note="7")))
    group.run()

    assert [world.state_of(RATES) for world in group.worlds] == [["7"]] * 3


def test_a_step_sends_events_within_its_shard() -> None:
    """K-40a: to its own customer, and to a workflow in each shard."""
    world, customer = world_of(1), customer_of(1)

    for note in ("ship", "rate", f"tell:{customer}|o-2"):
        world.send(PLACED, placed(f"{customer}|o-1", note))
    world.run()

    assert world.state_of(CUSTOMER, customer) == [f"{customer}|o-1"]
    assert world.state_of(RATES) == [f"{customer}|o-1"]
    assert world.state_of(ORDER, f"{customer}|o-2") == ["told"]


@pytest.mark.parametrize("note", ["tell:{far}|o-2", "log"])
def test_a_step_that_sends_an_event_to_another_shard_is_a_fault(note: str) -> None:
    """K-40a, K-33: its whole output is dropped, and other instances continue."""
    world, near, far = world_of(1), customer_of(1), customer_of(3)

    world.send(PLACED, placed(f"{near}|o-1", note.format(far=far)))
    world.send(PLACED, placed(f"{near}|o-2", "ship"))
    world.run()

    fault = world.cell(ORDER, f"{near}|o-1").fault
    assert fault is not None
    cell = f"{LOG} is in shard 0" if note == "log" else f'{ORDER} "{far}|o-2" is in shard 3'
    schema = NOTED if note == "log" else PLACED
    assert (fault.kind, fault.message) == (
        FaultKind.KEY_INVALID,
        f"$.domain_events[0]: {schema}: {cell} of 4, and this world is shard 1",
    )
    assert world.cell(ORDER, f"{near}|o-1").state is None
    assert world.state_of(CUSTOMER, near) == [f"{near}|o-2"]


def test_in_a_world_without_a_shard_nothing_is_in_another_one() -> None:
    """GR-10: the placements of a manifest do nothing there."""
    world = MemoryWorld(shop(), MODULES)

    for shard in range(SHARDS):
        customer = customer_of(shard)
        assert isinstance(world.send(PLACED, placed(f"{customer}|o-1", "log")), Admitted)
        world.send(PLACED, placed(f"{customer}|o-1", f"look:{customer_of(0)}|o-1"))
    world.run()

    assert len(world.state_of(LOG)) == SHARDS  # type: ignore[arg-type]  # a list
    assert all(isinstance(step, Step) for step in world.steps())


def test_a_step_cannot_read_the_cells_of_another_shard() -> None:
    """K-85a: no state there would mean that there is no such cell."""
    world, near, far = world_of(1), customer_of(1), customer_of(2)
    order = f"{near}|o-1"

    notes = ("look:%s|o-1", "resolve:%s")
    for note in (*(note % far for note in notes), *(note % near for note in notes), "list"):
        world.send(PLACED, placed(order, note))
        world.run()

    assert answers(world, order) == [
        f"{LOOK} key_of_another_shard", f"{RESOLVE} key_of_another_shard", f"{LOOK} ok",
        f"{RESOLVE} ok", f"{LIST} ok",
    ]  # fmt: skip
    assert all(isinstance(step, Step) for step in world.steps())


def test_a_step_that_reads_under_a_key_that_is_none_finds_no_state() -> None:
    """K-85a: such a key has no cell in any shard."""
    world, near = world_of(1), customer_of(1)

    for note in ("look-raw:ff", "look-raw:", "look-raw:01"):
        world.send(PLACED, placed(f"{near}|o-1", note))
        world.run()

    assert answers(world, f"{near}|o-1") == [f"{LOOK} ok"] * 3


def manifest_problem(world: MemoryWorld, loaded: Loaded) -> str:
    seq = world.kernel.next_seq
    answer = world.apply(loaded, MODULES)
    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.MANIFEST_IS_INVALID
    assert world.kernel.next_seq == seq
    return answer.message


def test_a_world_stays_the_shard_that_it_is() -> None:
    """GR-12."""
    alone, world, newer = MemoryWorld(shop(), MODULES), world_of(1), shop(version=2)
    message = (
        "shard: expected {}, as in the manifest in force, found {} (a world stays the shard that "
        "it is: apply the manifest to the whole group)"
    )

    assert manifest_problem(world, newer) == message.format("[1, 4]", "none")
    assert manifest_problem(world, in_shard(newer, 2, 4)) == message.format("[1, 4]", "[2, 4]")
    assert manifest_problem(world, in_shard(newer, 1, 8)) == message.format("[1, 4]", "[1, 8]")
    assert manifest_problem(alone, in_shard(newer, 1, 4)) == message.format("none", "[1, 4]")
    assert isinstance(world.apply(in_shard(newer, 1, 4), MODULES), Admitted)
    assert isinstance(alone.apply(newer, MODULES), Admitted)


@pytest.mark.parametrize(
    ("placements", "old", "new"),
    [
        ([PLACEMENTS[1]], "s/order@1 is placed by |", "by its key"),
        ([*PLACEMENTS, {"workflow": LOG, "shard": "each"}], f"{LOG} is placed in shard 0", "each"),
        ([PLACEMENTS[0]], f"{RATES} is placed in each shard", "in shard 0"),
        ([*PLACEMENTS, {"workflow": CUSTOMER, "shard_by": "|"}], f"{CUSTOMER} is placed by", "|"),
    ],
)
def test_a_workflow_stays_placed_as_it_is(
    placements: list[dict[str, str]], old: str, new: str
) -> None:
    """GR-13: also one that has no cells, since another shard may have some."""
    world = world_of(1)

    message = manifest_problem(world, in_shard(shop(placements, version=2), 1, SHARDS))

    assert f"routing.shards: {old}" in message.replace('"', "")
    assert new in message
    alone = MemoryWorld(shop(), MODULES)
    assert isinstance(alone.apply(shop(placements, version=2), MODULES), Admitted)


def test_a_shard_continues_after_a_restart() -> None:
    """K-2: from the genesis, and from a snapshot."""
    world, near, far = world_of(1), customer_of(1), customer_of(2)
    world.send(PLACED, placed(f"{near}|o-1", "ship"))
    world.run()
    answer = world.snapshot()
    assert isinstance(answer, Admitted)
    world.run()

    world.restart()

    assert isinstance(world.send(PLACED, placed(f"{far}|o-1")), Refusal)
    world.send(PLACED, placed(f"{near}|o-2", "ship"))
    world.run()
    assert world.state_of(CUSTOMER, near) == [f"{near}|o-1", f"{near}|o-2"]
