"""The steps of the records when all goes well, and each answer of the contract and of Arweave."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.gateway.evm.studio import calldata
from tests.gateway.reducers import inputs
from tests.gateway.reducers.inputs import MINUTE, SECOND, WORKER, tag
from tests.gateway.reducers.way import (
    BLOCK,
    BUNDLE,
    CALL,
    EVERY_TX_STEP,
    EVIDENCE_HASH,
    ITEM,
    LANDED,
    NO_ONE,
    OPEN_WINDOW,
    STORED,
    TX_STEPS,
    WAYS,
    address,
    at_lane,
    attempt,
    begin,
    called,
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
    upload,
    uploaded,
    verifying,
    word,
)

# --- Evidence ------------------------------------------------------------------------------------


def test_the_evidence_is_stored_priced_uploaded_and_read_back() -> None:
    cell = begin("work")
    assert (cell.effect, cell.params["bytes"]) == ("sys/blob.put@1", inputs.EVIDENCE)

    cell.answer(STORED)
    assert cell.state["progress"]["evidence"] == EVIDENCE_HASH
    assert cell.state["evidence"] is None
    keys = {"alias": "gw/arweave-key", "version": 1}
    assert cell.effect == "arweave/quote@1"
    assert cell.params == {"keys": keys, "gateway": "main", "bytes": len(inputs.EVIDENCE)}

    cell.answer(priced(reward=77, anchor="anchor-9"))
    tags = [("App-Name", "AOS-Gateway"), ("Data-Hash", inputs.DATA_HASH)]
    assert cell.effect == "arweave/upload@1"
    assert cell.params == {
        "keys": keys,
        "gateway": "main",
        "data": EVIDENCE_HASH,
        "content_type": "application/json",
        "tags": [{"name": name, "value": value} for name, value in tags],
        "anchor": "anchor-9",
        "reward": "77",
    }

    cell.answer(uploaded())
    assert is_at(cell) == ("RUNNING", "AWAIT_ARWEAVE_CONFIRM", "AwaitingArweave")
    assert cell.effect == "arweave/status@1"
    look = {"gateway": "main", "item": ITEM, "bundle": BUNDLE, "conf": 3, "wait_ms": 20_000}
    assert cell.params == look
    assert cell.state["progress"]["arweave_tx_id"] is None

    cell.answer(status())
    progress = cell.state["progress"]
    assert (progress["arweave_tx_id"], progress["arweave_bundle_id"]) == (ITEM, BUNDLE)
    assert progress["arweave_confirmed"] is True
    assert is_at(cell) == ("RUNNING", "SUBMIT_WORK_ONCHAIN", "Checking")


@pytest.mark.parametrize("fate", ["Posted", "Known", "Unknown"])
def test_an_upload_that_may_have_been_posted_is_awaited(fate: str) -> None:
    cell = begin("work")
    for answer in (STORED, priced(), uploaded(fate)):
        cell.answer(answer)

    assert cell.effect == "arweave/status@1"


def test_an_upload_without_an_id_is_tried_again_after_a_pause() -> None:
    cell = begin("work")
    for answer in (STORED, priced(), uploaded("Unknown", item=None, bundle=None)):
        cell.answer(answer)

    assert error_of(cell) == "ARWEAVE_UNAVAILABLE"
    cell.fire()
    assert cell.effect == "arweave/quote@1"


def test_an_upload_that_is_pending_is_looked_at_again() -> None:
    cell = begin("work")
    for answer in (STORED, priced(), uploaded()):
        cell.answer(answer)

    for _ in range(20):
        cell.answer(status("Pending"))
        assert is_at(cell) == ("RUNNING", "AWAIT_ARWEAVE_CONFIRM", "AwaitingArweave")


def test_an_upload_that_arweave_forgot_is_the_same_item_in_a_bundle_with_a_new_anchor() -> None:
    cell = begin("work")
    for answer in (STORED, priced(), uploaded()):
        cell.answer(answer)
    first = next(each.params for each in cell.asked.values() if each.effect == "arweave/upload@1")

    cell.answer(status("NotFound"))
    assert (is_at(cell)[1], error_of(cell)) == ("UPLOAD_EVIDENCE", "ARWEAVE_UNAVAILABLE")
    cell.fire()
    cell.answer(priced(anchor="anchor-2"))
    assert cell.params == first | {"anchor": "anchor-2"}
    cell.answer(uploaded(bundle="another"))
    cell.answer(status())

    progress = cell.state["progress"]
    assert (progress["arweave_tx_id"], progress["arweave_bundle_id"]) == (ITEM, "another")


def test_other_bytes_than_the_evidence_fail_the_record() -> None:
    cell = begin("work")
    for answer in (STORED, priced(), uploaded()):
        cell.answer(answer)

    cell.answer(status(content="blake3:" + "0" * 64))

    assert failed_with(cell, "EVIDENCE_MISMATCH")
    assert cell.state["progress"]["arweave_confirmed"] is None


def test_an_upload_that_arweave_drops_as_invalid_fails_the_record() -> None:
    cell = begin("work")
    for answer in (STORED, priced(), uploaded()):
        cell.answer(answer)

    cell.answer(status("Rejected"))

    assert failed_with(cell, "ARWEAVE_REJECTED")


def test_an_upload_that_arweave_rejects_twice_fails_the_record() -> None:
    # The first time its anchor may have been too old.
    cell = begin("work")
    for answer in (STORED, priced(), uploaded("Rejected")):
        cell.answer(answer)
    assert (is_at(cell)[0], error_of(cell)) == ("RUNNING", "ARWEAVE_REJECTED")
    cell.fire()
    cell.answer(priced(anchor="anchor-2"))

    cell.answer(uploaded("Rejected"))

    assert failed_with(cell, "ARWEAVE_REJECTED")


@pytest.mark.parametrize("by", ["price", "NoFunds", "NoKey"])
def test_a_wallet_without_funds_or_key_stalls_the_record(by: str) -> None:
    cell = begin("work")
    cell.answer(STORED)

    if by == "price":
        cell.answer(priced(balance=5, reward=6))
        code = "ARWEAVE_NO_FUNDS"
    else:
        cell.answer(priced(balance=6, reward=6))
        cell.answer(uploaded(by, item=None, bundle=None))
        code = {"NoFunds": "ARWEAVE_NO_FUNDS", "NoKey": "ARWEAVE_NO_KEY"}[by]

    assert (is_at(cell)[0], error_of(cell)) == ("STALLED", code)
    assert 45 * SECOND <= cell.wait_ns <= 75 * SECOND
    cell.fire()
    assert (is_at(cell)[0], cell.effect) == ("RUNNING", "arweave/quote@1")


# --- The whole way -------------------------------------------------------------------------------

LAST: Final = {kind: steps[-1] for kind, steps in WAYS.items()}


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_step_asks_sends_and_checks_at_the_block_that_its_transaction_is_in(
    kind: str, step: str
) -> None:
    table = TX_STEPS[step]
    cell = checking(kind, step)
    assert is_at(cell) == ("RUNNING", step, "Checking")
    number = cell.state["requests"]

    to_lane(cell, step)
    assert is_at(cell) == ("RUNNING", table.awaits, "AwaitingTx")
    assert not cell.open
    assert cell.emitted("TxRequested")[-1]["request"] == number + 1
    owner = {"work": "Work", "epoch": "Epoch"}.get(kind, "Score")
    assert cell.emitted("TxRequested")[-1]["owner"] == tag(owner, cell.key)
    assert cell.emitted("TxRequested")[-1]["policy"] == inputs.POLICY

    tries = (attempt("0x" + "2b" * 32, fate="Replaced"), attempt())
    before = cell.state["attempts"]
    settle(cell, confirmed(), *tries)
    assert cell.state["attempts"] == [*before, *tries]
    assert is_at(cell) == ("RUNNING", table.awaits, "Verifying")
    assert cell.effect == CALL
    assert cell.params["block"] == tag("Number", BLOCK)
    assert cell.params["data"] == calldata(*table.question)
    assert cell.state["progress"][f"{table.field}_tx_hash"] is None

    cell.answer(called(done_word(cell, step)))
    assert cell.state["progress"][f"{table.field}_tx_hash"] == LANDED
    assert cell.state["progress"][f"{table.field}_confirmed"] is True
    if step == LAST[kind]:
        assert is_at(cell) == ("COMPLETED", step, "Nothing")
    else:
        following = WAYS[kind][WAYS[kind].index(step) + 1]
        assert is_at(cell) == ("RUNNING", following, "Checking")


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_step_that_the_contract_has_done_already_sends_nothing(kind: str, step: str) -> None:
    cell = checking(kind, step)
    sent = len(cell.emitted("TxRequested"))

    cell.answer(called(done_word(cell, step)))

    assert len(cell.emitted("TxRequested")) == sent
    assert cell.state["progress"][f"{TX_STEPS[step].field}_confirmed"] is True
    assert cell.state["progress"][f"{TX_STEPS[step].field}_tx_hash"] is None
    assert is_at(cell)[0] == ("COMPLETED" if step == LAST[kind] else "RUNNING")


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_a_record_whose_steps_are_all_done_already_completes(kind: str) -> None:
    cell = begin(kind)
    if kind == "work":
        upload(cell)
    for step in WAYS[kind]:
        cell.answer(called(done_word(cell, step)))

    assert is_at(cell)[0] == "COMPLETED"
    assert not cell.events


def test_an_epoch_that_anyone_has_closed_is_closed() -> None:
    cell = begin("epoch")

    cell.answer(called(address(inputs.STRANGER)))

    assert is_at(cell) == ("COMPLETED", "CHECK_PRECONDITIONS", "Nothing")


def test_an_epoch_without_works_stalls_until_it_has_one() -> None:
    cell = begin("epoch")
    cell.answer(called(NO_ONE))
    cell.answer(called(word(0)))
    assert (is_at(cell)[0], error_of(cell)) == ("STALLED", "EPOCH_EMPTY")

    cell.fire()
    assert cell.params["data"] == calldata("worksIn(uint64)", inputs.EPOCH)
    cell.answer(called(word(2**256 - 1)))

    assert is_at(cell) == ("RUNNING", "SUBMIT_CLOSE_EPOCH", "Checking")


# --- Answers of the contract ----------------------------------------------------------------------

SCORE_STEPS: Final = [("direct", "SUBMIT_SCORE"), ("committed", "COMMIT_SCORE")]
CONFLICTS: Final = [
    ("work", "SUBMIT_WORK_ONCHAIN", address(inputs.STRANGER)),
    *((kind, step, bytes([7]) * 32) for kind, step in SCORE_STEPS),
]


@pytest.mark.parametrize(("kind", "step", "returned"), CONFLICTS)
def test_the_work_of_another_is_a_conflict(kind: str, step: str, returned: bytes) -> None:
    cell = checking(kind, step)

    cell.answer(called(returned))

    assert failed_with(cell, "CONFLICT")


NONSENSE: Final = {
    "nothing": b"",
    "a word too few": bytes(31),
    "a word too many": bytes(64),
    "a revert": None,
}


def nonsense_of(form: str) -> Any:
    data = NONSENSE[form]
    return reverted_call() if data is None else called(data)


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
@pytest.mark.parametrize("form", NONSENSE)
def test_an_answer_that_no_studio_gives_is_tried_again(kind: str, step: str, form: str) -> None:
    cell = checking(kind, step)

    cell.answer(nonsense_of(form))

    assert (is_at(cell), error_of(cell)) == (("RUNNING", step, "Checking"), "STUDIO_UNKNOWN")
    assert cell.fire().effects[0].params["data"] == calldata(*TX_STEPS[step].question)


LARGE: Final = b"\x01" + bytes(31)


@pytest.mark.parametrize(
    ("kind", "step"), [each for each in EVERY_TX_STEP if each not in SCORE_STEPS]
)
def test_a_number_or_an_address_out_of_bounds_is_no_answer(kind: str, step: str) -> None:
    cell = checking(kind, step)

    cell.answer(called(LARGE))

    assert (is_at(cell)[0], error_of(cell)) == ("RUNNING", "STUDIO_UNKNOWN")


@pytest.mark.parametrize(("kind", "step"), SCORE_STEPS)
def test_a_score_waits_until_its_work_is_submitted(kind: str, step: str) -> None:
    cell = checking(kind, step)
    cell.answer(called(NO_ONE))

    cell.answer(called(NO_ONE))

    assert (is_at(cell)[0], error_of(cell)) == ("STALLED", "WORK_NOT_SUBMITTED")
    cell.fire()
    assert cell.params["data"] == calldata(*TX_STEPS[step].question)
    to_lane(cell, step)
    assert is_at(cell)[2] == "AwaitingTx"


@pytest.mark.parametrize(("kind", "step"), SCORE_STEPS)
def test_a_score_for_another_than_the_submitter_fails(kind: str, step: str) -> None:
    cell = checking(kind, step)
    cell.answer(called(NO_ONE))

    cell.answer(called(address(inputs.STRANGER)))

    assert failed_with(cell, "INVALID_INPUT")


@pytest.mark.parametrize(("kind", "step"), SCORE_STEPS)
@pytest.mark.parametrize("form", [*NONSENSE, "large"])
def test_a_submitter_that_is_no_address_is_asked_for_again(kind: str, step: str, form: str) -> None:
    cell = checking(kind, step)
    cell.answer(called(NO_ONE))
    asked = cell.params

    cell.answer(called(LARGE) if form == "large" else nonsense_of(form))

    assert error_of(cell) == "STUDIO_UNKNOWN"
    cell.fire()
    assert cell.params == asked
    assert asked["data"] == calldata("submitterOf(bytes32)", bytes.fromhex(inputs.DATA_HASH[2:]))
    cell.answer(called(address(WORKER)))
    assert is_at(cell)[2] == "AwaitingTx"


@pytest.mark.parametrize("returned", [b"", bytes(32), bytes(96), LARGE + bytes(32)])
def test_a_window_that_is_none_is_asked_for_again(returned: bytes) -> None:
    cell = checking("committed", "REVEAL_SCORE")
    cell.answer(called(word(1)))

    cell.answer(called(returned))

    assert error_of(cell) == "STUDIO_UNKNOWN"
    cell.fire()
    assert cell.params["data"] == calldata(*OPEN_WINDOW[0])


@pytest.mark.parametrize("returned", [b"", bytes(64)])
def test_a_number_of_works_that_is_none_is_asked_for_again(returned: bytes) -> None:
    cell = begin("epoch")
    cell.answer(called(NO_ONE))

    cell.answer(called(returned))

    assert error_of(cell) == "STUDIO_UNKNOWN"
    cell.fire()
    assert cell.params["data"] == calldata("worksIn(uint64)", inputs.EPOCH)


def test_a_reveal_waits_for_its_window_by_a_timer() -> None:
    cell = checking("committed", "REVEAL_SCORE")
    opens_at = cell.now_ns // SECOND + 90
    cell.answer(called(word(1)))

    cell.answer(called(word(opens_at) + word(opens_at + 100)))

    assert is_at(cell) == ("RUNNING", "REVEAL_SCORE", "Checking")
    assert cell.params["deliver_at_ns"] == opens_at * SECOND
    cell.fire()
    assert cell.params["data"] == calldata(*OPEN_WINDOW[0])
    cell.answer(called(word(opens_at) + word(opens_at + 100)))
    assert is_at(cell)[2] == "AwaitingTx"


@pytest.mark.parametrize("opens_at", [2**33, 2**40, 2**63, 2**64 - 1])
def test_a_window_in_a_far_future_is_waited_for_and_overflows_nothing(opens_at: int) -> None:
    cell = checking("committed", "REVEAL_SCORE")
    cell.answer(called(word(1)))

    cell.answer(called(word(opens_at) + word(2**64 - 1)))

    assert cell.effect == "sys/timer.set@1"
    assert cell.wait_ns > 1_000_000 * MINUTE


def test_a_commitment_that_is_gone_is_waited_for_and_its_lane_is_told() -> None:
    cell = checking("committed", "REVEAL_SCORE")

    stepped = cell.answer(called(word(0)))

    assert error_of(cell) == "CHAIN_REORGANISED"
    [(schema, told)] = stepped.events
    assert schema == "gw/LaneCommand@1"
    assert (told["lane"], told["what"]) == (inputs.lane_key(inputs.VALIDATOR), tag("Reconcile"))
    cell.fire()
    to_lane(cell, "REVEAL_SCORE")
    assert is_at(cell)[2] == "AwaitingTx"


def test_a_status_of_a_score_that_there_is_not_is_no_answer() -> None:
    cell = checking("committed", "REVEAL_SCORE")

    cell.answer(called(word(3)))

    assert error_of(cell) == "STUDIO_UNKNOWN"


# --- The check at the block in which it landed ----------------------------------------------------


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_a_transaction_without_its_effect_is_inconsistent_and_never_sent_again(
    kind: str, step: str
) -> None:
    cell = verifying(kind, step)

    cell.answer(called(TX_STEPS[step].undone))

    assert failed_with(cell, "INCONSISTENT")
    assert cell.state["step"] == tag(TX_STEPS[step].awaits)
    assert LANDED in cell.state["error"]["message"]
    sent = len(cell.emitted("TxRequested"))
    for what in ("Resume", "Reconcile", "Cancel"):
        order(cell, what)
    assert len(cell.emitted("TxRequested")) == sent


@pytest.mark.parametrize(("kind", "step", "returned"), CONFLICTS)
def test_a_transaction_after_which_another_has_done_it_is_inconsistent(
    kind: str, step: str, returned: bytes
) -> None:
    cell = verifying(kind, step)

    cell.answer(called(returned))

    assert failed_with(cell, "INCONSISTENT")


def test_a_reveal_at_whose_block_there_is_no_commitment_is_inconsistent() -> None:
    cell = verifying("committed", "REVEAL_SCORE")

    cell.answer(called(word(0)))

    assert failed_with(cell, "INCONSISTENT")


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
@pytest.mark.parametrize("form", NONSENSE)
def test_nonsense_at_that_block_is_no_evidence_and_is_asked_again(
    kind: str, step: str, form: str
) -> None:
    cell = verifying(kind, step)
    asked = cell.params

    cell.answer(nonsense_of(form))

    assert (is_at(cell)[0], error_of(cell)) == ("RUNNING", "STUDIO_UNKNOWN")
    cell.fire()
    assert cell.params == asked
    cell.answer(called(done_word(cell, step)))
    assert cell.state["progress"][f"{TX_STEPS[step].field}_tx_hash"] == LANDED


def test_policy_without_confirmations_asks_at_the_finalized_block() -> None:
    policy = inputs.POLICY | {"conf": 0}
    cell = checking("epoch", "SUBMIT_CLOSE_EPOCH", policy=policy)

    assert cell.params["block"] == {"$tag": "Finalized"}
    cell = at_lane("epoch", "SUBMIT_CLOSE_EPOCH", policy=policy)
    assert cell.emitted("TxRequested")[0]["policy"]["conf"] == 0
