"""Nonces that a reorganisation has freed: the same bytes again, or an empty transaction."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import POLICY, tag
from tests.gateway.reducers.lanes import (
    NONCE,
    QUOTE,
    RECEIPT,
    SIGNER,
    SUBMIT,
    TIMER,
    all_told,
    attempts,
    cancel_requested,
    doing,
    error_of,
    fate,
    hash_of,
    is_parked,
    land,
    new_lane,
    order,
    quoted,
    ready,
    request,
    submitted,
)

Landed = tuple[Cell, list[dict[str, Any]]]

_LANDED: dict[int, Landed] = {}


def landed(count: int) -> Landed:
    """A free lane, and the params with which its requests landed, from the nonce 4 on."""
    if count == 0:
        return new_lane(), []
    if count not in _LANDED:
        lane, _ = landed(count - 1)
        lane.send(*request(count))
        land(lane, count, nonce=NONCE + count - 1)
        _LANDED[count] = lane, [e.params for e in lane.asked.values() if e.effect == SUBMIT]
    lane, sent = _LANDED[count]
    return lane.copy(), sent


def flying(count: int) -> Landed:
    """The same, with one more request in flight."""
    lane, sent = landed(count)
    lane.send(*request(count + 1))
    lane.answer(quoted(ready(NONCE + count)))
    lane.answer(submitted(hash=hash_of(count + 1)))
    return lane, sent


def test_the_last_eight_that_landed_are_kept() -> None:
    lane, _ = landed(10)

    kept = lane.state["landed"]
    assert [(each["nonce"], each["request"]) for each in kept] == [
        (NONCE + n, n + 1) for n in range(2, 10)
    ]
    assert kept[0]["since"] == 90


@pytest.mark.parametrize("back", range(1, 9))
def test_a_gap_is_filled_with_the_same_bytes_as_before(back: int) -> None:
    lane, sent = flying(9)
    missing = NONCE + 9 - back

    lane.answer(fate("Gap", nonce=missing))

    assert (lane.effect, doing(lane)) == (SUBMIT, "Mending")
    assert lane.params == sent[missing - NONCE]
    lane.answer(submitted("Known", hash_of(9 - back + 1)))
    assert error_of(lane) == ("AWAIT_TX_CONFIRM", "CHAIN_REORGANISED")
    lane.fire()
    assert (lane.effect, lane.params["nonce"]) == (RECEIPT, NONCE + 9)
    assert attempts(lane)[0]["hash"] == hash_of(10)
    lane.answer(fate("Confirmed", hash_of(10)))
    assert all_told(lane) == [(n, "Confirmed") for n in range(1, 11)]


@pytest.mark.parametrize("missing", [NONCE, NONCE - 1, 0])
def test_an_older_gap_is_filled_with_an_empty_transaction(missing: int) -> None:
    lane, _ = flying(9)
    fees = attempts(lane)[0]

    lane.answer(fate("Gap", nonce=missing))

    assert doing(lane) == "Mending"
    found = {name: lane.params[name] for name in ("nonce", "to", "data", "value", "gas")}
    assert found == {"nonce": missing, "to": SIGNER, "data": b"", "value": "0", "gas": 21_000}
    assert (lane.params["max_fee"], lane.params["max_tip"]) == (fees["max_fee"], fees["max_tip"])


@pytest.mark.parametrize("missing", [NONCE + 1, NONCE + 2, 2**64 - 1])
def test_no_other_transaction_fills_the_nonce_in_flight_or_a_later_one(missing: int) -> None:
    lane, _ = flying(1)
    sent = [each.params for each in lane.asked.values() if each.effect == SUBMIT][-1]

    lane.answer(fate("Gap", nonce=missing))
    assert error_of(lane) == ("SUBMIT", "NOT_FOUND")
    lane.fire()

    assert (lane.effect, lane.params) == (SUBMIT, sent)


def test_a_canceled_request_that_is_taken_back_is_empty_again() -> None:
    lane = new_lane()
    lane.send(*request())
    lane.answer(quoted())
    lane.answer(submitted())
    lane.send(*cancel_requested())
    empty = lane.params
    lane.answer(submitted(hash=hash_of(2)))
    lane.answer(fate("Canceled", hash_of(2)))
    lane.send(*request(2))
    lane.answer(quoted(ready(NONCE + 1)))
    lane.answer(submitted(hash=hash_of(3)))

    lane.answer(fate("Gap", nonce=NONCE))

    assert lane.params == empty


def test_a_quote_with_a_nonce_that_was_consumed_mends_before_it_sends() -> None:
    lane, sent = landed(2)
    lane.send(*request(3))

    lane.answer(quoted(ready(NONCE)))
    assert (doing(lane), lane.params) == ("Mending", sent[0])
    assert lane.state["current"]["nonce"] is None
    lane.answer(submitted("Accepted", hash_of(1)))
    lane.fire()
    assert lane.effect == QUOTE
    lane.answer(quoted(ready(NONCE + 1)))
    assert lane.params == sent[1]
    lane.answer(submitted("Accepted", hash_of(2)))
    lane.fire()
    lane.answer(quoted(ready(NONCE + 2)))

    assert (doing(lane), lane.params["nonce"]) == ("Submitting", NONCE + 2)


def test_a_nonce_that_a_stranger_took_and_lost_again_is_filled_with_an_empty_transaction() -> None:
    lane = new_lane()
    lane.send(*request())
    lane.answer(quoted())
    lane.answer(submitted())
    lane.answer(fate("Foreign", hash_of(66)))
    lane.send(*request(2))

    lane.answer(quoted(ready(NONCE)))

    assert (doing(lane), lane.params["nonce"], lane.params["data"]) == ("Mending", NONCE, b"")


@pytest.mark.parametrize("how", [Cell.timeout, Cell.reject, Cell.cancel])
def test_after_any_answer_to_a_mending_submit_the_chain_is_asked_after_a_pause(how: Any) -> None:
    lane, _ = flying(2)
    lane.answer(fate("Gap", nonce=NONCE))

    how(lane)

    assert (lane.effect, doing(lane)) == (TIMER, "Pausing")


def test_a_gap_that_stays_stalls_and_parks_the_lane() -> None:
    lane, _ = landed(2)
    lane.send(*request(3, policy=POLICY | {"retries": 1, "stall_cycles": 1}))
    lane.answer(quoted(ready(NONCE + 2)))
    lane.answer(submitted())
    while not is_parked(lane):
        if lane.effect == RECEIPT:
            lane.answer(fate("Gap", nonce=NONCE))
        elif lane.effect == SUBMIT:
            lane.answer(submitted("NoFunds"))
        else:
            lane.fire()

    assert lane.state["current"]["nonce"] == NONCE + 2


@pytest.mark.parametrize("flies", [True, False])
def test_a_mending_submit_is_awaited_before_the_lane_parks(flies: bool) -> None:
    lane, _ = flying(2) if flies else landed(2)
    if flies:
        lane.answer(fate("Gap", nonce=NONCE))
    else:
        order(lane, "Reconcile")
        lane.answer(fate("NotFound"))
        lane.send(*request(9))
    assert doing(lane) == "Mending"
    order(lane, "Park")
    assert not is_parked(lane)

    lane.answer(submitted())

    assert is_parked(lane)
    assert not lane.open
    order(lane, "Resume")
    assert lane.effect == (RECEIPT if flies else QUOTE)
    assert lane.params.get("data") == (b"w 3" if flies else b"w 9")


def test_a_cancel_during_a_mending_submit_is_sent_later() -> None:
    lane, _ = flying(2)
    lane.answer(fate("Gap", nonce=NONCE))

    assert lane.send(*cancel_requested(3)).effects == ()
    lane.answer(submitted())
    lane.fire()
    lane.answer(fate("Pending"))

    assert (lane.params["nonce"], lane.params["data"]) == (NONCE + 2, b"")


# --- Reconcile -----------------------------------------------------------------------------------


def test_a_free_lane_looks_for_what_landed_last_and_publishes_it_again() -> None:
    lane, sent = landed(2)

    order(lane, "Reconcile")
    assert (lane.effect, doing(lane)) == (RECEIPT, "Reconciling")
    assert (lane.params["nonce"], lane.params["hashes"]) == (NONCE + 1, [hash_of(2)])
    assert (lane.params["conf"], lane.params["wait_ms"], lane.params["data"]) == (1, 1, b"w 2")
    lane.answer(fate("NotFound"))
    assert (doing(lane), lane.params) == ("Mending", sent[1])
    lane.answer(submitted())

    assert doing(lane) == "Nothing"
    assert error_of(lane) is None


def test_a_free_lane_fills_the_gap_before_what_landed_last() -> None:
    lane, sent = landed(3)

    order(lane, "Reconcile")
    lane.answer(fate("Gap", nonce=NONCE + 1))

    assert lane.params == sent[1]


@pytest.mark.parametrize("name", ["Confirmed", "Reverted", "Canceled", "Foreign", "Pending"])
def test_a_free_lane_whose_last_one_is_there_changes_nothing(name: str) -> None:
    lane, _ = landed(2)
    before = lane.state

    order(lane, "Reconcile")
    stepped = lane.answer(fate(name, hash_of(2)))

    assert (lane.state, stepped.events) == (before, ())


@pytest.mark.parametrize("how", ["unavailable", "timeout", "cancel", "reject"])
def test_a_free_lane_that_cannot_look_takes_the_next_request(how: str) -> None:
    lane, _ = landed(1)
    order(lane, "Reconcile")
    lane.send(*request(2))
    assert doing(lane) == "Reconciling"

    if how == "unavailable":
        lane.fail("unavailable")
    else:
        {"timeout": lane.timeout, "cancel": lane.cancel, "reject": lane.reject}[how]()

    assert (lane.effect, lane.params["data"]) == (QUOTE, b"w 2")


def test_a_free_lane_that_never_landed_anything_has_nothing_to_reconcile() -> None:
    lane = new_lane()
    lane.send(*request())
    lane.answer(quoted(tag("Done", {"returned": b""})))

    assert order(lane, "Reconcile").effects == ()


def test_the_largest_nonce_overflows_nothing() -> None:
    lane = new_lane()
    lane.send(*request())
    lane.answer(quoted(ready(2**64 - 1)))
    lane.answer(submitted())

    lane.answer(fate("Confirmed"))

    assert lane.state["next_nonce"] == 2**64 - 1
