"""The requests of a lane: taken in order, settled once, refused where they do not fit."""

from __future__ import annotations

from typing import Any, Final

import pytest

from aos.values.cbor import encode
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import CHAIN, POLICY, STUDIO, WORKER, tag
from tests.gateway.reducers.lanes import (
    GAS,
    LANE,
    NONCE,
    QUOTE,
    QUOTED_AT,
    SIGNER,
    all_told,
    cancel_requested,
    doing,
    fate,
    hash_of,
    in_flight,
    is_parked,
    land,
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
from tests.gateway.reducers.laws import names, waiting


def test_a_request_to_a_free_lane_is_quoted_at_once() -> None:
    lane = queued()

    assert (lane.effect, doing(lane)) == (QUOTE, "Quoting")
    assert lane.params == {
        "chain": CHAIN,
        "signer": SIGNER,
        "to": STUDIO,
        "data": b"w 1",
        "value": "0",
        "conf": 2,
        "guard": {"to": STUDIO, "data": b"view", "undone": bytes(32)},
    }
    assert (lane.state["chain"], lane.state["signer_address"]) == (CHAIN, SIGNER)


def test_requests_are_taken_in_the_order_of_their_arrival() -> None:
    lane = queued()
    for number in (2, 3):
        lane.send(*request(number))
        lane.send(*request(number, owner="another"))
    assert lane.state["queued"] == 4

    for at in range(5):
        land(lane, 10 + at, nonce=NONCE + at)

    settled = [(v["work"], v["request"]) for s, v in lane.events if s == "gw/WorkTxSettled@1"]
    assert settled == [("w", 1), ("w", 2), ("another", 2), ("w", 3), ("another", 3)]
    assert (doing(lane), lane.state["current"]) == ("Nothing", None)
    assert lane.state["next_nonce"] == NONCE + 5


OWNERS: Final = {
    "Work": ("gw/WorkTxSettled@1", "work"),
    "Score": ("gw/ScoreTxSettled@1", "score"),
    "Epoch": ("gw/EpochTxSettled@1", "epoch_key"),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_an_owner_is_told_by_its_own_event_with_all_attempts(owner: str) -> None:
    schema, field = OWNERS[owner]
    lane = new_lane()
    lane.send(*request(3, owner=tag(owner, "the key")))
    lane.answer(quoted())
    lane.answer(submitted())
    stepped = lane.answer(fate("Confirmed"))

    [(name, value)] = stepped.events
    assert (name, value[field], value["request"]) == (schema, "the key", 3)
    outcome = {"hash": hash_of(1), "block": 120, "gas_used": 50_000}
    assert value["outcome"] == tag("Confirmed", outcome)
    [tried] = value["attempts"]
    assert (tried["hash"], tried["nonce"], tried["fate"]) == (hash_of(1), NONCE, tag("Confirmed"))


def test_owners_with_one_key_and_number_but_of_other_kinds_are_different() -> None:
    lane = new_lane()
    for owner in OWNERS:
        lane.send(*request(1, owner=tag(owner, "x"), data=owner.encode()))

    assert [name for name, _ in names(lane.state)] == ["Work x", "Score x", "Epoch x"]


# --- Quotes --------------------------------------------------------------------------------------

EMPTY: Final = {"kind": tag("Empty"), "text": "", "data": b""}
SETTLING_QUOTES: Final[dict[str, tuple[Any, Any]]] = {
    "Done": (tag("Done", {"returned": b"yes"}), tag("Done", {"block": QUOTED_AT})),
    "WouldRevert": (
        tag("Reverted", {"cause": EMPTY, "at_depth": True}),
        tag("WouldRevert", {"cause": EMPTY, "at_depth": True}),
    ),
    "NoFunds": (
        tag("NoFunds", {"balance": "1", "needed": "2"}),
        tag("NoFunds", {"balance": "1", "needed": "2"}),
    ),
}


@pytest.mark.parametrize("name", SETTLING_QUOTES)
def test_a_quote_without_a_nonce_settles_the_request_and_frees_the_lane(name: str) -> None:
    quote, outcome = SETTLING_QUOTES[name]
    lane = queued()
    lane.send(*request(2))

    stepped = lane.answer(quoted(quote))

    [(_, value)] = stepped.events
    assert (value["outcome"], value["attempts"]) == (outcome, [])
    assert lane.state["next_nonce"] is None
    assert lane.params["data"] == b"w 2"


def test_a_quote_fixes_nonce_gas_and_fees() -> None:
    lane = submitting()

    assert lane.params == {
        "keys": {"alias": "gw/evm-keys", "version": 1},
        "chain": CHAIN,
        "signer": SIGNER,
        "nonce": NONCE,
        "to": STUDIO,
        "data": b"w 1",
        "value": "0",
        "gas": GAS,
        "max_fee": 21 * inputs.GWEI,  # twice the base fee, and the tip
        "max_tip": inputs.GWEI,
    }
    assert lane.state["current"]["since"] == QUOTED_AT


# --- Requests that do not fit ---------------------------------------------------------------------

BAD: Final[dict[str, dict[str, Any]]] = {
    "owner": {"owner": tag("Work", "x" * 513)},
    "to": {"to": STUDIO.upper()},
    "value": {"value": "0.5"},
    "value ": {"value": "-1"},
    "guard.to": {"guard": {"to": "0x", "data": b"", "undone": b""}},
    "guard": {"guard": {"to": STUDIO, "data": bytes(1_281), "undone": b""}},
    "guard ": {"guard": {"to": STUDIO, "data": b"", "undone": bytes(1_281)}},
    "data": {"data": bytes(1_281)},
    "policy.conf": {"policy": POLICY | {"conf": 10_001}},
}


@pytest.mark.parametrize("name", BAD)
def test_a_request_that_does_not_fit_is_settled_as_invalid(name: str) -> None:
    lane = in_flight()

    stepped = lane.send(*request(2, **BAD[name]))

    [(_, value)] = stepped.events
    assert value["outcome"]["$tag"] == "Invalid"
    assert value["outcome"]["$value"].startswith(f"{name.strip()}: expected ")
    assert (stepped.effects, lane.state["queued"]) == ((), 0)


def test_a_request_of_the_largest_size_is_queued() -> None:
    lane = new_lane()
    most = bytes(1_280)

    lane.send(*request(data=most, guard={"to": STUDIO, "data": most, "undone": most}))

    assert lane.effect == QUOTE


def test_the_largest_score_fits() -> None:
    lane = new_lane()

    lane.send(*request(data=bytes(4 + 32 * (5 + 32))))

    assert lane.effect == QUOTE


NO_LANES: Final = {
    "mixed case": f"{CHAIN}/{WORKER.replace('a', 'A', 3)}",
    "no chain": f"/{WORKER}",
    "chain 0": f"0/{WORKER}",
    "leading zero": f"0{LANE}",
    "plus": f"+{LANE}",
    "space": f" {LANE}",
    "hex chain": f"0x7a69/{WORKER}",
    "too large": f"{2**64}/{WORKER}",
    "no slash": f"{CHAIN}{WORKER}",
    "more": f"{LANE}/",
    "short": LANE[:-1],
    "no prefix": LANE.replace("0x", ""),
    "empty": "",
}


@pytest.mark.parametrize("name", NO_LANES)
def test_another_spelling_of_a_key_opens_no_second_lane(name: str) -> None:
    key = NO_LANES[name]
    lane = new_lane(key)

    stepped = lane.send(*request(lane=key))

    assert lane.state is None
    [(_, value)] = stepped.events
    assert value["outcome"]["$tag"] == "Invalid"
    assert not stepped.effects


@pytest.mark.parametrize("what", ["Park", "Resume", "Cancel", "Reconcile"])
def test_a_command_without_a_lane_leaves_none(what: str) -> None:
    lane = new_lane()

    order(lane, what)
    assert lane.state is None
    lane.send(*cancel_requested())
    assert lane.state is None


# --- Duplicates, and a full lane ------------------------------------------------------------------


def test_a_request_that_comes_again_is_not_queued_again() -> None:
    lane = queued()
    lane.send(*request(2))
    stages = (
        lambda: lane.answer(quoted()),
        lambda: lane.answer(submitted()),
        lambda: lane.answer(fate("Confirmed")),  # request 1 has landed, request 2 is quoted
        lambda: land(lane, 2, nonce=NONCE + 1),
    )
    for stage in stages:
        stage()
        before = lane.state
        for number in (1, 2):
            stepped = lane.send(*request(number))
            assert (stepped.effects, stepped.events) == ((), ())
            assert lane.state == before

    assert all_told(lane) == [(1, "Confirmed"), (2, "Confirmed")]


def fill(lane: Cell, **changes: Any) -> None:
    """Let requests 2 to 257 wait: the first by its event, the others as copies of it."""
    lane.send(*request(2, **changes))
    first: Any
    [first] = waiting(lane.state)
    kind, key = first["owner"]["$tag"], first["owner"]["$value"]
    queue = b"".join(
        encode(f"{kind.lower()} {key} {number}") + encode(encode(first | {"request": number}))
        for number in range(2, 258)
    )
    assert queue.startswith(lane.state["queue"])
    lane.state = lane.state | {"queue": queue, "queued": 256}


def test_the_257th_request_that_waits_is_told_that_the_lane_is_full() -> None:
    lane = queued()
    largest = {"data": bytes(1_280), "guard": None}
    fill(lane, **largest)
    assert lane.state["queued"] == 256

    stepped = lane.send(*request(258, **largest))

    assert (told(stepped), stepped.effects) == ([(258, "LaneFull")], ())
    lane.answer(quoted(SETTLING_QUOTES["Done"][0]))
    assert lane.state["queued"] == 255
    assert lane.send(*request(258, **largest)).events == ()
    assert lane.state["queued"] == 256


def test_a_lane_that_is_full_of_the_largest_requests_takes_a_step() -> None:
    lane = queued()
    most = bytes(1_280)
    guard = {"to": STUDIO, "data": most, "undone": most}
    owner = tag("Score", "x" * 512)
    fill(lane, owner=owner, data=most, guard=guard)

    assert lane.answer(quoted()).fault is None
    assert lane.state["queued"] == 256
    assert lane.answer(submitted()).fault is None


# --- Cancel --------------------------------------------------------------------------------------


def test_a_cancel_of_a_request_that_waits_settles_it() -> None:
    lane = in_flight()
    for number in (2, 3, 4):
        lane.send(*request(number))

    stepped = lane.send(*cancel_requested(3))

    assert told(stepped) == [(3, "Canceled")]
    assert [number for _, number in names(lane.state)] == [1, 2, 4]
    assert stepped.effects == ()


def test_a_cancel_of_a_request_that_is_quoted_settles_it_and_takes_the_next() -> None:
    lane = queued()
    lane.send(*request(2))

    stepped = lane.send(*cancel_requested(1))

    assert told(stepped) == [(1, "Canceled")]
    assert [each.effect for each in stepped.effects] == ["sys/effect.cancel@1", QUOTE]
    assert lane.params["data"] == b"w 2"


@pytest.mark.parametrize("parks", [False, True])
def test_a_cancel_while_the_lane_waits_for_a_quote_settles_it(parks: bool) -> None:
    for retries in (0, 5):
        lane = new_lane()
        lane.send(*request(policy=POLICY | {"retries": retries}))
        lane.fail("unavailable")  # a pause, or an automatic stall
        lane.send(*request(2))
        if parks:
            order(lane, "Park")

        stepped = lane.send(*cancel_requested(1))

        assert told(stepped) == [(1, "Canceled")]
        assert is_parked(lane) == parks
        if parks:
            order(lane, "Resume")
        assert lane.params["data"] == b"w 2"


@pytest.mark.parametrize(("number", "owner"), [(9, "w"), (1, "another"), (2, "another")])
def test_a_cancel_of_a_request_that_is_not_there_changes_nothing(number: int, owner: str) -> None:
    lane = in_flight()
    lane.send(*request(2))
    before = lane.state

    stepped = lane.send(*cancel_requested(number, owner))

    assert (lane.state, stepped.effects, stepped.events) == (before, (), ())


def test_a_cancel_after_the_settlement_changes_nothing() -> None:
    lane = queued()
    land(lane, 1, nonce=NONCE)
    before = lane.state

    stepped = lane.send(*cancel_requested())

    assert (lane.state, stepped.effects, stepped.events) == (before, (), ())


def test_two_lanes_of_two_chains_are_independent() -> None:
    one, other = new_lane(), new_lane(f"1/{SIGNER}")
    one.send(*request())
    other.send(*request(lane=f"1/{SIGNER}"))

    assert (one.params["chain"], other.params["chain"]) == (CHAIN, 1)
    assert other.answer(quoted(ready(9))).effects[0].params["nonce"] == 9
