"""The open timers of a world by the time at which they are due, from all layers (SN-16).

Each scenario plays in a world whose waiting cells rest and in one whose do not. Both kernels run
each world.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import cbor2
import pytest

from aos.core.journal.records import slot_bytes
from aos.core.limits import Limits
from aos.core.state.cell import OpenIntent
from aos.core.state.intent_progress import OpenTimer
from aos.errors import Damage
from aos.values.cbor import Value, decode_record
from aos.values.digests import Hash, content_hash
from tests.core.desk import PAY, TIMER, cell_id, desks, pay, tell, wish
from tests.fastcore.paired_kernel import paired
from tests.memory_world import MemoryWorld

LIMITS: Final = (
    Limits(snapshot_format=1, page_items=2),
    Limits(snapshot_format=2, delta_bytes=0, page_items=2),
)


@pytest.fixture(autouse=True)
def both_kernels() -> Iterator[None]:
    with paired() as pairs:
        yield
    assert any(pair.calls for pair in pairs)


@pytest.fixture(params=LIMITS, ids=("active", "resting"))
def world(request: pytest.FixtureRequest) -> MemoryWorld:
    world = desks()
    world.seal()
    world.limits = request.param
    world.restart()
    world.kernel.spill(resting_max=1)
    return world


def rest(world: MemoryWorld) -> None:
    """Continue from a snapshot, without a record of it; forget what it has."""
    world.seal()
    world.kernel.rebase(world.kernel.snapshot(world.put).document)
    world.state.cells.tidy()


def timer_at(due_ns: int, key: str | None = None) -> Value:
    return wish(TIMER, {"deliver_at_ns": due_ns, "key": key})


def sleep(world: MemoryWorld, key: str, *due_ns: int) -> None:
    tell(world, key, *[timer_at(due) for due in due_ns])


def intent_of(world: MemoryWorld, key: str) -> OpenIntent:
    return next(intent for intent in world.open() if intent.cell == cell_id(key))


def paged(world: MemoryWorld, count: int) -> list[OpenTimer]:
    """All open timers, by pages of ``count``."""
    timers: list[OpenTimer] = []
    while page := world.kernel.open_timers(timers[-1].place if timers else None, count):
        assert len(page) <= count
        timers += page
    return timers


def places_of(world: MemoryWorld) -> list[bytes]:
    """Of each timer the time at which it is due (8 bytes), and 24 bytes of its hash; ascending."""
    timers = [intent for intent in world.open() if intent.effect.name == TIMER]
    params = [cbor2.loads(slot_bytes(timer.params, world.read)) for timer in timers]
    dues = [value["deliver_at_ns"].to_bytes(8, "big") for value in params]
    return sorted(due + timer.intent[:24] for due, timer in zip(dues, timers, strict=True))


def check(world: MemoryWorld) -> list[Any]:
    """Compare the timers, by pages of any length, with the list of all open intents."""
    loaded = len(world.state.intents.loaded)
    timers = paged(world, 1)
    assert len(world.state.intents.loaded) == loaded, "a cell was loaded"
    assert [paged(world, count) for count in (2, 3, 100)] == [timers] * 3
    listed = {progress.intent.intent: progress for progress in world.kernel.open_intents()}
    assert [timer.place for timer in timers] == places_of(world)
    assert {timer.progress.intent.intent: timer.progress for timer in timers} == {
        hash: progress for hash, progress in listed.items() if progress.intent.effect.name == TIMER
    }
    others = [progress.intent.intent for progress in world.kernel.open_intents(but=TIMER)]
    assert others == [
        hash for hash, progress in listed.items() if progress.intent.effect.name != TIMER
    ]
    figures = world.kernel.figures()
    assert figures.open_timers == len(timers)
    assert figures.open_intents == len(listed)
    return [(timer.progress.intent.cell, due_of(timer)) for timer in timers]


def due_of(timer: OpenTimer) -> int:
    return int.from_bytes(timer.place[:8], "big")


def test_timers_are_in_the_order_of_their_time_whatever_layer_they_are_in(
    world: MemoryWorld,
) -> None:
    later = world.now_ns + 10**12
    sleep(world, "a", later + 50)
    sleep(world, "b", later + 20, later + 90)
    tell(world, "c", pay())
    check(world)
    rest(world)
    check(world)
    sleep(world, "d", later + 70)
    sleep(world, "e", later + 10, later + 20)
    tell(world, "f", pay(), timer_at(later + 30, "key"))
    order = check(world)
    assert [due - later for _, due in order] == [10, 20, 20, 30, 50, 70, 90]
    rest(world)
    assert check(world) == order


def test_a_timer_leaves_the_order_when_it_ends_and_only_then(world: MemoryWorld) -> None:
    later = world.now_ns + 10**12
    for n in range(6):
        sleep(world, f"c{n}", later - n)
    rest(world)
    # A base timer and one above it end; others come into memory and leave it again.
    sleep(world, "new", later + 1)
    for key in ("c1", "new"):
        world.fail(intent_of(world, key), "canceled", status="canceled")
        world.run()
    tell(world, "c2", note="hello")
    tell(world, "c3", timer_at(later + 9))
    order = check(world)
    assert len(order) == 6
    rest(world)
    assert check(world) == order
    world.control("end", cell=cell_id("c4"), status="completed")
    world.control("remove", cell=cell_id("c5"))
    world.run()
    remaining = check(world)
    assert [cell for cell, _ in remaining] == [cell_id(key) for key in ("c3", "c2", "c0", "c3")]
    rest(world)
    assert check(world) == remaining


def test_a_timer_of_a_cell_that_waits_no_more_stays_in_the_order(world: MemoryWorld) -> None:
    """A snapshot has its intent in a page, while the one before had it in the map."""
    later = world.now_ns + 10**12
    for n in range(4):
        sleep(world, f"c{n}", later + n)
    rest(world)
    tell(world, "c1", note="fail")
    world.attempt(intent_of(world, "c2"), 2, "parked", code="exception")
    world.run()
    order = check(world)
    assert len(order) == 4
    for _ in range(2):
        rest(world)
        assert check(world) == order
        tell(world, "other", note="hello")
    world.control("skip", cell=cell_id("c1"))
    world.run()
    for _ in range(2):
        assert check(world) == order
        rest(world)


def test_a_restart_has_the_same_timers(world: MemoryWorld) -> None:
    later = world.now_ns + 10**12
    for n in range(5):
        sleep(world, f"c{n}", later + n % 3)
    tell(world, "c1", note="fail")
    world.seal()
    document = world.kernel.snapshot(world.put).document
    sleep(world, "new", later - 1)
    order = check(world)
    for snapshot in (None, document):
        world.restart(snapshot)
        assert check(world) == order


def test_a_snapshot_of_another_format_keeps_the_order(world: MemoryWorld) -> None:
    later = world.now_ns + 10**12
    for n in range(5):
        sleep(world, f"c{n}", later + n % 3)
    order = check(world)
    for format in (2, 1, 2, 2, 1):
        world.seal()
        world.kernel.rebase(world.kernel.snapshot(world.put, format=format).document)
        world.state.cells.tidy()
        assert check(world) == order


def test_a_fork_says_which_timers_it_inherited(world: MemoryWorld) -> None:
    """K-113."""
    later = world.now_ns + 10**12
    sleep(world, "a", later)
    rest(world)
    world.fork("keep")
    world.run()
    sleep(world, "b", later)
    check(world)
    inherited = {
        timer.progress.intent.cell: timer.progress.is_inherited for timer in paged(world, 9)
    }
    assert inherited == {cell_id("a"): True, cell_id("b"): False}


def test_params_in_a_blob_have_a_time_too(world: MemoryWorld) -> None:
    later = world.now_ns + 10**12
    tell(world, "a", timer_at(later + 1, "long " * 2_000))
    sleep(world, "b", later)
    order = check(world)
    assert [due - later for _, due in order] == [0, 1]
    rest(world)
    assert check(world) == order


def test_a_timer_without_its_cell_is_damage(world: MemoryWorld) -> None:
    sleep(world, "a", world.now_ns + 10**12)
    world.seal()
    document = world.kernel.snapshot(world.put, format=2).document
    fields: Any = decode_record(world.blobs[document])
    for name in ("open", "waiting"):
        rows = next(iter(fields[name].values()))
        lost = world.blobs.pop(Hash(rows[0]))
        world.restart(document)
        with pytest.raises(Damage):
            world.kernel.open_timers(None, 10)
        world.blobs[content_hash(lost)] = lost
    world.restart(document)
    assert len(world.kernel.open_timers(None, 10)) == 1
    assert PAY not in {timer.progress.intent.effect.name for timer in paged(world, 1)}
