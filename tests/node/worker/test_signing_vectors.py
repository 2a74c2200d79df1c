"""The bytes that a worker with a key signs (W-7): spec/vectors/worker.json.

``REWRITE=1`` writes the file. The messages and the tree are made here in the words of the
specification. The node's reading and the core's check must accept them, and the worker's signer
must give the same signatures.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from typing import Any, Final

import pytest
from nacl.signing import SigningKey

from aos.core.journal.records import Batch
from aos.core.journal.statements import receipt_message, signed_receipt_message, stream_message
from aos.node.json_schema import read
from aos.node.leases.schemas import PROGRESS, RESULTS
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash, digest, hash_text, parse_hash
from aos.worker.executor_key import Signer
from aos.worker.outcome import Outcome, StreamFrame
from tests.cookbook.worlds import ROOT

FILE: Final = ROOT / "spec/vectors/worker.json"
SEED: Final = bytes(range(64, 96))
KEY: Final = bytes(SigningKey(SEED).verify_key)
WORLD: Final = content_hash(b"a world")
EFFECT: Final = "trip/book@1"
EXECUTOR: Final = "agencies"


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def result(number: int, **more: Any) -> dict[str, Any]:
    """An item of ``POST /v1/work/results``, without its signature."""
    return {
        "task": hash_text(content_hash(b"task %d" % number)),
        "epoch": number,
        "status": "ok",
        "payload_cbor": base64_text(encode({"reference": f"Hotel-{number}"})),
        "started_ns": 1_790_000_000_000_000_000 + number,
        "finished_ns": 1_790_000_000_500_000_000 + number,
        **more,
    }


def statement(item: dict[str, Any]) -> bytes:
    """J-37."""
    fields: dict[str | int, Value] = {
        "world": WORLD,
        "intent": parse_hash(item["task"]),
        "effect": EFFECT,
        "executor": EXECUTOR,
        "key_id": KEY,
        "attempt": item["epoch"],
        "status": item["status"],
        "payload": content_hash(base64.b64decode(item["payload_cbor"])),
        "started_ns": item["started_ns"],
        "finished_ns": item["finished_ns"],
    }
    if "cost_cents" in item:
        fields["cost_cents"] = item["cost_cents"]
    return encode(["aos/receipt/1", fields])


def root_of(leaves: Sequence[Hash]) -> Hash:
    """J-20: split at the largest power of two that is less than the number of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return digest("aos/node/1", root_of(leaves[:half]), root_of(leaves[half:]))


def path_of(leaves: Sequence[Hash], index: int) -> list[Hash]:
    """J-23: the other halves on the way from a leaf to the root."""
    if len(leaves) == 1:
        return []
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    if index < half:
        return [*path_of(leaves[:half], index), root_of(leaves[half:])]
    return [*path_of(leaves[half:], index - half), root_of(leaves[:half])]


def signed(message: bytes, **more: Any) -> dict[str, Any]:
    value = SigningKey(SEED).sign(message).signature
    names = {"executor": EXECUTOR, "key": base64_text(KEY), "value": base64_text(value)}
    return {"signature": {**names, **more}}


def alone() -> dict[str, Any]:
    item = result(1, cost_cents=12)
    message = statement(item)
    return {
        "name": "a result alone",
        "results": [{**item, **signed(message)}],
        "statements_hex": [message.hex()],
        "message_hex": message.hex(),
    }


def batch() -> dict[str, Any]:
    error = encode({"code": "sold_out", "message": "nothing left", "retryable": False})
    items = [
        result(1),
        result(2, status="error", payload_cbor=base64_text(error)),
        result(3),
    ]
    leaves = [digest("aos/receipt-leaf/1", statement(each)) for each in items]
    fields: dict[str | int, Value] = {
        "world": WORLD,
        "executor": EXECUTOR,
        "key_id": KEY,
        "root": root_of(leaves),
        "size": len(leaves),
    }
    message = encode(["aos/receipts/1", fields])
    results = []
    for index, each in enumerate(items):
        path = [base64_text(node) for node in path_of(leaves, index)]
        place = {"index": index, "size": len(leaves), "path": path}
        results.append({**each, **signed(message, batch=place)})
    return {
        "name": "three results with one signature",
        "results": results,
        "statements_hex": [statement(each).hex() for each in items],
        "message_hex": message.hex(),
    }


