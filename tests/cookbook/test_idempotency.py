"""manifests/cookbook/idempotency: the money moves once, whatever crashes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.testing import Effect, Fail, InputRefused, Timeout, World, in_turn, like
from tests.cookbook.worlds import executors, recipe

TRANSFER = "bank/transfer@1"
PAY, WIRE, LOOK = "bank/pay@1", "bank/wire@1", "bank/look@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("idempotency")) as world:
        yield world


def transfer(world: World, way: str, transfer: str = "t-1") -> None:
    asked = {"transfer_id": transfer, "to": "ann", "cents": 500, "way": way}
    world.send("bank/Asked@1", asked)
    world.run()


def keys(effects: list[Effect]) -> set[str]:
    return {each.idempotency_key for each in effects}


def test_every_attempt_at_one_payment_has_one_key(world: World) -> None:
    """The intents differ, the bank sees one payment."""
    world.on(PAY, in_turn(Timeout(), Fail("transport", retryable=True), {"reference": "p-1"}))
    transfer(world, "Keyed")
    world.finish()

    asked = world.asked(PAY)
    assert len({each.intent for each in asked}) == 3
    assert len(keys(asked)) == 1
    assert [each.params for each in asked] == [asked[0].params] * 3
    assert world.state(TRANSFER, "t-1") == like({"phase": {"Paid": "p-1"}})


def test_two_transfers_have_two_keys(world: World) -> None:
    """The key that the workflow asks for is made unique by the cell's."""
    transfer(world, "Keyed", "t-1")
    transfer(world, "Keyed", "t-2")

    one, other = world.effects(PAY)
    assert one.requested_key == other.requested_key == "pay"
    assert one.idempotency_key != other.idempotency_key


def test_after_a_crash_the_request_to_the_bank_is_repeated_under_the_same_key(world: World) -> None:
    transfer(world, "Keyed")
    before = world.effect(PAY)
    world.restart()
    after = world.effect(PAY)

    assert (after.intent, after.idempotency_key) == (before.intent, before.idempotency_key)
    after.answer({"reference": "p-1"})
    world.run()
    assert world.status(TRANSFER, "t-1") == "completed"


def test_a_receipt_that_comes_twice_counts_once(world: World) -> None:
    transfer(world, "Keyed")
    pay = world.effect(PAY)
    pay.answer({"reference": "p-1"})
    world.run()
    pay.duplicate()

    assert world.run() == 0
    assert world.events("bank/Paid@1") == [{"transfer_id": "t-1", "reference": "p-1"}]


def test_only_the_executor_can_report_that_it_was_paid(world: World) -> None:
    transfer(world, "Keyed")
    with pytest.raises(InputRefused):
        world.effect(PAY).forge({"reference": "a lie"})

    assert world.status(TRANSFER, "t-1") == "waiting"


def test_a_clear_no_is_the_end(world: World) -> None:
    world.on(PAY, Fail("account_closed"))
    transfer(world, "Keyed")

    assert len(world.asked(PAY)) == 1
    assert world.state(TRANSFER, "t-1") == like({"phase": {"Unpaid": "account_closed"}})


def test_a_payment_without_keys_is_never_asked_for_twice(world: World) -> None:
    """at_most_once: a transfer that a crash interrupts is lost, and the workflow looks it up."""
    transfer(world, "Unkeyed")
    world.effect(WIRE).begin()
    world.restart()
    world.run()

    assert len(world.asked(WIRE)) == 1
    assert [each.name for each in world.effects()] == [LOOK]

    world.effect(LOOK).answer({"reference": "w-7"})
    world.run()
    assert world.state(TRANSFER, "t-1") == like({"phase": {"Paid": "w-7"}})


def test_a_transfer_that_is_not_booked_is_reported_and_not_wired_again(world: World) -> None:
    """The first wire may still be on its way: that is for a person to decide."""
    transfer(world, "Unkeyed")
    world.effect(WIRE).timeout()
    world.run()
    world.effect(LOOK).answer({"reference": None})
    world.run()

    assert world.state(TRANSFER, "t-1") == like({"phase": {"Unpaid": "not booked"}})
    assert world.status(TRANSFER, "t-1") == "failed"
    assert len(world.asked(WIRE)) == 1


def test_looking_may_be_repeated_until_there_is_an_answer(world: World) -> None:
    world.on(LOOK, in_turn(Fail("closed", retryable=True), Timeout(), {"reference": "w-7"}))
    transfer(world, "Unkeyed")
    world.effect(WIRE).fail("transport", retryable=True)
    world.run()
    world.finish()

    assert world.state(TRANSFER, "t-1") == like({"phase": {"Paid": "w-7"}})


def test_the_same_transfer_asked_for_twice_is_paid_once(world: World) -> None:
    world.on(PAY, {"reference": "p-1"})
    transfer(world, "Keyed")
    transfer(world, "Keyed")
    transfer(world, "Unkeyed")

    assert len(world.asked(PAY)) == 1
    assert world.asked(WIRE) == []


@pytest.mark.parametrize("way", ["Keyed", "Unkeyed"])
def test_with_its_own_executors_the_books_have_one_line_for_each_transfer(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = tmp_path / "books.jsonl"
    monkeypatch.setenv("BANK_BOOKS", str(books))
    given = [executors("idempotency", "banks")]
    with World(recipe("idempotency"), executors=given) as world:
        transfer(world, way)
        transfer(world, way, "t-2")

    lines = [json.loads(line) for line in books.read_text().splitlines()]
    assert [(line["transfer_id"], line["cents"]) for line in lines] == [("t-1", 500), ("t-2", 500)]
