"""The formats, computed a second time from their description alone (spec/journal.md).

Nothing of the kernel is used here but to compare: ``cbor2``, ``blake3`` and ``nacl`` are all that
another implementation has, too.
"""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from blake3 import blake3
from nacl.signing import SigningKey, VerifyKey

from aos.core.journal.frame import Head, Tip, follow, read_frame
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.values.digests import Hash
from tests.core.journal_vectors import PATH, text

VECTORS: dict[str, Any] = json.loads(PATH.read_text())
WORLD = bytes.fromhex(VECTORS["world"])
FRAMES: list[dict[str, Any]] = VECTORS["frames"]
RECORDS = [(frame, record) for frame in FRAMES for record in frame["records"]]


def unhex(value: str) -> bytes:
    return bytes.fromhex(value)


def domain_hash(*parts: object) -> bytes:
    return blake3(cbor2.dumps(list(parts), canonical=True)).digest()


def tree(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return domain_hash("aos/node/1", tree(leaves[:split]), tree(leaves[split:]))


def climb(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """J-23, from the leaf upwards: at each level the last of ``size`` may have no neighbour."""
    left, last = index, size - 1
    for beside in path:
        while not left & 1 and left == last:
            left, last = left >> 1, last >> 1
        leaf = (
            domain_hash("aos/node/1", beside, leaf)
            if left & 1
            else domain_hash("aos/node/1", leaf, beside)
        )
        left, last = left >> 1, last >> 1
    return leaf


def test_the_file_is_what_the_kernel_writes() -> None:
    """After a change that is meant: python -m tests.core.journal_vectors."""
    assert PATH.read_text() == text()


def test_every_kind_of_record_is_there_and_is_read() -> None:
    kinds = set()
    for frame, record in RECORDS:
        data = unhex(record["bytes"])
        found = from_bytes(data)
        assert to_bytes(found) == data
        assert (found.KIND, found.seq) == (record["kind"], record["seq"])
        assert frame["first"] <= found.seq <= frame["last"]
        kinds.add(found.KIND)
        assert cbor2.loads(data)["kind"] == record["kind"]
    assert kinds == {"genesis", "start", "manifest", "event", "step", "fault", "receipt"}


def test_the_world_is_named_by_its_nonce_and_key() -> None:
    """J-3."""
    keys = VECTORS["keys"]
    for who in ("world", "operator"):
        key = SigningKey(unhex(keys[f"{who}_seed"])).verify_key
        assert bytes(key).hex() == keys[f"{who}_key"]
    assert domain_hash("aos/world/1", unhex(VECTORS["nonce"]), unhex(keys["world_key"])) == WORLD


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: f"frame {frame['first']}")
def test_leaves_and_roots(frame: dict[str, Any]) -> None:
    """J-25, J-26, J-28."""
    leaves = []
    for record in frame["records"]:
        material = unhex(frame["salt"]) + record["seq"].to_bytes(8, "big")
        salt = blake3(material, derive_key_context="aos/record-salt/1").digest()
        assert salt.hex() == record["salt"]
        leaves.append(domain_hash("aos/leaf/1", salt, unhex(record["bytes"])))
        assert leaves[-1].hex() == record["leaf"]
    assert tree(leaves).hex() == frame["root"]
    before = FRAMES[: FRAMES.index(frame) + 1]
    logged = [domain_hash("aos/log-leaf/1", unhex(each["root"])) for each in before]
    assert tree(logged).hex() == frame["log_root"]


def test_frames_are_chained() -> None:
    """J-24, J-29."""
    prev, seq = bytes(32), 0
    for frame in FRAMES:
        header = {
            "version": 1,
            "world": WORLD,
            "first": frame["first"],
            "last": frame["last"],
            "prev": prev,
            "root": unhex(frame["root"]),
            "log_root": unhex(frame["log_root"]),
        }
        records = [unhex(record["bytes"]) for record in frame["records"]]
        assert frame["prev"] == prev.hex()
        assert frame["first"] == seq + 1
        prev, seq = domain_hash("aos/frame/1", header), frame["last"]
        assert prev.hex() == frame["hash"]
        stored = {"header": header, "records": records, "salt": unhex(frame["salt"])}
        assert cbor2.dumps(stored, canonical=True).hex() == frame["bytes"]


def test_the_kernel_follows_them_to_the_head() -> None:
    tip = Tip(world=Hash(WORLD))
    for frame in FRAMES:
        tip = follow(tip, read_frame(unhex(frame["bytes"])))
    head = Head.from_bytes(unhex(VECTORS["head"]["bytes"]))
    assert head.message() == Head.of(tip).message()
    assert head.is_signed_by(unhex(VECTORS["keys"]["world_key"]))


def test_the_head() -> None:
    """J-33."""
    head, last = VECTORS["head"], FRAMES[-1]
    parts = [WORLD, last["last"], unhex(last["hash"]), unhex(last["log_root"]), len(FRAMES)]
    message = cbor2.dumps(["aos/head/1", *parts], canonical=True)
    assert message.hex() == head["message"]
    key = SigningKey(unhex(VECTORS["keys"]["world_seed"]))
    assert key.sign(message).signature.hex() == head["signature"]
    stored = [*parts, unhex(head["signature"])]
    assert cbor2.dumps(stored, canonical=True).hex() == head["bytes"]


def fields(kind: str) -> dict[str, Any]:
    (found,) = (
        cbor2.loads(unhex(record["bytes"])) for _, record in RECORDS if record["kind"] == kind
    )
    assert isinstance(found, dict)
    return found


def check_signed(what: str, body: list[object], key: bytes, signature: bytes) -> None:
    message = cbor2.dumps(body, canonical=True)
    assert message.hex() == VECTORS["signed"][what]["message"]
    assert signature.hex() == VECTORS["signed"][what]["signature"]
    VerifyKey(key).verify(message, signature)


def test_the_bytes_that_the_genesis_signs() -> None:
    """J-35."""
    genesis = fields("genesis")
    named = [[each["name"], each["key"]] for each in genesis["operators"]]
    body = ["aos/genesis/1", genesis["nonce"], genesis["world_key"], named, genesis["semantics"]]
    check_signed("genesis", body, genesis["world_key"], genesis["signature"])


def test_the_bytes_that_an_operator_signs() -> None:
    """J-36."""
    manifest, (operator,) = fields("manifest"), fields("genesis")["operators"]
    body = ["aos/apply/1", WORLD, manifest["serial"], manifest["document"]["hash"]]
    check_signed("apply", body, operator["key"], manifest["signature"])


def test_the_bytes_that_an_executor_signs() -> None:
    """J-37."""
    receipt = fields("receipt")
    same = (
        "intent", "effect", "executor", "key_id", "attempt", "status", "started_ns", "finished_ns",
        "cost_cents",
    )  # fmt: skip
    body = {name: receipt[name] for name in same}
    body |= {"world": WORLD, "payload": receipt["payload"]["hash"]}
    check_signed("receipt", ["aos/receipt/1", body], receipt["key_id"], receipt["signature"])


def test_blobs_are_named_by_their_bytes() -> None:
    """J-15."""
    named = {
        fields("manifest")["document"]["hash"],
        fields("step")["state"]["hash"],
        fields("receipt")["payload"]["hash"],
    }
    assert {unhex(key) for key in VECTORS["blobs"]} == named
    for key, data in VECTORS["blobs"].items():
        assert blake3(unhex(data)).hexdigest() == key


def test_identities() -> None:
    """J-38."""
    identities = VECTORS["identities"]
    step = fields("step")
    for asked, recorded in zip(identities["intents"], step["intents"], strict=True):
        found = domain_hash(
            "aos/intent/1",
            WORLD,
            asked["workflow"],
            unhex(asked["workflow_hash"]),
            unhex(asked["instance_key"]),
            asked["seq"],
            asked["index"],
            asked["effect"],
            unhex(asked["effect_hash"]),
            unhex(asked["params_hash"]),
            asked["key"],
        )
        assert found.hex() == asked["hash"]
        assert recorded["intent"] == found
    cell, world = identities["idempotency"]
    key = [cell["effect"], cell["key"]]
    within = [cell["workflow"], unhex(cell["instance_key"])]
    found = domain_hash("aos/idempotency/1", WORLD, *within, *key)
    assert cell["idempotency_key"] == f"blake3:{found.hex()}"
    found = domain_hash("aos/idempotency/1", WORLD, None, None, *key)
    assert world["idempotency_key"] == f"blake3:{found.hex()}"
    submission = identities["submission"]
    found = domain_hash("aos/submission/1", submission["schema"], unhex(submission["value_hash"]))
    assert found.hex() == submission["hash"]
    receipt = identities["receipt"]
    parts = [unhex(receipt[name]) for name in ("intent", "key_id", "signature")]
    assert domain_hash("aos/receipt-id/1", *parts).hex() == receipt["hash"]


def test_a_record_is_proved_from_the_head_alone() -> None:
    """J-27."""
    proof = VECTORS["proof"]
    leaf = domain_hash("aos/leaf/1", unhex(proof["salt"]), unhex(proof["record"]))
    path = [unhex(each) for each in proof["path"]]
    root = climb(leaf, proof["index"], proof["records"], path)
    log_leaf = domain_hash("aos/log-leaf/1", root)
    log_path = [unhex(each) for each in proof["log_path"]]
    log_root = climb(log_leaf, proof["frame_index"], proof["frames"], log_path)

    assert log_root in cbor2.loads(unhex(VECTORS["head"]["bytes"]))
    assert proof["frames"] == VECTORS["head"]["frames"]
