"""The bytes of state at rest: a cell's entry and its keys, a chunk, a snapshot and its record.

    python -m tests.core.state_vectors      rewrites spec/vectors/state.json

The file is a promise. ``test_state_vectors.py`` computes it a second time without the kernel.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from aos.core.journal.frame import Frame, Tip, read_frame
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Ref, Snapshot, Stamp
from aos.core.snapshot.take import take
from aos.core.state.cell import Cell
from aos.core.state.entry import entry_of, pack_keys
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.core.state.submissions import Submission, Submissions
from aos.values.digests import Hash, content_hash

PATH: Final = Path(__file__).parents[2] / "spec" / "vectors" / "state.json"
JOURNAL: Final = PATH.with_name("journal.json")

NS: Final = 1_700_000_000_000_000_000
STATE: Final = b"\xa1\x61n\x05"


def cell(**fields: Any) -> Cell:
    return Cell(
        **{
            "id": ("com.acme/order.step@1", b"\x65ord-1"),
            "workflow_hash": content_hash(b"workflow"),
            "module_hash": content_hash(b"module"),
            "state": STATE,
            "last_active_ns": NS,
            "last_seq": 7,
            **fields,
        }
    )


KEYS: Final = OrderedDict(
    [("blake3:" + "22" * 32, content_hash(b"b")), ("blake3:" + "11" * 32, content_hash(b"a"))]
)
CELLS: Final = (
    ("the least", cell()),
    ("an unkeyed workflow", cell(id=("com.acme/audit@1", b""))),
    ("a long state", cell(state=Ref(content_hash(bytes(5000)), 5000))),
    ("a declared status", cell(declared="completed")),
    ("keys, the newest last", cell(keys=KEYS)),
    ("everything", cell(declared="failed", keys=KEYS, version=3, is_kept=True)),
)


def make() -> dict[str, Any]:
    return {
        "$comment": "spec/state.md, SN-2 to SN-21. Bytes are lower-case hex.",
        "entries": [_entry(name, each) for name, each in CELLS],
        "chunk": _chunk(),
        "snapshot": _snapshot(),
    }


def _entry(name: str, each: Cell) -> dict[str, Any]:
    assert each.state is not None
    keys = pack_keys(each.keys)
    return {
        "name": name,
        "key": each.id[1].hex(),
        "state": None if isinstance(each.state, Ref) else each.state.hex(),
        "last_active_ns": each.last_active_ns,
        "last_record": each.last_seq,
        "workflow_hash": each.workflow_hash.hex(),
        "module_hash": each.module_hash.hex(),
        "status": each.declared,
        "version": each.version,
        "kept": each.is_kept,
        "keys": [[key, params.hex()] for key, params in each.keys.items()],
        "keys_bytes": None if keys is None else keys.hex(),
        "entry": entry_of(each).data.hex(),
    }


def _chunk() -> dict[str, Any]:
    window = Submissions()
    blobs: dict[Hash, bytes] = {}
    rows = [(4095, "a"), (4096, "shop-1"), (4100, "é"), (8192, "b")]
    for seq, name in rows:
        event = Submission(seq, content_hash(name.encode()), NS + seq)
        window.remember(name, event, oldest_ns=0, count_max=100)
    chunks = window.chunks(_putting(blobs))
    return {
        "events": [[seq, name, content_hash(name.encode()).hex(), NS + seq] for seq, name in rows],
        "chunks": [
            {"number": each.number, "count": each.count, "bytes": blobs[each.hash].hex()}
            for each in chunks
        ],
    }


def _putting(blobs: dict[Hash, bytes]) -> Any:
    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    return put


def genesis_frame() -> Frame:
    """The first frame of ``journal.json``."""
    vectors = json.loads(JOURNAL.read_text())
    return read_frame(bytes.fromhex(vectors["frames"][0]["bytes"]))


def _snapshot() -> dict[str, Any]:
    """Of a world that has only its genesis, and the record that says so."""
    frame = genesis_frame()
    state = State(tip=Tip(world=frame.header.world))
    fold_frame(state, frame, lambda _: b"")
    blobs: dict[Hash, bytes] = {}
    taken = take(state, _putting(blobs), format=1)
    record = Snapshot(
        seq=2, stamp=Stamp(NS, bytes(range(64))), at=taken.at, frame=taken.frame,
        document=Ref(taken.document, taken.size),
    )  # fmt: skip
    return {
        "document": blobs[taken.document].hex(),
        "root": taken.document.hex(),
        "record": to_bytes(record).hex(),
    }


def text() -> str:
    return json.dumps(make(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
