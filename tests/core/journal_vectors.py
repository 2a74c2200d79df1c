"""A small journal with fixed keys and salts, every byte of it written down.

    python -m tests.core.journal_vectors      rewrites spec/vectors/journal.json

The file is a promise: once released it only changes together with ``semantics``.
``journal/test_journal_vectors.py`` computes it a second time without the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.frame import Frame, Head, Tip, leaf, log_leaf, record_salt, seal
from aos.core.journal.identity import idempotency_key, intent_hash, submission_hash, world_id
from aos.core.journal.inputs import GenesisInput, ManifestInput, ReceiptInput
from aos.core.journal.merkle import proof
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import (
    Emitted,
    Event,
    Faulted,
    Genesis,
    Intent,
    Manifest,
    Principal,
    Receipt,
    Record,
    Ref,
    Stamp,
    Start,
    Step,
    slot,
    slot_hash,
)
from aos.core.pending import receipt_digest
from aos.values.digests import Hash, content_hash

PATH: Final = Path(__file__).parents[2] / "spec" / "vectors" / "journal.json"

WORLD_SEED = bytes(range(32))
OPERATOR_SEED = bytes(range(32, 64))
WORLD_KEY = SigningKey(WORLD_SEED)
OPERATOR_KEY = SigningKey(OPERATOR_SEED)
NONCE = bytes([0xA5]) * 32
NS = 1_700_000_000_000_000_000
CELL = ("com.acme/order.step@1", b"\x65ord-1")
AUDIT = ("com.acme/audit@1", b"")
CHARGE = "com.acme/payment.charge@1"


def stamp(seq: int) -> Stamp:
    return Stamp(NS + seq * 1_000_000, bytes([seq]) * 64)


def make() -> dict[str, Any]:
    """Everything that the file holds."""
    world_key, operator_key = bytes(WORLD_KEY.verify_key), bytes(OPERATOR_KEY.verify_key)
    operators = (Principal("operator", operator_key),)
    world = world_id(NONCE, world_key)
    blobs: dict[Hash, bytes] = {}

    genesis_message = GenesisInput.message(NONCE, world_key, operators)
    genesis = Genesis(
        seq=1,
        stamp=stamp(1),
        nonce=NONCE,
        world_key=world_key,
        operators=operators,
        semantics=1,
        signature=WORLD_KEY.sign(genesis_message).signature,
    )

    start = Start(seq=2, stamp=stamp(2), host=(("kernel", "0.1.0"), ("wasmtime", "50.0.1")))
    document = b"stands for an effective manifest"
    blobs[content_hash(document)] = document
    apply_message = ManifestInput.message(world, 0, content_hash(document))
    manifest = Manifest(
        seq=3,
        stamp=stamp(3),
        document=Ref(content_hash(document), len(document)),
        principal="operator",
        serial=0,
        signature=OPERATOR_KEY.sign(apply_message).signature,
    )

    event = Event(
        seq=4,
        stamp=stamp(4),
        schema="com.acme/OrderCreated@1",
        value=b"\xa2\x66amount\x19\x04\xd2\x68order_id\x65ord-1",
        submission_id="shop-1",
        to=(CELL,),
        overloaded=(),
    )
    params = b"\xa1\x66amount\x19\x04\xd2"
    workflow_hash, effect_hash = content_hash(b"workflow"), content_hash(b"effect")
    asked: list[dict[str, Any]] = [
        {
            "world": world,
            "cell": CELL,
            "workflow_hash": workflow_hash,
            "seq": 5,
            "index": index,
            "effect": CHARGE,
            "effect_hash": effect_hash,
            "params_hash": content_hash(params),
            "key": key,
        }
        for index, key in enumerate((None, "charge-1"))
    ]
    hashes = [intent_hash(**each) for each in asked]
    step = Step(
        seq=5,
        cell=CELL,
        entry=(4, 0),
        root=4,
        depth=0,
        state=slot(bytes(2000), blobs),
        status="waiting",
        events=(Emitted(schema="com.acme/Noted@1", value=b"\x01", to=(AUDIT,), overloaded=()),),
        intents=tuple(
            Intent(
                intent=hashes[index],
                effect=CHARGE,
                effect_hash=effect_hash,
                params=params,
                key=key,
                issuer_ref=ref,
            )
            for index, (key, ref) in enumerate(((None, None), ("charge-1", "payments")))
        ),
        abandoned=(),
        ann=None,
        fuel=123_456,
        pages=17,
        output=content_hash(b"output"),
    )
    faulted = Faulted(
        seq=6,
        cell=AUDIT,
        entry=(5, 0),
        root=4,
        depth=1,
        fault=Fault(kind=FaultKind.GUEST, message="no such note", detail=b"\xf6"),
        fuel=99,
        pages=1,
        output=None,
    )

    payload = b"\x59\x05\xdc" + bytes(1500)
    signed: dict[str, Any] = {
        "intent": hashes[0],
        "effect": CHARGE,
        "executor": "node",
        "key_id": world_key,
        "attempt": 1,
        "status": "ok",
        "started_ns": NS,
        "finished_ns": NS + 5_000_000,
        "cost_cents": 3,
    }
    message = ReceiptInput(payload=payload, signature=b"", **signed).message(world)
    receipt = Receipt(
        seq=7,
        stamp=stamp(7),
        cell=CELL,
        payload=slot(payload, blobs),
        payload_schema="com.acme/Charged@1",
        signature=WORLD_KEY.sign(message).signature,
        outcome="delivered",
        problem=None,
        abandoned=(),
        **signed,
    )

    groups: list[list[Record]] = [[genesis], [start, manifest], [event, step, faulted], [receipt]]
    frames: list[Frame] = []
    tip = Tip(world=world)
    for n, records in enumerate(groups):
        frame, tip = seal(tip, [to_bytes(each) for each in records], bytes([0xC0 + n]) * 32)
        frames.append(frame)
    head = Head.of(tip).signed(WORLD_KEY)

    return {
        "$comment": "One journal, byte for byte (spec/journal.md). All bytes are hex.",
        "keys": {
            "world_seed": WORLD_SEED.hex(),
            "world_key": world_key.hex(),
            "operator_seed": OPERATOR_SEED.hex(),
            "operator_key": operator_key.hex(),
        },
        "nonce": NONCE.hex(),
        "world": world.hex(),
        "frames": [
            written_frame(frame, records) for frame, records in zip(frames, groups, strict=True)
        ],
        "blobs": {key.hex(): data.hex() for key, data in sorted(blobs.items())},
        "head": {
            "seq": head.seq,
            "frames": head.frames,
            "message": head.message().hex(),
            "signature": head.signature.hex(),
            "bytes": head.to_bytes().hex(),
        },
        "signed": {
            "genesis": {"message": genesis_message.hex(), "signature": genesis.signature.hex()},
            "apply": {"message": apply_message.hex(), "signature": manifest.signature.hex()},
            "receipt": {"message": message.hex(), "signature": receipt.signature.hex()},
        },
        "identities": {
            "intents": [written_intent(each) for each in asked],
            "idempotency": [
                {
                    "scope": scope,
                    "workflow": CELL[0],
                    "instance_key": CELL[1].hex(),
                    "effect": CHARGE,
                    "key": "charge-1",
                    "idempotency_key": idempotency_key(
                        world=world, cell=CELL, effect=CHARGE, key="charge-1", scope=scope
                    ),
                }
                for scope in ("cell", "world")
            ],
            "submission": {
                "schema": event.schema,
                "value_hash": slot_hash(event.value).hex(),
                "hash": submission_hash(event.schema, slot_hash(event.value)).hex(),
            },
            "receipt": {
                "intent": receipt.intent.hex(),
                "key_id": receipt.key_id.hex(),
                "signature": receipt.signature.hex(),
                "hash": receipt_digest(receipt).hex(),
            },
        },
        "proof": written_proof(frames, frame_index=2, index=1),
    }


def written_frame(frame: Frame, records: list[Record]) -> dict[str, Any]:
    return {
        "first": frame.header.first,
        "last": frame.header.last,
        "salt": frame.salt.hex(),
        "records": [
            {
                "kind": record.KIND,
                "seq": record.seq,
                "bytes": data.hex(),
                "salt": record_salt(frame.salt, record.seq).hex(),
                "leaf": leaf(frame.salt, record.seq, data).hex(),
            }
            for record, data in zip(records, frame.records, strict=True)
        ],
        "prev": frame.header.prev.hex(),
        "root": frame.header.root.hex(),
        "log_root": frame.header.log_root.hex(),
        "hash": frame.hash.hex(),
        "bytes": frame.to_bytes().hex(),
    }


def written_intent(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "workflow": asked["cell"][0],
        "workflow_hash": asked["workflow_hash"].hex(),
        "instance_key": asked["cell"][1].hex(),
        "seq": asked["seq"],
        "index": asked["index"],
        "effect": asked["effect"],
        "effect_hash": asked["effect_hash"].hex(),
        "params_hash": asked["params_hash"].hex(),
        "key": asked["key"],
        "hash": intent_hash(**asked).hex(),
    }


def written_proof(frames: list[Frame], *, frame_index: int, index: int) -> dict[str, Any]:
    """Return a proof of one record for a holder of the head; it reveals no other record."""
    frame = frames[frame_index]
    first = frame.header.first
    leaves = [leaf(frame.salt, first + n, data) for n, data in enumerate(frame.records)]
    logged = [log_leaf(each.header.root) for each in frames]
    return {
        "record": frame.records[index].hex(),
        "salt": record_salt(frame.salt, first + index).hex(),
        "index": index,
        "records": len(leaves),
        "path": [each.hex() for each in proof(leaves, index)],
        "frame_index": frame_index,
        "frames": len(frames),
        "log_path": [each.hex() for each in proof(logged, frame_index)],
    }


def text() -> str:
    return json.dumps(make(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(text())
