"""The way of each record, written a second time: what it asks in each step, and the answers that
lead it on.

    cell = at_lane("work", "REGISTER_WORK")     a record that waits for this step's transaction
    settle(cell, confirmed())
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from eth_abi.abi import encode

from aos.testing import Transition
from aos.values.digests import content_hash, hash_text
from tests.gateway.evm.studio import calldata, commitment
from tests.gateway.reducers import inputs as given
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import ADMIN, VALIDATOR, WORKER, tag
from tests.gateway.reducers.laws import record_law

DATA_HASH: Final = bytes.fromhex(given.DATA_HASH[2:])
OF_SCORE: Final = (DATA_HASH, WORKER, VALIDATOR)
EVIDENCE_HASH: Final = hash_text(content_hash(given.EVIDENCE))
ITEM: Final = "item-" + "i" * 38
BUNDLE: Final = "bundle-" + "b" * 36
BLOCK: Final = 120
"""The block in which a transaction lands."""
LANDED: Final = "0x" + "1a" * 32

NO_ONE: Final = bytes(32)
CALL: Final = "evm/call@1"


def word(value: int) -> bytes:
    return value.to_bytes(32)


def address(value: str) -> bytes:
    return encode(["address"], [value])


@dataclass(frozen=True)
class TxStep:
    """A step that sends a transaction, and the step that waits for it.

    Attributes:
        question: The view that tells whether it is done, and its arguments.
        done: The answer of the view once it is done by this record; ``undone``: before.
        before: Further questions, once it is known to be undone: a view, its arguments, and the
            answer that leads on.
        field: The progress that it makes: ``onchain``, ``commit`` or ``register``.
        signer: Whose lane gets the request.
    """

    awaits: str
    question: tuple[Any, ...]
    done: bytes
    field: str
    signer: str
    undone: bytes = NO_ONE
    before: tuple[tuple[tuple[Any, ...], bytes], ...] = ()


SUBMITTER: Final = (("submitterOf(bytes32)", DATA_HASH), address(WORKER))
OPEN_WINDOW: Final = (
    ("revealWindowOf(bytes32,address,address)", *OF_SCORE),
    word(1_600_000_000) + word(1_900_000_000),
)
COMMITMENT: Final = commitment(*OF_SCORE, tuple(given.SCORES), bytes(32))

TX_STEPS: Final[dict[str, TxStep]] = {
    "SUBMIT_WORK_ONCHAIN": TxStep(
        awaits="AWAIT_TX_CONFIRM",
        question=("submitterOf(bytes32)", DATA_HASH),
        done=address(WORKER),
        field="onchain",
        signer=WORKER,
    ),
    "REGISTER_WORK": TxStep(
        awaits="AWAIT_REGISTER_CONFIRM",
        question=("registrationsOf(bytes32,address)", DATA_HASH, WORKER),
        done=word(1),
        field="register",
        signer=WORKER,
    ),
    "SUBMIT_SCORE": TxStep(
        awaits="AWAIT_TX_CONFIRM",
        question=("commitmentOf(bytes32,address,address)", *OF_SCORE),
        done=COMMITMENT,
        field="onchain",
        signer=VALIDATOR,
        before=(SUBMITTER,),
    ),
    "COMMIT_SCORE": TxStep(
        awaits="AWAIT_COMMIT_CONFIRM",
        question=("commitmentOf(bytes32,address,address)", *OF_SCORE),
        done=b"",  # of the record's salt: ``done_word``
        field="commit",
        signer=VALIDATOR,
        before=(SUBMITTER,),
    ),
    "REVEAL_SCORE": TxStep(
        awaits="AWAIT_REVEAL_CONFIRM",
        question=("scoreStatusOf(bytes32,address,address)", *OF_SCORE),
        done=word(2),
        undone=word(1),
        field="onchain",
        signer=VALIDATOR,
        before=(OPEN_WINDOW,),
    ),
    "REGISTER_VALIDATOR": TxStep(
        awaits="AWAIT_REGISTER_CONFIRM",
        question=("validatorRegistrationsOf(bytes32,address,address)", *OF_SCORE),
        done=word(1),
        field="register",
        signer=ADMIN,
    ),
    "SUBMIT_CLOSE_EPOCH": TxStep(
        awaits="AWAIT_TX_CONFIRM",
        question=("closerOf(uint64)", given.EPOCH),
        done=address(ADMIN),
        field="onchain",
        signer=ADMIN,
    ),
}

WAYS: Final[dict[str, tuple[str, ...]]] = {
    "work": ("SUBMIT_WORK_ONCHAIN", "REGISTER_WORK"),
    "direct": ("SUBMIT_SCORE", "REGISTER_VALIDATOR"),
    "committed": ("COMMIT_SCORE", "REVEAL_SCORE", "REGISTER_VALIDATOR"),
    "epoch": ("SUBMIT_CLOSE_EPOCH",),
}
EVERY_TX_STEP: Final = [(kind, step) for kind, steps in WAYS.items() for step in steps]


def salt_of(cell: Cell) -> bytes:
    return bytes(cell.state["progress"]["salt"] or bytes(32))


def done_word(cell: Cell, step: str) -> bytes:
    """The answer of the view once the step is done by this record."""
    if step == "COMMIT_SCORE":
        return commitment(*OF_SCORE, tuple(given.SCORES), salt_of(cell))
    return TX_STEPS[step].done


def transaction(cell: Cell, step: str) -> bytes:
    """The data of the step's transaction, by the ABI."""
    scores = tuple(given.SCORES)
    match step:
        case "SUBMIT_WORK_ONCHAIN":
            item = cell.state["progress"]["arweave_tx_id"]
            return calldata("submitWork(bytes32,uint64,string)", DATA_HASH, given.EPOCH, item)
        case "REGISTER_WORK":
            return calldata("registerWork(bytes32)", DATA_HASH)
        case "SUBMIT_SCORE":
            return calldata("submitScore(bytes32,address,uint16[])", DATA_HASH, WORKER, scores)
        case "COMMIT_SCORE":
            made = done_word(cell, step)
            return calldata("commitScore(bytes32,address,bytes32)", DATA_HASH, WORKER, made)
        case "REVEAL_SCORE":
            signature = "revealScore(bytes32,address,uint16[],bytes32)"
            return calldata(signature, DATA_HASH, WORKER, scores, salt_of(cell))
        case "REGISTER_VALIDATOR":
            return calldata("registerValidator(bytes32,address,address)", *OF_SCORE)
        case _:
            return calldata("closeEpoch(uint64)", given.EPOCH)


