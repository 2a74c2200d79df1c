"""The checker has no finding for a history that is right; each of its laws finds a broken one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import pytest
from eth_account import Account

from tests.gateway.checker import Declared
from tests.gateway.checker.blocks import read_chain, type_2_hash
from tests.gateway.checker.history import LANE, read_history
from tests.gateway.checker.journal import NotABundle, read_bundle
from tests.gateway.checker.keccak import record_id
from tests.gateway.forged import (
    DATA_HASH,
    KEY,
    LANE_KEY,
    REGISTER_DATA,
    SIGNER,
    STUDIO,
    SUBMIT_DATA,
    WORK,
    Forged,
    Map,
    arm,
    bundle_items,
    tx_hash,
)

Break = Callable[[Forged], object]

CHECKER = Path(__file__).parent / "checker"


def test_a_history_that_is_right_has_no_finding() -> None:
    forged = Forged()
    assert forged.findings() == []
    assert len(forged.history().steps) == 17


# --- records


def later(first: int, path: str, value: Any, workflow: str = WORK) -> Break:
    """Set a field in all states from this step on."""

    def change(state: Map) -> None:
        *names, last = path.split(".")
        for each in names:
            state = state[each]
        state[last] = value

    return lambda forged: forged.change(workflow, first, change)


def once(step: int, path: str, value: Any, workflow: str = WORK) -> Break:
    """Set a field in one state; -1 is the last one."""

    def change(forged: Forged) -> None:
        state = forged.steps(workflow)[step]["state"]
        *names, last = path.split(".")
        for each in names:
            state = state[each]
        state[last] = value

    return change


def cleared(forged: Forged) -> None:
    """Forget the first attempt of the record at its end."""
    del forged.last_record()["attempts"][0]


def twice_at_the_end(forged: Forged) -> None:
    """One more step after the end, which changes the record."""
    last = forged.steps(WORK)[-1]
    more = {**last, "seq": len(forged.rows) + 1, "state": {**last["state"], "step_attempts": 1}}
    forged.rows.append(more)


def ended(state: str, error: Map | None) -> Break:
    def change(forged: Forged) -> None:
        forged.last_record().update(state=arm(state), error=error)
        forged.steps(WORK)[-1]["status"] = state.lower()

    return change


def removed(forged: Forged) -> None:
    forged.steps(WORK)[-1].update(state=None, status="running")


OUTAGE = {"step": "S", "message": "m", "code": "NODE_UNAVAILABLE", "recoverable": False}
PARKED = arm("Parked", {"why": "?"})
AUTO = arm("Auto", {"until": 9, "cycle": 1})

RECORD_LAWS: list[tuple[str, Break]] = [
    ("constant_changed", later(3, "input.epoch", 8)),
    ("constant_changed", later(3, "policy", {"conf": 1, "retries": 5})),
    ("constant_changed", later(3, "created_at", 2)),
    ("progress_changed", later(5, "progress.evidence", None)),
    ("progress_changed", once(-1, "progress.onchain_tx_hash", tx_hash(1))),
    ("attempts_changed", cleared),
    ("end_not_final", twice_at_the_end),
    ("identity_wrong", later(0, "id", record_id("another"))),
    ("identity_wrong", later(0, "input.data_hash", "0x" + "00" * 32)),
    ("time_runs_back", once(-1, "updated_at", 1)),
    ("state_inconsistent", once(2, "state", arm("PENDING"))),
    ("state_inconsistent", once(2, "stall", PARKED)),
    ("state_inconsistent", once(2, "state", arm("STALLED"))),
    ("state_inconsistent", once(2, "open", None)),
    ("state_inconsistent", once(-1, "open", "call")),
    ("end_inconsistent", once(-1, "error", OUTAGE)),
    ("end_inconsistent", ended("FAILED", None)),
    ("failed_by_outage", ended("FAILED", OUTAGE)),
    ("completed_early", later(1, "progress.arweave_confirmed", None)),
    ("step_wrong", once(3, "step", arm("REVEAL_SCORE"))),
    ("step_back", once(-1, "step", arm("UPLOAD_EVIDENCE"))),
    ("request_wrong", later(3, "requests", 2)),
    ("record_removed", removed),
]


@pytest.mark.parametrize(("law", "change"), RECORD_LAWS)
def test_a_broken_law_of_records_is_found_with_work_and_step(law: str, change: Break) -> None:
    forged = Forged()
    change(forged)
    found = [each for each in forged.findings() if each.law == law]
    assert found
    assert {each.key for each in found} == {KEY}
    assert all(each.step.isupper() for each in found)
    assert all(each.seq for each in found)


@pytest.mark.parametrize("stall", [PARKED, AUTO])
def test_a_stall_without_its_timer_or_with_an_open_effect_is_found(stall: Map) -> None:
    forged = Forged()
    once(2, "state", arm("STALLED"))(forged)
    once(2, "stall", stall)(forged)
    assert forged.laws() == {"state_inconsistent"}


def test_a_wrong_kernel_status_is_found() -> None:
    forged = Forged()
    forged.steps(WORK)[-1]["status"] = "waiting"
    assert forged.laws() == {"state_inconsistent"}


def test_a_fault_is_found() -> None:
    forged = Forged()
    fault = {"kind": "trap", "message": "it trapped"}
    cell = forged.steps(WORK)[-1]["cell"]
    forged.rows.append({"seq": len(forged.rows) + 1, "kind": "fault", "cell": cell, "fault": fault})
    assert forged.laws() == {"faulted"}


# --- nothing without evidence


def answered(effect: str, place: int, payload: Map) -> Break:
    return lambda forged: forged.answers(effect)[place].update(payload)


def asked(effect: str, place: int, **params: Any) -> Break:
    return lambda forged: forged.intents(effect)[place].update(params)


def confirmed_by_an_event(forged: Forged) -> None:
    """The step that confirms the submit is caused by the settlement itself."""
    steps = forged.steps(WORK)
    steps[5]["entry"] = steps[4]["entry"]


NO_EVIDENCE: list[tuple[str, Break]] = [
    ("SUBMIT_WORK_ONCHAIN", asked("evm/call@1", 1, block=arm("Number", 9))),
    ("SUBMIT_WORK_ONCHAIN", asked("evm/call@1", 1, block=arm("Depth", 2))),
    ("SUBMIT_WORK_ONCHAIN", confirmed_by_an_event),
    ("REGISTER_WORK", answered("evm/call@1", 3, {"result": arm("Reverted", {})})),
    (
        "SUBMIT_WORK_ONCHAIN",
        answered(
            "arweave/status@1",
            0,
            {"fate": arm("Confirmed", {"depth": 1, "content": "blake3:" + "00" * 32})},
        ),
    ),
    ("SUBMIT_WORK_ONCHAIN", answered("arweave/status@1", 0, {"fate": arm("NotFound")})),
    ("SUBMIT_WORK_ONCHAIN", asked("arweave/status@1", 0, item="another")),
]


@pytest.mark.parametrize(("step", "change"), NO_EVIDENCE)
def test_a_step_that_is_confirmed_without_evidence_is_found(step: str, change: Break) -> None:
    forged = Forged()
    change(forged)
    [found] = forged.findings()
    assert (found.law, found.key, found.step) == ("no_evidence", KEY, step)


# --- lanes


def nonce_changed(forged: Forged) -> None:
    current = forged.steps(LANE)[2]["state"]["current"]
    current["nonce"] = current["attempts"][0]["nonce"] = 5
    forged.intents("evm/tx.receipt@1")[0]["nonce"] = 5
    forged.answers("evm/tx.receipt@1")[0]["nonce_at_depth"] = 6


def settled_on_refused(forged: Forged) -> None:
    """The lane settles after the submit, and looks at nothing."""
    del forged.rows[12:14]  # the look and its answer
    for seq, row in enumerate(forged.rows, 1):
        row["seq"] = seq
        if row["kind"] == "step" and row["entry"][0] > 13:
            row["entry"][0] -= 2


def attempt_forgotten(forged: Forged) -> None:
    forged.steps(LANE)[2]["state"]["current"]["attempts"] = []


def two_effects(forged: Forged) -> None:
    step = forged.steps(LANE)[1]
    step["intents"].append({**step["intents"][0], "intent": bytes(32)})


def second_while_open(forged: Forged) -> None:
    """The quote is answered only after the submit was requested."""
    step = forged.steps(LANE)[1]
    quote = next(row for row in forged.rows if row.get("effect") == "evm/tx.quote@1")
    quote["intent"] = step["intents"][0]["intent"]


def not_told(forged: Forged) -> None:
    forged.settlements()[0]["request"] = 9


def settled_again(forged: Forged) -> None:
    step = forged.steps(LANE)[-1]
    step["events"] += forged.steps(LANE)[3]["events"]


def outcome(**changes: Any) -> Break:
    def change(forged: Forged) -> None:
        forged.settlements()[1]["outcome"]["$value"].update(changes)

    return change


def outcome_arm(forged: Forged) -> None:
    forged.settlements()[1]["outcome"]["$tag"] = "Reverted"


def out_of_order(forged: Forged) -> None:
    """Another request waits, and the later one begins."""
    for each in forged.steps(LANE)[:1]:
        each["state"]["queue"] = cbor2.dumps("work another 1") + cbor2.dumps(b"")
        each["state"]["queued"] = 1


LANE_LAWS: list[tuple[str, Break]] = [
    ("identity_wrong", later(0, "chain", 1, LANE)),
    ("nonce_runs_back", once(-1, "next_nonce", 0, LANE)),
    ("nonce_left", nonce_changed),
    ("nonce_left", settled_on_refused),
    ("nonce_left", answered("evm/tx.receipt@1", 0, {"fate": arm("NotFound")})),
    ("nonce_left", answered("evm/tx.receipt@1", 0, {"nonce_at_depth": 0})),
    ("nonce_left", asked("evm/tx.receipt@1", 0, conf=1)),
    ("nonce_left", outcome(hash=tx_hash(0))),
    ("nonce_left", outcome_arm),
    ("attempts_changed", attempt_forgotten),
    ("effect_wrong", asked("evm/tx.quote@1", 1, conf=1)),
    ("effect_wrong", asked("evm/tx.submit@1", 1, nonce=7)),
    ("effect_wrong", asked("evm/tx.submit@1", 1, data=SUBMIT_DATA)),
    ("effect_wrong", asked("evm/tx.submit@1", 1, max_fee=21)),
    ("effect_wrong", asked("evm/tx.receipt@1", 1, hashes=[])),
    ("effect_wrong", asked("evm/tx.receipt@1", 1, since=0)),
    ("two_in_flight", two_effects),
    ("two_in_flight", second_while_open),
    ("nonce_unquoted", answered("evm/tx.quote@1", 1, {"quote": arm("Ready", {"nonce": 3})})),
    ("not_settled", not_told),
    ("settled_twice", settled_again),
    ("queue_wrong", out_of_order),
    ("queue_wrong", once(0, "queued", 3, LANE)),
]


@pytest.mark.parametrize(("law", "change"), LANE_LAWS)
def test_a_broken_law_of_lanes_is_found_with_work_and_step(law: str, change: Break) -> None:
    forged = Forged()
    change(forged)
    found = [each for each in forged.findings() if each.law == law]
    assert found
    assert {each.key for each in found} <= {KEY, LANE_KEY}
    assert all(each.seq for each in found)


# --- the chain


def never_mined(forged: Forged) -> None:
    forged.chain = replace(forged.chain, transactions=forged.chain.transactions[:1])


def mined_twice(forged: Forged) -> None:
    forged.mined(forged.transaction(2, REGISTER_DATA))


def listed_twice(forged: Forged) -> None:
    entries = 2 * [(DATA_HASH, SIGNER)]
    forged.chain = replace(forged.chain, registrations={STUDIO: entries})


def another_is_mined(forged: Forged) -> None:
    """A transaction of the signer that no intent specifies."""
    forged.mined(forged.transaction(2, b"", to=SIGNER, gas=21_000))


def with_another_nonce(forged: Forged) -> None:
    """The transaction that was journaled for nonce 1 is in the chain with nonce 3."""
    forged.remined(1, nonce=3)


def remined(place: int, **changes: Any) -> Break:
    return lambda forged: forged.remined(place, **changes)


CHAIN_LAWS: list[tuple[str, str, Break]] = [
    ("not_journaled", "EMPTY_TRANSACTION", another_is_mined),
    ("not_journaled", "REGISTER_WORK", with_another_nonce),
    ("not_journaled", "REGISTER_WORK", remined(1, max_tip=3)),
    ("not_journaled", "REGISTER_WORK", remined(1, real_hash=tx_hash(9))),
    ("not_journaled", "SUBMIT_WORK_ONCHAIN", remined(0, type=0)),
    ("landed_twice", "REGISTER_WORK", mined_twice),
    ("listed_twice", "REGISTER_WORK", listed_twice),
    ("not_landed", "REGISTER_WORK", never_mined),
    ("nonces_not_contiguous", "LANE", with_another_nonce),
    ("nonce_left", "LANE", never_mined),
    ("confirmed_wrong", "REGISTER_WORK", never_mined),
    ("confirmed_wrong", "REGISTER_WORK", remined(1, is_success=False)),
    ("confirmed_wrong", "REGISTER_WORK", remined(1, block=12)),
    ("progress_wrong", "REGISTER_WORK", never_mined),
]


@pytest.mark.parametrize(("law", "step", "change"), CHAIN_LAWS)
def test_a_chain_that_differs_from_the_journal_is_found_with_work_and_step(
    law: str, step: str, change: Break
) -> None:
    forged = Forged()
    change(forged)
    found = {(each.key, each.step) for each in forged.findings() if each.law == law}
    assert found
    assert {name for _, name in found} == {step}
    assert {key for key, _ in found} <= {KEY, LANE_KEY}


def reverted(forged: Forged) -> None:
    """The lane reports a revert that the chain does not have."""
    landed = forged.answers("evm/tx.receipt@1")[1]["fate"]
    for variant in (landed, forged.settlements()[1]["outcome"]):
        variant["$tag"] = "Reverted"
    later(7, "progress.register_confirmed", None)(forged)


def test_a_revert_that_is_no_revert_is_found() -> None:
    forged = Forged()
    reverted(forged)
    assert "reverted_wrong" in forged.laws()


def foreign(forged: Forged, *, hash: str) -> None:
    """The lane reports that a stranger's transaction took nonce 1."""
    for variant in (
        forged.answers("evm/tx.receipt@1")[1]["fate"],
        forged.settlements()[1]["outcome"],
    ):
        variant.update(arm("Foreign", {"hash": hash, "block": 11}))


