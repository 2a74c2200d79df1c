"""A desk whose journal holds every kind of record; and readers that say that a value was erased.

The desk (tests/core/desk.py) asks for whatever an event tells it to. ``every_kind`` lists the
history of each of its cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import StartInput
from aos.core.journal.records import CellId
from aos.core.state.cell import OpenIntent
from aos.errors import Erased
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from tests.core.desk import (
    ARMS,
    DESK,
    INTROSPECT,
    ONCE,
    TIMER_CANCEL,
    cancel,
    cell_id,
    desk,
    nodes,
    pay,
    tell,
    timer,
    wish,
)
from tests.memory_world import WORLD_KEY, MemoryWorld, air, route

LONG = "personal " * 200


class Desk(MemoryWorld):
    """A world of the desk, with a start record and its modules among the blobs."""

    def __init__(self) -> None:
        super().__init__(air(nodes(ARMS), [route("t/Tell@1", DESK, "key")]), {DESK: desk})
        self.blobs.update(self.loaded.modules)
        host = (("wasmtime", "50.0.1"), ("kernel", "0.1.0"))
        self.kernel.admit(StartInput(host=host), self.stamp())
        self.seal()

    def open_of(self, key: str) -> list[OpenIntent]:
        return [each for each in self.open() if each.cell == cell_id(key)]

    def command(
        self,
        action: str,
        *,
        cell: CellId | None = None,
        intent: Hash | None = None,
        value: Hash | None = None,
        **more: Any,
    ) -> None:
        """Give the operator's command and seal it, with the records it causes, as one frame."""
        answer = self.control(action, cell=cell, intent=intent, value=value, **more)
        assert isinstance(answer, Admitted), answer
        self.run()


def long_event(key: str) -> Hash:
    """The content hash of the long event that ``told_long`` sends to a cell."""
    return content_hash(encode({"key": key, "asks": [], "note": LONG}))


def told_long(world: MemoryWorld, key: str) -> Hash:
    """A long event has come in and has run; its content hash."""
    tell(world, key, note=LONG)
    return long_event(key)


def every_kind() -> Desk:
    """Return a desk with one cell for each history:

    canceled   asks for pay and a timer, cancels the timer by its reference; pay stays open
    streamed   pay has two stream frames, a second attempt, and settles
    batched    three receipts under one signature
    lost       an effect that may run only once, whose run is lost
    head       asks the core for the journal's head
    failed     fails on its first event, again when it is retried, and skips it
    given-up   pay is canceled by the operator
    erased     a long event, whose value is erased
    """
    world = Desk()
    tell(world, "canceled", pay("p"), timer(world, "t"))
    tell(world, "canceled", cancel(ref="t", of=TIMER_CANCEL))
    streamed(world)
    batched(world)
    lost(world)
    tell(world, "head", wish(INTROSPECT[2], {}))
    failed(world)
    tell(world, "given-up", pay("p"))
    world.command("cancel", intent=world.open_of("given-up")[0].intent)
    world.command("erase", value=told_long(world, "erased"))
    return world


def streamed(world: Desk) -> None:
    tell(world, "streamed", pay("p"))
    (paying,) = world.open_of("streamed")
    world.stream(paying, 0)
    world.stream(paying, 3, frame_kind="token", payload=b"\xff", payload_ref=content_hash(b"x"))
    world.run()
    assert isinstance(world.attempt(paying, 2), Admitted)
    given = replace(world.receipt(paying, {"ref": "second"}), attempt=2)
    signature = WORLD_KEY.sign(given.message(world.state.world)).signature
    answer = world.kernel.admit(replace(given, signature=signature), world.stamp())
    assert isinstance(answer, Admitted)
    world.run()


def batched(world: Desk) -> None:
    tell(world, "batched", *(pay(f"p{i}", i) for i in range(3)))
    receipts = [world.receipt(each, {"ref": "together"}) for each in world.open_of("batched")]
    for given in world.batch(receipts):
        assert isinstance(world.kernel.admit(given, world.stamp()), Admitted)
    world.run()


def lost(world: Desk) -> None:
    tell(world, "lost", wish(ONCE, {"n": 1}, "o"))
    (once,) = world.open_of("lost")
    assert isinstance(world.attempt(once, 1), Admitted)
    world.seal()
    assert isinstance(world.attempt(once, 1, "lost"), Admitted)
    world.run()


def failed(world: Desk) -> None:
    tell(world, "failed", note="fail")
    tell(world, "failed", note="behind")
    world.command("retry", cell=cell_id("failed"))
    world.command("skip", cell=cell_id("failed"))


def erasing(world: MemoryWorld, *values: Hash) -> Callable[[Hash], bytes]:
    """A reader of the world's blobs as a store is one that says that ``values`` were erased."""

    def read(hash: Hash, /) -> bytes:
        if hash in values:
            raise Erased(f"the value {hash_text(hash)} was erased by record 99")
        return world.read(hash)

    return read


def only(world: MemoryWorld, kind: type, place: int = 0) -> Any:
    """The record of a kind at ``place`` among those of that kind."""
    return [each for each in world.records() if isinstance(each, kind)][place]
