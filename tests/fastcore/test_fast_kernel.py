"""The second kernel as an object: its defects, and its end after a failed change (CR-12, CR-19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from aos.core.journal.records import Event
from aos.core.kernel_protocol import KernelProtocol
from aos.errors import Damage
from aos.fastcore.errors import CoreDefect, CoreUnusable
from aos.fastcore.fast_kernel import FastKernel, open_fast_kernel
from aos.fastcore.fold_core import CoreOperation
from aos.values.digests import content_hash
from tests.core.cases import cases, tell
from tests.core.test_kernel_protocol import event
from tests.fastcore.owned import on_owner
from tests.memory_world import MemoryWorld


@pytest.fixture(scope="module")
def world() -> MemoryWorld:
    """The journal of a world with two events, in frames."""
    world = cases()
    for id in ("a", "b"):
        tell(world, id)
        world.seal()
    return world


def opened(world: MemoryWorld) -> FastKernel:
    def open_one() -> KernelProtocol:
        return open_fast_kernel(
            world=world.kernel.tip.world, read=world.read, find=world.places.get
        )

    return cast("FastKernel", on_owner(open_one))


def followed(world: MemoryWorld) -> FastKernel:
    kernel = opened(world)
    for frame in world.frames:
        on_owner(lambda frame=frame: kernel.follow(frame))  # type: ignore[misc]
    return kernel


CALLS: dict[str, Callable[[FastKernel, MemoryWorld], object]] = {
    "tip": lambda kernel, _: kernel.tip,
    "next_seq": lambda kernel, _: kernel.next_seq,
    "figures": lambda kernel, _: kernel.figures(),
    "decide": lambda kernel, world: kernel.decide(event("z"), world.stamp()),
    "next": lambda kernel, _: kernel.next(),
    "follow": lambda kernel, world: kernel.follow(world.frames[0]),
    "seal": lambda kernel, _: kernel.seal(bytes(32)),
    "snapshot": lambda kernel, _: kernel.snapshot(content_hash),
    "spill": lambda kernel, _: kernel.spill(),
    "open_intents": lambda kernel, _: list(kernel.open_intents()),
}


@pytest.mark.parametrize("name", CALLS)
def test_after_damage_of_a_frame_each_method_says_that_the_kernel_cannot_be_used(
    world: MemoryWorld, name: str
) -> None:
    """CR-12."""
    kernel = followed(world)
    with pytest.raises(Damage):
        on_owner(lambda: kernel.follow(world.frames[0]))

    with pytest.raises(CoreUnusable, match=r"because operation fold_frame failed \(open another"):
        on_owner(lambda: CALLS[name](kernel, world))

    assert bytes(32) not in kernel.pins


def test_after_damage_of_a_record_the_kernel_cannot_be_used(world: MemoryWorld) -> None:
    """CR-12: a record that was decided elsewhere, out of order."""
    kernel = followed(world)
    record = next(record for record in world.records() if isinstance(record, Event))
    with pytest.raises(Damage):
        on_owner(lambda: kernel.append(record, {}))

    with pytest.raises(CoreUnusable, match="because operation append failed"):
        on_owner(lambda: kernel.next_seq)


def test_damage_of_a_decision_leaves_the_kernel_as_it_is(world: MemoryWorld) -> None:
    kernel = followed(world)
    before = on_owner(lambda: (kernel.tip, kernel.next_seq))
    with pytest.raises(Damage):
        on_owner(lambda: kernel.rebase(kernel.tip.frame))

    assert on_owner(lambda: (kernel.tip, kernel.next_seq)) == before


def test_a_defect_names_the_next_record_whatever_was_asked_before(world: MemoryWorld) -> None:
    """CR-19."""
    kernel, next_seq = followed(world), world.frames[-1].header.last + 1
    on_owner(lambda: kernel.admit(event("c"), world.stamp()))

    with pytest.raises(CoreDefect, match=rf"(?s)operation cell .*\(before record {next_seq + 1}\)"):
        on_owner(lambda: kernel._ask(CoreOperation.CELL))
    with pytest.raises(CoreUnusable, match="operation status of the fast core: it trapped before"):
        on_owner(lambda: kernel.next_seq)


def test_a_defect_of_a_new_kernel_names_its_first_record(world: MemoryWorld) -> None:
    kernel = opened(world)

    with pytest.raises(CoreDefect, match=r"(?s)\(before record 1\)"):
        on_owner(lambda: kernel._ask(CoreOperation.CELL))