def frame() -> dict[str, Any]:
    payload, blob = encode({"done": 3}), b"three of five"
    item: dict[str, Any] = {
        "task": hash_text(content_hash(b"task 4")),
        "epoch": 2,
        "number": 7,
        "kind": "progress",
        "payload_cbor": base64_text(payload),
        "blob": base64_text(blob),
    }
    fields: dict[str | int, Value] = {
        "world": WORLD,
        "intent": parse_hash(item["task"]),
        "effect": EFFECT,
        "executor": EXECUTOR,
        "key_id": KEY,
        "attempt": item["epoch"],
        "frame_seq": item["number"],
        "frame_kind": item["kind"],
        "payload": content_hash(payload),
        "payload_ref": content_hash(blob),
    }
    message = encode(["aos/stream/1", fields])
    return {
        "name": "a stream frame",
        "frames": [{**item, **signed(message)}],
        "message_hex": message.hex(),
    }


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    common = {"seed_hex": SEED.hex(), "world": hash_text(WORLD), "effect": EFFECT}
    computed = [
        {"name": each.pop("name"), **common, **each} for each in (alone(), batch(), frame())
    ]
    if os.environ.get("REWRITE") == "1":
        FILE.write_text(json.dumps(computed, indent=1) + "\n")
    written = json.loads(FILE.read_text())
    assert written == computed
    return {each["name"]: each for each in written}


@pytest.mark.parametrize("name", ["a result alone", "three results with one signature"])
def test_the_node_reads_the_results_of_the_vectors_and_the_core_accepts_them(
    name: str, vectors: dict[str, Any]
) -> None:
    vector = vectors[name]
    body: Any = read(RESULTS, {"worker": "w", "results": vector["results"]})
    key = SigningKey(bytes.fromhex(vector["seed_hex"])).verify_key

    for item in body["results"]:
        place = item["signature"].get("batch")
        message = signed_receipt_message(
            WORLD, outcome(item), payload=content_hash(item["payload_cbor"]),
            executor=EXECUTOR, key_id=item["signature"]["key"],
            batch=place and Batch(**{**place, "path": tuple(map(Hash, place["path"]))}),
        )  # fmt: skip
        assert message == bytes.fromhex(vector["message_hex"])
        key.verify(message, item["signature"]["value"])


@pytest.mark.parametrize("name", ["a result alone", "three results with one signature"])
def test_the_worker_signs_as_the_vectors_say(name: str, vectors: dict[str, Any]) -> None:
    vector = vectors[name]
    body: Any = read(RESULTS, {"worker": "w", "results": vector["results"]})
    signer = Signer(EXECUTOR, SigningKey(bytes.fromhex(vector["seed_hex"])))
    messages = [
        receipt_message(
            WORLD, outcome(item), payload=content_hash(item["payload_cbor"]),
            executor=signer.name, key_id=signer.public_key,
        )
        for item in body["results"]
    ]  # fmt: skip

    assert [each.hex() for each in messages] == vector["statements_hex"]
    for proof, item in zip(signer.sign_receipts(WORLD, messages), body["results"], strict=True):
        assert proof.signature == item["signature"]["value"]
        place = item["signature"].get("batch")
        assert (None if proof.batch is None else list(proof.batch.path)) == (
            place and list(place["path"])
        )


def test_the_stream_frame_of_the_vectors_is_the_one_that_a_worker_signs(
    vectors: dict[str, Any],
) -> None:
    vector = vectors["a stream frame"]
    body: Any = read(PROGRESS, {"worker": "w", "frames": vector["frames"]})
    [item] = body["frames"]
    frame = StreamFrame(
        intent=parse_hash(item["task"]), effect=vector["effect"], attempt=item["epoch"],
        frame_seq=item["number"], frame_kind=item["kind"], payload=item["payload_cbor"],
    )  # fmt: skip
    message = stream_message(
        parse_hash(vector["world"]), frame, payload=content_hash(frame.payload),
        payload_ref=content_hash(item["blob"]), executor=EXECUTOR, key_id=item["signature"]["key"],
    )  # fmt: skip

    assert message.hex() == vector["message_hex"]
    SigningKey(SEED).verify_key.verify(message, item["signature"]["value"])


def outcome(item: dict[str, Any]) -> Outcome:
    return Outcome(
        intent=parse_hash(item["task"]), effect=EFFECT, attempt=item["epoch"],
        status=item["status"], payload=item["payload_cbor"], started_ns=item["started_ns"],
        finished_ns=item["finished_ns"], cost_cents=item.get("cost_cents"),
    )  # fmt: skip
