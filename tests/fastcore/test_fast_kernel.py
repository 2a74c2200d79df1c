"""The second kernel as an object: its defects, and its end after a failed change (CR-12, CR-19)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import pytest

from aos.core.journal.frame import StoredFrame
from aos.core.journal.inputs import EventInput
from aos.core.journal.records import Event
from aos.core.kernel_protocol import KernelProtocol
from aos.errors import BadUsage, Damage
from aos.fastcore.buffer import MEMORY_BYTES_MAX, MEMORY_VARIABLE, memory_bytes_of
from aos.fastcore.errors import CoreDefect, CoreFull, CoreUnusable
from aos.fastcore.fast_kernel import FastKernel, open_fast_kernel
from aos.fastcore.fold_core import CoreOperation
from aos.host.world.inbox import memory_problem
from aos.sandbox.caps import MIB
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.core.cases import case, cases, tell
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


def opened(world: MemoryWorld, memory_bytes: int | None = None) -> FastKernel:
    def open_one() -> KernelProtocol:
        return open_fast_kernel(
            world=world.kernel.tip.world,
            read=world.read,
            find=world.places.get,
            memory_bytes=memory_bytes,
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
    with pytest.raises(CoreUnusable, match=r"operation status .*: it trapped before"):
        on_owner(lambda: kernel.next_seq)


def test_a_defect_of_a_new_kernel_names_its_first_record(world: MemoryWorld) -> None:
    kernel = opened(world)

    with pytest.raises(CoreDefect, match=r"(?s)\(before record 1\)"):
        on_owner(lambda: kernel._ask(CoreOperation.CELL))


def test_a_restart_reads_a_leaf_of_the_snapshot_once_and_drops_it_afterwards() -> None:
    """CR-37a. Without, it reads the leaf again for each of its cells."""
    world = cases()
    names = [f"n{number}" for number in range(30)]
    for name in names:
        tell(world, name)
    world.seal()
    taken = world.kernel.snapshot(world.put)
    for name in names[1:]:
        tell(world, name)
        world.seal()
    reads: Counter[Hash] = Counter()

    def read(hash: Hash, /) -> bytes:
        reads[hash] += 1
        return world.read(hash)

    def restart() -> FastKernel:
        kernel = open_fast_kernel(snapshot=taken.document, read=read, find=world.places.get)
        frames = [
            StoredFrame(frame.header.first, frame.header.last, frame.to_bytes())
            for frame in world.frames
            if frame.header.first > taken.at
        ]
        assert isinstance(kernel, FastKernel)
        kernel.follow_stored(frames, ends.append)
        assert ends == [frame.last for frame in frames]
        return kernel

    ends: list[int] = []
    kernel = on_owner(restart)

    assert on_owner(lambda: kernel.tip) == world.kernel.tip
    assert set(reads.values()) == {1}
    reads.clear()
    assert on_owner(lambda: kernel.cell(case(names[0]))) is not None
    assert set(reads.values()) == {1}


SMALL: Final = 96 * MIB
"""The smallest memory of an instance: a third of it can be allocated."""


def send_more(kernel: FastKernel, world: MemoryWorld, first: int, count: int = 256) -> int:
    """Send events to new cells, in frames; return the number of the next one."""

    def send() -> None:
        for number in range(first, first + count):
            value = encode({"id": f"n{number}", "asks": 0, "note": "x" * 950})
            kernel.admit(EventInput(schema="c/Go@1", value=value), world.stamp())
            if number % 256 == 255:
                kernel.seal(bytes(32))

    on_owner(send)
    return first + count


def test_memory_that_is_nearly_full_is_a_reason_before_the_core_traps(world: MemoryWorld) -> None:
    """CR-37."""
    kernel = opened(world, memory_bytes=SMALL)
    for frame in world.frames:
        on_owner(lambda frame=frame: kernel.follow(frame))  # type: ignore[misc]

    number = 0
    while (problem := memory_problem(on_owner(lambda: kernel.memory))) is None:
        number = send_more(kernel, world, number)

    assert number > 2000
    assert re.search(r"uses 2[5-9] of 32 MiB .* above 80 % \(.*_MIB, which is 96", problem)
    with pytest.raises(CoreFull, match=r"is full \(AOS_CORE_MEMORY_MIB is 96, at most 4095"):
        send_more(kernel, world, number, count=number)


@pytest.mark.parametrize(("text", "mib"), [("", None), ("96", 96), ("4095", 4095)])
def test_the_memory_of_a_core_is_a_setting(text: str, mib: int | None) -> None:
    expected = MEMORY_BYTES_MAX if mib is None else mib * MIB
    assert memory_bytes_of({MEMORY_VARIABLE: text}) == expected


@pytest.mark.parametrize("text", ["95", "4096", "-1", "1 GiB", "²"])
def test_another_text_is_no_memory_of_a_core(text: str) -> None:
    with pytest.raises(BadUsage, match="AOS_CORE_MEMORY_MIB: expected a number of MiB from 96 to"):
        memory_bytes_of({MEMORY_VARIABLE: text})