@pytest.mark.parametrize(
    ("of", "is_declared", "is_found"),
    [
        ({}, True, False),
        ({}, False, True),
        ({"sender": STUDIO}, True, True),
        ({"nonce": 4}, True, True),
    ],
)
def test_a_foreign_outcome_names_a_real_transaction_of_a_declared_stranger(
    of: Map, is_declared: bool, is_found: bool
) -> None:
    forged = Forged()
    foreign(forged, hash=tx_hash(8))
    stranger = {"hash": tx_hash(8), "real_hash": tx_hash(8), "gas": 50_000, **of}
    forged.remined(1, **stranger)
    if is_declared:
        forged.declared = Declared(strangers=frozenset({tx_hash(8)}))
    assert ("foreign_wrong" in forged.laws()) is is_found


def test_a_foreign_outcome_that_names_no_transaction_is_found() -> None:
    forged = Forged()
    foreign(forged, hash=tx_hash(8))
    assert "foreign_wrong" in forged.laws()


def test_a_declared_stranger_may_do_the_same_work() -> None:
    forged = Forged()
    stranger = tx_hash(8)
    forged.mined(forged.transaction(2, REGISTER_DATA, hash=stranger, real_hash=stranger, type=0))
    listed_twice(forged)
    assert forged.laws() == {"not_journaled", "landed_twice", "listed_twice"}
    forged.declared = Declared(strangers=frozenset({stranger}))
    assert forged.findings() == []


