"""Calls of the second kernel that do the work of several (CR-2): ``admit_all``, and ``end_step``
with the step that comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.inputs import EventInput, Input
from aos.core.journal.ports import Call
from aos.core.journal.records import Stamp
from aos.core.journal.signing import is_signed
from aos.core.kernel import open_kernel
from aos.core.kernel_protocol import FrameBounds, KernelProtocol
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.core.cases import CASE, cases
from tests.fastcore.owned_kernel import open_owned
from tests.memory_world import MemoryWorld

SALT: Final = bytes(32)
NO_BOUNDS: Final = FrameBounds(2**64 - 1, 2**64 - 1)
STOP: Final = OSError("the host failed")


class Host:
    """Reads and verifies for the kernels of one test. ``failing`` makes reading raise."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        self.failing = False
        self.verified = 0

    def read(self, hash: Hash, /) -> bytes:
        if self.failing:
            raise STOP
        return self._world.read(hash)

    def verify(self, message: bytes, signature: bytes, public_key: bytes) -> bool:
        self.verified += 1
        if self.failing:
            raise STOP
        return is_signed(message, signature, public_key)

    def open(self, opens: Callable[..., KernelProtocol]) -> KernelProtocol:
        """A kernel after all frames of the world."""
        kernel = opens(
            world=self._world.kernel.tip.world,
            read=self.read,
            find=self._world.places.get,
            verify=self.verify,
        )
        for frame in self._world.frames:
            kernel.follow(frame)
        return kernel


@pytest.fixture
def world() -> MemoryWorld:
    """Three cells that wait for two effects each, and one that has run."""
    world = cases()
    world.seal()
    for id, asks in (("a", 2), ("b", 2), ("c", 2), ("d", 0)):
        world.send("c/Go@1", {"id": id, "asks": asks, "note": "go"}, f"id {id}")
    world.run()
    return world


def event(id: str, note: str = "go", submission_id: str | None = None) -> EventInput:
    value = encode({"id": id, "asks": 0, "note": note})
    return EventInput(schema="c/Go@1", value=value, submission_id=submission_id)


def inputs_of(world: MemoryWorld) -> list[tuple[Input, Stamp]]:
    """Events and receipts: new, repeated and refused ones, and two receipts for one intent."""
    receipts = [
        world.receipt(intent, {"ref": f"r{index}"}) for index, intent in enumerate(world.open())
    ]
    forged = replace(receipts[1], signature=bytes(64))
    inputs: list[Input] = [
        event("a"), event("e", "long " * 300), receipts[0], receipts[0], forged, receipts[1],
        event("f", submission_id="id f"), event("f", submission_id="id f"),
        event("d", submission_id="id d"), EventInput(schema="c/No@1", value=b"\xa0"),
        *receipts[2:],
    ]  # fmt: skip
    return [(input, world.stamp()) for input in inputs]


def one_by_one(kernel: KernelProtocol, inputs: Sequence[tuple[Input, Stamp]]) -> list[Any]:
    return [kernel.admit(input, stamp) for input, stamp in inputs]


def test_inputs_of_one_call_are_admitted_as_one_after_another(world: MemoryWorld) -> None:
    """CR-2, CR-16."""
    host, inputs = Host(world), inputs_of(world)
    reference, second = host.open(open_kernel), host.open(open_owned)

    expected = one_by_one(reference, inputs)
    assert list(second.admit_all(inputs, NO_BOUNDS)) == expected

    kinds = {type(answer).__name__ for answer in expected}
    assert kinds == {"Admitted", "Duplicate", "Refusal"}
    assert second.next_seq == reference.next_seq
    assert second.pending_bytes == reference.pending_bytes
    left, right = reference.seal(SALT), second.seal(SALT)
    assert left is not None
    assert right is not None
    assert right.frame.to_bytes() == left.frame.to_bytes()
    assert (right.frame, right.settled, right.blobs) == (left.frame, left.settled, left.blobs)


@pytest.mark.parametrize(
    "bounds", [FrameBounds(1, 2**64 - 1), FrameBounds(900, 2**64 - 1), FrameBounds(2**64 - 1, 1000)]
)
def test_a_call_ends_where_the_frame_is_full(world: MemoryWorld, bounds: FrameBounds) -> None:
    """CR-2: the reference and the second kernel stop after the same input."""
    host, inputs = Host(world), inputs_of(world)
    reference, second = host.open(open_kernel), host.open(open_owned)

    expected = list(reference.admit_all(inputs, bounds))

    assert list(second.admit_all(inputs, bounds)) == expected
    assert 0 < len(expected) < len(inputs)
    assert second.pending_bytes == reference.pending_bytes