# Receipts

STORED: Final = {
    "blob_ref": EVIDENCE_HASH,
    "edge_ref": EVIDENCE_HASH,
    "size": len(given.EVIDENCE),
}


def priced(*, balance: int = 10**12, reward: int = 10**9, anchor: str = "anchor-1") -> Any:
    has, costs = str(balance), str(reward)
    return {"anchor": anchor, "reward": costs, "balance": has, "height": 50}


def uploaded(fate: str = "Posted", *, item: str | None = ITEM, bundle: str | None = BUNDLE) -> Any:
    return {"item": item, "bundle": bundle, "fate": tag(fate), "code": 200, "message": fate}


def status(name: str = "Confirmed", *, content: str = EVIDENCE_HASH, depth: int = 3) -> Any:
    match name:
        case "Confirmed":
            fate = tag(name, {"depth": depth, "content": content})
        case "Pending":
            fate = tag(name, {"depth": 0})
        case _:
            fate = tag(name)
    return {"fate": fate}


def called(returned: bytes, *, block: int = 100) -> Any:
    return {"block": block, "block_hash": LANDED, "result": tag("Returned", returned)}


def reverted_call() -> Any:
    result = tag("Reverted", cause("Empty"))
    return {"block": 100, "block_hash": LANDED, "result": result}


def cause(kind: str, data: bytes = b"", text: str = "") -> dict[str, Any]:
    return {"kind": tag(kind), "text": text, "data": data}


def attempt(hash: str = LANDED, nonce: int = 4, fate: str = "Confirmed") -> dict[str, Any]:
    return {
        "hash": hash,
        "nonce": nonce,
        "max_fee": 3 * given.GWEI,
        "max_tip": given.GWEI,
        "is_cancel": False,
        "fate": tag(fate),
    }


