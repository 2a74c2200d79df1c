"""Every outcome that the lane can tell a record, in every step that sends a transaction."""

from __future__ import annotations

from typing import Any, Final

import pytest

from aos.testing import Transition
from tests.gateway.evm.studio import calldata, custom, panic, required
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import MINUTE, SECOND, tag
from tests.gateway.reducers.test_failures import RETRIES, is_about
from tests.gateway.reducers.way import (
    DATA_HASH,
    EVERY_TX_STEP,
    LANDED,
    NO_ONE,
    OF_SCORE,
    TX_STEPS,
    at_lane,
    attempt,
    called,
    cause,
    confirmed,
    done_word,
    error_of,
    failed_with,
    is_at,
    order,
    settle,
    to_lane,
)
from tests.run_seed import rotated

FOREIGN: Final = tag("Foreign", {"hash": "0x" + "9f" * 32, "block": 130})
NO_FUNDS: Final = tag("NoFunds", {"balance": "5", "needed": "70000"})


def custom_cause(name: str, *values: Any) -> dict[str, Any]:
    return cause("Custom", custom(name, *values).data)


def reverted(because: dict[str, Any]) -> dict[str, Any]:
    return tag("Reverted", {"hash": LANDED, "block": 120, "cause": because})


def would_revert(because: dict[str, Any], *, at_depth: bool = True) -> dict[str, Any]:
    return tag("WouldRevert", {"cause": because, "at_depth": at_depth})


def asks_whether_done(cell: Cell, step: str) -> bool:
    """The record asks the contract at depth, and would send the transaction again."""
    assert is_at(cell) == ("RUNNING", step, "Checking")
    assert cell.state["doing"]["$value"] == tag("Done")
    assert cell.params["data"] == calldata(*TX_STEPS[step].question)
    return bool(cell.params["block"] == {"$tag": "Depth", "$value": 2})


# --- Reverts -------------------------------------------------------------------------------------

FINAL: Final = {
    "CONFLICT": [
        custom_cause("AlreadySubmitted", DATA_HASH, inputs.STRANGER),
        custom_cause("AlreadyScored", *OF_SCORE),
        custom_cause("WrongReveal", *OF_SCORE),
        custom_cause("NotTheSubmitter", DATA_HASH, inputs.WORKER),
    ],
    "EPOCH_CLOSED": [custom_cause("EpochClosed", 7)],
    "EPOCH_EMPTY": [custom_cause("EpochEmpty", 7)],
    "INVALID_INPUT": [custom_cause("NotTheWorker", DATA_HASH, inputs.WORKER)],
    "WINDOW_CLOSED": [custom_cause("WindowClosed", 1)],
    "TX_REVERTED": [
        cause("Error", required("out of paper").data, "out of paper"),
        cause("Panic", panic(0x11).data, "0x11"),
        cause("Custom", bytes.fromhex("01020304")),
        cause("Custom", b"\x01"),
        cause("Custom"),
        cause("Empty"),
    ],
}
EVERY_FINAL: Final = [(code, each) for code, causes in FINAL.items() for each in causes]
TAKEN_BACK: Final = {
    "UnknownWork": custom_cause("UnknownWork", DATA_HASH),
    "NotCommitted": custom_cause("NotCommitted", *OF_SCORE),
}
"""The chain lacks what an earlier step found there: a reorganisation."""


def revert_words(because: dict[str, Any]) -> str:
    return str(because["text"] or because["data"][:4].hex())


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize(("code", "because"), EVERY_FINAL)
def test_a_revert_at_depth_fails_the_record_unless_the_step_is_done(
    code: str, because: dict[str, Any], landed: bool
) -> None:
    outcome = reverted(because) if landed else would_revert(because)
    cell = at_lane("work", "REGISTER_WORK")

    settle(cell, outcome)
    assert asks_whether_done(cell, "REGISTER_WORK")
    other = cell.copy()
    cell.answer(called(NO_ONE))
    assert failed_with(cell, code)
    assert cell.state["error"]["step"] == "REGISTER_WORK"

    other.answer(called(done_word(cell, "REGISTER_WORK")))
    assert is_at(other)[0] == "COMPLETED"