def test_a_deep_reorganisation_may_move_a_transaction_to_another_block() -> None:
    forged = Forged()
    forged.remined(1, block=15)
    assert forged.laws() == {"confirmed_wrong"}
    forged.declared = Declared(is_deep_reorg=True)
    assert forged.findings() == []


# --- reading


def test_a_bundle_is_read_with_a_cbor_reader_alone(tmp_path: Path) -> None:
    journal = Forged().journal()
    file = tmp_path / "world.aos"
    file.write_bytes(b"".join(bundle_items(journal)))
    assert read_bundle(file).records == journal.records
    assert len(read_history(read_bundle(file)).settlements) == 2


@pytest.mark.parametrize("data", [b"\x01", b"\x82\x63abc\x41x", b"\xff", b"\x82"])
def test_another_file_is_not_read_as_a_bundle(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "world.aos"
    file.write_bytes(data)
    with pytest.raises(NotABundle):
        read_bundle(file)


def test_a_missing_record_is_not_overlooked(tmp_path: Path) -> None:
    journal = Forged().journal()
    file = tmp_path / "world.aos"
    short = replace(journal, records=journal.records[:3] + journal.records[4:])
    file.write_bytes(b"".join(bundle_items(short)))
    with pytest.raises(NotABundle, match="expected record 4, found record 5"):
        read_bundle(file)


PRIVATE = bytes(31) + b"\x07"


def signed(**changes: Any) -> Map:
    """A transaction as a node returns it, signed by eth-account."""
    given = {
        "type": 2, "chainId": 31337, "nonce": 0, "to": bytes(20), "data": REGISTER_DATA,
        "value": 0, "gas": 90_000, "maxFeePerGas": 20, "maxPriorityFeePerGas": 2,
        "accessList": [], **changes,
    }  # fmt: skip
    done = Account.sign_transaction(given, PRIVATE)
    fields = {name: hex(given[name]) for name in ("nonce", "value", "gas", "chainId", "type")}
    fees = {name: hex(given[name]) for name in ("maxFeePerGas", "maxPriorityFeePerGas")}
    return {
        **fields, **fees, "hash": "0x" + done.hash.hex(), "blockNumber": "0x1",
        "from": Account.from_key(PRIVATE).address, "to": "0x" + given["to"].hex(),
        "input": "0x" + given["data"].hex(), "accessList": given["accessList"],
        "r": hex(done.r), "s": hex(done.s), "yParity": hex(done.v),
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"nonce": 300, "value": 10**18, "data": bytes(300)},
        {"data": b""},
        {"data": b"\x05", "accessList": [{"address": "0x" + 40 * "1", "storageKeys": [66 * "0"]}]},
    ],
)
def test_the_hash_of_a_transaction_is_computed_from_its_fields(changes: Map) -> None:
    if "accessList" in changes:
        changes["accessList"][0]["storageKeys"] = ["0x" + 64 * "2"]
    transaction = signed(**changes)
    assert type_2_hash(transaction) == transaction["hash"]
    assert type_2_hash({**transaction, "gas": "0x5209"}) != transaction["hash"]


