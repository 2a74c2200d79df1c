"""Small cell indexes, every node of them written down.

    python -m tests.core.index_vectors      rewrites spec/vectors/index.json

The file is a promise. ``test_cell_index.py`` computes it a second time without the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from aos.core.state.cell_index import CellIndex, proved
from aos.values.digests import Hash, content_hash

PATH: Final = Path(__file__).parents[2] / "spec" / "vectors" / "index.json"

ABSENT: Final = content_hash(b"absent")


def keys(count: int) -> list[Hash]:
    return [content_hash(b"key %d" % n) for n in range(count)]


def crowd(count: int, prefix: str) -> list[Hash]:
    """Key hashes that share the hex digits ``prefix``, and count up in the two behind them."""
    return [Hash(bytes.fromhex(f"{prefix}{n:02x}".ljust(64, "0"))) for n in range(count)]


def make() -> list[dict[str, Any]]:
    return [
        vector("no entries", {}),
        vector("one entry", {keys(1)[0]: b"entry"}),
        vector("an entry of no bytes", dict(zip(keys(3), (b"one", b"", b"three"), strict=True))),
        vector("entries that need a long head", {key: bytes(200) for key in keys(2)}),
        vector("64 entries are a leaf", {key: key[:2] for key in keys(64)}),
        vector("65 entries are not", {key: key[:2] for key in keys(65)}),
        vector(
            "65 entries whose key hashes share 62 nibbles",
            {key: key[-1:] for key in crowd(65, "5a" * 31)},
        ),
    ]


def vector(name: str, entries: dict[Hash, bytes]) -> dict[str, Any]:
    nodes: dict[Hash, bytes] = {}

    def put(data: bytes) -> Hash:
        nodes[content_hash(data)] = data
        return content_hash(data)

    index = CellIndex(None, 0, nodes.__getitem__).updated(entries, put)
    asked = [*sorted(entries)[:1], *sorted(entries)[-1:], ABSENT]
    return {
        "name": name,
        "entries": [[key.hex(), entry.hex()] for key, entry in index.items()],
        "root": index.root and index.root.hex(),
        "nodes": {node.hex(): nodes[node].hex() for node in index.nodes()},
        "proofs": [written_proof(index, key) for key in dict.fromkeys(asked)],
    }


def written_proof(index: CellIndex, key: Hash) -> dict[str, Any]:
    proof = index.prove(key)
    entry = proved(index.root, key, proof)
    return {
        "key": key.hex(),
        "nodes": [content_hash(data).hex() for data in proof],
        "entry": None if entry is None else entry.hex(),
    }


def text() -> str:
    return json.dumps(make(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
