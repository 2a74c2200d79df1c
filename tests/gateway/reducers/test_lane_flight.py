"""The request in flight: what each answer of the node leads to, and the operator's commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from aos.testing import Transition
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import GWEI, MINUTE, POLICY, SECOND, tag
from tests.gateway.reducers.lanes import (
    BASE_FEE,
    NONCE,
    QUOTE,
    QUOTED_AT,
    RECEIPT,
    SIGNER,
    SUBMIT,
    TIMER,
    TIP,
    all_told,
    attempts,
    cancel_requested,
    doing,
    error_of,
    fate,
    fates,
    hash_of,
    in_flight,
    is_parked,
    new_lane,
    order,
    queued,
    quoted,
    ready,
    request,
    submitted,
    submitting,
    told,
)
from tests.gateway.reducers.test_failures import RETRIES, STALLS, is_about

PATIENT: Final = POLICY | {"bump_after": 1_000}
"""Fees do not rise within a test."""

# --- Submits: the answer is a hint, and the chain is asked next -----------------------------------

SUBMIT_FATES: Final = {
    "Accepted": None,
    "Known": None,
    "NonceUsed": "NONCE_USED",
    "Underpriced": "UNDERPRICED",
    "NoFunds": "NO_FUNDS",
    "Refused": "REFUSED",
    "Unknown": "NODE_UNAVAILABLE",
    "NoKey": "NO_KEY",
}


@pytest.mark.parametrize("name", SUBMIT_FATES)
def test_after_any_answer_to_a_submit_the_chain_is_asked_for_the_fate_of_the_nonce(
    name: str,
) -> None:
    lane = submitting()

    lane.answer(submitted(name))

    code = SUBMIT_FATES[name]
    assert error_of(lane) == (None if code is None else ("SUBMIT", code))
    assert fates(attempts(lane)) == [name]
    hash = "" if name == "NoKey" else hash_of(1)
    assert attempts(lane)[0]["hash"] == hash
    assert (lane.effect, doing(lane)) == (RECEIPT, "Awaiting")
    assert lane.params == {
        "chain": 31337,
        "signer": SIGNER,
        "nonce": NONCE,
        "hashes": [hash] if hash else [],
        "to": "0x" + "5a" * 20,
        "data": b"w 1",
        "value": "0",
        "conf": 2,
        "since": QUOTED_AT,
        "wait_ms": 15_000,
    }


UNKNOWN: Final[dict[str, Callable[[Cell], Transition]]] = {
    "unavailable": lambda lane: lane.fail("unavailable"),
    "wrong_chain": lambda lane: lane.fail("wrong_chain"),
    "evm_bad_request": lambda lane: lane.fail("evm_bad_request"),
    "a timeout": Cell.timeout,
    "a misfit": Cell.reject,
    "an operator's cancel": Cell.cancel,
}


@pytest.mark.parametrize("how", UNKNOWN)
def test_a_submit_without_an_answer_may_have_been_sent(how: str) -> None:
    lane = submitting()

    UNKNOWN[how](lane)

    assert fates(attempts(lane)) == ["Unknown"]
    assert (lane.effect, lane.params["hashes"]) == (RECEIPT, [])


# --- The fates that end a request -----------------------------------------------------------------

ENDS: Final = {
    "Confirmed": ("Confirmed", "Confirmed"),
    "Reverted": ("Reverted", "Reverted"),
    "Foreign": ("Foreign", "Replaced"),
    "Canceled": ("Foreign", "Replaced"),  # an empty transaction that this lane did not send
}
"""For the fate of a nonce: the outcome, and the fate of the attempt."""


@pytest.mark.parametrize("name", ENDS)
def test_a_consumed_nonce_settles_the_request_and_frees_the_lane(name: str) -> None:
    lane = in_flight()
    lane.send(*request(2))

    stepped = lane.answer(fate(name))

    [(_, value)] = stepped.events
    outcome, attempt_fate = ENDS[name]
    assert (value["request"], value["outcome"]["$tag"]) == (1, outcome)
    assert fates(value["attempts"]) == [attempt_fate]
    assert lane.state["next_nonce"] == NONCE + 1
    assert (lane.effect, lane.params["data"]) == (QUOTE, b"w 2")
    assert len(lane.state["landed"]) == (outcome != "Foreign")


def test_a_landed_hash_that_a_crash_has_lost_belongs_to_the_attempt_without_one() -> None:
    lane = submitting()
    lane.timeout()

    stepped = lane.answer(fate("Confirmed", hash_of(8)))

    [(_, value)] = stepped.events
    assert [(each["hash"], each["fate"]["$tag"]) for each in value["attempts"]] == [
        (hash_of(8), "Confirmed")
    ]


@pytest.mark.parametrize(("name", "at"), [("Confirmed", 0), ("Reverted", 0), ("Canceled", 1)])
def test_a_lost_hash_belongs_to_an_attempt_of_its_kind(name: str, at: int) -> None:
    lane = submitting()
    lane.timeout()
    lane.send(*cancel_requested())
    lane.timeout()  # neither the transaction nor the empty one has a hash

    stepped = lane.answer(fate(name, hash_of(8)))

    [(_, value)] = stepped.events
    assert [each["hash"] for each in value["attempts"]].index(hash_of(8)) == at
    [landed] = lane.state["landed"]
    assert landed["data"] == (b"" if name == "Canceled" else b"w 1")
    assert landed["to"] == (SIGNER if name == "Canceled" else "0x" + "5a" * 20)
    assert landed["max_fee"] == value["attempts"][at]["max_fee"]


def test_the_attempt_that_landed_is_told_from_those_that_it_replaced() -> None:
    lane = in_flight()
    for _ in range(POLICY["bump_after"]):
        lane.answer(fate("Pending"))
    lane.answer(submitted(hash=hash_of(2)))

    stepped = lane.answer(fate("Confirmed", hash_of(1)))

    [(_, value)] = stepped.events
    assert [(each["hash"], each["fate"]["$tag"]) for each in value["attempts"]] == [
        (hash_of(1), "Confirmed"),
        (hash_of(2), "Replaced"),
    ]
    assert lane.state["landed"][0]["max_fee"] == value["attempts"][0]["max_fee"]


# --- Not found: the same bytes --------------------------------------------------------------------


def test_a_transaction_that_no_one_has_is_sent_again_with_the_same_bytes() -> None:
    lane = new_lane()
    lane.send(*request(policy=PATIENT))
    lane.answer(quoted())
    sent = lane.params
    lane.answer(submitted())

    for retry, seconds in enumerate(RETRIES, 1):
        lane.answer(fate("NotFound"))
        assert error_of(lane) == ("SUBMIT", "NOT_FOUND")
        assert (doing(lane), lane.state["step_attempts"]) == ("Pausing", retry)
        assert is_about(lane.wait_ns, seconds * SECOND)
        lane.fire()
        assert (lane.effect, lane.params) == (SUBMIT, sent)
        lane.answer(submitted("Known"))

    assert len(attempts(lane)) == 1


@pytest.mark.parametrize("name", [name for name in SUBMIT_FATES if name != "Underpriced"])
def test_a_submit_that_is_never_taken_is_repeated_stalls_and_parks_with_its_nonce(
    name: str,
) -> None:
    policy = PATIENT | {"retries": 2, "stall_cycles": 2}
    lane = new_lane()
    lane.send(*request(policy=policy))
    lane.send(*request(2))
    lane.answer(quoted())
    sent = lane.params
    code = SUBMIT_FATES[name] or "NOT_FOUND"
    submits = 0

    while not is_parked(lane):
        if lane.effect == SUBMIT:
            assert lane.params == sent
            submits += 1
            lane.answer(submitted(name))
        elif lane.effect == RECEIPT:
            lane.answer(fate("NotFound"))
            assert error_of(lane) == ("SUBMIT", code)
        else:
            lane.fire()

    # The first one, and after each pause and stall: 2 retries, and twice 1 stall and 2 retries.
    assert (submits, len(attempts(lane)), lane.state["current"]["nonce"]) == (9, 1, NONCE)
    assert not all_told(lane)
    order(lane, "Resume")
    assert (lane.effect, lane.params, lane.state["step_attempts"]) == (SUBMIT, sent, 0)
    lane.answer(submitted())
    lane.answer(fate("Confirmed"))
    assert all_told(lane) == [(1, "Confirmed")]


@pytest.mark.parametrize("name", ["Accepted", "Known"])
def test_a_transaction_that_the_node_takes_and_drops_is_sent_with_higher_fees(name: str) -> None:
    """A node drops what its fees no longer pay for, and says nothing about it."""
    lane = submitting()
    [first] = attempts(lane)

    for _ in range(POLICY["bump_after"] - 1):
        lane.answer(submitted(name))
        lane.answer(fate("NotFound"))
        assert (doing(lane), error_of(lane)) == ("Pausing", ("SUBMIT", "NOT_FOUND"))
        lane.fire()
        assert (lane.effect, lane.params["max_fee"]) == (SUBMIT, first["max_fee"])
    lane.answer(submitted(name))
    lane.answer(fate("NotFound"))

    assert (lane.effect, lane.params["nonce"]) == (SUBMIT, NONCE)
    assert lane.params["max_fee"] == raised(first["max_fee"])
    assert lane.params["max_tip"] == raised(first["max_tip"])
    assert lane.state["step_attempts"] == 0
    lane.answer(submitted(hash=hash_of(2)))
    assert lane.params["hashes"] == [hash_of(1), hash_of(2)]
    lane.answer(fate("Confirmed", hash=hash_of(2)))
    assert all_told(lane) == [(1, "Confirmed")]


def test_looks_that_found_it_in_the_pool_and_looks_that_did_not_count_together() -> None:
    lane = in_flight()
    for _ in range(POLICY["bump_after"] - 1):
        lane.answer(fate("Pending"))

    lane.answer(fate("NotFound"))

    assert (lane.effect, len(attempts(lane))) == (SUBMIT, 2)


def test_a_transaction_that_is_dropped_at_the_highest_fees_parks_with_its_nonce() -> None:
    lane = new_lane()
    policy = POLICY | {"max_fee": 3 * BASE_FEE, "retries": 1, "stall_cycles": 1}
    lane.send(*request(policy=policy))
    lane.answer(quoted())

    while not is_parked(lane):
        if lane.effect == SUBMIT:
            assert lane.params["max_fee"] <= policy["max_fee"]
            lane.answer(submitted(hash=hash_of(len(attempts(lane)))))
        elif lane.effect == RECEIPT:
            lane.answer(fate("NotFound"))
        else:
            lane.fire()

    assert lane.state["current"]["nonce"] == NONCE
    assert [each["nonce"] for each in attempts(lane)] == [NONCE] * 4  # 21, 24, 27, 30 gwei
    assert not all_told(lane)


def test_the_code_of_a_refusal_stays_while_the_transaction_is_absent() -> None:
    lane = submitting()
    lane.answer(submitted("NoKey"))

    lane.answer(fate("NotFound"))

    assert error_of(lane) == ("SUBMIT", "NO_KEY")
    assert lane.state["error"]["message"] == "it is NoKey"


# --- Pending, and bumps ---------------------------------------------------------------------------


def raised(fee: int) -> int:
    """An eighth more, rounded up."""
    return -(-fee * 9 // 8)


def test_a_transaction_that_stays_in_the_pool_is_replaced_by_one_with_higher_fees() -> None:
    lane = in_flight()
    [first] = attempts(lane)

    for _ in range(POLICY["bump_after"] - 1):
        lane.answer(fate("Pending"))
        assert doing(lane) == "Awaiting"
    lane.answer(fate("Pending"))

    assert lane.effect == SUBMIT
    assert lane.params["max_fee"] == raised(first["max_fee"])
    assert lane.params["max_tip"] == raised(first["max_tip"])
    assert lane.params["nonce"] == NONCE
    lane.answer(submitted(hash=hash_of(2)))
    assert lane.params["hashes"] == [hash_of(1), hash_of(2)]
    assert lane.state["current"]["looks"] == 0


def test_a_transaction_in_a_block_is_awaited_and_never_replaced() -> None:
    lane = in_flight()

    for _ in range(3 * POLICY["bump_after"]):
        lane.answer(fate("Pending", depth=1))

    assert doing(lane) == "Awaiting"
    assert len(attempts(lane)) == 1


def test_a_block_that_is_taken_back_counts_as_the_pool() -> None:
    lane = in_flight()
    for _ in range(POLICY["bump_after"]):
        lane.answer(fate("Pending", depth=1))

    lane.answer(fate("Pending"))

    assert lane.effect == SUBMIT


@pytest.mark.parametrize(
    ("base_fee", "tip"), [(1, 0), (0, 1), (1, 1), (7, 3), (8, 8), (9, 1), (BASE_FEE, TIP)]
)
def test_each_bump_is_an_eighth_rounded_up_and_enough_for_every_node(
    base_fee: int, tip: int
) -> None:
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"bump_after": 1}))
    lane.answer(quoted(ready(base_fee=base_fee, tip=tip)))
    fee, part = lane.params["max_fee"], lane.params["max_tip"]
    assert (fee, part) == (2 * base_fee + tip, tip)

    for number in range(2, 12):
        lane.answer(submitted(hash=hash_of(number)))
        lane.answer(fate("Pending"))
        fee, part = max(raised(fee), fee + 1), max(raised(part), part + 1)
        assert (lane.params["max_fee"], lane.params["max_tip"]) == (fee, min(part, fee))


def test_fees_rise_to_the_cap_and_then_the_lane_waits() -> None:
    cap = 30 * GWEI
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"bump_after": 1, "max_fee": cap}))
    lane.answer(quoted())
    found = []
    for number in range(9):
        found.append(lane.params["max_fee"])
        lane.answer(submitted(hash=hash_of(number)))
        lane.answer(fate("Pending"))
        if lane.effect != SUBMIT:
            break

    # 21, 23.6, 26.6; the next one would be 29.9 and then 30, too small a step for any node
    assert found == [21 * GWEI, raised(21 * GWEI), raised(raised(21 * GWEI)), raised(found[2])]
    assert doing(lane) == "Awaiting"
    for _ in range(5):
        lane.answer(fate("Pending"))
        assert doing(lane) == "Awaiting"
    lane.answer(fate("NotFound"))
    lane.fire()
    assert (lane.effect, lane.params["max_fee"]) == (SUBMIT, found[-1])


def test_the_last_bump_is_cut_at_the_cap_if_it_is_still_a_tenth() -> None:
    cap = 21 * GWEI * 111 // 100
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"bump_after": 1, "max_fee": cap}))
    lane.answer(quoted())
    lane.answer(submitted())

    lane.answer(fate("Pending"))

    assert lane.params["max_fee"] == cap


def test_an_underpriced_transaction_is_bumped_when_no_one_has_it() -> None:
    lane = submitting()
    lane.answer(submitted("Underpriced"))

    lane.answer(fate("NotFound"))

    assert (lane.effect, lane.params["max_fee"]) == (SUBMIT, raised(21 * GWEI))
    assert fates(attempts(lane)) == ["Underpriced", "Sending"]


def test_an_underpriced_transaction_at_the_cap_is_sent_again_after_a_pause() -> None:
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"max_fee": 21 * GWEI}))
    lane.answer(quoted())
    sent = lane.params
    lane.answer(submitted("Underpriced"))

    lane.answer(fate("NotFound"))
    assert error_of(lane) == ("SUBMIT", "UNDERPRICED")
    lane.fire()

    assert (lane.effect, lane.params) == (SUBMIT, sent)


def test_a_replacement_that_is_underpriced_leaves_the_older_one_in_the_pool() -> None:
    lane = in_flight()
    for _ in range(POLICY["bump_after"]):
        lane.answer(fate("Pending"))
    lane.answer(submitted("Underpriced", hash_of(2)))

    lane.answer(fate("Pending"))
    assert doing(lane) == "Awaiting"
    for _ in range(POLICY["bump_after"] - 1):
        lane.answer(fate("Pending"))

    assert lane.params["max_fee"] == raised(raised(21 * GWEI))


def test_a_pending_transaction_makes_all_retries_available_again() -> None:
    lane = in_flight()
    for _ in range(3):
        lane.fail("unavailable")
        lane.fire()
    assert lane.state["step_attempts"] == 3

    lane.answer(fate("Pending"))

    assert (lane.state["step_attempts"], lane.state["error"]) == (0, None)


@pytest.mark.parametrize(("base_fee", "tip", "cap"), [(10, 1, 10), (2**64 - 1, 1, 5), (6, 0, 5)])
def test_a_price_above_the_cap_is_waited_out(base_fee: int, tip: int, cap: int) -> None:
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"max_fee": cap}))

    lane.answer(quoted(ready(base_fee=base_fee, tip=tip)))
    assert error_of(lane) == ("QUOTE", "UNDERPRICED")
    assert lane.state["current"]["nonce"] is None
    lane.fire()
    lane.answer(quoted(ready(base_fee=cap - 1, tip=1)))

    assert (lane.params["max_fee"], lane.params["max_tip"]) == (cap, 1)


# --- No answer ------------------------------------------------------------------------------------

CODES: Final[dict[str, tuple[Callable[[Cell], Transition], str]]] = {
    "unavailable": (lambda lane: lane.fail("unavailable"), "NODE_UNAVAILABLE"),
    "another": (lambda lane: lane.fail("what_is_this"), "NODE_UNAVAILABLE"),
    "wrong_chain": (lambda lane: lane.fail("wrong_chain"), "WRONG_CHAIN"),
    "block_unknown": (lambda lane: lane.fail("block_unknown"), "BLOCK_UNKNOWN"),
    "a timeout": (Cell.timeout, "TIMED_OUT"),
    "a misfit": (Cell.reject, "NODE_UNAVAILABLE"),
}


@pytest.mark.parametrize(("at", "stage"), [(queued, "QUOTE"), (in_flight, "AWAIT_TX_CONFIRM")])
@pytest.mark.parametrize("how", CODES)
def test_an_unknown_answer_is_asked_for_again(at: Callable[[], Cell], stage: str, how: str) -> None:
    lane = at()
    asked = lane.params
    answer, code = CODES[how]

    answer(lane)
    assert error_of(lane) == (stage, code)
    assert lane.state["error"]["recoverable"] is True
    assert is_about(lane.wait_ns, SECOND)
    lane.fire()

    assert lane.params == asked


@pytest.mark.parametrize("at", [queued, in_flight])
def test_an_outage_is_retried_stalls_and_at_last_parks(at: Callable[[], Cell]) -> None:
    lane = at()
    lane.send(*request(2))
    asked = lane.params

    for cycle in range(6):
        for seconds in RETRIES:
            lane.fail("unavailable")
            assert is_about(lane.wait_ns, seconds * SECOND)
            lane.fire()
        lane.fail("unavailable")
        if cycle < 5:
            until = lane.now_ns + lane.wait_ns
            assert lane.state["stall"] == tag("Auto", {"until": until, "cycle": cycle + 1})
            assert is_about(lane.wait_ns, STALLS[cycle] * MINUTE)
            lane.fire()
            assert lane.params == asked
    assert is_parked(lane)
    assert not lane.open

    lane.send(*request(3))
    assert not lane.open
    order(lane, "Resume")
    assert lane.params == asked
    assert not all_told(lane)


def test_a_quote_that_the_executor_calls_invalid_settles_the_request() -> None:
    lane = queued()

    stepped = lane.fail("evm_bad_request")

    assert told(stepped) == [(1, "Invalid")]


def test_a_receipt_that_the_executor_calls_invalid_parks_the_lane_with_its_nonce() -> None:
    lane = in_flight()

    lane.fail("evm_bad_request")

    assert (is_parked(lane), lane.state["current"]["nonce"]) == (True, NONCE)


@pytest.mark.parametrize("at", [queued, in_flight])
def test_an_effect_that_an_operator_cancels_parks_the_lane(at: Callable[[], Cell]) -> None:
    lane = at()

    lane.cancel()

    assert is_parked(lane)
    assert not lane.open


@pytest.mark.parametrize("how", [Cell.answer, Cell.cancel, Cell.timeout, Cell.reject])
def test_any_end_of_a_timer_is_its_end(how: Callable[[Cell], Any]) -> None:
    for retries in (0, 5):
        lane = new_lane()
        lane.send(*request(policy=POLICY | {"retries": retries}))
        asked = lane.params
        lane.fail("unavailable")
        assert lane.effect == TIMER
        lane.now_ns += 2 * MINUTE
        how(lane)

        assert (lane.params, lane.state["stall"]) == (asked, None)


@pytest.mark.parametrize("at", [queued, submitting, in_flight])
def test_an_answer_that_no_one_waits_for_changes_nothing(at: Callable[[], Cell]) -> None:
    lane = at()
    old = [ref for ref in lane.asked if ref not in lane.open]
    before = lane.state

    for ref in old:
        for how in (lane.timeout, lane.cancel, lane.reject):
            assert how(ref=ref).effects == ()
    assert lane.state == before


# --- Cancel ---------------------------------------------------------------------------------------


def test_a_cancel_of_a_submitted_transaction_is_an_empty_one_at_the_same_nonce() -> None:
    lane = in_flight()

    stepped = lane.send(*cancel_requested())

    assert told(stepped) == []
    assert lane.effect == SUBMIT
    assert lane.params == {
        "keys": {"alias": "gw/evm-keys", "version": 1},
        "chain": 31337,
        "signer": SIGNER,
        "nonce": NONCE,
        "to": SIGNER,
        "data": b"",
        "value": "0",
        "gas": 21_000,
        "max_fee": raised(21 * GWEI),
        "max_tip": raised(GWEI),
    }
    lane.answer(submitted(hash=hash_of(2)))
    assert lane.params["hashes"] == [hash_of(1), hash_of(2)]
    assert lane.params["data"] == b"w 1"


@pytest.mark.parametrize("name", ["Confirmed", "Reverted", "Canceled", "Foreign"])
def test_after_a_cancel_what_lands_decides(name: str) -> None:
    lane = in_flight()
    lane.send(*cancel_requested())
    lane.answer(submitted(hash=hash_of(2)))

    stepped = lane.answer(fate(name, hash_of(2 if name == "Canceled" else 1)))

    assert told(stepped) == [(1, name)]
    assert all_told(lane) == [(1, name)]


def test_a_cancel_during_a_submit_is_sent_once_it_has_ended() -> None:
    lane = submitting()
    before = lane.params

    assert lane.send(*cancel_requested()).effects == ()
    assert lane.params == before
    lane.answer(submitted())
    assert doing(lane) == "Awaiting"
    lane.answer(fate("Pending"))

    assert (lane.effect, lane.params["data"]) == (SUBMIT, b"")


def test_a_cancel_of_an_absent_transaction_is_sent_all_the_same() -> None:
    lane = submitting()
    lane.send(*cancel_requested())
    lane.answer(submitted("Unknown"))

    lane.answer(fate("NotFound"))

    assert (lane.effect, lane.params["data"]) == (SUBMIT, b"")


def test_a_cancel_of_a_transaction_in_a_block_waits_for_its_depth() -> None:
    lane = submitting()
    lane.send(*cancel_requested())
    lane.answer(submitted())

    for _ in range(5):
        lane.answer(fate("Pending", depth=1))
        assert doing(lane) == "Awaiting"

    assert len(attempts(lane)) == 1


def test_a_cancel_is_bumped_like_a_transaction_and_stays_a_cancel() -> None:
    lane = in_flight()
    lane.send(*cancel_requested())
    lane.answer(submitted(hash=hash_of(2)))
    for _ in range(POLICY["bump_after"]):
        lane.answer(fate("Pending"))

    assert (lane.params["data"], lane.params["max_fee"]) == (b"", raised(raised(21 * GWEI)))
    assert [each["is_cancel"] for each in attempts(lane)] == [False, True, True]
    lane.answer(submitted("Unknown", hash_of(3)))
    lane.answer(fate("NotFound"))
    lane.fire()
    assert lane.params["data"] == b""
    assert len(attempts(lane)) == 3


def test_a_second_cancel_sends_nothing_more() -> None:
    lane = in_flight()
    lane.send(*cancel_requested())
    lane.answer(submitted(hash=hash_of(2)))

    lane.send(*cancel_requested())

    assert len(attempts(lane)) == 2
    assert doing(lane) == "Awaiting"


def test_a_cancel_at_the_cap_waits_until_there_is_nothing_to_replace() -> None:
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"max_fee": 21 * GWEI}))
    lane.answer(quoted())
    lane.answer(submitted())

    lane.send(*cancel_requested())
    assert doing(lane) == "Awaiting"
    lane.answer(fate("Pending"))
    assert doing(lane) == "Awaiting"
    lane.answer(fate("NotFound"))

    assert (lane.effect, lane.params["data"]) == (SUBMIT, b"")
    assert (lane.params["max_fee"], lane.params["nonce"]) == (21 * GWEI, NONCE)


def test_a_policy_without_retries_publishes_again_by_each_stall_and_resume() -> None:
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"retries": 0, "stall_cycles": 1}))
    lane.answer(quoted())
    sent = lane.params
    lane.answer(submitted())
    lane.answer(fate("NotFound"))
    assert lane.state["stall"]["$tag"] == "Auto"
    lane.fire()
    assert (lane.effect, lane.params) == (SUBMIT, sent)
    lane.answer(submitted("Unknown"))
    lane.answer(fate("NotFound"))
    assert is_parked(lane)

    order(lane, "Resume")

    assert (lane.effect, lane.params) == (SUBMIT, sent)


@pytest.mark.parametrize("by", ["the owner", "an operator"])
def test_a_cancel_during_a_pause_or_a_stall_is_sent_at_once(by: str) -> None:
    for retries in (0, 5):
        lane = new_lane()
        lane.send(*request(policy=POLICY | {"retries": retries}))
        lane.answer(quoted())
        lane.answer(submitted())
        lane.fail("unavailable")
        assert lane.effect == TIMER

        if by == "the owner":
            lane.send(*cancel_requested())
        else:
            order(lane, "Cancel")

        assert (lane.effect, lane.params["data"]) == (SUBMIT, b"")
        assert lane.state["stall"] is None


def test_an_operator_has_nothing_to_cancel_in_a_free_lane() -> None:
    lane = queued()
    lane.send(*cancel_requested())
    before = lane.state

    assert order(lane, "Cancel").effects == ()
    assert lane.state == before


# --- Park, resume, reconcile ----------------------------------------------------------------------


def pausing() -> Cell:
    lane = in_flight()
    lane.answer(fate("NotFound"))
    return lane


def stalling() -> Cell:
    lane = new_lane()
    lane.send(*request(policy=POLICY | {"retries": 0}))
    lane.answer(quoted())
    lane.answer(submitted())
    lane.fail("unavailable")
    return lane


@pytest.mark.parametrize("at", [queued, in_flight, pausing, stalling])
def test_a_parked_lane_has_nothing_open_and_keeps_nonce_and_hashes(at: Callable[[], Cell]) -> None:
    lane = at()
    current = lane.state["current"]

    stepped = order(lane, "Park", "holidays")
    assert lane.state["stall"] == tag("Parked", {"why": "holidays"})
    assert [each.effect for each in stepped.effects] == ["sys/effect.cancel@1"]
    assert not lane.open
    assert lane.state["current"] == current
    assert order(lane, "Park").effects == ()
    lane.send(*request(2))
    assert not lane.open

    order(lane, "Resume")
    assert lane.effect == {queued: QUOTE, pausing: SUBMIT}.get(at, RECEIPT)
    assert lane.state["current"] == current


def test_an_open_submit_is_awaited_before_the_lane_parks() -> None:
    for name in ("Accepted", "Unknown"):
        lane = submitting()
        assert order(lane, "Park").effects == ()
        assert (is_parked(lane), lane.state["is_parking"]) == (False, True)

        lane.answer(submitted(name))

        assert (is_parked(lane), lane.state["is_parking"]) == (True, False)
        assert not lane.open
        assert attempts(lane)[0]["hash"] == hash_of(1)
        order(lane, "Resume")
        if name == "Unknown":
            lane.answer(submitted("Known"))
        assert lane.params["hashes"] == [hash_of(1)]


def test_a_resume_during_the_submit_takes_the_park_back() -> None:
    lane = submitting()
    order(lane, "Park")

    assert order(lane, "Resume").effects == ()
    lane.answer(submitted())

    assert (doing(lane), lane.state["stall"]) == ("Awaiting", None)


def test_a_cancel_of_a_parked_transaction_is_sent_after_the_resume() -> None:
    lane = in_flight()
    order(lane, "Park")
    assert lane.send(*cancel_requested()).effects == ()
    assert order(lane, "Cancel").effects == ()

    order(lane, "Resume")
    assert lane.effect == RECEIPT
    lane.answer(fate("Pending"))

    assert (lane.effect, lane.params["data"]) == (SUBMIT, b"")


def test_a_free_lane_that_is_parked_takes_nothing_until_its_resume() -> None:
    lane = queued()
    lane.send(*cancel_requested())
    order(lane, "Park")
    lane.send(*request(2))
    assert not lane.open

    order(lane, "Resume")

    assert lane.params["data"] == b"w 2"


@pytest.mark.parametrize("at", [queued, submitting, in_flight, pausing])
def test_a_lane_that_runs_has_nothing_to_resume_and_reads_the_chain(
    at: Callable[[], Cell],
) -> None:
    for what in ("Resume", "Reconcile"):
        lane = at()
        before = lane.state

        assert order(lane, what).effects == ()
        assert lane.state == before


def test_a_stalled_lane_reads_the_chain_by_a_reconciliation() -> None:
    lane = stalling()

    order(lane, "Reconcile")

    assert (lane.effect, lane.state["stall"]) == (RECEIPT, None)


@pytest.mark.parametrize("name", ENDS)
def test_a_parked_lane_whose_nonce_is_consumed_continues_by_a_reconciliation(name: str) -> None:
    lane = in_flight()
    lane.send(*request(2))
    order(lane, "Park")

    order(lane, "Reconcile")
    assert (is_parked(lane), lane.effect, lane.params["wait_ms"]) == (True, RECEIPT, 1)
    assert order(lane, "Reconcile").effects == ()
    stepped = lane.answer(fate(name))

    assert told(stepped) == [(1, ENDS[name][0])]
    assert (lane.state["stall"], lane.params["data"]) == (None, b"w 2")


NOT_YET: Final[dict[str, Callable[[Cell], Any]]] = {
    "NotFound": lambda lane: lane.answer(fate("NotFound")),
    "Pending": lambda lane: lane.answer(fate("Pending")),
    "Gap": lambda lane: lane.answer(fate("Gap")),
    "unavailable": lambda lane: lane.fail("unavailable"),
    "evm_bad_request": lambda lane: lane.fail("evm_bad_request"),
    "a timeout": Cell.timeout,
    "a misfit": Cell.reject,
    "an operator's cancel": Cell.cancel,
}


@pytest.mark.parametrize("how", NOT_YET)
def test_a_parked_lane_whose_nonce_is_not_consumed_stays_parked_and_sends_nothing(how: str) -> None:
    lane = in_flight()
    order(lane, "Park")
    before = lane.state

    order(lane, "Reconcile")
    NOT_YET[how](lane)

    assert lane.state == before
    assert not lane.open


@pytest.mark.parametrize("what", ["Resume", "Park", "Cancel"])
def test_a_command_during_a_reconciliation_of_a_parked_lane_is_followed(what: str) -> None:
    lane = in_flight()
    order(lane, "Park")
    order(lane, "Reconcile")

    order(lane, what)
    if what == "Resume":
        assert doing(lane) == "Awaiting"
        return
    lane.answer(fate("NotFound"))

    assert is_parked(lane)
    assert not lane.open
    assert lane.state["current"]["is_canceling"] == (what == "Cancel")


@pytest.mark.parametrize("at", [queued, new_lane])
def test_a_parked_lane_that_has_sent_nothing_has_nothing_to_reconcile(
    at: Callable[[], Cell],
) -> None:
    lane = at()
    if lane.state is None:
        lane.send(*request())
        lane.send(*cancel_requested())
    order(lane, "Park")

    assert order(lane, "Reconcile").effects == ()
    assert is_parked(lane)
