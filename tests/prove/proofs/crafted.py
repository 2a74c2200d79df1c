"""Proofs over records that the holder of a world's key made up, and signed as a kernel does."""

from __future__ import annotations

from hashlib import sha512
from typing import Any

from nacl.signing import SigningKey

from aos.core.journal.frame import Tip, seal
from aos.core.journal.merkle import proof as batch_path
from aos.core.journal.merkle import root as batch_root
from aos.prove.headerlog.checkpoint import Checkpoint, origin_of
from aos.prove.headerlog.header_tree import header_bytes, inclusion, leaf_hash, root
from aos.prove.headerlog.tiles import Growth, Tile, TiledLog
from aos.prove.proofs.making import shown_record
from aos.prove.proofs.proof_file import CheckpointAnchor, Proof, ShownFrame, WorldKey, write_proof
from aos.prove.proofs.trust import TrustPolicy
from aos.values.digests import content_hash, digest
from tests.memory_world import cbor

KEY = SigningKey(bytes([3]) * 32)
OTHER = SigningKey(bytes([4]) * 32)
WORLD = WorldKey(nonce=b"n", key=bytes(KEY.verify_key))
POLICY = TrustPolicy(world=WORLD.world)
INTENT = content_hash(b"intent")
CELL: list[Any] = ["t/cell@1", b"\x61k"]
STATE = content_hash(b"state")
_ORDER = 2**252 + 27742317777372353535851937790883648493


def crafted(kind: Any, records: dict[str, dict[str, Any]], **fields: Any) -> bytes:
    """A proof of these records: each is sealed in a frame of its own, and a checkpoint over all of
    them is signed."""
    tip, frames = Tip(world=WORLD.world), []
    tiles: dict[Tile, bytes] = {}
    growth = Growth(tiles.__setitem__)
    for number, value in enumerate(records.values(), 1):
        frame, tip = seal(tip, [cbor({"seq": number, **value})], bytes(32))
        frames.append(frame)
        header = header_bytes(frame.header)
        growth.add(header, leaf_hash(header))
    growth.finish()
    log = TiledLog(growth.size, tiles.__getitem__)
    signed = Checkpoint(
        origin=origin_of(WORLD.world), size=log.size, root=root(log.size, log.node)
    ).signed(KEY)
    shown = {
        role: shown_record(
            frame,
            frame.header.first,
            ShownFrame(
                index=at,
                header=header_bytes(frame.header),
                path=tuple(inclusion(at, log.size, log.node)),
            ),
        )
        for at, (role, frame) in enumerate(zip(records, frames, strict=True))
    }
    proof = Proof(
        kind=kind, worlds=(WORLD,), anchor=CheckpointAnchor(note=signed.full_text), records=shown,
        **fields,
    )  # fmt: skip
    return write_proof(proof)


def asked(**more: Any) -> dict[str, Any]:
    intent = {"intent": INTENT, "effect": "t/pay@1", "params": b"\x01"}
    return {"kind": "step", "cell": CELL, "intents": [intent], **more}


def receipt(key: SigningKey = KEY, *, leaves: int = 0, **more: Any) -> dict[str, Any]:
    """A signed receipt; with ``leaves``, as the second of a batch of so many."""
    fields: dict[str, Any] = {
        "intent": INTENT, "effect": "t/pay@1", "executor": "node", "key_id": bytes(key.verify_key),
        "attempt": 1, "status": "ok", "started_ns": 1, "finished_ns": 2,
    }  # fmt: skip
    fields |= {name: value for name, value in more.items() if name in (*fields, "cost_cents")}
    body = {"world": WORLD.world, **fields, "payload": content_hash(b"\x02")}
    message = cbor(["aos/receipt/1", body])
    batch: dict[str, Any] = {}
    if leaves:
        hashes = [digest("aos/receipt-leaf/1", bytes([each])) for each in range(leaves)]
        hashes[1] = digest("aos/receipt-leaf/1", message)
        path = batch_path(hashes, 1)
        batch = {"batch": {"index": 1, "size": leaves, **({"path": [*path]} if path else {})}}
        named = {name: body[name] for name in ("world", "executor", "key_id")}
        message = cbor(["aos/receipts/1", {**named, "root": batch_root(hashes), "size": leaves}])
    return {
        "kind": "receipt", "cell": CELL, "payload": b"\x02", **fields, **batch,
        "signature": key.sign(message).signature,
        **{name: value for name, value in more.items() if name not in fields},
    }  # fmt: skip


def small_order_receipt() -> dict[str, Any]:
    """A receipt whose signature has the neutral point as R; many libraries accept it (J-34)."""
    whole = receipt()
    names = ("intent", "effect", "executor", "key_id", "attempt", "status", "started_ns",
             "finished_ns")  # fmt: skip
    body = {"world": WORLD.world, **{name: whole[name] for name in names}}
    message = cbor(["aos/receipt/1", {**body, "payload": content_hash(whole["payload"])}])
    point = (1).to_bytes(32, "little")
    scalar = int.from_bytes(sha512(bytes(KEY)).digest()[:32], "little") & (1 << 254) - 8 | 1 << 254
    k = int.from_bytes(sha512(point + bytes(KEY.verify_key) + message).digest(), "little")
    return {**whole, "signature": point + (k * scalar % _ORDER).to_bytes(32, "little")}


def manifest(*executors: dict[str, Any], **more: Any) -> tuple[dict[str, Any], bytes]:
    document = cbor({"manifest": {"executors": [*executors]} if executors else {}, **more})
    ref = {"hash": content_hash(document), "size": len(document)}
    return {"kind": "manifest", "document": ref}, document


NODE = {"name": "node", "effects": ["t/pay@1"], "public_key": "ed25519:" + "0" * 64}
BANK_LISTING = {"name": "bank", "effects": ["t/pay@1"],
        "public_key": f"ed25519:{bytes(OTHER.verify_key).hex()}"}  # fmt: skip