def test_a_call_that_fails_keeps_the_inputs_before_it(world: MemoryWorld) -> None:
    """CR-10, CR-12: the input that the host's exception meets has changed nothing."""
    host = Host(world)
    kernel = host.open(open_owned)
    before = kernel.next_seq
    inputs: list[Input] = [event("a"), world.receipt(world.open()[0], {"ref": "r"})]
    host.failing = True

    with pytest.raises(OSError, match="the host failed"):
        kernel.admit_all([(input, world.stamp()) for input in inputs], NO_BOUNDS)

    assert kernel.next_seq == before + 1
    assert isinstance(kernel.admit(event("b"), world.stamp()), Admitted)
    assert kernel.next_seq == before + 2


def test_the_signature_of_a_batch_is_verified_once(world: MemoryWorld) -> None:
    """CR-10: a valid signature stays valid; an invalid one is asked about again."""
    host = Host(world)
    kernel = host.open(open_owned)
    receipts = world.batch([world.receipt(intent, {"ref": "r"}) for intent in world.open()])

    answers = kernel.admit_all([(each, world.stamp()) for each in receipts], NO_BOUNDS)

    assert all(isinstance(answer, Admitted) for answer in answers)
    assert len(answers) == len(receipts) == 6
    assert host.verified == 1


def test_an_invalid_signature_is_not_remembered(world: MemoryWorld) -> None:
    host = Host(world)
    kernel = host.open(open_owned)
    forged = replace(world.receipt(world.open()[0], {"ref": "r"}), signature=bytes(64))

    answers = kernel.admit_all([(forged, world.stamp())] * 2, NO_BOUNDS)

    assert [answer.rule if isinstance(answer, Refusal) else answer for answer in answers] == [
        Rule.RECEIPT_SIGNATURE_IS_WRONG
    ] * 2
    assert host.verified == 2


# The step that comes next


def stepped(world: MemoryWorld, host: Host) -> tuple[KernelProtocol, KernelProtocol]:
    """The reference and a second kernel with three cells to run, after the first step."""
    kernels = host.open(open_kernel), host.open(open_owned)
    stamps = [world.stamp() for _ in range(3)]
    for kernel in kernels:
        for id, stamp in zip("xyz", stamps, strict=True):
            kernel.admit(event(id), stamp)
        run(world, kernel)
    return kernels


def run(world: MemoryWorld, kernel: KernelProtocol) -> Call:
    call = kernel.next()
    assert isinstance(call, Call)
    kernel.end_step(world.runner.run(call))
    return call


def seal(kernel: KernelProtocol) -> bytes:
    sealed = kernel.seal(SALT)
    assert sealed is not None
    return sealed.frame.to_bytes()


BETWEEN: Final[dict[str, Callable[[KernelProtocol, Stamp], object]]] = {
    "nothing": lambda _kernel, _stamp: None,
    "an event": lambda kernel, stamp: kernel.admit(event("y", "done"), stamp),
    "a decision that is dropped": lambda kernel, stamp: kernel.decide(event("y"), stamp),
    "a seal": lambda kernel, _stamp: seal(kernel),
    "a spill": lambda kernel, _stamp: kernel.spill(resting_max=1),
    "a reading": lambda kernel, _stamp: [cell.id for cell in kernel.cells_of(CASE)],
    "no steps": lambda kernel, _stamp: kernel.next(steps=False),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_comes_between_two_steps_changes_the_next_one_as_in_the_reference(
    world: MemoryWorld, name: str
) -> None:
    """CR-2, CR-16: a step that was begun ahead is dropped as any other decision."""
    reference, second = stepped(world, Host(world))
    stamp = world.stamp()
    for kernel in (reference, second):
        BETWEEN[name](kernel, stamp)

    while reference.has_work():
        assert second.has_work()
        assert run(world, second) == run(world, reference)

    assert second.next() is None
    assert seal(second) == seal(reference)


def test_a_step_that_cannot_begin_ahead_fails_when_it_is_asked_for(world: MemoryWorld) -> None:
    """CR-10, CR-12: the exception of the host passes through ``next``, and has changed nothing."""
    host = Host(world)
    kernel = host.open(open_owned)
    kernel.admit(event("x"), world.stamp())
    kernel.admit(event("y", "long " * 300), world.stamp())
    world.blobs.update(kernel.seal(SALT).blobs)  # type: ignore[union-attr]
    first = kernel.next()
    assert isinstance(first, Call)
    ran = world.runner.run(first)

    host.failing = True
    assert kernel.end_step(ran) is None
    before = kernel.next_seq
    with pytest.raises(OSError, match="the host failed"):
        kernel.next()
    assert kernel.next_seq == before

    host.failing = False
    assert isinstance(kernel.next(), Call)
