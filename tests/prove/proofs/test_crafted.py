"""Proofs over records that the holder of a world's key made up: both verifiers agree on each.

No kernel writes such records: only the checks of the claims refuse them (PF-60 to PF-68).
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.state.cell_index import CellIndex
from aos.values.digests import Hash, content_hash
from tests.memory_world import cbor
from tests.prove.proofs.crafted import (
    BANK_LISTING,
    CELL,
    INTENT,
    KEY,
    NODE,
    OTHER,
    POLICY,
    STATE,
    asked,
    crafted,
    manifest,
    receipt,
    small_order_receipt,
)
from tests.prove.proofs.proven import decided, mutated
from tests.tools import long_form


def decide(kind: Any, records: dict[str, dict[str, Any]], **fields: Any) -> int:
    """What both verifiers say of such a proof."""
    return decided(crafted(kind, records, **fields), POLICY)


def intent(**records: dict[str, Any]) -> int:
    return decide("intent", records, intent=INTENT)


def test_made_up_records_that_follow_the_rules_hold() -> None:
    assert intent(asked=asked()) == 0
    assert intent(asked=asked(), settled=receipt()) == 0
    assert intent(asked=asked(), settled=receipt(leaves=5)) == 0
    assert intent(asked=asked(), settled=receipt(cost_cents=7)) == 0
    kernel = {"kind": "kernel_receipt", "intent": INTENT, "effect": "t/pay@1", "cell": CELL,
              "payload": b"\x02"}  # fmt: skip
    assert intent(asked=asked(), settled=kernel) == 0
    assert decide("record", {"record": {"kind": "any"}}) == 0
    assert decide("cell", {"last": asked()}, workflow=CELL[0], key=CELL[1]) == 0


WRONG_STEPS: dict[str, dict[str, Any]] = {
    "another kind": {"kind": "event"},
    "no kind": {"kind": 1},
    "no intents": {"intents": []},
    "null intents": {"intents": None},
    "intents that are none": {"intents": [1]},
    "the intent twice": {"intents": asked()["intents"] * 2},
    "no effect": {"intents": [{"intent": INTENT, "params": b"\x01"}]},
    "a number as effect": {"intents": [{"intent": INTENT, "effect": 1, "params": b"\x01"}]},
    "no cell": {"cell": None},
    "half a cell": {"cell": ["t/cell@1"]},
    "a cell of numbers": {"cell": [1, 2]},
    "no params": {"intents": [{"intent": INTENT, "effect": "t/pay@1"}]},
    "a ref of another form": {
        "intents": [{"intent": INTENT, "params": {"hash": INTENT, "size": 1, "more": 1}}]
    },
    "a ref with a true size": {"intents": [{"intent": INTENT, "params": {"hash": INTENT,
                                                                         "size": True}}]},
    "a short ref": {"intents": [{"intent": INTENT, "params": {"hash": b"x", "size": 1}}]},
    "another sequence": {"seq": 9},
    "a true sequence": {"seq": True},
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_STEPS)
def test_a_made_up_step_is_refused(what: str) -> None:
    assert intent(asked=asked(**WRONG_STEPS[what])) == 3


WRONG_RECEIPTS: dict[str, dict[str, Any]] = {
    "another kind": {"kind": "event"},
    "another cell": {"cell": ["t/cell@1", b""]},
    "no payload": {"payload": None},
    "another payload": {"payload": b"\x03"},
    "no signature": {"signature": b""},
    "another signature": {"signature": bytes(64)},
    "text as signature": {"signature": "x"},
    "text as key": {"key_id": "x"},
    "a list as attempt": {"attempt": [1]},
    "a map as status": {"status": {}},
    "null as cost": {"cost_cents": None},
    "null as batch": {"batch": None},
    "a batch of another size": {"batch": {"index": 0, "size": 2}},
    "an empty batch": {"batch": {"index": 0, "size": 0}},
    "a huge batch": {"batch": {"index": 0, "size": 65_537, "path": [INTENT] * 17}},
    "a long path": {"batch": {"index": 0, "size": 2, "path": [INTENT] * 18}},
    "a null path": {"batch": {"index": 0, "size": 1, "path": None}},
    "a true index": {"batch": {"index": True, "size": 2, "path": [INTENT]}},
    "short hashes": {"batch": {"index": 0, "size": 2, "path": [b"x"]}},
    "more in the batch": {"batch": {"index": 0, "size": 1, "more": 1}},
}


@pytest.mark.parametrize("what", WRONG_RECEIPTS)
def test_a_made_up_receipt_is_refused(what: str) -> None:
    if what.endswith(("as attempt", "as status", "as cost", "as key")):
        assert intent(asked=asked(), settled={**receipt(), **WRONG_RECEIPTS[what]}) == 3
    else:
        assert intent(asked=asked(), settled=receipt(**WRONG_RECEIPTS[what])) == 3


def test_a_signature_with_an_r_of_small_order_is_refused() -> None:
    """J-34."""
    assert intent(asked=asked(), settled=small_order_receipt()) == 3


def test_a_receipt_before_its_step_is_refused() -> None:
    assert intent(settled=receipt(), asked=asked()) == 3


@pytest.mark.parametrize(
    ("executors", "signer", "name", "code"),
    [
        ((), KEY, "node", 0),
        ((), OTHER, "node", 3),
        ((), KEY, "bank", 3),
        ((NODE,), KEY, "node", 0),
        ((NODE,), OTHER, "node", 3),
        ((BANK_LISTING,), OTHER, "bank", 0),
        ((NODE, BANK_LISTING), OTHER, "bank", 0),
        ((BANK_LISTING,), KEY, "bank", 3),
        ((BANK_LISTING, BANK_LISTING), OTHER, "bank", 3),
        ((NODE,), OTHER, "bank", 3),
        (({**BANK_LISTING, "effects": []},), OTHER, "bank", 3),
        (({**BANK_LISTING, "effects": "t/pay@1"},), OTHER, "bank", 3),
        (({**BANK_LISTING, "public_key": None},), OTHER, "bank", 3),
        (({"name": "bank"},), OTHER, "bank", 3),
    ],
)
def test_a_manifest_says_whose_key_it_is(
    executors: tuple[dict[str, Any], ...], signer: SigningKey, name: str, code: int
) -> None:
    record, document = manifest(*executors)
    records = {
        "manifest": record, "asked": asked(), "settled": receipt(signer, executor=name),
    }  # fmt: skip

    assert decide("intent", records, intent=INTENT, values=(document,)) == code
    assert decide("intent", records, intent=INTENT) == 3, "the document is missing"


def test_a_manifest_of_another_form_is_refused() -> None:
    for document in (b"\x01", cbor({}), cbor({"manifest": []}),
                     cbor({"manifest": {"executors": {}}}), b"\xa1\x61a\x18\x01"):  # fmt: skip
        ref = {"hash": content_hash(document), "size": len(document)}
        records = {
            "manifest": {"kind": "manifest", "document": ref}, "asked": asked(),
            "settled": receipt(),
        }  # fmt: skip
        assert decide("intent", records, intent=INTENT, values=(document,)) == 3
    record, document = manifest()
    late = {"asked": asked(), "manifest": record, "settled": receipt()}
    assert decide("intent", late, intent=INTENT, values=(document,)) == 3


def entry(seq: int, key: bytes = CELL[1]) -> bytes:
    return cbor([key, STATE, 5, 1, seq, INTENT, INTENT, {}])


class Snapshots:
    """A snapshot of a workflow with ``others`` cells next to the one that is proved."""

    def __init__(self, others: int, own: bytes | None) -> None:
        self.nodes: dict[Hash, bytes] = {}
        keys = {content_hash(cbor(each)): entry(1, cbor(each)) for each in range(others)}
        if own is not None:
            keys[content_hash(CELL[1])] = own
        index = CellIndex(None, 0, self.nodes.__getitem__)
        self.index = index.updated(keys, self._put) if keys else index
        self.path = self.index.prove(content_hash(CELL[1]))

    def _put(self, data: bytes) -> Hash:
        self.nodes[content_hash(data)] = data
        return content_hash(data)

    def decide(
        self, *, path: Any = None, row: Any = None, record: Any = None, **document: Any
    ) -> int:
        if row is None:
            row = [self.index.root, self.index.count, 0, 0, 0]
        data = cbor({"seq": 1, "frame": INTENT, "cells": {CELL[0]: row}, **document})
        ref = {"hash": content_hash(data), "size": len(data)}
        records = {
            "last": asked(),
            "snapshot": {
                "kind": "snapshot",
                "at": 1,
                "frame": INTENT,
                "document": ref,
                **(record or {}),
            },
        }
        nodes = self.path if path is None else path
        return decide("cell", records, workflow=CELL[0], key=CELL[1], nodes=nodes, values=(data,))


@pytest.mark.parametrize("others", [0, 1, 63, 64, 200])
def test_a_state_and_its_absence_are_proved_in_indexes_of_all_shapes(others: int) -> None:
    assert Snapshots(others, entry(1)).decide() == 0
    assert Snapshots(others, None).decide() == 0


def test_a_made_up_snapshot_is_refused() -> None:
    small, large = Snapshots(3, entry(1)), Snapshots(200, entry(1))
    for each in (small, large):
        count, top = each.index.count, each.index.root
        assert each.decide(seq=2) == 3
        assert each.decide(frame=STATE) == 3
        assert each.decide(seq=True) == 3
        assert each.decide(record={"at": True}) == 3
        assert each.decide(seq=None, record={"at": None}) == 3
        assert each.decide(frame=b"", record={"frame": b""}) == 3
        assert each.decide(cells=[]) == 3
        assert each.decide(cells={CELL[0]: 1}) == 3
        assert each.decide(cells={}) == 3, "nodes of an index that is not there"
        assert each.decide(row=[top, count + 1]) == 3
        assert each.decide(row=[top, 0]) == 3
        assert each.decide(row=[None, 0]) == 3
        assert each.decide(row=[top, True]) == 3
        assert each.decide(row=[b"x", count]) == 3
        assert each.decide(row=[top]) == 3
        assert each.decide(path=()) == 3
        assert each.decide(path=each.path[:-1]) == 3
        assert each.decide(path=(*each.path, each.path[-1])) == 3
    for wrong in (entry(2), entry(1, b"\x61x"), b"\x01", cbor([1]), b""):
        assert Snapshots(3, wrong).decide() == 3


def test_altered_nodes_with_matching_hashes_are_refused() -> None:
    """Each node altered in some bytes, and the root with it: CI-9."""
    some = random.Random(7)
    for others in (3, 200):
        found = Snapshots(others, entry(1))
        (*above, leaf) = found.path
        for _ in range(3000 if long_form() else 120):
            changed = bytearray(leaf if not above or some.random() < 0.5 else above[0])
            is_leaf = not above or bytes(changed) == leaf
            changed[some.randrange(len(changed))] ^= 1 << some.randrange(8)
            if is_leaf and above:
                assert found.decide(path=(*above, bytes(changed))) == 3
                continue
            path = (bytes(changed), *found.path[1:])
            row = [content_hash(path[0]), found.index.count, 0, 0, 0]
            assert found.decide(path=path, row=row) in (0, 3)


# Any records, signed again

CBOR_PARTS: list[Any] = [
    None, True, False, 0, 1, -1, 2**64 - 1, -(2**64), "", "ok", "t/pay@1", b"", b"\x01", INTENT,
    bytes(64), [], [[]], {}, {"hash": INTENT, "size": 1}, {1: 2}, "\x1b[31m",
]  # fmt: skip


def changed(value: Any, some: random.Random) -> Any:
    """The map with a few parts changed, or as it is."""
    return mutated(value, some, CBOR_PARTS) if some.random() < 0.5 else value


def signed_again(fields: dict[str, Any]) -> dict[str, Any]:
    """The receipt with a signature over the fields that it has now, if they can be signed."""
    try:
        return {**fields, "signature": receipt(**fields)["signature"]}
    except (TypeError, AttributeError, ValueError):
        return fields


def any_intent(some: random.Random) -> int:
    document = cbor(changed({"manifest": {"executors": [NODE, BANK_LISTING]}}, some))
    ref = {"hash": content_hash(document), "size": len(document)}
    records = {
        "manifest": changed({"kind": "manifest", "document": ref}, some),
        "asked": changed(asked(), some),
        "settled": signed_again(changed(receipt(leaves=some.choice([0, 3])), some)),
    }
    return decide("intent", records, intent=INTENT, values=(document,))


def any_cell(some: random.Random) -> int:
    own = changed({"entry": [CELL[1], STATE, 5, 1, 1, INTENT, INTENT, {}]}, some)
    place = Snapshots(some.choice([0, 3, 200]), cbor(own.get("entry")))
    row = [place.index.root, place.index.count, 0, 0, 0]
    document = cbor(changed({"seq": 1, "frame": INTENT, "cells": {CELL[0]: row}}, some))
    ref = {"hash": content_hash(document), "size": len(document)}
    snapshot = {"kind": "snapshot", "at": 1, "frame": INTENT, "document": ref}
    records = {"last": changed(asked(), some), "snapshot": changed(snapshot, some)}
    return decide(
        "cell", records, workflow=CELL[0], key=CELL[1], nodes=place.path, values=(document,)
    )


@pytest.mark.parametrize("make", [any_intent, any_cell])
def test_both_verifiers_decide_the_same_for_any_records_that_are_signed_again(make: Any) -> None:
    """The holder of a world's key can sign any record: it holds, or exit 3, and never a bug."""
    some = random.Random(random.random())
    codes = [make(some) for _ in range(4000 if long_form() else 150)]

    assert {0, 3} <= set(codes) <= {0, 3}
