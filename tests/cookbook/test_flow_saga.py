"""manifests/cookbook/flow_saga: a trip is booked completely, or undone in reverse, as a flow, which
exists in Rust and in Python."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aos.author.build import build
from aos.author.project import read_project
from aos.author.toolchain import Console
from aos.core.journal.records import Step
from aos.testing import Effect, Fail, Flow, InputRefused, World, everywhere, in_turn
from tests.cookbook.test_saga import BOOK, BOOKING, CANCEL, REQUESTED, book, told, want
from tests.cookbook.worlds import ROOT, executors, recipe

CONTROL = "trip/BookingControl@1"
LANGUAGES_PAGE = ROOT / "spec" / "guides" / "languages.md"


@pytest.fixture(scope="module", params=["rust", "python"])
def saga(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest with the flow in one language; that in Python is built in a copy."""
    if request.param == "rust":
        return recipe("flow_saga")
    folder = tmp_path_factory.mktemp("python") / "saga"
    shutil.copytree(recipe("flow_saga") / "python", folder)
    build(read_project(folder), console=Console(report=lambda _: None))
    return folder


@pytest.fixture
def world(saga: Path) -> Iterator[World]:
    with World(saga) as world:
        yield world


def flow(world: World, trip: str = "t-1") -> Flow:
    found = world.flow(BOOKING, trip)
    assert found is not None
    return found


def test_the_output_of_the_flow_has_the_references_of_all_bookings(world: World) -> None:
    want(world)
    assert told(world.effects()) == [(BOOK, "Flight")]

    book(world, "Flight", "Hotel", "Car")

    assert told(world.asked()) == [(BOOK, "Flight"), (BOOK, "Hotel"), (BOOK, "Car")]
    assert flow(world).status == "completed"
    assert flow(world).output == {"flight": "Flight 1", "hotel": "Hotel 1", "car": "Car 1"}


def test_the_keys_that_the_agencies_see_are_the_paths_of_the_steps(world: World) -> None:
    want(world)
    book(world, "Flight")
    world.on(CANCEL, {"note": "canceled"})
    world.effect(BOOK).fail("sold_out")
    world.run()

    found = [each.requested_key for each in world.asked()]
    assert found == ["flight", "hotel", "flight/~undo"]


@pytest.mark.parametrize(
    ("unclear", "kind"),
    [
        (lambda effect: effect.timeout(), "timeout"),
        (lambda effect: effect.fail("unknown_outcome"), "critical"),
        (lambda effect: effect.cancel(), "canceled"),
        (lambda effect: effect.answer_badly(), "critical"),
    ],
    ids=["no answer", "outcome unknown", "canceled", "an answer that is none"],
)
def test_a_booking_without_a_clear_answer_is_canceled_too(
    world: World, unclear: Callable[[Effect], None], kind: str
) -> None:
    want(world)
    book(world, "Flight")
    world.on(CANCEL, {"note": "canceled"})

    unclear(world.effect(BOOK, params={"what": "Hotel"}))
    world.run()

    assert told(world.asked(CANCEL)) == [(CANCEL, "Hotel"), (CANCEL, "Flight")]
    error = flow(world).error
    assert error is not None
    assert (error.kind, error.path) == (kind, "hotel")


def test_a_booking_that_is_retried_has_the_same_key(world: World) -> None:
    world.on(BOOK, in_turn(Fail("busy", retryable=True), then={"reference": "1"}))
    want(world)
    world.advance("100ms")

    first, second, *_ = world.asked(BOOK)
    assert first.intent != second.intent
    assert first.idempotency_key == second.idempotency_key


