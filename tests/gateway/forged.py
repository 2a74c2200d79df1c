"""A small history of one work, written by hand, and the chain that agrees with it.

    forged = Forged()
    forged.last_record()["state"] = {"$tag": "PENDING"}
    forged.findings()

The work is uploaded, submitted and registered by one lane. ``forged.rows`` are its records in
order, with values instead of bytes; a test changes one of them, or the chain.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import cbor2
from eth_utils.crypto import keccak

from tests.gateway.checker.blocks import Chain, Transaction
from tests.gateway.checker.check import Declared, check
from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import LANE, History, read_history
from tests.gateway.checker.journal import Journal
from tests.gateway.checker.keccak import record_id, selector

Map = dict[str, Any]

WORK: Final = "gw/work@1"
STUDIO: Final = "0x" + "57" * 20
SIGNER: Final = "0x" + "a1" * 20
DATA_HASH: Final = "0x" + "d0" * 32
KEY: Final = f"31337/{STUDIO}/{DATA_HASH}"
LANE_KEY: Final = f"31337/{SIGNER}"
EVIDENCE: Final = "blake3:" + "e0" * 32
ITEM: Final = "item"

SUBMIT_DATA: Final = (
    selector("submitWork(bytes32,uint64,string)")
    + bytes.fromhex(DATA_HASH[2:])
    + (7).to_bytes(32)
    + (96).to_bytes(32)
)
REGISTER_DATA: Final = selector("registerWork(bytes32)") + bytes.fromhex(DATA_HASH[2:])
POLICY: Final = {"conf": 2, "retries": 5}
UNDONE: Final = {"to": STUDIO, "data": b"?", "undone": bytes(32)}


def arm(name: str, value: Any = None) -> Map:
    """A variant."""
    return {"$tag": name} if value is None else {"$tag": name, "$value": value}


def tx_hash(nonce: int) -> str:
    return "0x" + keccak(text=f"transaction {nonce}").hex()


def new_record() -> Map:
    return {
        "id": record_id(KEY),
        "type": arm("WorkSubmission"),
        "key": KEY,
        "created_at": 1,
        "updated_at": 1,
        "state": arm("RUNNING"),
        "step": arm("UPLOAD_EVIDENCE"),
        "step_attempts": 0,
        "input": {
            "chain": 31337,
            "studio_address": STUDIO,
            "epoch": 7,
            "signer_address": SIGNER,
            "data_hash": DATA_HASH,
            "worker_address": None,
            "admin_address": None,
            "mode": None,
        },
        "policy": POLICY,
        "progress": dict.fromkeys(
            (
                "evidence", "arweave_tx_id", "arweave_bundle_id", "arweave_confirmed",
                "onchain_tx_hash", "onchain_confirmed", "commit_tx_hash", "commit_confirmed",
                "register_tx_hash", "register_confirmed", "salt",
            )
        ),
        "attempts": [],
        "error": None,
        "stall": None,
        "drift": None,
        "open": "put",
        "pause": None,
        "requests": 0,
        "at_lane": None,
        "is_reconciling": False,
    }  # fmt: skip


def new_lane() -> Map:
    return {
        "chain": 31337,
        "signer_address": SIGNER,
        "updated_at": 1,
        "current": None,
        "queue": b"",
        "queued": 0,
        "stall": None,
        "next_nonce": None,
        "landed": [],
        "open": None,
        "doing": arm("Nothing"),
    }


class Forged:
    """``rows`` are the records: their ``state``, ``params``, ``payload`` and ``value`` are values,
    which ``journal`` encodes."""

    def __init__(self) -> None:
        self.rows: list[Map] = []
        self.declared = Declared()
        self._record, self._lane = new_record(), new_lane()
        self._intents = 0
        self._write()
        self.chain = Chain(
            id=31337,
            transactions=(self.transaction(0, SUBMIT_DATA), self.transaction(1, REGISTER_DATA)),
            registrations={STUDIO: [(DATA_HASH, SIGNER)]},
            validators={},
        )

    # --- reading and changing

    def journal(self) -> Journal:
        return Journal(tuple(map(_encoded, self.rows)), {})

    def history(self) -> History:
        return read_history(self.journal())

    def findings(self) -> list[Finding]:
        return check(self.history(), self.chain, self.declared)

    def laws(self) -> set[str]:
        return {each.law for each in self.findings()}

    def row(self, seq: int) -> Map:
        return self.rows[seq - 1]

    def steps(self, workflow: str) -> list[Map]:
        """The steps of the work, or of the lane."""
        return [
            each for each in self.rows if each["kind"] == "step" and each["cell"][0] == workflow
        ]

    def last_record(self) -> Map:
        """The last state of the work."""
        state: Map = self.steps(WORK)[-1]["state"]
        return state

    def change(self, workflow: str, first: int, change: Callable[[Map], None]) -> None:
        """Change the states of a cell, from its step number ``first`` on."""
        for each in self.steps(workflow)[first:]:
            change(each["state"])

    def intents(self, effect: str) -> list[Map]:
        """The params of all intents of an effect."""
        found = [it for row in self.rows for it in row.get("intents", ()) if it["effect"] == effect]
        return [each["params"] for each in found]

    def answers(self, effect: str) -> list[Map]:
        """The payloads of all receipts of an effect."""
        rows = [each for each in self.rows if each["kind"] == "receipt"]
        return [each["payload"] for each in rows if each["effect"] == effect]

    def settlements(self) -> list[Map]:
        emitted = [it for row in self.rows for it in row.get("events", ())]
        return [each["value"] for each in emitted if each["schema"] == "gw/WorkTxSettled@1"]

    def transaction(self, nonce: int, data: bytes, **changes: Any) -> Transaction:
        """The one that the lane submits with this nonce."""
        found = Transaction(
            hash=tx_hash(nonce),
            real_hash=tx_hash(nonce),
            block=10 + nonce,
            sender=SIGNER,
            nonce=nonce,
            to=STUDIO,
            data=data,
            value=0,
            gas=90_000,
            max_fee=20,
            max_tip=2,
            type=2,
            chain=31337,
            is_success=True,
        )
        return replace(found, **changes)

    def mined(self, *more: Transaction) -> None:
        """Add transactions to the chain."""
        self.chain = replace(self.chain, transactions=(*self.chain.transactions, *more))

    def remined(self, place: int, **changes: Any) -> None:
        """Change a transaction of the chain."""
        found = list(self.chain.transactions)
        found[place] = replace(found[place], **changes)
        self.chain = replace(self.chain, transactions=tuple(found))

    # --- the history

    def _write(self) -> None:
        self._event({"work": KEY})
        self._work([("sys/blob.put@1", {})], cause=(1, 0))
        self._record["progress"]["evidence"] = EVIDENCE
        self._record["step"] = arm("AWAIT_ARWEAVE_CONFIRM")
        self._answered({"blob_ref": EVIDENCE})
        self._work([("arweave/status@1", {"item": ITEM})])
        self._answered({"fate": arm("Confirmed", {"depth": 1, "content": EVIDENCE})})
        self._record["progress"] |= {"arweave_tx_id": ITEM, "arweave_confirmed": True}
        for number, (step, data) in enumerate(
            (("SUBMIT_WORK_ONCHAIN", SUBMIT_DATA), ("REGISTER_WORK", REGISTER_DATA))
        ):
            self._record["step"] = arm(step)
            self._work([("evm/call@1", {"block": arm("Depth", 2)})])
            self._answered({"result": arm("Returned", bytes(32))})
            self._transact(number, data)
        self._record |= {"state": arm("COMPLETED"), "open": None}
        self._work([], status="completed")

    def _transact(self, nonce: int, data: bytes) -> None:
        """One request, from the record through the lane to the proof at the block."""
        number, await_ = nonce + 1, ("AWAIT_TX_CONFIRM", "AWAIT_REGISTER_CONFIRM")[nonce]
        request = self._requested(number, data)
        self._record |= {"step": arm(await_), "requests": number, "at_lane": number, "open": None}
        self._work([], events=[("gw/TxRequested@1", request)])
        attempt = {
            "hash": "", "nonce": nonce, "max_fee": 20, "max_tip": 2, "is_cancel": False,
            "fate": arm("Sending"),
        }  # fmt: skip
        self._lane["current"] = {
            "request": request, "nonce": None, "gas": 0, "since": 0, "attempts": [],
            "is_canceling": False,
        }  # fmt: skip
        names = ("to", "data", "value", "guard")
        common = {"chain": 31337, "signer": SIGNER}
        quote = common | {"conf": 2} | {name: request[name] for name in names}
        self._turn([("evm/tx.quote@1", quote)], cause=(len(self.rows), 0))
        self._answered({"block": 8, "quote": arm("Ready", {"nonce": nonce, "gas": 90_000})})
        self._lane["current"] |= {"nonce": nonce, "gas": 90_000, "since": 8, "attempts": [attempt]}
        essence = common | {name: request[name] for name in names[:3]} | {"nonce": nonce}
        submit = essence | {"gas": 90_000, "max_fee": 20, "max_tip": 2}
        self._turn([("evm/tx.submit@1", submit)])
        self._answered({"hash": tx_hash(nonce), "fate": arm("Accepted")})
        attempt = attempt | {"hash": tx_hash(nonce), "fate": arm("Accepted")}
        self._lane["current"]["attempts"] = [attempt]
        look = essence | {"hashes": [tx_hash(nonce)], "conf": 2, "since": 8}
        self._turn([("evm/tx.receipt@1", look)])
        landed = {"hash": tx_hash(nonce), "block": 10 + nonce, "gas_used": 70_000}
        self._answered({"nonce_at_depth": nonce + 1, "fate": arm("Confirmed", landed)})
        attempt = attempt | {"fate": arm("Confirmed")}
        self._lane |= {"current": None, "next_nonce": nonce + 1}
        settled = {
            "work": KEY, "request": number, "outcome": arm("Confirmed", landed),
            "attempts": [attempt],
        }  # fmt: skip
        self._turn([], events=[("gw/WorkTxSettled@1", settled)])
        self._record["at_lane"] = None
        self._record["attempts"] = [*self._record["attempts"], attempt]
        call = {"block": arm("Number", 10 + nonce)}
        self._work([("evm/call@1", call)], cause=(len(self.rows), 0))
        self._answered({"result": arm("Returned", (1).to_bytes(32))})
        prefix = ("onchain", "register")[nonce]
        done = {f"{prefix}_tx_hash": tx_hash(nonce), f"{prefix}_confirmed": True}
        self._record["progress"] |= done

    def _requested(self, number: int, data: bytes) -> Map:
        return {
            "lane": LANE_KEY,
            "owner": arm("Work", KEY),
            "request": number,
            "to": STUDIO,
            "data": data,
            "value": "0",
            "guard": UNDONE,
            "policy": POLICY,
        }

    # --- its records

    def _event(self, value: Map) -> None:
        self._add("event", schema="gw/WorkRequested@1", value=value)

    def _answered(self, payload: Map) -> None:
        """A receipt for the intent that was requested last."""
        asked = [(row, it) for row in self.rows for it in row.get("intents", ())]
        row, intent = asked[-1]
        self._add(
            "receipt", intent=intent["intent"], effect=intent["effect"], status="ok",
            payload=payload, cell=row["cell"],
        )  # fmt: skip

    def _work(self, opened: list[tuple[str, Map]], **more: Any) -> None:
        self._record["updated_at"] += 1
        if opened:
            self._record["open"] = opened[-1][0]
        self._step(WORK, KEY, self._record, opened, **more)

    def _turn(self, opened: list[tuple[str, Map]], **more: Any) -> None:
        self._lane["updated_at"] += 1
        self._step(LANE, LANE_KEY, self._lane, opened, **more)

    def _step(
        self,
        workflow: str,
        key: str,
        state: Map,
        opened: list[tuple[str, Map]],
        *,
        events: list[tuple[str, Map]] | None = None,
        cause: tuple[int, int] | None = None,
        status: str = "waiting",
    ) -> None:
        intents = []
        for effect, params in opened:
            self._intents += 1
            intents.append(
                {"intent": self._intents.to_bytes(32), "effect": effect, "params": params}
            )
        self._add(
            "step",
            cell=[workflow, cbor2.dumps(key)],
            entry=list(cause or (len(self.rows), 0)),
            state=copy.deepcopy(state),
            status=status,
            events=[{"schema": name, "value": value} for name, value in events or ()],
            intents=intents,
        )

    def _add(self, kind: str, **fields: Any) -> None:
        self.rows.append({"seq": len(self.rows) + 1, "kind": kind, **copy.deepcopy(fields)})


def _encoded(row: Map) -> Map:
    """A record as the journal has it: values are bytes."""
    return {name: _slots(name, value) for name, value in row.items() if value is not None}


def _slots(name: str, value: Any) -> Any:
    if name in ("state", "payload", "value", "params"):
        return cbor2.dumps(value, canonical=True)
    if name in ("events", "intents"):
        return [{inner: _slots(inner, it) for inner, it in each.items()} for each in value]
    return value


def bundle_items(journal: Journal) -> Iterator[bytes]:
    """The items of a bundle with these records, a frame for each."""
    yield cbor2.dumps(["aos-bundle", cbor2.dumps({"format": 1})])
    for record in journal.records:
        frame = {"header": {}, "salt": bytes(32), "records": [cbor2.dumps(record)]}
        yield cbor2.dumps(["frame", cbor2.dumps(frame)])
    yield cbor2.dumps(["head", b""])
    yield cbor2.dumps(["end", bytes(48)])
