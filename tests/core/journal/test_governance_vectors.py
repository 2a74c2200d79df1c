"""spec/vectors/governance.json, computed a second time with cbor2, blake3 and nacl alone."""

from __future__ import annotations

import json
from typing import Any

import cbor2
from blake3 import blake3
from nacl.signing import SigningKey

from tests.core.governance_vectors import PATH, make

VECTORS: dict[str, Any] = json.loads(PATH.read_text("utf-8"))


def encoded(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)


def hashed(data: bytes) -> bytes:
    return blake3(data).digest()


def test_the_file_is_what_the_kernel_writes() -> None:
    assert make() == VECTORS


def test_the_hash_of_a_patch_is_that_of_its_json_in_canonical_cbor() -> None:
    """GV-13."""
    patch = VECTORS["patch"]
    data = encoded(patch["json"])

    assert data.hex() == patch["cbor_hex"]
    assert f"blake3:{hashed(data).hex()}" == patch["hash"]


def test_each_record_is_signed_as_the_specification_says() -> None:
    """J-44: null for what is absent; a vote signs the change of its proposal."""
    world = bytes.fromhex(VECTORS["world"])
    proposed: dict[str, Any] = {}
    for row in VECTORS["records"]:
        record = cbor2.loads(bytes.fromhex(row["record_hex"]))
        assert encoded(record).hex() == row["record_hex"]
        proposed = proposed or record
        message = [
            "aos/governance/1", world, record["action"], record.get("proposal"),
            record.get("serial"), proposed["base"], proposed["document"]["hash"],
            proposed["patch"]["hash"], "pin", ["com.acme/gone@1"],
            record["report"]["hash"] if "report" in record else None, record.get("seen"),
            record.get("note"),
        ]  # fmt: skip
        assert encoded(message).hex() == row["message_hex"]
        key = SigningKey(bytes.fromhex(VECTORS["seeds"][record["principal"]]))
        assert key.sign(encoded(message)).signature == record["signature"]
    assert proposed["document"] == {
        "hash": hashed(bytes.fromhex(VECTORS["document_hex"])),
        "size": len(bytes.fromhex(VECTORS["document_hex"])),
    }


def test_a_governed_apply_names_its_proposal() -> None:
    """J-36b."""
    record = cbor2.loads(bytes.fromhex(VECTORS["apply"]["record_hex"]))
    message = [
        "aos/apply/3", bytes.fromhex(VECTORS["world"]), record["serial"],
        record["document"]["hash"], record["mode"], record["leaves"], record["proposal"],
    ]  # fmt: skip

    assert encoded(message).hex() == VECTORS["apply"]["message_hex"]
    key = SigningKey(bytes.fromhex(VECTORS["seeds"]["operator"]))
    assert key.sign(encoded(message)).signature == record["signature"]


def test_a_report_begins_with_what_the_kernel_reads() -> None:
    """GV-30."""
    data = bytes.fromhex(VECTORS["report"]["cbor_hex"])

    assert f"blake3:{hashed(data).hex()}" == VECTORS["report"]["hash"]
    assert set(cbor2.loads(data)) == {
        "format", "world", "base", "document", "mode", "leaves", "from", "to", "frame",
    }  # fmt: skip
