"""The inputs of the gateway's workflows, with defaults: addresses, policies and requests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from aos.manifest.load import Loaded
from aos.testing.sources import loaded

ROOT: Final = Path(__file__).resolve().parents[3]

CHAIN: Final = 31337
STUDIO: Final = "0x" + "5a" * 20
WORKER: Final = "0x" + "a1" * 20
VALIDATOR: Final = "0x" + "b2" * 20
ADMIN: Final = "0x" + "c3" * 20
STRANGER: Final = "0x" + "e5" * 20
DATA_HASH: Final = "0x" + "d4" * 32
EPOCH: Final = 7
EVIDENCE: Final = b'{"evidence": true}'
SCORES: Final = [80, 90, 65_535]

WORK_KEY: Final = f"{CHAIN}/{STUDIO}/{DATA_HASH}"
SCORE_KEY: Final = f"{WORK_KEY}/{WORKER}/{VALIDATOR}"
EPOCH_KEY: Final = f"{CHAIN}/{STUDIO}/{EPOCH}"

GWEI: Final = 10**9
MS: Final = 10**6
SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND

POLICY: Final[dict[str, int]] = {
    "conf": 2,
    "wait_ms": 15_000,
    "bump_after": 3,
    "max_fee": 200 * GWEI,
    "retries": 5,
    "retry_base_ms": 1_000,
    "retry_cap_ms": 60_000,
    "stall_base_ms": 60_000,
    "stall_cap_ms": 900_000,
    "stall_cycles": 5,
    "arweave_conf": 3,
    "arweave_wait_ms": 20_000,
}

KINDS: Final = ("work", "direct", "committed", "epoch")
"""The three records, a score once for each mode."""

Event = tuple[str, dict[str, Any]]


@cache
def gateway() -> Loaded:
    """The gateway's manifest as it is committed."""
    return loaded(ROOT / "manifests" / "gateway")


def tag(name: str, value: object = None) -> dict[str, Any]:
    return {"$tag": name} if value is None else {"$tag": name, "$value": value}


def lane_key(signer: str) -> str:
    return f"{CHAIN}/{signer}"


def work_requested(**changes: Any) -> Event:
    value = {
        "work": WORK_KEY,
        "chain": CHAIN,
        "studio_address": STUDIO,
        "epoch": EPOCH,
        "signer_address": WORKER,
        "data_hash": DATA_HASH,
        "arweave": "main",
        "content_type": "application/json",
        "evidence": EVIDENCE,
        "policy": POLICY,
    }
    return "gw/WorkRequested@1", value | changes


def score_requested(mode: str = "Direct", **changes: Any) -> Event:
    value = {
        "score": SCORE_KEY,
        "chain": CHAIN,
        "studio_address": STUDIO,
        "data_hash": DATA_HASH,
        "worker_address": WORKER,
        "signer_address": VALIDATOR,
        "admin_address": ADMIN,
        "epoch": EPOCH,
        "scores": SCORES,
        "mode": tag(mode),
        "policy": POLICY,
    }
    return "gw/ScoreRequested@1", value | changes


def epoch_requested(**changes: Any) -> Event:
    value = {
        "epoch_key": EPOCH_KEY,
        "chain": CHAIN,
        "studio_address": STUDIO,
        "epoch": EPOCH,
        "signer_address": ADMIN,
        "policy": POLICY,
    }
    return "gw/EpochCloseRequested@1", value | changes


def requested(kind: str, **changes: Any) -> Event:
    """The event that creates a record of this kind."""
    match kind:
        case "work":
            return work_requested(**changes)
        case "epoch":
            return epoch_requested(**changes)
        case _:
            mode = "Direct" if kind == "direct" else "CommitReveal"
            return score_requested(mode, **changes)


def workflow_of(kind: str) -> str:
    return {"work": "gw/work@1", "epoch": "gw/epoch@1"}.get(kind, "gw/score@1")


def key_field(kind: str) -> str:
    """The field of a record's events that has its key."""
    return {"work": "work", "epoch": "epoch_key"}.get(kind, "score")


def key_of(kind: str) -> str:
    return {"work": WORK_KEY, "epoch": EPOCH_KEY}.get(kind, SCORE_KEY)


def command(kind: str, what: str, why: str = "") -> Event:
    name = {"work": "Work", "epoch": "Epoch"}.get(kind, "Score")
    value = {key_field(kind): key_of(kind), "what": tag(what), "why": why}
    return f"gw/{name}Command@1", value


def settled(kind: str, request: int, outcome: object, attempts: object = ()) -> Event:
    """The answer of the lane to a record."""
    name = {"work": "Work", "epoch": "Epoch"}.get(kind, "Score")
    value = {
        key_field(kind): key_of(kind),
        "request": request,
        "outcome": outcome,
        "attempts": list(attempts) if isinstance(attempts, list | tuple) else attempts,
    }
    return f"gw/{name}TxSettled@1", value
