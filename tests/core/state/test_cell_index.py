"""The cell index against a plain dict and a second implementation of its nodes (CI-1 and after)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import cbor2
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.state.cell_index import INTERIORS_KEPT_MAX, CellIndex, proved
from aos.core.state.index_node import (
    ENTRY_BYTES_MAX,
    interior_bytes,
    leaf_bytes,
    read_interior,
    read_leaf,
)
from aos.errors import Damage
from aos.values.digests import Hash, content_hash
from tests.core.index_vectors import PATH, crowd, keys, text
from tests.run_seed import examples

ABSENT = Hash(b"\xee" * 32)


class Blobs:
    """Where nodes are: all of them, and those that were put or read since they were last asked."""

    def __init__(self) -> None:
        self.data: dict[Hash, bytes] = {}
        self.puts: list[Hash] = []
        self.reads: list[Hash] = []

    def read(self, name: Hash) -> bytes:
        self.reads.append(name)
        return self.data[name]

    def put(self, data: bytes) -> Hash:
        name = content_hash(data)
        for child in naive_children(data):
            assert child in self.data, "a node was put before its child"
        self.puts.append(name)
        self.data[name] = data
        return name

    def index(self, entries: dict[Hash, bytes]) -> CellIndex:
        empty = CellIndex(None, 0, self.read)
        return empty.updated(entries, self.put)

    def taken(self) -> list[Hash]:
        puts, self.puts, self.reads = self.puts, [], []
        return puts


# The second implementation: the tree as CI-2 to CI-8 describe it, with nothing of the kernel.


def naive_tree(entries: dict[Hash, bytes], depth: int = 0) -> tuple[Hash | None, dict[Hash, bytes]]:
    """The root, and every node by its hash."""
    if not entries:
        return None, {}
    nodes: dict[Hash, bytes] = {}
    if len(entries) <= 64:
        data = naive_leaf(sorted(entries.items()))
    else:
        parts: dict[str, dict[Hash, bytes]] = {}
        for key, entry in entries.items():
            parts.setdefault(key.hex()[depth], {})[key] = entry
        children = []
        for digit, part in sorted(parts.items()):
            root, below = naive_tree(part, depth + 1)
            nodes |= below
            assert root is not None
            children.append((int(digit, 16), root, len(part)))
        data = naive_interior(children)
    name = Hash(blake3(data).digest())
    return name, {**nodes, name: data}


def naive_leaf(items: Sequence[tuple[bytes, bytes]]) -> bytes:
    ends = [sum(len(entry) for _, entry in items[: n + 1]) for n in range(len(items))]
    parts: list[Any] = ["aos/index-leaf/1", b"".join(key for key, _ in items)]
    parts += [b"".join(end.to_bytes(4, "big") for end in ends)]
    return dumped([*parts, b"".join(entry for _, entry in items)])


def naive_interior(children: Sequence[tuple[int, bytes, int]]) -> bytes:
    places = sum(1 << nibble for nibble, _, _ in children).to_bytes(2, "big")
    hashes = b"".join(name for _, name, _ in children)
    counts = b"".join(count.to_bytes(8, "big") for _, _, count in children)
    return dumped(["aos/index-node/1", places, hashes, counts])


def dumped(parts: list[Any]) -> bytes:
    data = cbor2.dumps(parts, canonical=True)
    assert isinstance(data, bytes)
    return data


def naive_children(data: bytes) -> list[Hash]:
    tag, _, hashes, _ = cbor2.loads(data)
    if tag == "aos/index-leaf/1":
        return []
    return [Hash(hashes[at : at + 32]) for at in range(0, len(hashes), 32)]


# Against a plain dict

POOL = [
    *keys(100),
    *crowd(70, "0" * 62),  # the deepest there can be
    *crowd(70, "5a" * 30 + "5"),
    *crowd(66, "f"),
    *crowd(40, "5a"),
]
assert len(set(POOL)) == len(POOL)

SPANS = st.tuples(
    st.integers(0, len(POOL) - 1),
    st.sampled_from((1, 2, 16, 64, 65, 66, 200)),
    st.sampled_from((None, None, b"", b"a", b"b" * 23, b"c" * 24, b"d" * 300)),
)
BATCHES = st.lists(st.lists(SPANS, min_size=1, max_size=4), max_size=8)


def changes_of(spans: Iterable[tuple[int, int, bytes | None]]) -> dict[Hash, bytes | None]:
    return {key: value for start, size, value in spans for key in POOL[start : start + size]}


@settings(max_examples=examples(6))
@given(BATCHES, st.integers(0, len(POOL) - 1), st.randoms(use_true_random=False))
def test_it_is_a_dict_with_a_root(
    batches: list[list[tuple[int, int, bytes | None]]], at: int, random: Random
) -> None:
    """CI-1 to CI-5, CI-12 to CI-15: after each batch, whatever was written and deleted before."""
    blobs = Blobs()
    index, model = blobs.index({}), dict[Hash, bytes]()
    tree: dict[Hash, bytes] = {}
    for spans in batches:
        before, old = tree, index
        changes = changes_of(spans)
        index = index.updated(changes, blobs.put)
        for key, value in changes.items():
            model.pop(key, None)
            if value is not None:
                model[key] = value

        root, tree = naive_tree(model)
        assert (index.root, index.count) == (root, len(model))
        assert sorted(blobs.taken()) == sorted(tree.keys() - before.keys())
        assert list(index.items()) == sorted(model.items())
        assert sorted(index.nodes()) == sorted(tree)
        assert set(index.nodes(before.__contains__)) == tree.keys() - before.keys()
        assert (old == index) == (tree.keys() == before.keys())

    shuffled = list(model.items())
    random.shuffle(shuffled)
    half = dict(shuffled[: len(shuffled) // 2])
    assert blobs.index(half).updated(dict(shuffled), blobs.put) == index
    after = POOL[at]
    assert list(index.items(after)) == sorted(item for item in model.items() if item[0] > after)
    for key in [*POOL, ABSENT]:
        assert index.get(key) == model.get(key)
        proof = index.prove(key)
        assert all(tree[content_hash(node)] == node for node in proof)
        assert proved(index.root, key, proof) == model.get(key)


@pytest.mark.parametrize("shared", [0, 1, 2, 31, 60, 61, 62])
def test_65_entries_split_and_64_merge(shared: int) -> None:
    """CI-3, CI-4: at the same number in both directions, however much their key hashes share."""
    blobs = Blobs()
    crowded = crowd(65, "3" * shared)
    entries = {key: key[-1:] for key in crowded}
    whole = blobs.index(entries)
    assert len(whole.prove(crowded[0])) == shared + 2
    assert sorted(whole.nodes()) == sorted(naive_tree(entries)[1])
    for gone in (crowded[0], crowded[30], crowded[64]):
        rest = {key: entry for key, entry in entries.items() if key != gone}
        blobs.taken()
        merged = whole.updated({gone: None}, blobs.put)

        assert list(merged.nodes()) == [merged.root] == blobs.taken()
        assert merged.root == naive_tree(rest)[0]
        assert merged.updated({gone: gone[-1:]}, blobs.put) == whole


def test_no_65_key_hashes_share_63_nibbles() -> None:
    """CI-4: so the lowest interior node is 62 nibbles down, and a proof has at most 64 nodes."""
    blobs = Blobs()
    deepest = dict.fromkeys(crowd(256, "9" * 62), b"")
    index = blobs.index(deepest)
    assert {len(index.prove(key)) for key in deepest} == {64}
    assert index.updated(dict.fromkeys(deepest), blobs.put) == blobs.index({})


def test_a_change_puts_the_way_to_it_and_no_more() -> None:
    """CI-12."""
    blobs = Blobs()
    entries = dict.fromkeys(keys(100000), b"entry")
    index = blobs.index(entries)
    tree = set(blobs.data)
    assert sorted(index.nodes()) == sorted(blobs.taken())
    key = keys(1)[0]

    other = index.updated({key: b"another"}, blobs.put)

    way = [content_hash(node) for node in other.prove(key)]
    assert blobs.taken() == way[::-1]
    assert list(other.nodes(tree.__contains__)) == way
    assert other.updated({key: b"entry"}, blobs.put) == index
    assert (other.get(key), index.get(key)) == (b"another", b"entry")


def test_an_update_that_changes_nothing_puts_nothing() -> None:
    """CI-12: and gives the same index, which two runs of one batch do as well."""
    blobs = Blobs()
    entries = {key: key[:3] for key in keys(500)}
    index = blobs.index(entries)
    first = blobs.taken()
    assert index.updated({}, blobs.put) is index
    assert index.updated({**entries, ABSENT: None}, blobs.put) is index
    assert blobs.taken() == []
    assert blobs.index(dict(reversed(entries.items()))) == index
    assert blobs.taken() == first


def test_a_leaf_that_moves_is_not_written_again() -> None:
    """CI-12: it is the same bytes further down when others make it split off, and back up."""
    blobs = Blobs()
    alone = dict.fromkeys(crowd(3, "a"), b"a")
    index = blobs.index(alone)
    blobs.taken()
    others = dict.fromkeys(crowd(64, "b"), b"b")
    larger = index.updated(others, blobs.put)
    assert index.root not in blobs.taken()
    assert index.root in list(larger.nodes())
    assert larger.updated(dict.fromkeys(others), blobs.put) == index
    assert blobs.taken() == []


def test_a_change_that_fails_leaves_the_index_as_it_was() -> None:
    """CI-11, CI-12."""
    blobs = Blobs()
    entries = dict.fromkeys(keys(500), b"entry")
    index = blobs.index(entries)
    blobs.taken()

    def full(data: bytes) -> Hash:
        if len(blobs.puts) == 3:
            raise OSError("no room")
        return blobs.put(data)

    with pytest.raises(OSError, match="no room"):
        index.updated(dict.fromkeys(entries, b"another"), full)
    assert len(blobs.taken()) == 3
    with pytest.raises(OverflowError, match="at most 1048576 bytes"):
        index.updated({ABSENT: bytes(ENTRY_BYTES_MAX + 1), **dict.fromkeys(entries)}, blobs.put)
    assert blobs.taken() == []
    assert dict(index.items()) == entries
    longest = index.updated({ABSENT: bytes(ENTRY_BYTES_MAX)}, blobs.put)
    assert dict(longest.items()) == {**entries, ABSENT: bytes(ENTRY_BYTES_MAX)}


def test_it_reads_as_it_goes() -> None:
    """CI-15: interior nodes once for all versions of an index, a leaf when it is asked for."""
    blobs = Blobs()
    index = blobs.index(dict.fromkeys(keys(5000), b"entry"))
    blobs.taken()
    first = next(index.items())
    assert len(blobs.reads) == len(index.prove(first[0])) == 3
    blobs.taken()
    assert index.get(first[0]) == b"entry"
    assert len(blobs.reads) == 1
    after = index.updated({key: None for key in keys(5000) if key[0] >> 4 == 15}, blobs.put)
    blobs.taken()
    assert after.get(first[0]) == b"entry"
    assert len(blobs.reads) == 2, "the new root, and the leaf"


def test_a_leaf_is_read_for_its_entries_alone() -> None:
    """CI-13, CI-15."""
    blobs = Blobs()
    index = blobs.index(dict.fromkeys(keys(5000), b"entry"))
    leaves = {name for name in index.nodes() if not naive_children(blobs.data[name])}
    assert leaves.isdisjoint(blobs.reads)
    blobs.taken()
    assert list(index.items(max(keys(5000)))) == []
    assert [name in leaves for name in blobs.reads] == [True], "the one that has the last"


def test_it_keeps_a_bounded_number_of_nodes() -> None:
    """CI-15."""
    blobs = Blobs()
    index = blobs.index({key: b"" for n in range(70) for key in crowd(65, f"{n:02x}" * 31)})
    assert sum(1 for name in index.nodes() if naive_children(blobs.data[name])) > INTERIORS_KEPT_MAX
    assert index._nodes._interior.cache_info().currsize == INTERIORS_KEPT_MAX
    assert index.count == sum(1 for _ in index.items())


@pytest.mark.parametrize(("root", "count"), [(None, 1), (ABSENT, 0), (ABSENT, -1)])
def test_a_root_goes_with_entries(root: Hash | None, count: int) -> None:
    """CI-5."""
    with pytest.raises(Damage, match="a root when there are entries, and only then"):
        CellIndex(root, count, dict[Hash, bytes]().__getitem__)


# Damage

ITEMS = [(key, b"entry %d" % n) for n, key in enumerate(crowd(5, "a"))]
CROWD = [(key, b"e") for key in crowd(65, "a")]
CHILDREN = [(0, ABSENT, 32), (7, ABSENT, 33)]


def leaf_of(keys_: bytes, ends: Iterable[int], entries: bytes) -> bytes:
    packed = b"".join(end.to_bytes(4, "big") for end in ends)
    return dumped(["aos/index-leaf/1", keys_, packed, entries])


TWO = ITEMS[0][0] + ITEMS[1][0]
THREE = TWO + ITEMS[2][0]

# name -> (node, the count that its parent gives, whether ``get`` notices it, what it says)
DAMAGED: dict[str, tuple[bytes, int, bool, str]] = {
    "order": (naive_leaf(ITEMS[::-1]), 5, False, "key hashes in ascending order"),
    "twice": (naive_leaf([ITEMS[0], ITEMS[0]]), 2, False, "each once"),
    "one less": (naive_leaf(ITEMS), 6, True, "a leaf of 6 entries, found a leaf of 5 entries"),
    "one more": (naive_leaf(ITEMS), 4, True, "a leaf of 4 entries, found a leaf of 5 entries"),
    "none": (naive_leaf([]), 1, True, "found bytes that begin as no node"),
    "large leaf": (naive_leaf(CROWD), 65, True, "an interior node, found bytes that begin as no"),
    "leaf for interior": (naive_leaf(CROWD[:64]), 65, True, "interior node, found a leaf of 64"),
    "interior for leaf": (naive_interior(CHILDREN), 64, True, "a leaf of 64 entries, found an int"),
    "no node": (b"\x80", 1, True, "bytes that begin as no node"),
    "nothing": (b"", 65, True, "bytes that begin as no node"),
    "byte behind": (naive_leaf(ITEMS) + b"\0", 5, True, "bytes of entries, and the end"),
    "cut": (naive_leaf(ITEMS)[:-1], 5, True, "bytes of entries, and the end"),
    "cut in the ends": (naive_leaf(ITEMS)[:200], 5, True, "20 bytes of ends"),
    "ends descend": (leaf_of(TWO, (3, 2), b"ab"), 2, True, "ends in ascending order"),
    "ends descend later": (leaf_of(THREE, (2, 1, 2), b"ab"), 3, False, "ends in ascend"),
    "ends are few": (leaf_of(TWO, (2,), b"ab"), 2, True, "8 bytes of ends"),
    "last end": (leaf_of(TWO, (1, 3), b"ab"), 2, True, "3 bytes of entries"),
    "long head": (
        naive_leaf(ITEMS[:1]).replace(b"\x58\x20", b"\x59\0\x20"), 1, True, "a leaf of 1 entries",
    ),
    "long entry": (
        naive_leaf([(ITEMS[0][0], bytes(ENTRY_BYTES_MAX + 1))]), 1, False, "at most 1048576 bytes",
    ),
    "other total": (naive_interior(CHILDREN), 66, True, "66 entries, at most 62 nibbles down"),
    "small interior": (
        naive_interior([(0, ABSENT, 63), (7, ABSENT, 1)]), 65, True, "more than 64 entries in all",
    ),
    "empty child": (
        naive_interior([(0, ABSENT, 65), (7, ABSENT, 0)]), 65, True, "children that have entries",
    ),
    "no children": (naive_interior([]), 65, True, "more than 64 entries in all"),
    "map": (
        dumped(["aos/index-node/1", b"\0\x01", ABSENT * 2, bytes(7) + b"\x42" + bytes(8)]),
        66, True, "hashes and counts of 1 children",
    ),
    "counts": (
        dumped(["aos/index-node/1", b"\0\x81", ABSENT * 2, bytes(7) + b"\x42"]),
        66, True, "hashes and counts of 2 children",
    ),
    "map of 3 bytes": (
        dumped(["aos/index-node/1", b"\0\0\x81", ABSENT * 2, bytes(16)]),
        66, True, "an interior node, found bytes that begin",
    ),
}  # fmt: skip


def uses(index: CellIndex, key: Hash = ITEMS[0][0]) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: index.get(key),
        "items": lambda: list(index.items()),
        "prove": lambda: index.prove(key),
        "updated": lambda: index.updated({key: b"new"}, content_hash),
    }


@pytest.mark.parametrize("name", DAMAGED)
def test_a_node_that_is_not_what_would_be_written_is_damage(name: str) -> None:
    """CI-9, CI-10."""
    data, count, get_notices, says = DAMAGED[name]
    root = content_hash(data)
    index = CellIndex(root, count, {root: data}.__getitem__)
    for use, call in uses(index).items():
        if use == "get" and not get_notices:
            call()
            continue
        with pytest.raises(Damage, match=says) as caught:
            call()
        assert f"index node blake3:{root.hex()}: damaged: expected " in str(caught.value)

    # And in a proof, where the parent is right.
    parent = naive_interior([(0, ABSENT, 65), (10, root, count)])
    with pytest.raises(Damage, match=says):
        proved(content_hash(parent), ITEMS[0][0], (parent, data))


STRAYS = {
    "all": (11, naive_leaf(ITEMS)),
    "the last": (10, naive_leaf([*ITEMS[:-1], (Hash(b"\xb0" * 32), b"")])),
    "the first": (10, naive_leaf([(Hash(bytes(32)), b""), *ITEMS[1:]])),
}


@pytest.mark.parametrize("which", STRAYS)
def test_a_key_hash_outside_its_subtree_is_damage(which: str) -> None:
    """CI-9."""
    nibble, stray = STRAYS[which]
    blobs = Blobs()
    other = blobs.put(naive_leaf([(key, b"") for key in crowd(64, "c")]))
    parent = naive_interior([(nibble, blobs.put(stray), 5), (12, other, 64)])
    index = CellIndex(blobs.put(parent), 69, blobs.read)
    key = Hash(bytes((nibble << 4,)) * 32)
    calls = uses(index, key)
    calls["merge"] = lambda: index.updated(dict.fromkeys(crowd(30, "c")), blobs.put)
    calls["proved"] = lambda: proved(index.root, key, (parent, stray))
    assert calls.pop("get")() is None
    for call in calls.values():
        with pytest.raises(Damage, match=f"key hashes that begin with {nibble:x}, found"):
            call()


def test_an_interior_node_that_is_too_deep_is_damage() -> None:
    """CI-4, CI-9: a chain that follows every nibble of a key hash ends there."""
    blobs = Blobs()
    key = Hash(b"\xab" * 32)
    blobs.data[ABSENT] = naive_leaf(CROWD)
    name, chain = ABSENT, list[bytes]()
    for nibble in reversed(key.hex()):
        chain.insert(0, naive_interior([(int(nibble, 16), name, 65)]))
        name = blobs.put(chain[0])
    index = CellIndex(name, 65, blobs.read)
    calls = uses(index, key)
    calls["nodes"] = lambda: list(index.nodes())
    calls["proved"] = lambda: proved(name, key, chain)
    for call in calls.values():
        with pytest.raises(Damage, match="65 entries, at most 62 nibbles down, found 65, 63 nibb"):
            call()


def test_a_key_hash_is_found_only_where_there_is_one() -> None:
    """CI-7: the same 32 bytes across two key hashes, and in an entry, are none."""
    blobs = Blobs()
    across = Hash(b"\x01" * 16 + b"\x02" * 16)
    entries = {
        Hash(b"\0" * 16 + b"\x01" * 16): bytes(across),
        Hash(b"\x02" * 32): bytes(across),
    }
    index = blobs.index(entries)
    (leaf,) = index.prove(across)
    assert leaf.count(across) == 3
    assert index.get(across) is None
    assert index.updated({across: b"now"}, blobs.put).get(across) == b"now"


@pytest.mark.parametrize("size", [3, 70])
def test_a_readable_node_is_the_one_that_would_be_written(size: int) -> None:
    """CI-9: any byte of a node changed, to any of some values, or one put in or left out."""
    entries = {key: key[:2] for key in crowd(size, "a")}
    root, tree = naive_tree(entries)
    data = tree[root or ABSENT]
    altered = [data[:at] + bytes((byte,)) + data[at + 1 :] for at, byte in places(data)]
    altered += [data[:at] + data[at + 1 :] for at in range(len(data))]
    altered += [data[:at] + b"\0" + data[at:] for at in range(len(data) + 1)]
    read = 0
    for other in altered:
        try:
            if size == 3:
                again = leaf_bytes(read_leaf(other, 3, "a", at=ABSENT))
            else:
                again = interior_bytes(read_interior(other, at=ABSENT))
        except Damage:
            continue
        assert again == other
        read += 1
    assert 0 < read < len(altered)


def places(data: bytes) -> list[tuple[int, int]]:
    return [
        (at, byte ^ change)
        for at, byte in enumerate(data)
        for change in (0x01, 0x02, 0x10, 0x20, 0x80, 0xFF)
    ]


# Proofs


def test_a_proof_that_is_altered_in_any_byte_is_refused() -> None:
    """CI-14: for an entry that is there and one that is not, in a leaf and where no child is."""
    blobs = Blobs()
    index = blobs.index({key: key[:4] for key in [*keys(300), *crowd(70, "a" * 3)]})
    absent = [*crowd(1, "ff" * 3), Hash(bytes.fromhex("aaaf" * 16))]
    assert len(index.prove(absent[1])) == 4
    assert not naive_children(index.prove(absent[0])[-1])
    assert naive_children(index.prove(absent[1])[-1])
    for key in [*keys(1), *absent]:
        proof = index.prove(key)
        assert proved(index.root, key, list(proof)) == index.get(key)
        for nth, data in enumerate(proof):
            for at in range(len(data)):
                other = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
                with pytest.raises(Damage, match=f"as node {nth}, found blake3:"):
                    proved(index.root, key, [*proof[:nth], other, *proof[nth + 1 :]])


def test_a_proof_that_is_longer_shorter_or_of_something_else_is_refused() -> None:
    """CI-14."""
    blobs = Blobs()
    index = blobs.index({key: key[:4] for key in keys(300)})
    key = keys(1)[0]
    proof = index.prove(key)
    assert index.root is not None
    wrong: list[tuple[Hash | None, Hash, Sequence[bytes], str]] = [
        (index.root, key, (), "expected the nodes down to the key hash, found 0, and no more"),
        (index.root, key, proof[:-1], f"found {len(proof) - 1}, and no more"),
        (index.root, key, [*proof, proof[-1]], "at a leaf, found"),
        (index.root, key, proof[1:], f"blake3:{index.root.hex()} as node 0"),
        (index.root, key, proof[::-1], f"blake3:{index.root.hex()} as node 0"),
        (index.root, Hash(bytes((key[0] ^ 0x10, *key[1:]))), proof, "as node 1"),
        (ABSENT, key, proof, f"blake3:{ABSENT.hex()} as node 0"),
        (None, key, proof, "no nodes, for an index without entries"),
        (content_hash(b"no node"), key, [b"no node"], "bytes that begin as no node"),
    ]
    for root, asked, nodes, says in wrong:
        with pytest.raises(Damage, match=says):
            proved(root, asked, nodes)
    blobs = Blobs()
    crowded = blobs.index(dict.fromkeys(crowd(65, "a"), b""))
    ended = crowded.prove(ABSENT)
    assert (len(ended), proved(crowded.root, ABSENT, ended)) == (1, None)
    with pytest.raises(Damage, match="its end after 1 nodes, for there is no child, found 2"):
        proved(crowded.root, ABSENT, [*ended, proof[-1]])
    assert proved(None, key, ()) is None


# Vectors

VECTORS: list[dict[str, Any]] = json.loads(PATH.read_text())


def test_the_file_is_what_the_kernel_writes() -> None:
    """After a change that is meant: python -m tests.core.index_vectors."""
    assert PATH.read_text() == text()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors(vector: dict[str, Any]) -> None:
    """CI-20: by the second implementation."""
    entries = {Hash(bytes.fromhex(key)): bytes.fromhex(entry) for key, entry in vector["entries"]}
    assert list(entries) == sorted(entries)
    root, tree = naive_tree(entries)
    assert (root and root.hex()) == vector["root"]
    assert {name.hex(): data.hex() for name, data in tree.items()} == vector["nodes"]
    for proof in vector["proofs"]:
        key = Hash(bytes.fromhex(proof["key"]))
        nodes = [tree[Hash(bytes.fromhex(name))] for name in proof["nodes"]]
        expected = None if proof["entry"] is None else bytes.fromhex(proof["entry"])
        assert proved(root, key, nodes) == expected == entries.get(key)
