"""manifests/cookbook/saga: a trip is booked completely, or its steps are undone in reverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aos.testing import Effect, Fail, World, in_turn, like
from tests.cookbook.worlds import executors, recipe

BOOKING = "trip/booking@1"
REQUESTED = "trip/Requested@1"
BOOK, CANCEL = "trip/book@1", "trip/cancel@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("saga")) as world:
        yield world


def want(world: World, trip: str = "t-1") -> None:
    world.send(REQUESTED, {"trip_id": trip, "city": "Lisbon"})
    world.run()


def book(world: World, *what: str) -> None:
    """The agencies take the bookings, one after the other."""
    for each in what:
        world.effect(BOOK, params={"what": each}).answer({"reference": f"{each} 1"})
        world.run()


def told(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(each.name, each.params["what"]["$tag"]) for each in effects]


def test_a_trip_is_booked_one_service_after_the_other(world: World) -> None:
    want(world)
    assert told(world.effects()) == [(BOOK, "Flight")]

    book(world, "Flight", "Hotel", "Car")

    assert told(world.asked()) == [(BOOK, "Flight"), (BOOK, "Hotel"), (BOOK, "Car")]
    assert world.events("trip/Booked@1") == [{"trip_id": "t-1"}]
    assert world.status(BOOKING, "t-1") == "completed"


def test_a_refusal_takes_back_what_was_booked_in_reverse_order(world: World) -> None:
    want(world)
    book(world, "Flight", "Hotel")
    world.on(CANCEL, {"note": "canceled"})

    world.effect(BOOK, params={"what": "Car"}).fail("sold_out")
    world.run()

    assert told(world.asked(CANCEL)) == [(CANCEL, "Hotel"), (CANCEL, "Flight")]
    assert world.events("trip/Undone@1") == [{"trip_id": "t-1", "why": "sold_out"}]
    assert world.state(BOOKING, "t-1") == like({"phase": "Undone", "undo": []})
    assert world.status(BOOKING, "t-1") == "completed"


def test_the_second_booking_is_not_asked_for_before_the_first_is_canceled(world: World) -> None:
    """One compensation at a time: the order in which they end is the order of the stack."""
    want(world)
    book(world, "Flight", "Hotel")
    world.effect(BOOK).fail("sold_out")
    world.run()

    assert told(world.effects()) == [(CANCEL, "Hotel")]


@pytest.mark.parametrize(
    "unclear",
    [
        lambda effect: effect.timeout(),
        lambda effect: effect.fail("transport", retryable=True),
        lambda effect: effect.cancel(),
        lambda effect: effect.answer_badly(),
    ],
    ids=["no answer", "connection lost", "canceled", "an answer that is none"],
)
def test_a_booking_without_a_clear_answer_is_taken_back_too(
    world: World, unclear: Callable[[Effect], None]
) -> None:
    """It may have happened. Only a clear no needs no undoing."""
    want(world)
    book(world, "Flight")
    world.on(CANCEL, {"note": "canceled"})

    unclear(world.effect(BOOK, params={"what": "Hotel"}))
    world.run()

    assert told(world.asked(CANCEL)) == [(CANCEL, "Hotel"), (CANCEL, "Flight")]
    assert world.state(BOOKING, "t-1") == like({"phase": "Undone"})


def test_a_cancellation_that_fails_is_tried_again_under_the_same_key(world: World) -> None:
    want(world)
    book(world, "Flight")
    world.on(CANCEL, in_turn(Fail("busy", retryable=True), {"note": "canceled"}))
    world.effect(BOOK, params={"what": "Hotel"}).fail("sold_out")
    world.run()
    assert world.state(BOOKING, "t-1") == like({"phase": "Undoing", "attempt": 1})

    world.advance("1s")

    first, second = world.asked(CANCEL)
    assert first.intent != second.intent
    assert first.idempotency_key == second.idempotency_key
    assert world.state(BOOKING, "t-1") == like({"phase": "Undone"})


def test_a_step_that_cannot_be_undone_waits_for_a_person_and_resumes_from_there(
    world: World,
) -> None:
    want(world)
    book(world, "Flight", "Hotel")
    world.on(CANCEL, Fail("desk_is_closed"))
    world.effect(BOOK, params={"what": "Car"}).fail("sold_out")
    world.finish()

    assert world.status(BOOKING, "t-1") == "failed"
    assert world.state(BOOKING, "t-1") == like({"phase": "Stuck", "undo": ["Flight", "Hotel"]})
    assert told(world.asked(CANCEL)) == [(CANCEL, "Hotel")] * 3
    assert world.events("trip/Undone@1") == []

    world.on(CANCEL, {"note": "canceled"})
    world.send("trip/GoOn@1", {"trip_id": "t-1"})
    world.run()

    assert told(world.asked(CANCEL))[3:] == [(CANCEL, "Hotel"), (CANCEL, "Flight")]
    assert world.status(BOOKING, "t-1") == "completed"
    assert world.events("trip/Undone@1") == [{"trip_id": "t-1", "why": "sold_out"}]


def test_trips_side_by_side_do_not_mix(world: World) -> None:
    """No cross-delivery: each receipt goes to the cell that asked."""
    world.on(CANCEL, {"note": "canceled"})
    for trip in ("t-1", "t-2"):
        want(world, trip)
    for trip in ("t-2", "t-1"):
        world.effect(BOOK, key=trip).answer({"reference": trip})
        world.run()
    world.effect(BOOK, key="t-1").fail("sold_out")
    world.run()

    assert world.state(BOOKING, "t-1") == like({"phase": "Undone"})
    assert world.state(BOOKING, "t-2") == like({"phase": "Booking", "undo": ["Flight", "Hotel"]})


def test_a_request_that_comes_twice_books_once(world: World) -> None:
    want(world)
    want(world)
    book(world, "Flight", "Hotel", "Car")
    want(world)

    assert len(world.asked()) == 3
    assert world.events("trip/Booked@1") == [{"trip_id": "t-1"}]


@pytest.mark.parametrize("crashes", range(1, 6))
def test_a_crash_at_any_point_changes_nothing(crashes: int) -> None:
    """The agencies see the same requests, under the same keys, whenever the process dies."""

    def run(*, crash_before: int | None) -> tuple[list[tuple[str, str, str]], object]:
        with World(recipe("saga")) as world:
            want(world)
            answers: list[Callable[[Effect], None]] = [
                lambda effect: effect.answer({"reference": "F"}),
                lambda effect: effect.answer({"reference": "H"}),
                lambda effect: effect.fail("sold_out"),
                lambda effect: effect.answer({"note": "canceled"}),
                lambda effect: effect.answer({"note": "canceled"}),
            ]
            for number, answer in enumerate(answers, 1):
                if number == crash_before:
                    world.restart()
                answer(*world.effects())
                world.run()
            asked = [
                (each.name, each.params["what"]["$tag"], each.idempotency_key)
                for each in world.asked()
            ]
            return asked, world.state(BOOKING, "t-1")

    assert run(crash_before=crashes) == run(crash_before=None)


@pytest.mark.parametrize(
    ("city", "phase", "status"),
    [
        ("Lisbon", "Booked", "completed"),
        ("Atlantis", "Undone", "completed"),
        ("Limbo", "Stuck", "failed"),
    ],
)
def test_with_its_own_executors_a_city_decides_how_it_ends(
    city: str, phase: str, status: str
) -> None:
    with World(recipe("saga"), executors=[executors("saga", "agencies")]) as world:
        world.send(REQUESTED, {"trip_id": "t-1", "city": city})
        world.finish()

        assert world.state(BOOKING, "t-1") == like({"phase": phase})
        assert world.status(BOOKING, "t-1") == status