def test_the_message_of_an_unknown_revert_has_its_words_or_its_selector() -> None:
    for because, words in (
        (cause("Error", text="out of paper"), "the contract reverted: out of paper"),
        (cause("Panic", text="0x11"), "the contract panicked with the code 0x11"),
        (cause("Custom", bytes(range(1, 9))), "reverted with the custom error 0x01020304"),
        (cause("Empty"), "the contract reverted without data"),
    ):
        cell = at_lane("epoch", "SUBMIT_CLOSE_EPOCH")
        settle(cell, reverted(because))
        cell.answer(called(NO_ONE))
        assert words in cell.state["error"]["message"]


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_failure_is_remembered_while_the_chain_cannot_be_asked(kind: str, step: str) -> None:
    cell = at_lane(kind, step)
    settle(cell, reverted(cause("Empty")))
    cell.fail("unavailable")
    cell.fire()
    order(cell, "Park")
    order(cell, "Resume")
    cell.answer(called(b""))
    cell.fire()

    cell.answer(called(TX_STEPS[step].undone))

    assert failed_with(cell, "TX_REVERTED")


@pytest.mark.parametrize(("code", "because"), EVERY_FINAL)
def test_a_revert_that_is_not_at_depth_is_a_retry(code: str, because: dict[str, Any]) -> None:
    cell = at_lane("work", "REGISTER_WORK")

    settle(cell, would_revert(because, at_depth=False))

    assert (is_at(cell)[0], error_of(cell)) == ("RUNNING", code)
    assert is_about(cell.wait_ns, SECOND)
    cell.fire()
    assert asks_whether_done(cell, "REGISTER_WORK")


@pytest.mark.parametrize("kind_step", EVERY_TX_STEP)
@pytest.mark.parametrize("name", rotated([*TAKEN_BACK]))
@pytest.mark.parametrize("how", ["landed", "at depth", "at the head"])
def test_a_revert_because_a_reorganisation_took_something_back_is_a_retry(
    kind_step: tuple[str, str], name: str, how: str
) -> None:
    kind, step = kind_step
    because = TAKEN_BACK[name]
    outcome = would_revert(because, at_depth=how == "at depth")
    cell = at_lane(kind, step)

    stepped = settle(cell, reverted(because) if how == "landed" else outcome)

    assert (is_at(cell)[0], error_of(cell)) == ("RUNNING", "CHAIN_REORGANISED")
    [(schema, told)] = stepped.events
    assert (schema, told["what"]) == ("gw/LaneCommand@1", tag("Reconcile"))
    cell.fire()
    assert asks_whether_done(cell, step)
    to_lane(cell, step)
    assert is_at(cell)[2] == "AwaitingTx"


@pytest.mark.parametrize("landed", [True, False])
def test_a_window_that_is_not_open_on_the_chain_is_waited_for(landed: bool) -> None:
    cell = at_lane("committed", "REVEAL_SCORE")
    opens_at = cell.now_ns // SECOND + 40
    because = custom_cause("WindowNotOpen", opens_at)

    settle(cell, reverted(because) if landed else would_revert(because, at_depth=False))

    assert is_at(cell) == ("RUNNING", "REVEAL_SCORE", "Checking")
    assert cell.params["deliver_at_ns"] == (opens_at + 1) * SECOND
    cell.fire()
    assert asks_whether_done(cell, "REVEAL_SCORE")


def test_a_window_that_is_open_by_now_is_tried_after_a_second() -> None:
    cell = at_lane("committed", "REVEAL_SCORE")

    settle(cell, would_revert(custom_cause("WindowNotOpen", 1)))

    assert cell.wait_ns == SECOND