class Node:
    """A node with one block of one transaction, whose receipt comes late, and one entry in each
    list of the contract."""

    def __init__(self) -> None:
        self.transaction = signed()
        self.lags = True

    def __call__(self, calls: Any) -> list[Any]:
        answers = [self.answer(method, params) for method, params in calls]
        if calls and calls[0][0] == "eth_getTransactionReceipt" and self.lags:
            self.lags = False
            return [None for _ in answers]
        return answers

    def answer(self, method: str, params: list[Any]) -> Any:
        match method:
            case "eth_chainId":
                return hex(31337)
            case "eth_blockNumber":
                return "0x1"
            case "eth_getBlockByNumber":
                return {"transactions": [self.transaction] if params[0] == "0x1" else []}
            case "eth_getTransactionReceipt":
                return {"status": "0x0"}
        size = (len(params[0]["data"]) - 10) // 64
        one, address = (1).to_bytes(32).hex(), SIGNER[2:].rjust(64, "0")
        return "0x" + (DATA_HASH[2:] + address if size == 1 else one)


def test_a_chain_is_read_with_its_receipts_and_lists() -> None:
    node = Node()
    score = (STUDIO, DATA_HASH, SIGNER, SIGNER)
    chain = read_chain(node, [STUDIO], [score])
    [found] = chain.transactions
    assert found.hash == found.real_hash == node.transaction["hash"]
    assert (found.sender, found.is_success, found.block) == (
        node.transaction["from"].lower(), False, 1,
    )  # fmt: skip
    assert chain.registrations == {STUDIO: [(DATA_HASH, SIGNER)]}
    assert chain.validators == {score: 1}


def test_the_checker_imports_nothing_of_the_kernel() -> None:
    for file in CHECKER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert not name.startswith(("aos", "chain", "tests.cli")), f"{file.name}: {name}"
                if name.startswith("tests"):
                    assert name.startswith("tests.gateway.checker"), f"{file.name}: {name}"
