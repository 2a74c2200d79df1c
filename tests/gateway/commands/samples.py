"""Addresses, keys and states for the tests of ``aos gateway``.

Every state is checked against the schema of the manifest, so that these tests fail when the module
gets another state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from aos.host.apply.manifest_files import load_manifest_files
from aos.manifest.load import Loaded
from aos.values.cbor import Value, decode_record, encode
from aos_gateway.cells import GatewayCell, OpenEffect
from aos_gateway.keys import Key, epoch_key, lane_key, score_key, work_key
from aos_gateway.policy import policy_of

ROOT: Final = Path(__file__).parents[3]
MANIFEST: Final = ROOT / "manifests" / "gateway"

CHAIN: Final = 31337
STUDIO: Final = "0x5fbdb2315678afecb367f032d93f642f64180aa3"
SIGNER: Final = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
OTHER: Final = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
HASH: Final = "0x" + "7355cf27" * 8
WORK: Final = work_key(CHAIN, STUDIO, HASH)
SCORE: Final = score_key(WORK, SIGNER, OTHER)
EPOCH: Final = epoch_key(CHAIN, STUDIO, 7)
LANE: Final = lane_key(CHAIN, SIGNER)

NOW: Final = 1_800_000_000_000_000_000
SECOND: Final = 10**9

State = dict[str, Any]


@cache
def manifest() -> Loaded:
    return load_manifest_files(MANIFEST)


def arm(name: str, value: Any = None) -> State:
    return {"$tag": name} if value is None else {"$tag": name, "$value": value}


def checked(schema: str, value: State) -> State:
    """The value as a decoded state has it. Fails unless it is one of the schema."""
    known, given = manifest().effective.schemas[schema], cast("Value", value)
    found: Any = decode_record(known.encode(known.normalise(given)))
    return found  # type: ignore[no-any-return]


def error(code: str, message: str = "why it failed", step: str = "SUBMIT_WORK_ONCHAIN") -> State:
    return {"step": step, "message": message, "code": code, "recoverable": True}


def auto(until: int = NOW + 90 * SECOND, cycle: int = 2) -> State:
    return arm("Auto", {"until": until, "cycle": cycle})


def parked(why: str = "maintenance") -> State:
    return arm("Parked", {"why": why})


def record(key: Key = WORK, **more: Any) -> State:
    """The state of a work that asks the contract, with these fields instead."""
    is_work, is_score = key.kind.name == "work", key.kind.name == "score"
    given: State = {
        "chain": CHAIN,
        "studio_address": STUDIO,
        "epoch": 7,
        "signer_address": OTHER if is_score else SIGNER,
        "data_hash": None if key.kind.name == "epoch" else HASH,
        "arweave": "main" if is_work else None,
        "content_type": "application/json" if is_work else None,
        "evidence_bytes": 8 if is_work else None,
        "worker_address": SIGNER if is_score else None,
        "admin_address": SIGNER if is_score else None,
        "scores": [80, 90] if is_score else None,
        "mode": arm("Direct") if is_score else None,
    }
    progress = dict.fromkeys(
        (
            "evidence", "arweave_tx_id", "arweave_bundle_id", "arweave_confirmed",
            "onchain_tx_hash", "onchain_confirmed", "commit_tx_hash", "commit_confirmed",
            "register_tx_hash", "register_confirmed", "salt",
        )
    )  # fmt: skip
    types = {"work": "WorkSubmission", "score": "ScoreSubmission", "epoch": "CloseEpoch"}
    found = {
        "id": key.id,
        "type": arm(types[key.kind.name]),
        "key": key.text,
        "created_at": NOW - 60 * SECOND,
        "updated_at": NOW - SECOND,
        "state": arm("RUNNING"),
        "step": arm("SUBMIT_WORK_ONCHAIN"),
        "step_attempts": 0,
        "input": given,
        "policy": policy_of(),
        "progress": progress,
        "attempts": [],
        "error": None,
        "stall": None,
        "drift": None,
        "doing": arm("Checking", arm("Done")),
        "open": "aos:11:0",
        "pause": None,
        "stall_cycles": 0,
        "requests": 0,
        "at_lane": None,
        "settled": None,
        "suspect": None,
        "evidence": None,
        "posted": None,
        "is_canceling": False,
        "is_reconciling": False,
    }
    assert set(more) <= set(found), set(more) - set(found)
    return checked("gw/Record@1", found | more)


def tx_request(key: Key = WORK, number: int = 1) -> State:
    return checked(
        "gw/TxRequested@1",
        {
            "lane": LANE.text,
            "owner": arm(str(key.kind.owner), key.text),
            "request": number,
            "to": STUDIO,
            "data": b"\x01\x02\x03",
            "value": "0",
            "guard": None,
            "policy": policy_of(),
        },
    )


def tx_attempt(**more: Any) -> State:
    found = {
        "hash": "0x" + "ab" * 32,
        "nonce": 4,
        "max_fee": 30 * 10**9,
        "max_tip": 10**9,
        "is_cancel": False,
        "fate": arm("Accepted"),
    }
    return checked("gw/Attempt@1", found | more)


def in_flight(key: Key = WORK, number: int = 1, **more: Any) -> State:
    found = {
        "request": tx_request(key, number),
        "nonce": 4,
        "gas": 90_000,
        "since": 17,
        "attempts": [tx_attempt()],
        "looks": 0,
        "is_canceling": False,
    }
    return found | more


def queued(*requests: tuple[Key, int]) -> bytes:
    """The queue of a lane: two items of CBOR for each request."""
    return b"".join(
        encode(f"{key.words} {number}") + encode(encode(cast("Value", tx_request(key, number))))
        for key, number in requests
    )


def lane(*, waiting: tuple[tuple[Key, int], ...] = (), **more: Any) -> State:
    found: Mapping[str, Any] = {
        "chain": CHAIN,
        "signer_address": SIGNER,
        "updated_at": NOW - SECOND,
        "current": None,
        "queue": queued(*waiting),
        "queued": len(waiting),
        "stall": None,
        "error": None,
        "step_attempts": 0,
        "stall_cycles": 0,
        "next_nonce": None,
        "landed": [],
        "open": None,
        "doing": arm("Nothing"),
        "is_parking": False,
    }
    assert set(more) <= set(found), set(more) - set(found)
    return checked("gw/Lane@1", {**found, **more})


def cell(key: Key, state: State | None, **more: Any) -> GatewayCell:
    return GatewayCell(key=key, state=state, **more)


def effect(name: str, **more: Any) -> OpenEffect:
    found: Any = {
        "text": f"waits for {name}: no answer for 3.0 s",
        "next": "to cancel it: aos effects cancel 0123456789ab",
        "is_stuck": False,
        "code": None,
        "is_runnable": True,
        "digits": "0123456789ab",
    }
    return OpenEffect(name=name, **(found | more))