@pytest.mark.parametrize("opens_at", [2**33, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_window_that_never_opens_overflows_nothing(opens_at: int) -> None:
    cell = at_lane("committed", "REVEAL_SCORE")

    settle(cell, would_revert(custom_cause("WindowNotOpen", opens_at)))

    assert cell.wait_ns > 1_000_000 * MINUTE


@pytest.mark.parametrize("size", [0, 4, 31])
def test_a_window_error_that_is_cut_is_a_revert_like_others(size: int) -> None:
    data = custom("WindowNotOpen", 9).data[: 4 + size]
    cell = at_lane("committed", "REVEAL_SCORE")

    settle(cell, would_revert(cause("Custom", data)))
    cell.answer(called(TX_STEPS["REVEAL_SCORE"].undone))

    assert failed_with(cell, "WINDOW_NOT_OPEN")


def test_text_that_looks_like_an_error_of_the_contract_is_not_one() -> None:
    data = custom("EpochClosed", 7).data
    cell = at_lane("epoch", "SUBMIT_CLOSE_EPOCH")

    settle(cell, reverted(cause("Error", data, "EpochClosed(7)")))
    cell.answer(called(NO_ONE))

    assert failed_with(cell, "TX_REVERTED")


# --- Other outcomes ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_step_that_the_guard_found_done_is_read_at_the_block_of_the_guard(
    kind: str, step: str
) -> None:
    cell = at_lane(kind, step)

    settle(cell, tag("Done", {"block": 117}))

    assert is_at(cell) == ("RUNNING", step, "Checking")
    assert cell.params["block"] == tag("Number", 117)
    assert cell.params["data"] == calldata(*TX_STEPS[step].question)
    cell.fail("block_unknown")
    assert error_of(cell) == "BLOCK_UNKNOWN"
    cell.fire()
    assert asks_whether_done(cell, step)
    cell.answer(called(done_word(cell, step)))
    assert cell.state["progress"][f"{TX_STEPS[step].field}_confirmed"] is True


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_cancel_at_the_lane_alone_parks_the_record(kind: str, step: str) -> None:
    cell = at_lane(kind, step)

    settle(cell, tag("Canceled"))

    assert (is_at(cell)[:2], cell.state["stall"]["$tag"]) == (("STALLED", step), "Parked")
    order(cell, "Resume")
    assert asks_whether_done(cell, step)


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_after_a_strangers_transaction_the_chain_is_asked_first(kind: str, step: str) -> None:
    cell = at_lane(kind, step)

    stepped = settle(cell, FOREIGN)
    assert not stepped.events
    assert asks_whether_done(cell, step)
    to_lane(cell, step)

    assert cell.state["requests"] == cell.state["at_lane"]
    assert is_at(cell)[2] == "AwaitingTx"


def test_a_signer_that_strangers_share_stalls_its_record_in_the_end() -> None:
    cell = at_lane("epoch", "SUBMIT_CLOSE_EPOCH")

    for _ in RETRIES:
        settle(cell, FOREIGN)
        to_lane(cell, "SUBMIT_CLOSE_EPOCH")
    settle(cell, FOREIGN)

    assert (is_at(cell)[0], error_of(cell)) == ("STALLED", "FOREIGN")
    assert cell.state["requests"] == len(RETRIES) + 1


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_signer_without_funds_stalls_its_record(kind: str, step: str) -> None:
    cell = at_lane(kind, step)

    settle(cell, NO_FUNDS)

    assert (is_at(cell)[:2], error_of(cell)) == (("STALLED", step), "NO_FUNDS")
    message = "the signer has 5 wei, and the transaction needs 70000"
    assert cell.state["error"]["message"] == message
    cell.fire()
    assert asks_whether_done(cell, step)


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_lane_that_is_full_is_tried_again_and_no_stall_is_counted(kind: str, step: str) -> None:
    cell = at_lane(kind, step)

    for _ in range(8):
        settle(cell, tag("LaneFull"))
        assert (is_at(cell), error_of(cell)) == (("RUNNING", step, "Checking"), None)
        assert cell.state["pause"] == tag("LaneFull")
        assert is_about(cell.wait_ns, 5 * SECOND)
        assert (cell.state["step_attempts"], cell.state["stall_cycles"]) == (0, 0)
        cell.fire()
        assert asks_whether_done(cell, step)
        to_lane(cell, step)


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_request_that_the_lane_calls_invalid_fails_the_record(kind: str, step: str) -> None:
    cell = at_lane(kind, step)

    settle(cell, tag("Invalid", "data: expected less"))

    assert failed_with(cell, "INVALID_INPUT")
    assert cell.state["error"]["message"] == "data: expected less"


# --- Which answer it is --------------------------------------------------------------------------

OUTCOMES: Final[dict[str, Any]] = {
    "Confirmed": confirmed(),
    "Reverted": reverted(cause("Empty")),
    "WouldRevert": would_revert(cause("Empty")),
    "Done": tag("Done", {"block": 117}),
    "Canceled": tag("Canceled"),
    "Foreign": FOREIGN,
    "NoFunds": NO_FUNDS,
    "LaneFull": tag("LaneFull"),
    "Invalid": tag("Invalid", "no"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_answer_to_another_request_or_a_second_one_changes_nothing(name: str) -> None:
    cell = at_lane("work", "REGISTER_WORK")
    before = cell.state
    for request in (0, 1, 3, 2**64 - 1):
        stepped = settle(cell, OUTCOMES[name], request=request)
        assert (cell.state, stepped.effects, stepped.events) == (before, (), ())

    settle(cell, OUTCOMES[name], request=2)
    before = cell.state
    stepped = settle(cell, OUTCOMES[name], request=2)
    assert (cell.state, stepped.effects, stepped.events) == (before, (), ())


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_settlement_is_kept_with_all_its_attempts(name: str) -> None:
    cell = at_lane("epoch", "SUBMIT_CLOSE_EPOCH")
    tries = [attempt(f"0x{n:064x}", nonce=9) for n in range(3)]

    settle(cell, OUTCOMES[name], *tries)

    assert cell.state["attempts"] == tries


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_settlement_of_a_parked_record_waits_for_its_resume(name: str) -> None:
    cell = at_lane("committed", "REVEAL_SCORE")
    other = cell.copy()
    order(cell, "Park")

    assert settle(cell, OUTCOMES[name]).effects == ()
    assert (is_at(cell)[0], cell.state["settled"]) == ("STALLED", OUTCOMES[name])
    order(cell, "Resume")
    settle(other, OUTCOMES[name])

    assert cell.state["settled"] is None
    assert is_at(cell) == is_at(other)
    assert error_of(cell) == error_of(other)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_record_that_is_canceled_ends_by_what_landed(name: str) -> None:
    for step, landed in (("SUBMIT_WORK_ONCHAIN", "CANCELED"), ("REGISTER_WORK", None)):
        cell = at_lane("work", step)
        stepped = order(cell, "Cancel")
        assert [schema for schema, _ in stepped.events] == ["gw/TxCancelRequested@1"]
        assert is_at(cell)[0] == "RUNNING"

        end = settled_while_canceling(cell, step, name)

        assert end == (landed if name in ("Confirmed", "Done") else "CANCELED")
        assert len(cell.emitted("TxRequested")) == cell.state["requests"]


def settled_while_canceling(cell: Cell, step: str, name: str) -> str | None:
    """Settle, and answer what the record asks then; the code of its end."""
    is_done = name in ("Confirmed", "Done")
    stepped: Transition = settle(cell, OUTCOMES[name])
    assert not stepped.events
    if name != "Canceled":
        cell.answer(called(done_word(cell, step) if is_done else NO_ONE))
    assert is_at(cell)[0] == ("FAILED" if error_of(cell) else "COMPLETED")
    return error_of(cell)
