"""The bytes of state at rest, computed a second time from their description alone (spec/state.md).

Nothing of the kernel is used here but to compare: ``cbor2`` and ``blake3`` are all that another
implementation has, too.
"""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from blake3 import blake3

from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Ref, Snapshot
from aos.core.snapshot.load import load
from aos.core.snapshot.shape import ITEMS
from aos.core.state.entry import Entry, read_keys
from aos.errors import Damage
from aos.values.digests import Hash
from tests.core.state_vectors import JOURNAL, PATH, STATE, text

VECTORS: dict[str, Any] = json.loads(PATH.read_text())
ENTRIES: list[dict[str, Any]] = VECTORS["entries"]
SNAPSHOT: dict[str, str] = VECTORS["snapshot"]
EACH = pytest.mark.parametrize("vector", ENTRIES, ids=lambda vector: vector["name"])


def unhex(value: str) -> bytes:
    return bytes.fromhex(value)


def cbor(value: Any) -> bytes:
    data: bytes = cbor2.dumps(value, canonical=True)
    return data


def content(data: bytes) -> bytes:
    return blake3(data).digest()


def test_the_file_is_what_the_kernel_writes() -> None:
    assert PATH.read_text() == text(), "python -m tests.core.state_vectors"


@EACH
def test_an_entry_is_as_the_specification_says(vector: dict[str, Any]) -> None:
    """SN-12."""
    state = bytes(5000) if vector["state"] is None else unhex(vector["state"])
    more: dict[str, Any] = {}
    if vector["keys"]:
        keys = cbor([[name, unhex(params)] for name, params in vector["keys"]])
        assert unhex(vector["keys_bytes"]) == keys
        more["keys"] = content(keys)
    if vector["status"] is not None:
        more["status"] = vector["status"]
    if vector["version"]:
        more["version"] = vector["version"]
    if vector["kept"]:
        more["kept"] = True

    assert unhex(vector["entry"]) == cbor(
        [
            unhex(vector["key"]), content(state), len(state), vector["last_active_ns"],
            vector["last_record"], unhex(vector["workflow_hash"]), unhex(vector["module_hash"]),
            more,
        ]
    )  # fmt: skip


@EACH
def test_an_entry_is_read_as_its_cell(vector: dict[str, Any]) -> None:
    keys = None if vector["keys_bytes"] is None else unhex(vector["keys_bytes"])

    found = Entry(unhex(vector["entry"])).to_cell("com.acme/order.step@1", _nothing, keys=keys)

    state = bytes(5000) if vector["state"] is None else STATE
    assert found.id[1] == unhex(vector["key"])
    assert found.state == Ref(Hash(content(state)), len(state))
    assert (found.declared, found.version, found.is_kept) == (
        vector["status"], vector["version"], vector["kept"],
    )  # fmt: skip
    assert (found.last_seq, found.last_active_ns) == (7, vector["last_active_ns"])
    if keys is not None:
        assert [[name, params.hex()] for name, params in read_keys(keys).items()] == vector["keys"]


def _nothing(hash: Hash) -> bytes:
    raise Damage(f"nothing is stored: {hash.hex()}")


def test_a_chunk_is_as_the_specification_says() -> None:
    """SN-21."""
    rows = [[seq, name, unhex(hash), ns] for seq, name, hash, ns in VECTORS["chunk"]["events"]]
    numbers = sorted({row[0] // 4096 for row in rows})
    expected = []
    for number in numbers:
        mine = [row for row in rows if row[0] // 4096 == number]
        expected.append({"number": number, "count": len(mine), "bytes": cbor(mine).hex()})

    assert VECTORS["chunk"]["chunks"] == expected


def test_a_snapshot_is_as_the_specification_says() -> None:
    """SN-5: of a world that has only its genesis."""
    journal = json.loads(JOURNAL.read_text())
    frame = journal["frames"][0]
    genesis = cbor2.loads(unhex(frame["records"][0]["bytes"]))
    leaf = content(cbor(["aos/log-leaf/1", unhex(frame["root"])]))

    assert unhex(SNAPSHOT["document"]) == cbor(
        {
            "format": 1, "world": unhex(journal["world"]), "seq": 1, "frame": unhex(frame["hash"]),
            "log": [1, [leaf]], "clock_ns": genesis["stamp"]["ns"],
            "world_key": genesis["world_key"],
            "operators": [[each["name"], each["key"]] for each in genesis["operators"]],
            "semantics": 1, "serial": 0, "controls": 0, "revoked": [], "pinned": [],
            "manifest": None, "manifest_seq": 0, "snapshot": None, "cells": {}, "submissions": [],
            "work": {name: [] for name in ITEMS if name != "halts"},  # SN-6: only if there is one
        }
    )  # fmt: skip
    assert unhex(SNAPSHOT["root"]) == content(unhex(SNAPSHOT["document"]))


def test_a_snapshot_is_read_and_its_record_says_of_it() -> None:
    """SN-2."""
    document = unhex(SNAPSHOT["document"])
    root = Hash(unhex(SNAPSHOT["root"]))
    record = from_bytes(unhex(SNAPSHOT["record"]))

    state = load(root, {root: document}.__getitem__)

    assert isinstance(record, Snapshot)
    assert (record.at, record.frame) == (state.tip.seq, state.tip.frame)
    assert record.document == Ref(root, len(document))
    assert to_bytes(record) == unhex(SNAPSHOT["record"])
    assert cbor2.loads(unhex(SNAPSHOT["record"])) == {
        "kind": "snapshot", "seq": 2, "stamp": {"ns": record.stamp.ns, "entropy": bytes(range(64))},
        "at": 1, "frame": state.tip.frame, "document": {"hash": root, "size": len(document)},
    }  # fmt: skip
