"""A lane that a test drives: its requests, and the answers of the four effects to it.

lane = in_flight()              request 1 has nonce 4 and was submitted
lane.answer(fate("NotFound"))
"""

from __future__ import annotations

from typing import Any, Final

from aos.testing import Transition
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import GWEI, POLICY, STUDIO, WORKER, tag
from tests.gateway.reducers.laws import lane_law, settlements

SIGNER: Final = WORKER
LANE: Final = inputs.lane_key(SIGNER)
NONCE: Final = 4
QUOTED_AT: Final = 90
BASE_FEE: Final = 10 * GWEI
TIP: Final = GWEI
GAS: Final = 77_000

QUOTE: Final = "evm/tx.quote@1"
SUBMIT: Final = "evm/tx.submit@1"
RECEIPT: Final = "evm/tx.receipt@1"
TIMER: Final = "sys/timer.set@1"


def new_lane(key: str = LANE) -> Cell:
    return Cell(inputs.gateway(), "gw/signer@1", key, lane_law)


def request(number: int = 1, owner: Any = "w", **changes: Any) -> inputs.Event:
    """A request for a transaction, by default of a work; its data are different for each."""
    value = {
        "lane": LANE,
        "owner": tag("Work", owner) if isinstance(owner, str) else owner,
        "request": number,
        "to": STUDIO,
        "data": f"{owner} {number}".encode(),
        "value": "0",
        "guard": {"to": STUDIO, "data": b"view", "undone": bytes(32)},
        "policy": POLICY,
    }
    return "gw/TxRequested@1", value | changes


def cancel_requested(number: int = 1, owner: str = "w") -> inputs.Event:
    value = {"lane": LANE, "owner": tag("Work", owner), "request": number}
    return "gw/TxCancelRequested@1", value


def order(lane: Cell, what: str, why: str = "") -> Transition:
    return lane.send("gw/LaneCommand@1", {"lane": LANE, "what": tag(what), "why": why})


# Receipts


def quoted(result: object = None, *, block: int = QUOTED_AT) -> dict[str, Any]:
    return {"block": block, "quote": result or ready()}


def ready(nonce: int = NONCE, *, base_fee: int = BASE_FEE, tip: int = TIP) -> dict[str, Any]:
    return tag("Ready", {"nonce": nonce, "gas": GAS, "base_fee": base_fee, "tip": tip})


def hash_of(number: int) -> str:
    return f"0x{number:064x}"


def submitted(fate: str = "Accepted", hash: str | None = hash_of(1)) -> dict[str, Any]:
    named = None if fate == "NoKey" else hash
    return {"hash": named, "fate": tag(fate), "code": None, "message": f"it is {fate}"}


def fate(name: str, hash: str = hash_of(1), **more: Any) -> dict[str, Any]:
    at = {"hash": hash, "block": 120}
    empty = {"kind": tag("Empty"), "text": "", "data": b""}
    value: Any = {
        "Confirmed": at | {"gas_used": 50_000},
        "Reverted": at | {"gas_used": 50_000, "cause": empty},
        "Canceled": at,
        "Foreign": at,
        "Pending": {"depth": 0},
        "Gap": {"nonce": NONCE - 1},
    }.get(name)
    found = tag(name) if value is None else tag(name, value | more)
    return {"head": 130, "nonce_at_depth": NONCE, "fate": found}


# The way


def queued() -> Cell:
    """Request 1 waits for its quote."""
    lane = new_lane()
    lane.send(*request())
    return lane


def submitting() -> Cell:
    lane = queued()
    lane.answer(quoted())
    return lane


def in_flight() -> Cell:
    """Request 1 was submitted, and its fate is awaited."""
    lane = submitting()
    lane.answer(submitted())
    return lane


def land(lane: Cell, number: int, *, nonce: int) -> None:
    """Lead a request from its quote to its confirmation."""
    lane.answer(quoted(ready(nonce)))
    lane.answer(submitted(hash=hash_of(number)))
    lane.answer(fate("Confirmed", hash_of(number)))


# Views


def doing(lane: Cell) -> str:
    return str(lane.state["doing"]["$tag"])


def attempts(lane: Cell) -> list[dict[str, Any]]:
    return list(lane.state["current"]["attempts"])


def fates(found: list[dict[str, Any]]) -> list[str]:
    return [each["fate"]["$tag"] for each in found]


def told(stepped: Transition) -> list[tuple[int, str]]:
    """The settlements of a transition: (number, outcome)."""
    return [(value["request"], value["outcome"]["$tag"]) for _, value in settlements(stepped)]


def all_told(lane: Cell) -> list[tuple[int, str]]:
    return [
        (value["request"], value["outcome"]["$tag"])
        for schema, value in lane.events
        if schema.endswith("TxSettled@1")
    ]


def is_parked(lane: Cell) -> bool:
    stall = lane.state["stall"]
    return stall is not None and stall["$tag"] == "Parked"


def error_of(lane: Cell) -> tuple[str, str] | None:
    error = lane.state["error"]
    return None if error is None else (error["step"], error["code"])
