"""Governance records, the bytes that are signed for them, and a patch, with fixed keys.

    python -m tests.core.governance_vectors      rewrites spec/vectors/governance.json

The file is a promise, as that of ``journal_vectors``: ``journal/test_governance_vectors.py``
computes it a second time without the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.journal.governing import GovernanceInput, ProposedChange
from aos.core.journal.identity import world_id
from aos.core.journal.inputs import ManifestInput
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Governance, Manifest, Ref
from aos.core.journal.shadow_report import ReportHead
from aos.manifest.patch import read_patch
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from tests.core.journal_vectors import NONCE, OPERATOR_KEY, WORLD_KEY, stamp

PATH: Final = Path(__file__).parents[2] / "spec" / "vectors" / "governance.json"

APPROVER_KEY: Final = SigningKey(bytes(range(64, 96)))
BASE: Final = content_hash(b"stands for an effective manifest")
DOCUMENT: Final = b"in place of the next effective manifest"
PATCH: Final[dict[str, Any]] = {
    "$kind": "patch",
    "base": hash_text(BASE),
    "ops": [
        {"remove": {"kind": "defschema", "name": "com.acme/Old@1",
                    "pre_hash": hash_text(content_hash(b"old"))}},
        {"add": {"node": {"$kind": "defschema", "name": "com.acme/New@1",
                          "type": {"record": {"cents": {"nat": {}}}}}}},
        {"set": {"field": "limits", "value": {"world": {"mailbox": 500}}, "pre_hash": None}},
    ],
}  # fmt: skip


def make() -> dict[str, Any]:
    """Everything that the file holds."""
    world = world_id(NONCE, bytes(WORLD_KEY.verify_key))
    patch = read_patch(PATCH).document
    change = ProposedChange(
        BASE, content_hash(DOCUMENT), content_hash(patch), "pin", ("com.acme/gone@1",)
    )
    report = encode(
        ReportHead(
            world=world, base=BASE, document=change.document, mode="pin", leaves=change.leaves,
            first=3, last=9, frame=content_hash(b"in place of a frame"),
        ).fields()
    )  # fmt: skip
    seen = content_hash(report)
    given = [
        GovernanceInput(
            action="propose", principal="operator", signature=b"", serial=0, base=BASE,
            document=DOCUMENT, patch=patch, mode="pin", leaves=change.leaves, note="a new price",
        ),
        GovernanceInput(
            action="report", principal="operator", signature=b"", proposal=10, report=report
        ),
        GovernanceInput(action="approve", principal="ann", signature=b"", proposal=10, seen=seen),
        GovernanceInput(action="reject", principal="ann", signature=b"", proposal=10, note="no"),
        GovernanceInput(action="withdraw", principal="operator", signature=b"", proposal=10),
    ]  # fmt: skip
    apply_message = ManifestInput.message(
        world, 1, change.document, mode="pin", leaves=change.leaves, proposal=10
    )
    applied = Manifest(
        seq=15, stamp=stamp(15), document=Ref(change.document, len(DOCUMENT)),
        principal="operator", serial=1, signature=OPERATOR_KEY.sign(apply_message).signature,
        mode="pin", leaves=change.leaves, proposal=10,
    )  # fmt: skip
    return {
        "$comment": "Written by tests/core/governance_vectors.py; spec/governance.md explains it.",
        "world": world.hex(),
        "seeds": {"operator": bytes(OPERATOR_KEY).hex(), "ann": bytes(APPROVER_KEY).hex()},
        "document_hex": DOCUMENT.hex(),
        "patch": {"json": PATCH, "cbor_hex": patch.hex(), "hash": hash_text(content_hash(patch))},
        "report": {"cbor_hex": report.hex(), "hash": hash_text(seen)},
        "records": [_row(each, seq, change, world) for seq, each in enumerate(given, 10)],
        "apply": {"message_hex": apply_message.hex(), "record_hex": to_bytes(applied).hex()},
    }


def _row(given: GovernanceInput, seq: int, change: ProposedChange, world: Any) -> dict[str, Any]:
    key = OPERATOR_KEY if given.principal == "operator" else APPROVER_KEY
    message = given.message(world, change)

    def ref(data: bytes | None) -> Ref | None:
        return None if data is None else Ref(content_hash(data), len(data))

    record = Governance(
        seq=seq, stamp=stamp(seq), action=given.action,  # type: ignore[arg-type]  # one of five
        principal=given.principal, signature=key.sign(message).signature, proposal=given.proposal,
        serial=given.serial, base=given.base, document=ref(given.document),
        patch=ref(given.patch), mode="pin" if given.mode == "pin" else None, leaves=given.leaves,
        report=ref(given.report), seen=given.seen, note=given.note,
    )  # fmt: skip
    return {"message_hex": message.hex(), "record_hex": to_bytes(record).hex()}


if __name__ == "__main__":
    PATH.write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", "utf-8")