def test_a_cancellation_that_always_fails_waits_for_a_person_and_resumes_from_there(
    world: World,
) -> None:
    want(world)
    book(world, "Flight", "Hotel")
    world.on(CANCEL, Fail("desk_is_closed"))
    world.effect(BOOK, params={"what": "Car"}).fail("sold_out")
    world.finish()

    assert flow(world).status == "stuck"
    assert world.status(BOOKING, "t-1") == "failed"
    assert [each.state for each in flow(world).compensations] == ["registered", "stuck"]
    assert told(world.asked(CANCEL)) == [(CANCEL, "Hotel")] * 5

    world.on(CANCEL, {"note": "canceled"})
    command = {"$tag": "Resume", "$value": {"skip": False}}
    world.send(CONTROL, {"instance": "t-1", "command": command})
    world.run()

    assert told(world.asked(CANCEL))[5:] == [(CANCEL, "Hotel"), (CANCEL, "Flight")]
    assert flow(world).status == "failed"
    assert [each.state for each in flow(world).compensations] == ["done", "done"]


def test_a_trip_that_is_canceled_on_its_way_is_undone(world: World) -> None:
    """The hotel may have the request, so the cancellation goes there, too."""
    want(world)
    book(world, "Flight")
    world.on(CANCEL, {"note": "canceled"})

    command = {"$tag": "Cancel", "$value": {"rollback": True}}
    world.send(CONTROL, {"instance": "t-1", "command": command})
    world.run()

    assert told(world.asked(CANCEL)) == [(CANCEL, "Hotel"), (CANCEL, "Flight")]
    assert flow(world).status == "canceled"


def test_trips_side_by_side_do_not_mix(world: World) -> None:
    world.on(CANCEL, {"note": "canceled"})
    for trip in ("t-1", "t-2"):
        want(world, trip)
    for trip in ("t-2", "t-1"):
        world.effect(BOOK, key=trip).answer({"reference": trip})
        world.run()
    world.effect(BOOK, key="t-1").fail("sold_out")
    world.run()

    assert flow(world, "t-1").status == "failed"
    assert [each.path for each in flow(world, "t-2").waits] == ["hotel"]


def test_a_request_that_comes_twice_books_once(world: World) -> None:
    want(world)
    want(world)
    book(world, "Flight", "Hotel", "Car")
    with pytest.raises(InputRefused, match="it accepts no more messages"):
        want(world)

    assert len(world.asked()) == 3


def test_a_crash_at_any_point_changes_nothing(saga: Path) -> None:
    """Also while a cancellation waits for its next attempt."""

    def story(world: World) -> None:
        want(world)
        book(world, "Flight", "Hotel")
        world.on(CANCEL, in_turn(Fail("busy"), then={"note": "done"}))
        world.effect(BOOK).timeout()
        world.finish()
        assert flow(world).status == "failed"
        canceled = [(CANCEL, "Car"), (CANCEL, "Car"), (CANCEL, "Hotel"), (CANCEL, "Flight")]
        assert told(world.asked(CANCEL)) == canceled

    assert everywhere(story, saga) >= 9


@pytest.mark.parametrize(
    ("city", "status"), [("Lisbon", "completed"), ("Atlantis", "failed"), ("Limbo", "stuck")]
)
def test_with_its_own_executors_a_city_decides_how_it_ends(
    saga: Path, city: str, status: str
) -> None:
    with World(saga, executors=[executors("flow_saga", "agencies")]) as world:
        world.send(REQUESTED, {"trip_id": "t-1", "city": city})
        world.finish()

        assert flow(world).status == status


def test_the_fuel_of_a_step_in_each_language_is_that_of_the_guide(saga: Path, world: World) -> None:
    """spec/guides/languages.md has it in a table, Python first."""
    want(world)
    book(world, "Flight", "Hotel", "Car")

    row = re.search(r"^\| instructions \(fuel\) .*", LANGUAGES_PAGE.read_text(), re.MULTILINE)
    assert row is not None
    python, rust = re.findall(r"\d[\d,]{4,}", row[0])
    stated = int((rust if saga == recipe("flow_saga") else python).replace(",", ""))
    fuel = [record.fuel for record in world._desk.records if isinstance(record, Step)]
    assert len(fuel) == 4
    assert 0.8 * stated < fuel[2] < 1.25 * stated
