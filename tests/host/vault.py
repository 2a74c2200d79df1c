"""A world whose cells put blobs and hold their hashes, to test which blobs a collection keeps.

A cell obeys its event: it puts a blob (with the blobs that it refers to), holds a hash, drops all,
pads its state, finishes, is deleted, or fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aos.core.decide.answers import Answer
from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.records import Receipt
from aos.host.executors.blob import put
from aos.manifest.load import Loaded
from aos.store.lmdb_store import LmdbStore
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text, parse_hash
from tests.host.on_disk import folder_of
from tests.memory_world import (
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    Trap,
    air,
    ask,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

VAULT, DO, PUT = "vault/box.step@1", "vault/Do@1", "sys/blob.put@1"
EMPTY: dict[str, Any] = {"held": [], "note": "", "pad": b""}


def box(envelope: Envelope) -> Envelope:
    """Obey the event."""
    state: Any = state_of(envelope) or EMPTY
    event: Any = event_of(envelope)
    tag, value = event["$tag"], event["$value"]
    if tag == "receipt":
        told = decode_record(value["receipt_payload"])
        assert isinstance(told, dict)
        return {"state": encode({**state, "held": [*state["held"], told["blob_ref"]]})}
    what = value["what"]
    if what == "put":
        refs = None if value["ref"] is None else [value["ref"]]
        params: Any = {"bytes": value["data"], "blob_ref": None, "refs": refs}
        return {"state": encode(state), "effects": [ask(PUT, params)]}
    if what == "fail":
        raise Trap
    if what == "delete":
        return {"state": None}
    if what == "finish":
        return {"state": encode(state), "status": "completed"}
    changes: dict[str, dict[str, Any]] = {
        "hold": {"held": [*state["held"], value["ref"]]},
        "drop": {"held": []},
        "note": {"note": value["ref"] or ""},
        "pad": {"pad": value["data"]},
    }
    changed: Any = {**state, **changes[what]}
    return {"state": encode(changed)}


@cache
def boxes(version: int = 1) -> Loaded:
    text: dict[str, object] = {"text": {}}
    nodes = [
        schema(
            DO,
            {
                "record": {
                    "id": text,
                    "what": text,
                    "data": {"bytes": {}},
                    "ref": {"option": {"hash": {}}},
                }
            },
        ),
        schema(
            "vault/Event@1",
            {
                "variant": {
                    "do": {"ref": DO},
                    "receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                }
            },
        ),
        schema(
            "vault/Box@1",
            {"record": {"held": {"list": {"hash": {}}}, "note": text, "pad": {"bytes": {}}}},
        ),
        schema("vault/Key@1", text),
        workflow(
            VAULT,
            state="vault/Box@1",
            event="vault/Event@1",
            key_schema="vault/Key@1",
            effects=[PUT],
            lifecycle="explicit",
        ),
    ]
    return air(nodes, [route(DO, VAULT, "id")], version=version)


class Vault(MemoryWorld):
    """``fresh`` are blobs that were put, apart from frames, since they were last written to a disk.
    The frames bring their own, so that their states become deltas."""

    def __init__(self) -> None:
        self.fresh: dict[Hash, bytes] = {}
        super().__init__(boxes(), {VAULT: box})
        self._put(self.loaded.modules)
        self.seal()

    def do(self, id: str, what: str, data: bytes = b"", ref: Hash | None = None) -> Answer:
        """Send one event and run everything that it causes, blobs included."""
        named = None if ref is None else hash_text(ref)
        answer = self.send(DO, {"id": id, "what": what, "data": data, "ref": named})
        self.run()
        self.settle_all()
        return answer

    def settle_all(self) -> None:
        for intent in self.open():
            params: Any = decode_record(
                intent.params if isinstance(intent.params, bytes) else self.read(intent.params.hash)
            )
            told, blobs = put(params["bytes"], None, params["refs"] or [])
            self._put(blobs)
            self.settle(intent, told)
        self.run()

    def put(self, data: bytes) -> Hash:
        self._put({content_hash(data): data})
        return content_hash(data)

    def _put(self, blobs: Mapping[Hash, bytes]) -> None:
        self.blobs.update(blobs)
        self.fresh.update(blobs)

    def puts(self) -> dict[Hash, tuple[str, bytes]]:
        """Each blob and edge that a receipt told a cell of, and the cell."""
        found = {}
        for record in self.records():
            if isinstance(record, Receipt) and record.status == "ok":
                payload = record.payload
                told: Any = decode_record(
                    payload if isinstance(payload, bytes) else self.read(payload.hash)
                )
                found[parse_hash(told["blob_ref"])] = record.cell
                found[parse_hash(told["edge_ref"])] = record.cell
        return found


def make(world: Vault, path: Path) -> Path:
    folder_of(world, path)
    world.fresh.clear()
    return path


def write(world: Vault, path: Path) -> None:
    """Append the frames and blobs made since the last write, as a running world would."""
    with LmdbStore.open(path / "store") as store:
        head = store.head()
        last, follows = (0, NO_FRAME) if head is None else (head.seq, head.frame)
        store.put_blobs(world.fresh)
        world.fresh.clear()
        for each in world.sealed:
            if each.frame.header.first > last:
                store.append([each], Head.of(each.tip).signed(WORLD_KEY), expected=follows)
                follows = each.frame.hash
