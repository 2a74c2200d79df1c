"""Make ``spec/vectors/proofs.json``: proofs of a world whose keys and chance are fixed (PF-110).

After a change that is meant: python -m tests.prove.proofs.proof_vectors
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.journal.records import Receipt
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.host.checkpoints.proving import ProofRequest, prove
from aos.prove.headerlog.signed_note import cosign, parse_note
from aos.values.digests import hash_text
from tests.host.on_disk import folder_of, more_of
from tests.prove.journals import Shop
from tests.prove.proofs.crafted import (
    BANK_LISTING,
    INTENT,
    NODE,
    WORLD,
    asked,
    crafted,
    manifest,
    receipt,
    small_order_receipt,
)
from tests.prove.proofs.proven import BANK, ROOT, BankedShop, forked, lived_in

PATH: Final = ROOT / "spec" / "vectors" / "proofs.json"
WITNESS: Final = SigningKey(bytes([9]) * 32)


def vectors() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        return list(_all(Path(folder)))


def text() -> str:
    return json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n"


def _all(base: Path) -> Iterator[dict[str, object]]:
    banked, split = lived_in(BankedShop()), forked(lived_in(Shop()))
    one = folder_of(banked, base / "one")
    make_checkpoint(one, out=base / "old")
    banked.place("ord-20", 4)
    banked.run()
    more_of(banked, one)
    head = prove(one, ProofRequest(words=(str(banked.state.next_seq - 1),)))
    make_checkpoint(one)
    two = folder_of(split, base / "two")
    make_checkpoint(two)
    receipts = [each for each in banked.records() if isinstance(each, Receipt)]
    intent = next(each.intent for each in receipts if each.executor == BANK).hex()
    batched = next(
        each.intent.hex()
        for each in split.records()
        if isinstance(each, Receipt) and each.batch is not None
    )
    made = {
        "a record": prove(one, ProofRequest(words=("4",))),
        "a record after the last checkpoint": head,
        "an effect, its receipt and the executor's key": prove(one, ProofRequest(words=(intent,))),
        "an effect without values": prove(one, ProofRequest(words=(intent,), bare=True)),
        "a cell": prove(one, ProofRequest(words=("order", "ord-1"))),
        "a cell in a snapshot": prove(one, ProofRequest(words=("order", "ord-1"), snapshot=True)),
        "no such cell in a snapshot": prove(
            one, ProofRequest(words=("order", "none"), snapshot=True)
        ),
        "consistency": prove(one, ProofRequest(words=("since", str(base / "old")))),
    }
    world = hash_text(banked.state.world)
    for name, each in made.items():
        yield {"name": name, "proof": each.data.decode(), "world": world, "exit": 0}
    for name, seq in (("a record of an ancestor", "3"), ("a fork", str(split.state.next_seq - 1))):
        data = prove(two, ProofRequest(words=(seq,))).data.decode()
        yield {"name": name, "proof": data, "world": hash_text(split.state.world), "exit": 0}
    data = prove(two, ProofRequest(words=(batched,), bare=True)).data.decode()
    yield {"name": "a receipt in a batch", "proof": data, "world": hash_text(split.state.world),
           "exit": 0}  # fmt: skip
    yield from _others(made["a record"].data, world, hash_text(split.state.world))
    yield from _signed_again()


def _others(data: bytes, world: str, other: str) -> Iterator[dict[str, object]]:
    """Proofs that do not hold, or that this reader does not trust."""
    yield {"name": "of another world", "proof": data.decode(), "world": other, "exit": 1}
    document = json.loads(data)
    note = parse_note(document["anchor"]["note"].encode())

    def changed(name: str, code: int, change: Any) -> dict[str, object]:
        copy = json.loads(data)
        change(copy)
        return {"name": name, "proof": json.dumps(copy, indent=1), "world": world, "exit": code}

    line = cosign(note.text, "w.example/1", WITNESS, 1_700_000_000)
    more = note.with_signatures([line]).full_text
    yield changed("with a cosignature", 0, lambda d: d["anchor"].update(note=more))
    yield changed("another sequence", 3, lambda d: d["records"]["record"].update(seq=5))
    yield changed("another place", 3, lambda d: d["records"]["record"].update(index=0))
    yield changed("upper-case hex", 3, lambda d: d["records"]["record"].update(
        salt=d["records"]["record"]["salt"].upper()))  # fmt: skip
    yield changed("a value too many", 3, lambda d: d.update(values=["YQ=="]))
    yield changed("an unknown field", 3, lambda d: d.update(more=1))
    yield changed("another checkpoint", 3, lambda d: d["anchor"].update(
        note=note.full_text.replace("\n", "\n1", 1)))  # fmt: skip


def _signed_again() -> Iterator[dict[str, object]]:
    """Proofs over records that the holder of the world's key made up (PF-60 to PF-68)."""
    one = asked()["intents"][0]
    step = {"asked": asked()}
    cases: dict[str, tuple[int, dict[str, Any]]] = {
        "made up: a step and its receipt": (0, {**step, "settled": receipt()}),
        "made up: another intent of any content": (
            0,
            {"asked": asked(intents=[{"other": None}, one])},
        ),
        "made up: an intent without its effect": (
            3,
            {"asked": asked(intents=[{"intent": INTENT, "params": b"\x01"}])},
        ),
        "made up: an effect that is no text": (3, {"asked": asked(intents=[{**one, "effect": 1}])}),
        "made up: an intent that is no map": (3, {"asked": asked(intents=[one, 1])}),
        "made up: a step of no cell": (3, {"asked": asked(cell=None)}),
        "made up: a signature with an R of small order": (
            3,
            {**step, "settled": small_order_receipt()},
        ),
    }
    for name, (code, records) in cases.items():
        data = crafted("intent", records, intent=INTENT)
        yield {"name": name, "proof": data.decode(), "world": hash_text(WORLD.world), "exit": code}
    for name, code, listing in (
        ("made up: node signs, and the manifest lists it", 0, NODE),
        ("made up: node signs, and the manifest lists others only", 3, BANK_LISTING),
    ):
        record, document = manifest(listing)
        records = {"manifest": record, **step, "settled": receipt()}
        data = crafted("intent", records, intent=INTENT, values=(document,))
        yield {"name": name, "proof": data.decode(), "world": hash_text(WORLD.world), "exit": code}


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