def confirmed(hash: str = LANDED, block: int = BLOCK) -> dict[str, Any]:
    return tag("Confirmed", {"hash": hash, "block": block, "gas_used": 50_000})


# The way


def begin(kind: str, **changes: Any) -> Cell:
    """A record that was just created."""
    workflow, key = given.workflow_of(kind), given.key_of(kind)
    cell = Cell(given.gateway(), workflow, key, record_law)
    cell.send(*given.requested(kind, **changes))
    return cell


def upload(cell: Cell) -> None:
    """From the beginning of a work to its first transaction."""
    for answer in (STORED, priced(), uploaded(), status()):
        cell.answer(answer)


def checking(kind: str, step: str, **changes: Any) -> Cell:
    """A record that asks whether this step is done."""
    return _checking(kind, step, **changes) if changes else _kept(_checking, kind, step)


def at_lane(kind: str, step: str, **changes: Any) -> Cell:
    """A record that waits for this step's transaction."""
    return _at_lane(kind, step, **changes) if changes else _kept(_at_lane, kind, step)


def verifying(kind: str, step: str, **changes: Any) -> Cell:
    """A record that checks the contract at the block in which its transaction landed."""
    return _verifying(kind, step, **changes) if changes else _kept(_verifying, kind, step)


_KEPT: Final[dict[tuple[Any, ...], Cell]] = {}


def _kept(make: Callable[..., Cell], *where: str) -> Cell:
    """A record that was led there once for all tests."""
    place = (make, *where)
    if place not in _KEPT:
        _KEPT[place] = make(*where)
    return _KEPT[place].copy()


def _checking(kind: str, step: str, **changes: Any) -> Cell:
    at = WAYS[kind].index(step)
    if at:
        earlier = WAYS[kind][at - 1]
        cell = verifying(kind, earlier, **changes)
        cell.answer(called(done_word(cell, earlier)))
        return cell
    cell = begin(kind, **changes)
    if kind == "work":
        upload(cell)
    if kind == "epoch":
        cell.answer(called(NO_ONE))
        cell.answer(called(word(3)))
    return cell


def to_lane(cell: Cell, step: str) -> Transition:
    """From the question whether it is done to the request for its transaction."""
    stepped = cell.answer(called(TX_STEPS[step].undone))
    for _, answer in TX_STEPS[step].before:
        stepped = cell.answer(called(answer))
    return stepped


def _at_lane(kind: str, step: str, **changes: Any) -> Cell:
    cell = checking(kind, step, **changes)
    to_lane(cell, step)
    return cell


def _verifying(kind: str, step: str, **changes: Any) -> Cell:
    cell = at_lane(kind, step, **changes)
    settle(cell, confirmed())
    return cell


def settle(
    cell: Cell, outcome: object, *attempts: object, request: int | None = None
) -> Transition:
    """The lane's answer: to the request that is open, with one attempt, by default."""
    number = cell.state["requests"] if request is None else request
    told = attempts or (attempt(),)
    return cell.send(*given.settled(kind_of(cell), number, outcome, list(told)))


def order(cell: Cell, what: str, why: str = "") -> Transition:
    """A command of the operator."""
    return cell.send(*given.command(kind_of(cell), what, why))


def kind_of(cell: Cell) -> str:
    mode = cell.state["input"]["mode"]
    if mode is not None:
        return "direct" if mode["$tag"] == "Direct" else "committed"
    return "epoch" if cell.workflow == "gw/epoch@1" else "work"


# Views


def is_at(cell: Cell) -> tuple[str, str, str]:
    """State, step and what the record does."""
    state = cell.state
    return state["state"]["$tag"], state["step"]["$tag"], state["doing"]["$tag"]


def error_of(cell: Cell) -> str | None:
    error = cell.state["error"]
    return None if error is None else str(error["code"])


def failed_with(cell: Cell, code: str) -> bool:
    assert is_at(cell)[0] == "FAILED", is_at(cell)
    assert error_of(cell) == code
    assert cell.state["doing"] == {"$tag": "Nothing"}
    return True
