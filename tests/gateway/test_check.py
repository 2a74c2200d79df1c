"""``check.py`` finds what it should: each law is broken once, on lists and on a real chain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import check
import pytest
from chain import Chain
from check import findings
from landed_transactions import Deed, Landed, NodeError, Transaction
from studio import receipt_of

from tests.gateway.real_chain import chain_up
from tests.gateway.studio_calls import send

STUDIO = f"0x{'ab' * 20}"
SIGNER, OTHER = f"0x{'01' * 20}", f"0x{'02' * 20}"
WORK = f"31337/{STUDIO}/0x{'11' * 32}"
SCORE = f"{WORK}/{SIGNER}/{OTHER}"
EPOCH = f"31337/{STUDIO}/7"

Row = dict[str, Any]


def row(kind: str, key: str, signer: str, state: str = "COMPLETED") -> Row:
    return {"type": kind, "key": key, "signer": signer, "state": state}


ROWS = [
    row("work", WORK, SIGNER),
    row("score", SCORE, OTHER),
    row("epoch", EPOCH, SIGNER),
    row("lane", f"31337/{SIGNER}", SIGNER, "IDLE"),
    row("lane", f"31337/{OTHER}", OTHER, "IDLE"),
]


def done(key: str, function: str, sender: str, nonce: int) -> Transaction:
    return Transaction(
        hash=f"{sender}:{nonce}",
        sender=sender,
        nonce=nonce,
        is_success=True,
        is_empty=False,
        deed=Deed(key, function),
    )


GOOD = (
    done(WORK, "submitWork", SIGNER, 0),
    done(WORK, "registerWork", SIGNER, 1),
    done(SCORE, "commitScore", OTHER, 0),
    done(SCORE, "revealScore", OTHER, 1),
    done(SCORE, "registerValidator", OTHER, 2),
    done(EPOCH, "closeEpoch", SIGNER, 2),
)


def broken(transactions: Sequence[Transaction]) -> list[str]:
    """The laws that these transactions break, with the record and the step or the nonce."""
    return [f"{each.law} {each.what}" for each in findings(ROWS, transactions)]


def test_a_chain_that_has_each_step_once_has_no_finding() -> None:
    empty = replace(GOOD[0], nonce=3, hash="empty", is_empty=True, deed=None)

    assert broken(GOOD) == []
    assert broken([*GOOD, empty]) == []


def test_a_step_that_landed_twice_is_named() -> None:
    again = done(WORK, "registerWork", SIGNER, 3)

    assert broken([*GOOD, again]) == [f"landed_twice {WORK} registerWork"]
    assert broken([*GOOD, replace(again, is_success=False)]) == []


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_a_step_that_is_missing_is_named(number: int) -> None:
    missing = GOOD[number]
    later = [
        replace(
            each, nonce=each.nonce - (each.sender == missing.sender and each.nonce > missing.nonce)
        )
        for each in GOOD
        if each is not missing
    ]
    assert missing.deed is not None

    found = broken(later)

    assert any(each.startswith(f"not_landed {missing.deed.key}") for each in found)
    assert all(each.startswith("not_landed") for each in found)


def test_a_step_of_a_record_that_has_not_ended_may_be_missing() -> None:
    running = [{**each, "state": "RUNNING"} for each in ROWS]

    assert list(findings(running, [])) == []


def test_a_work_of_another_account_is_named() -> None:
    stranger = f"0x{'03' * 20}"
    taken = replace(GOOD[0], sender=stranger)
    rest = [replace(each, nonce=each.nonce - (each.sender == SIGNER)) for each in GOOD[1:]]

    assert broken([taken, *rest]) == [f"landed_by_another {WORK} submitWork"]


def test_a_transaction_that_no_record_explains_is_named() -> None:
    unknown = done(f"{WORK[:-1]}2", "submitWork", SIGNER, 3)
    other_call = replace(unknown, deed=None)

    assert broken([*GOOD, unknown]) == [f"unexplained {SIGNER} nonce 3"]
    assert broken([*GOOD, other_call]) == [f"unexplained {SIGNER} nonce 3"]


def test_a_gap_in_the_nonces_is_named() -> None:
    late = replace(GOOD[5], nonce=4)

    assert broken([*GOOD[:5], late]) == [f"nonces {SIGNER} nonce 2"]


DATA_HASH = b"\x11" * 32


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return chain_up(tmp_path / "chain")


def test_a_real_chain_is_read_with_its_lists(chain: Chain, tmp_path: Path) -> None:
    with chain:
        worker, validator = chain.address("SIGNER"), chain.address("VALIDATOR")
        send(chain, worker, "submitWork", DATA_HASH, 7, "an item")
        send(chain, worker, "registerWork", DATA_HASH)
        send(chain, validator, "submitScore", DATA_HASH, worker, [80, 90])
        send(chain, validator, "registerValidator", DATA_HASH, worker, validator)
        receipt_of(chain.rpc, chain.rpc("eth_sendTransaction", [{"from": worker, "to": worker}]))
        work = f"31337/{chain.studio}/0x{DATA_HASH.hex()}"
        score = f"{work}/{worker}/{validator}"
        rows = [
            row("work", work, worker),
            row("score", score, validator),
            row("lane", f"31337/{worker}", worker, "IDLE"),
            row("lane", f"31337/{validator}", validator, "IDLE"),
        ]
        before = check.compared(rows, Landed(chain.url, chain.studio))

        send(chain, worker, "registerWork", DATA_HASH)
        send(chain, validator, "registerValidator", DATA_HASH, worker, validator)
        (tmp_path / "rows.json").write_text(json.dumps({"rows": rows}))
        after = check.compared(rows, Landed(chain.url, chain.studio))
        code = check.main(
            ["--rpc", chain.url, "--studio", chain.studio, str(tmp_path / "rows.json")]
        )

    assert (before["steps"], before["empty"], before["findings"]) == (4, 1, [])
    assert {(each["law"], each["what"]) for each in after["findings"]} == {
        (law, f"{key} {function}")
        for law in ("landed_twice", "registered_twice")
        for key, function in ((work, "registerWork"), (score, "registerValidator"))
    }
    assert code == 1


def test_a_node_that_does_not_answer_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.json").write_text('{"rows": []}')

    with pytest.raises(NodeError, match="expected an answer of JSON-RPC"):
        Landed("http://127.0.0.1:1", STUDIO)
    assert (
        check.main(["--rpc", "http://127.0.0.1:1", "--studio", STUDIO, str(tmp_path / "rows.json")])
        == 1
    )

    assert capsys.readouterr().err.startswith("check.py: http://127.0.0.1:1: expected an answer")
