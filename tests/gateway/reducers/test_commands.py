"""The commands of an operator, in every state of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.gateway.evm.studio import calldata
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import tag
from tests.gateway.reducers.test_failures import (
    asking_for_the_submitter,
    asking_for_the_window,
    asking_for_works,
    awaiting_arweave,
    pricing,
    storing,
    uploading,
)
from tests.gateway.reducers.way import (
    EVERY_TX_STEP,
    LANDED,
    NO_ONE,
    TX_STEPS,
    WAYS,
    at_lane,
    called,
    cause,
    checking,
    confirmed,
    done_word,
    error_of,
    failed_with,
    is_at,
    order,
    priced,
    reverted_call,
    settle,
    status,
    to_lane,
    uploaded,
    verifying,
    word,
)

COMMANDS: Final = ("Park", "Resume", "Cancel", "Reconcile")
Make = Callable[[], Cell]


def retrying() -> Cell:
    cell = checking("work", "REGISTER_WORK")
    cell.fail("unavailable")
    return cell


def stalled() -> Cell:
    cell = at_lane("work", "REGISTER_WORK")
    settle(cell, tag("NoFunds", {"balance": "1", "needed": "2"}))
    return cell


def waiting_for_room() -> Cell:
    cell = at_lane("work", "REGISTER_WORK")
    settle(cell, tag("LaneFull"))
    return cell


def waiting_for_the_window() -> Cell:
    cell = asking_for_the_window()
    second = cell.now_ns // 10**9
    cell.answer(called(word(second + 60) + word(second + 90)))
    return cell


BEFORE_ANYTHING_IS_SENT: Final[dict[str, Make]] = {
    "storing": storing,
    "pricing": pricing,
    "uploading": uploading,
    "awaiting Arweave": awaiting_arweave,
    "asking for works": asking_for_works,
    "asking for the submitter": asking_for_the_submitter,
    "asking for the window": asking_for_the_window,
    "waiting for the window": waiting_for_the_window,
    "checking": lambda: checking("work", "SUBMIT_WORK_ONCHAIN"),
    "retrying": retrying,
    "stalled": stalled,
    "waiting for room": waiting_for_room,
}
EVERY: Final = BEFORE_ANYTHING_IS_SENT | {
    "at the lane": lambda: at_lane("committed", "REVEAL_SCORE"),
    "verifying": lambda: verifying("committed", "REVEAL_SCORE"),
}


def is_parked(cell: Cell) -> bool:
    stall = cell.state["stall"]
    return stall is not None and stall["$tag"] == "Parked"


# --- Park and resume -----------------------------------------------------------------------------


@pytest.mark.parametrize("where", EVERY)
def test_a_parked_record_has_nothing_open_and_resumes_with_what_it_did(where: str) -> None:
    cell = EVERY[where]()
    doing = cell.state["doing"]

    stepped = order(cell, "Park", "holidays")
    assert is_parked(cell)
    assert cell.state["stall"] == tag("Parked", {"why": "holidays"})
    assert not cell.open
    assert all(each.effect == "sys/effect.cancel@1" for each in stepped.effects)
    assert order(cell, "Park").annotation == "Park; it is parked already"
    assert cell.state["stall"] == tag("Parked", {"why": "holidays"})

    order(cell, "Resume")
    assert is_at(cell)[0] == "RUNNING"
    uploads = ("uploading", "pricing")
    assert cell.state["doing"] == (tag("PricingUpload") if where in uploads else doing)
    assert len(cell.open) == (where != "at the lane")


def test_a_record_is_parked_by_command_where_no_reason_is_given() -> None:
    cell = pricing()

    order(cell, "Park")

    assert cell.state["stall"] == tag("Parked", {"why": "by command"})


@pytest.mark.parametrize("where", [each for each in EVERY if each != "stalled"])
def test_a_record_that_runs_has_nothing_to_resume(where: str) -> None:
    cell = EVERY[where]()
    before = cell.state

    assert order(cell, "Resume").effects == ()
    assert cell.state == before


def test_a_stalled_record_resumes_before_its_time_with_all_its_retries() -> None:
    cell = stalled()

    stepped = order(cell, "Resume")

    assert [each.effect for each in stepped.effects] == ["sys/effect.cancel@1", "evm/call@1"]
    assert is_at(cell)[0] == "RUNNING"
    assert (cell.state["step_attempts"], cell.state["stall_cycles"]) == (0, 0)


# --- Cancel --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", BEFORE_ANYTHING_IS_SENT)
@pytest.mark.parametrize("parks", [False, True])
def test_a_cancel_before_anything_is_sent_ends_the_record(where: str, parks: bool) -> None:
    cell = BEFORE_ANYTHING_IS_SENT[where]()
    if parks:
        order(cell, "Park")

    order(cell, "Cancel", "a mistake")

    assert failed_with(cell, "CANCELED")
    assert not cell.open
    assert not [each for each in cell.events if each[0] == "gw/TxCancelRequested@1"]


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
@pytest.mark.parametrize("parks", [False, True])
def test_a_cancel_withdraws_the_transaction_and_the_one_that_lands_decides(
    kind: str, step: str, parks: bool
) -> None:
    cell = at_lane(kind, step)
    if parks:
        order(cell, "Park")
    asked = cell.emitted("TxRequested")[-1]

    order(cell, "Cancel")
    assert is_at(cell)[0] == "RUNNING"
    told = {name: asked[name] for name in ("lane", "owner", "request")}
    assert cell.emitted("TxCancelRequested") == [told]
    settle(cell, confirmed())
    cell.answer(called(done_word(cell, step)))

    assert cell.state["progress"][f"{TX_STEPS[step].field}_tx_hash"] == LANDED
    if step == WAYS[kind][-1]:
        assert is_at(cell)[0] == "COMPLETED"
    else:
        assert failed_with(cell, "CANCELED")


@pytest.mark.parametrize("parks", [False, True])
def test_a_cancel_after_the_transaction_has_landed_waits_for_the_check(parks: bool) -> None:
    cell = verifying("committed", "REVEAL_SCORE")
    if parks:
        order(cell, "Park")

    order(cell, "Cancel")
    assert is_at(cell) == ("RUNNING", "AWAIT_REVEAL_CONFIRM", "Verifying")
    cell.answer(called(done_word(cell, "REVEAL_SCORE")))

    assert failed_with(cell, "CANCELED")
    assert cell.state["progress"]["onchain_confirmed"] is True


def test_a_cancel_of_a_parked_record_takes_what_the_lane_has_settled_meanwhile() -> None:
    cell = at_lane("work", "REGISTER_WORK")
    order(cell, "Park")
    settle(cell, confirmed())

    order(cell, "Cancel")
    assert is_at(cell)[2] == "Verifying"
    cell.answer(called(word(1)))

    assert is_at(cell)[0] == "COMPLETED"


def test_a_record_is_withdrawn_as_often_as_it_is_canceled() -> None:
    cell = at_lane("work", "REGISTER_WORK")

    for _ in range(3):
        order(cell, "Cancel")

    assert len(cell.emitted("TxCancelRequested")) == 3
    settle(cell, tag("Canceled"))
    assert failed_with(cell, "CANCELED")


# --- Reconcile -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [each for each in EVERY if each != "stalled"])
def test_a_record_that_runs_reads_the_chain_already(where: str) -> None:
    cell = EVERY[where]()
    before = cell.state

    stepped = order(cell, "Reconcile")

    assert (cell.state, stepped.effects) == (before, ())
    assert stepped.annotation == "Reconcile; it reads the chain already"


def test_a_stalled_record_reads_the_chain_now() -> None:
    cell = stalled()

    order(cell, "Reconcile")

    assert (is_at(cell)[0], cell.effect) == ("RUNNING", "evm/call@1")


NOT_YET: Final[dict[str, Callable[[Cell], Any]]] = {
    "undone": lambda cell: cell.answer(called(NO_ONE)),
    "nonsense": lambda cell: cell.answer(called(b"")),
    "a revert": lambda cell: cell.answer(reverted_call()),
    "unavailable": lambda cell: cell.fail("unavailable"),
    "a timeout": Cell.timeout,
    "a misfit": Cell.reject,
    "an operator's cancel": Cell.cancel,
}


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
@pytest.mark.parametrize("at", [checking, at_lane])
def test_a_parked_record_continues_if_the_contract_has_its_step(
    kind: str, step: str, at: Callable[..., Cell]
) -> None:
    cell = at(kind, step)
    order(cell, "Park")

    order(cell, "Reconcile")
    assert is_parked(cell)
    assert cell.params["data"] == calldata(*TX_STEPS[step].question)
    assert cell.params["block"] == {"$tag": "Depth", "$value": 2}
    assert order(cell, "Reconcile").effects == ()
    cell.answer(called(done_word(cell, step)))
    assert is_at(cell)[0] == "RUNNING"
    if at is at_lane:  # the hash comes with the settlement
        assert is_at(cell)[2] == "AwaitingTx"
        settle(cell, confirmed())
    cell.answer(called(done_word(cell, step)))

    assert cell.state["progress"][f"{TX_STEPS[step].field}_confirmed"] is True


@pytest.mark.parametrize("how", NOT_YET)
@pytest.mark.parametrize("at", [checking, at_lane])
def test_a_parked_record_stays_parked_if_the_contract_does_not_have_its_step(
    at: Callable[..., Cell], how: str
) -> None:
    cell = at("work", "REGISTER_WORK")
    order(cell, "Park")
    before = cell.state

    order(cell, "Reconcile")
    NOT_YET[how](cell)

    assert cell.state == before
    order(cell, "Resume")
    assert is_at(cell)[2] == ("Checking" if at is checking else "AwaitingTx")


@pytest.mark.parametrize("where", ["waiting for the window", "asking for the submitter"])
def test_a_parked_record_asks_whether_it_is_done_whatever_it_asked_before(where: str) -> None:
    cell = EVERY[where]()
    step = cell.state["step"]["$tag"]
    order(cell, "Park")

    order(cell, "Reconcile")

    assert cell.params["data"] == calldata(*TX_STEPS[step].question)


def test_a_parked_record_whose_transaction_has_landed_continues_with_it() -> None:
    for name in ("Confirmed", "Done"):
        cell = at_lane("work", "REGISTER_WORK")
        order(cell, "Park")
        settle(cell, confirmed() if name == "Confirmed" else tag("Done", {"block": 9}))
        order(cell, "Reconcile")
        cell.answer(called(word(1)))
        assert is_at(cell)[0] == "COMPLETED"

    cell = verifying("work", "REGISTER_WORK")
    order(cell, "Park")
    order(cell, "Reconcile")
    cell.answer(called(word(1)))
    assert is_at(cell)[0] == "COMPLETED"


@pytest.mark.parametrize("name", ["Confirmed", "Foreign", "Canceled", "NoFunds"])
def test_a_settlement_during_a_reconciliation_is_not_lost(name: str) -> None:
    outcome = {
        "Confirmed": confirmed(),
        "Foreign": tag("Foreign", {"hash": LANDED, "block": 1}),
        "Canceled": tag("Canceled"),
        "NoFunds": tag("NoFunds", {"balance": "1", "needed": "2"}),
    }[name]
    cell = at_lane("work", "REGISTER_WORK")
    order(cell, "Park")
    order(cell, "Reconcile")
    settle(cell, outcome)
    other = cell.copy()

    cell.answer(called(word(1)))  # done: it continues
    cell.answer(called(word(1)))
    assert is_at(cell)[0] == "COMPLETED"
    hash = LANDED if name == "Confirmed" else None
    assert cell.state["progress"]["register_tx_hash"] == hash

    other.answer(called(NO_ONE))  # not done: it stays parked, and has the settlement
    assert is_parked(other)
    assert other.state["settled"] == outcome


def test_a_parked_upload_continues_if_arweave_has_the_evidence() -> None:
    cell = awaiting_arweave()
    order(cell, "Park")
    for answer in ("Pending", "NotFound", "Rejected"):
        order(cell, "Reconcile")
        cell.answer(status(answer))
        assert is_parked(cell)
        assert not cell.open

    order(cell, "Reconcile")
    cell.answer(status())

    assert is_at(cell) == ("RUNNING", "SUBMIT_WORK_ONCHAIN", "Checking")


def test_a_parked_upload_of_other_bytes_fails_by_a_reconciliation() -> None:
    cell = awaiting_arweave()
    order(cell, "Park")
    order(cell, "Reconcile")

    cell.answer(status(content="blake3:" + "0" * 64))

    assert failed_with(cell, "EVIDENCE_MISMATCH")


def test_an_upload_that_was_posted_is_looked_for_whatever_came_after_it() -> None:
    cell = awaiting_arweave()
    cell.answer(status("NotFound"))
    cell.fire()
    cell.answer(priced())
    order(cell, "Park")

    order(cell, "Reconcile")
    assert cell.effect == "arweave/status@1"
    cell.fail("unavailable")
    assert is_parked(cell)

    order(cell, "Resume")
    cell.answer(priced())
    cell.answer(uploaded())
    assert is_at(cell)[1] == "AWAIT_ARWEAVE_CONFIRM"


@pytest.mark.parametrize("where", ["storing", "pricing", "uploading"])
def test_a_parked_record_that_has_sent_nothing_has_nothing_to_reconcile(where: str) -> None:
    cell = EVERY[where]()
    order(cell, "Park")
    before = cell.state

    assert order(cell, "Reconcile").effects == ()
    assert cell.state == before


@pytest.mark.parametrize("what", ["Resume", "Cancel"])
def test_another_command_ends_a_reconciliation(what: str) -> None:
    cell = checking("work", "REGISTER_WORK")
    order(cell, "Park")
    order(cell, "Reconcile")
    ref = cell.ref

    order(cell, what)

    assert cell.state["is_reconciling"] is False
    assert ref not in cell.open
    before = cell.state
    cell.answer(called(word(1)), ref=ref)
    assert cell.state == before


# --- After the end, and drift --------------------------------------------------------------------


def ended(kind: str, step: str, *, completes: bool) -> Cell:
    cell = at_lane(kind, step)
    if completes:
        settle(cell, confirmed())
        cell.answer(called(done_word(cell, step)))
    else:
        settle(cell, tag("Reverted", {"hash": LANDED, "block": 1, "cause": cause("Empty")}))
        cell.answer(called(TX_STEPS[step].undone))
    return cell


@pytest.mark.parametrize("completes", [True, False])
@pytest.mark.parametrize("what", ["Park", "Resume", "Cancel"])
def test_a_command_after_the_end_changes_nothing(what: str, completes: bool) -> None:
    cell = ended("work", "REGISTER_WORK", completes=completes)
    before = cell.state

    stepped = order(cell, what)

    assert (cell.state, stepped.effects, stepped.events) == (before, (), ())
    assert stepped.status == ("completed" if completes else "failed")


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_a_contract_that_says_otherwise_after_the_end_is_drift(kind: str) -> None:
    step = WAYS[kind][-1]
    for completes in (True, False):
        cell = ended(kind, step, completes=completes)
        before = cell.state
        agrees, differs = done_word(cell, step), TX_STEPS[step].undone
        if not completes:
            agrees, differs = differs, agrees

        order(cell, "Reconcile")
        assert cell.params["data"] == calldata(*TX_STEPS[step].question)
        assert order(cell, "Reconcile").effects == ()
        cell.answer(called(agrees))
        assert cell.state == before | {"updated_at": cell.now_ns}
        order(cell, "Reconcile")
        cell.answer(called(differs, block=140))
        word = "completed" if completes else "failed"
        has = "does not have" if completes else "has"
        drift = f"{word}, and at block 140 the contract {has} {step}"
        assert cell.state["drift"] == drift
        for how in NOT_YET:
            if how != "undone":
                order(cell, "Reconcile")
                NOT_YET[how](cell)
                assert cell.state["drift"] == drift, "no answer is no news"
        order(cell, "Reconcile")
        cell.answer(called(agrees))
        assert cell.state == before


def test_a_record_that_failed_before_its_transaction_has_no_drift() -> None:
    cell = pricing()
    order(cell, "Cancel")

    order(cell, "Reconcile")
    cell.answer(called(done_word(cell, "SUBMIT_WORK_ONCHAIN")))

    assert cell.state["drift"] is None


def test_an_invalid_record_has_nothing_to_compare() -> None:
    cell = at_lane("work", "REGISTER_WORK")
    settle(cell, tag("Invalid", "no"))

    assert error_of(cell) == "INVALID_INPUT"
    assert order(cell, "Reconcile").effects == ()


def test_a_step_can_be_sent_again_after_its_cancel_at_the_lane_and_a_resume() -> None:
    cell = at_lane("work", "REGISTER_WORK")
    settle(cell, tag("Canceled"))
    order(cell, "Resume")

    to_lane(cell, "REGISTER_WORK")

    assert [each["request"] for each in cell.emitted("TxRequested")] == [1, 2, 3]


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_is_noted_with_its_reason(what: str) -> None:
    assert order(retrying(), what, "why not").annotation.startswith(f"{what} (why not)")
