"""Questions about indexes, entries, chunks and snapshots to the core in Rust, with the answers of
the reference. Both answer with a value, or with the words of Damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aos.core.snapshot.load import _Loader
from aos.core.snapshot.shape import check_item
from aos.core.state.cell_index import CellIndex, proved
from aos.core.state.entry import Entry, entry_of, pack_keys, read_keys
from aos.core.state.index_node import (
    entry_in,
    interior_bytes,
    leaf_bytes,
    leaf_count,
    read_interior,
    read_leaf,
)
from aos.core.state.submissions import Chunk, _chunk, _read_chunk
from aos.errors import Damage
from aos.fastcore.buffer import ProbeRefused
from aos.fastcore.fold_core import FoldCore
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text
from tests.fastcore.owned import on_owner
from tests.fastcore.questions import Answer, Words

QUESTION: Final = 111
"""The number of the probe (kernel/rust-core/src/probes.rs)."""


Agree: TypeAlias = Callable[..., Answer]
"""Puts a question to both, by its name and arguments. Returns their answer; fails if there are
two."""


def agreeing(core: FoldCore) -> Agree:
    """Compare ``core`` with the reference."""

    def asked(question: bytes) -> Answer:
        try:
            return decode_record(on_owner(lambda: core._core.call("probe", QUESTION, question)))
        except ProbeRefused as problem:
            return Words(problem)

    def agree(name: str, *arguments: Any) -> Answer:
        try:
            reference: Answer = ANSWERS[name](*arguments)
        except Damage as problem:
            reference = Words(problem)
        answer = asked(encode([name, *arguments]))
        assert type(answer) is type(reference)
        assert answer == reference
        return reference

    return agree


def _reader(blobs: Sequence[bytes]) -> Callable[[Hash], bytes]:
    by_hash = {content_hash(data): data for data in blobs}

    def read(hash: Hash) -> bytes:
        if hash not in by_hash:
            raise Damage(f"blob {hash_text(hash)} is missing")
        return by_hash[hash]

    return read


def _index(nodes: Sequence[bytes], root: Hash | None, count: int) -> CellIndex:
    return CellIndex(root, count, _reader(nodes))


def _entry(data: bytes, keys: bytes | None) -> Value:
    entry = Entry(data)
    references: list[Value] = list(entry.references())
    cell = entry.to_cell("a", _reader([]), keys=keys)
    return [references, entry_of(cell).data]


def _rewritten_chunk(number: int, count: int, size: int, data: bytes) -> Value:
    rows = tuple(_read_chunk(data, Chunk(number, Hash(bytes(32)), count), size))
    written: list[bytes] = []

    def put(data: bytes) -> Hash:
        written.append(data)
        return content_hash(data)

    _chunk(number, rows, put)
    return written[0]


def _leaf(data: bytes, count: int, key: Hash, digits: int) -> Value:
    return leaf_bytes(read_leaf(data, count, key.hex()[:digits], at=content_hash(data)))


def _interior(data: bytes) -> Value:
    interior = read_interior(data, at=content_hash(data))
    return [interior.size, interior_bytes(interior)]


def _items(nodes: Sequence[bytes], root: Hash | None, count: int, after: Hash | None) -> Value:
    return [[key, entry] for key, entry in _index(nodes, root, count).items(after)]


def _leaves(nodes: Sequence[bytes], root: Hash | None, count: int, skipped: Hash | None) -> Value:
    leaves = _index(nodes, root, count).leaves(lambda node: node == skipped)
    return [[hash, list(entries)] for hash, entries in leaves]


def _updated(nodes: Sequence[bytes], root: Hash | None, count: int, changes: Any) -> Value:
    put: list[Value] = []

    def keep(data: bytes) -> Hash:
        put.append(data)
        return content_hash(data)

    index = _index(nodes, root, count).updated(dict(changes), keep)
    return [index.root, index.count, put]


def _document(data: bytes) -> Value:
    _Loader(content_hash(data), lambda _: data)
    return None


ANSWERS: Final[Mapping[str, Callable[..., Value]]] = {
    "entry": _entry,
    "keys": lambda data: pack_keys(read_keys(data)),
    "chunk": _rewritten_chunk,
    "leaf": _leaf,
    "leaf count": leaf_count,
    "entry in": lambda data, count, key: entry_in(data, count, key, at=content_hash(data)),
    "interior": _interior,
    "get": lambda nodes, root, count, key: _index(nodes, root, count).get(key),
    "items": _items,
    "leaves": _leaves,
    "proof": lambda nodes, root, count, key: list(_index(nodes, root, count).prove(key)),
    "proved": proved,
    "updated": _updated,
    "document": _document,
    "item": check_item,
}
