"""Indexes, entries, chunks and snapshots: the second kernel writes and refuses them as aos.core."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.snapshot.load import load
from aos.core.snapshot.shape import ITEMS
from aos.core.snapshot.take import take
from aos.core.state.entry import entry_of, pack_keys
from aos.errors import Damage
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.index_vectors import crowd
from tests.core.journal.test_records import JUNK, altered, places
from tests.core.snapshot.test_snapshot import (
    MORE,
    Blobs,
    fields_of,
    forged,
    pages,
    quick_manifests,
    reader,
    snapped,
)
from tests.core.state.test_cell_index import CROWD, DAMAGED, STRAYS, naive_leaf
from tests.core.state.test_cells import bad_entries
from tests.core.state_vectors import CELLS
from tests.fastcore.owned import made_core, on_owner
from tests.fastcore.paired_kernel import PairedKernel, open_paired
from tests.fastcore.questions import Words
from tests.fastcore.state_questions import Agree, agreeing
from tests.tools import long_form

STEP: Final = 3 if long_form() else 40
"""Of so many forgeries one is tried."""


@pytest.fixture(scope="module")
def agree() -> Agree:
    return agreeing(made_core())


# Entries, keys and chunks


@pytest.mark.parametrize(("name", "cell"), CELLS)
def test_an_entry_is_read_and_written(agree: Agree, name: str, cell: Any) -> None:
    data = entry_of(cell).data
    answer = agree("entry", data, pack_keys(cell.keys))
    assert isinstance(answer, list), name
    assert answer[1] == data


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in bad_entries()])
def test_an_entry_that_none_writes_is_damage_in_the_same_words(agree: Agree, value: Value) -> None:
    assert isinstance(agree("entry", encode(value), None), Words)


def test_an_entry_with_an_altered_byte_is_read_as_the_reference_does(agree: Agree) -> None:
    for _, cell in CELLS:
        data = entry_of(cell).data
        for at in range(len(data)):
            for bit in (1, 32, 128):
                changed = bytearray(data)
                changed[at] ^= bit
                agree("entry", bytes(changed), pack_keys(cell.keys))
            agree("entry", data[:at], None)


@pytest.mark.parametrize(
    "value",
    [
        [], [["a", bytes(32)]], [["b", bytes(32)], ["a", bytes(32)]], None, {}, [None], [["a"]],
        [["a", bytes(31)]], [["a", bytes(32)], ["a", bytes(32)]], [[b"a", bytes(32)]],
        [["a", bytes(32), 1]],
    ],
)  # fmt: skip
def test_keys_are_read_and_written(agree: Agree, value: Value) -> None:
    agree("keys", encode(value))
    agree("keys", encode(value)[:-1])


@pytest.mark.parametrize(
    "rows",
    [
        [], None, [[20, "a", bytes(32), 5]], [[20, "a", bytes(32), 5], [29, "é", bytes(32), 0]],
        [[19, "a", bytes(32), 5]], [[30, "a", bytes(32), 5]], [[21, "a", bytes(32), -1]],
        [[True, "a", bytes(32), 5]], [[20, "a", bytes(31), 5]], [[20, b"a", bytes(32), 5]],
        [[20, "a", bytes(32)]], [[20, "a", bytes(32), 5], [20, "b", bytes(32), 5]],
        [[20, "a", bytes(32), True]],
    ],
)  # fmt: skip
def test_a_chunk_is_read_and_written(agree: Agree, rows: Any) -> None:
    for number in (2, 0):
        for count in (0, 1, 2):
            agree("chunk", number, count, 10, encode(rows))


def test_the_first_chunk_has_no_record_0(agree: Agree) -> None:
    assert isinstance(agree("chunk", 0, 1, 10, encode([[0, "a", bytes(32), 5]])), Words)
    assert agree("chunk", 0, 1, 10, encode([[1, "a", bytes(32), 5]]))


# Indexes

KEYS: Final = [content_hash(b"key %d" % n) for n in range(400)] + crowd(80, "5a" * 31)


class Kept:
    """An index that both implementations changed alike, with all its nodes."""

    def __init__(self, agree: Agree) -> None:
        self._agree = agree
        self.nodes: dict[Hash, bytes] = {}
        self.root: Hash | None = None
        self.count = 0

    def change(self, changes: Mapping[Hash, bytes | None]) -> None:
        rows = [[key, entry] for key, entry in changes.items()]
        answer = self._agree("updated", *self._whole(), rows)
        assert isinstance(answer, list)
        root, self.count, put = cast("tuple[bytes | None, int, list[bytes]]", answer)
        self.root = None if root is None else Hash(root)
        self.nodes.update({content_hash(node): node for node in put})

    def read(self, key: Hash) -> None:
        self._agree("get", *self._whole(), key)
        self._agree("items", *self._whole(), key)
        self._agree("leaves", *self._whole(), self.root)
        proof = self._agree("proof", *self._whole(), key)
        assert isinstance(proof, list)
        self._agree("proved", self.root, key, proof)
        for other in (proof[:-1], [*proof, b"\x80"], [b"", *proof[1:]]):
            self._agree("proved", self.root, key, other)

    def _whole(self) -> tuple[list[bytes], Hash | None, int]:
        return [*self.nodes.values()], self.root, self.count


entries = st.one_of(st.none(), st.binary(max_size=3))
changes = st.dictionaries(st.sampled_from(KEYS), entries, max_size=8)
spans = st.tuples(st.integers(0, 480), st.integers(0, 120), entries)


@given(st.lists(st.one_of(changes, spans), max_size=6), st.sampled_from(KEYS))
def test_an_index_has_the_same_nodes(agree: Agree, done: list[Any], key: Hash) -> None:
    index = Kept(agree)
    for change in done:
        if isinstance(change, tuple):
            start, count, entry = change
            index.change(dict.fromkeys(KEYS[start : start + count], entry))
        else:
            index.change(change)
        index.read(key)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_node_that_none_writes_is_damage_in_the_same_words(agree: Agree, name: str) -> None:
    data, count, _, _ = DAMAGED[name]
    key = CROWD[0][0]
    if count <= 64:
        agree("leaf", data, count, key, 1)
        agree("entry in", data, count, key)
    agree("interior", data)
    agree("leaf count", data)
    for question, last in (("get", key), ("items", None), ("leaves", None), ("proof", key)):
        agree(question, [data], content_hash(data), count, last)
    agree("updated", [data], content_hash(data), count, [[key, b"new"]])
    agree("proved", content_hash(data), key, [data])


@pytest.mark.parametrize("name", STRAYS)
def test_a_key_hash_outside_of_its_subtree_is_damage(agree: Agree, name: str) -> None:
    nibble, stray = STRAYS[name]
    for digits in (0, 1, 2, 3):
        key = Hash(bytes((nibble << 4,)) * 32)
        agree("leaf", stray, 5, key, digits)


def test_every_altered_byte_of_a_node_is_read_as_the_reference_does(agree: Agree) -> None:
    leaf = naive_leaf(CROWD[:3])
    index = Kept(agree)
    index.change(dict.fromkeys(KEYS[:70], b"e"))
    assert index.root is not None
    interior = index.nodes[index.root]
    for at in range(len(leaf)):
        changed = leaf[:at] + bytes([leaf[at] ^ 0x41]) + leaf[at + 1 :]
        agree("leaf", changed, 3, CROWD[0][0], 1)
        agree("entry in", changed, 3, CROWD[1][0])
        agree("leaf", leaf[:at], 3, CROWD[0][0], 1)
    for at in range(len(interior)):
        agree("interior", interior[:at] + bytes([interior[at] ^ 1]) + interior[at + 1 :])
        agree("interior", interior[:at])


@pytest.mark.parametrize(("root", "count"), [(None, 1), (Hash(bytes(32)), 0)])
def test_a_root_goes_with_entries(agree: Agree, root: Hash | None, count: int) -> None:
    assert isinstance(agree("items", [], root, count, None), Words)


# Snapshots

SOME: Final = (*JUNK, *MORE)


def forgeries(part: Value) -> Iterator[bytes]:
    """The part with junk in each of its places in turn, and without each of its entries."""
    for number, path in enumerate(places(part)):
        for junk in SOME[number % STEP :: STEP]:
            yield cbor2.dumps(altered(part, path, junk), canonical=True)


def test_a_crafted_document_is_damage_in_the_same_words(agree: Agree) -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    fields: Any = {"format": 1, **fields_of(document, blobs)}
    for name in fields:
        agree("document", encode({key: fields[key] for key in fields if key != name}))
    others: tuple[dict[str | int, Value], ...] = (
        {"x" * 60: 1}, {5: 1}, {"window_ns": fields["clock_ns"]}, {"proposed": 0},
        {"seq": 2**63 - 1}, {"seq": 2**63}, {"seq": 2**64 - 1}, {"log": [2**63, [bytes(32)]]},
        {"submissions": [[1, bytes(32), 2**64 - 1], [2, bytes(32), 2]]},
    )  # fmt: skip
    for more in others:
        agree("document", encode({**fields, **more}))
    for number in (0, 2, -1, None, True, "1"):
        agree("document", encode({**fields, "format": number}))
    for data in (b"", b"\x80", b"\xf6", b"\xa0", b"\x9f", blobs[document][:-1]):
        agree("document", data)
    for data in forgeries(fields):
        agree("document", data)


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_of_open_work_has_one_shape(agree: Agree, name: str) -> None:
    _, blobs = snapped()
    items = [
        item for page, hash in pages() if page == name for item in cbor2.loads(blobs[hash])
    ] or [[bytes(32), "held", 1, 5, 6, "code", None]]
    for item in items[:4]:
        agree("item", name, item)
        for data in forgeries(item):
            agree("item", name, cbor2.loads(data))


def loaded(document: Hash, blobs: Blobs) -> Hash | str:
    """The snapshot of the state that the reference loads, or the words of its refusal."""
    try:
        return take(load(document, reader(blobs)), content_hash, format=1).document
    except Damage as problem:
        return str(problem)


def loaded_by_core(document: Hash, blobs: Blobs) -> Hash | str:
    core = made_core(reader(blobs))

    def taken() -> Hash | str:
        try:
            core.load(document)
            return content_hash(core.take(content_hash, 1).document)
        except Damage as problem:
            return str(problem)

    return on_owner(taken)


def test_a_snapshot_is_loaded_and_taken_again() -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    assert loaded_by_core(document, blobs) == document == loaded(document, blobs)


@pytest.mark.long
@pytest.mark.parametrize("page", [pytest.param(page, id=name) for name, page in pages()])
def test_a_crafted_page_is_loaded_or_refused_alike(page: Hash) -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    with quick_manifests():
        for data in forgeries(cbor2.loads(blobs[page])):
            forgery = forged(document, blobs, page, data)
            assert loaded_by_core(*forgery) == loaded(*forgery)


def parts_of(document: Hash, blobs: Blobs) -> list[Hash]:
    """The document, and the blobs that it names: pages, chunks and roots of indexes."""
    return [document, *sorted(hash for hash in blobs if blobs[document].count(hash))]


@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3),
    st.booleans(),
)
def test_a_snapshot_with_damaged_bytes_is_read_or_refused_alike(
    number: int, changes: list[tuple[float, int]], is_cut: bool
) -> None:
    """All hashes above the damaged part are made again; then every read is compared."""
    document, blobs = snapped()[0].document, snapped()[1]
    parts = parts_of(document, blobs)
    part = parts[number % len(parts)]
    data = bytearray(blobs[part])
    for at, byte in changes:
        data[int(at * len(data))] = byte
    if is_cut:
        del data[number % len(data) :]
    forged_document, forged_blobs = forged(document, blobs, part, bytes(data))

    with quick_manifests(), contextlib.suppress(Damage):
        kernel = open_paired(snapshot=forged_document, read=reader(forged_blobs))
        assert isinstance(kernel, PairedKernel)
        kernel.compare_all()


def test_a_snapshot_has_many_parts() -> None:
    assert len(parts_of(snapped()[0].document, snapped()[1])) > 5
