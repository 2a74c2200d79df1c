"""The bytes of one node of a cell index, written and read back (spec/state.md, CI-6 to CI-10).

    leaf      ["aos/index-leaf/1", keys, ends, entries]
                  keys       the key hashes, ascending, 32 bytes each
                  ends       the offset in ``entries`` where each entry ends, 4 bytes each
                  entries    the concatenated entries
    interior  ["aos/index-node/1", map, hashes, counts]
                  map        2 bytes: bit n (of value 1 << n) is set when nibble n has a child
                  hashes     the hashes of the children, by nibble, 32 bytes each
                  counts     the number of entries of each child, 8 bytes each

Integers are big-endian. The layout depends only on the number of entries or children, so a reader
compares the bytes with the layout: any other bytes are Damage. Only ``entry_in`` checks no more
than it needs.
"""

from __future__ import annotations

from itertools import accumulate
from operator import le, lt
from struct import Struct
from typing import Final, NamedTuple, NoReturn

from aos.errors import Damage, sentence
from aos.values.cbor import encode_text, head
from aos.values.digests import HASH_BYTES, Hash, hash_text

LEAF_ENTRIES_MAX: Final = 64
FANOUT: Final = 16
INTERIOR_DEPTH_MAX: Final = 62
"""Nibbles above the lowest interior node: only 16 key hashes can share 63 of their 64 nibbles."""

ENTRY_BYTES_MAX: Final = 1 << 20
"""Keeps a leaf below 2^27 bytes, and the offsets in ``ends`` far below 2^32."""


class Subtree(NamedTuple):
    """A written part of an index: the hash of its top node, and its number of entries."""

    hash: Hash
    size: int


class Leaf(NamedTuple):
    """The contents of a leaf: key hashes in ascending order, and the entry of each."""

    keys: list[Hash]
    entries: list[bytes]


class Interior(NamedTuple):
    """``children`` has a place for each nibble; ``size`` is the sum of their sizes."""

    size: int
    children: tuple[Subtree | None, ...]


class _LeafLayout:
    """The offsets of the parts of a leaf with ``count`` entries, and the CBOR heads before them."""

    __slots__ = ("ends", "ends_at", "ends_head", "ends_head_at", "keys", "keys_at", "opening")

    def __init__(self, count: int) -> None:
        self.opening = b"\x84" + encode_text("aos/index-leaf/1") + head(0x40, HASH_BYTES * count)
        self.keys_at = len(self.opening)
        self.keys = Struct("32s" * count)
        self.ends_head = head(0x40, 4 * count)
        self.ends_head_at = self.keys_at + self.keys.size
        self.ends_at = self.ends_head_at + len(self.ends_head)
        self.ends = Struct(f">{count}I")

    def entries_at(self, data: bytes, *, at: Hash) -> int:
        """Check all heads and the length; return the offset of the entries."""
        if not data.startswith(self.opening):
            _refuse(f"a leaf of {self.keys.size // HASH_BYTES} entries", _described(data), at=at)
        head_at = self.ends_at + self.ends.size
        if not data.startswith(self.ends_head, self.ends_head_at) or head_at > len(data):
            _refuse(f"{self.ends.size} bytes of ends", "something else", at=at)
        size = _END.unpack_from(data, head_at - _END.size)[0]
        entries_head = head(0x40, size)
        entries_at = head_at + len(entries_head)
        if not data.startswith(entries_head, head_at) or len(data) != entries_at + size:
            _refuse(f"{size} bytes of entries, and the end", "something else", at=at)
        return entries_at


_END: Final = Struct(">I")
_TWO_ENDS: Final = Struct(">II")
_LEAVES: Final = tuple(map(_LeafLayout, range(LEAF_ENTRIES_MAX + 1)))


def leaf_bytes(leaf: Leaf) -> bytes:
    layout = _LEAVES[len(leaf.keys)]
    ends = list(accumulate(map(len, leaf.entries)))
    return b"".join(
        (
            layout.opening,
            *leaf.keys,
            layout.ends_head,
            layout.ends.pack(*ends),
            head(0x40, ends[-1]),
            *leaf.entries,
        )
    )


def leaf_count(data: bytes) -> int | None:
    """The number of entries of a leaf, read from its first bytes; None if it is not a leaf."""
    for count in range(1, LEAF_ENTRIES_MAX + 1):
        if data.startswith(_LEAVES[count].opening):
            return count
    return None


def read_leaf(data: bytes, count: int, prefix: str, *, at: Hash) -> Leaf:
    """A leaf of ``count`` entries whose key hashes begin with the hex digits ``prefix``.

    ``at`` is the hash of the node, for the error.

    Raises:
        Damage: These are not the bytes that ``leaf_bytes`` writes for such a leaf.
    """
    layout = _LEAVES[count]
    base = layout.entries_at(data, at=at)
    keys = layout.keys.unpack_from(data, layout.keys_at)
    if not all(map(lt, keys, keys[1:])):
        _refuse("key hashes in ascending order, each once", "another order", at=at)
    # The keys ascend, so checking the first and the last covers all between.
    for key in (keys[0], keys[-1]):
        if not key.hex().startswith(prefix):
            _refuse(f"key hashes that begin with {prefix}", key.hex(), at=at)
    ends = layout.ends.unpack_from(data, layout.ends_at)
    if not all(map(le, ends, ends[1:])):
        _refuse("ends in ascending order", "another order", at=at)
    entries = [
        data[base + start : base + end] for start, end in zip((0, *ends), ends, strict=False)
    ]
    longest = max(map(len, entries))
    if longest > ENTRY_BYTES_MAX:
        _refuse(f"entries of at most {ENTRY_BYTES_MAX} bytes", f"one of {longest}", at=at)
    return Leaf(list(keys), entries)


def entry_in(data: bytes, count: int, key_hash: Hash, *, at: Hash) -> bytes | None:
    """The entry of ``key_hash`` in a leaf of ``count`` entries. Checks no other entry.

    ``at`` is the hash of the node, for the error.

    Raises:
        Damage: This is no leaf of ``count`` entries, or the ends of the entry are invalid.
    """
    layout = _LEAVES[count]
    base = layout.entries_at(data, at=at)
    keys_at, keys_end = layout.keys_at, layout.ends_head_at
    position = data.find(key_hash, keys_at, keys_end)
    # The same 32 bytes may also occur across two key hashes.
    while position >= 0 and (position - keys_at) % HASH_BYTES:
        position = data.find(key_hash, position + 1, keys_end)
    if position < 0:
        return None
    end_at = layout.ends_at + (position - keys_at) // HASH_BYTES * _END.size
    if end_at == layout.ends_at:
        start, end = 0, _END.unpack_from(data, end_at)[0]
    else:
        start, end = _TWO_ENDS.unpack_from(data, end_at - _END.size)
    if not start <= end <= len(data) - base:
        _refuse("ends in ascending order", "another order", at=at)
    return data[base + start : base + end]


# Interior nodes


class _InteriorLayout:
    """The offsets of the parts of an interior node with ``children`` children."""

    __slots__ = ("counts", "counts_at", "counts_head", "hashes", "hashes_head", "size")

    def __init__(self, children: int) -> None:
        self.hashes = Struct("32s" * children)
        self.hashes_head = head(0x40, self.hashes.size)
        self.counts = Struct(f">{children}Q")
        self.counts_head = head(0x40, self.counts.size)
        counts_head_at = _MAP_END + len(self.hashes_head) + self.hashes.size
        self.counts_at = counts_head_at + len(self.counts_head)
        self.size = self.counts_at + self.counts.size


_MAP_HEAD: Final = b"\x84" + encode_text("aos/index-node/1") + head(0x40, 2)
_MAP_END: Final = len(_MAP_HEAD) + 2
_INTERIORS: Final = tuple(map(_InteriorLayout, range(FANOUT + 1)))


def interior_bytes(interior: Interior) -> bytes:
    present = [child for child in interior.children if child]
    layout = _INTERIORS[len(present)]
    child_bitmap = sum(1 << nibble for nibble, child in enumerate(interior.children) if child)
    return b"".join(
        (
            _MAP_HEAD,
            child_bitmap.to_bytes(2, "big"),
            layout.hashes_head,
            *[child.hash for child in present],
            layout.counts_head,
            layout.counts.pack(*[child.size for child in present]),
        )
    )


def read_interior(data: bytes, *, at: Hash) -> Interior:
    """Read an interior node of any size. ``at`` is its hash, for the error.

    Raises:
        Damage: These are not the bytes that ``interior_bytes`` writes for more than 64 entries.
    """
    if not data.startswith(_MAP_HEAD):
        _refuse("an interior node", _described(data), at=at)
    child_bitmap = int.from_bytes(data[_MAP_END - 2 : _MAP_END], "big")
    layout = _INTERIORS[child_bitmap.bit_count()]
    hashes_at = _MAP_END + len(layout.hashes_head)
    hashes_end = hashes_at + layout.hashes.size
    if (
        len(data) != layout.size
        or not data.startswith(layout.hashes_head, _MAP_END)
        or not data.startswith(layout.counts_head, hashes_end)
    ):
        _refuse(
            f"hashes and counts of {child_bitmap.bit_count()} children", "something else", at=at
        )
    children: list[Subtree | None] = [None] * FANOUT
    counts = layout.counts.unpack_from(data, layout.counts_at)
    written = map(Subtree, layout.hashes.unpack_from(data, hashes_at), counts)
    for nibble in range(FANOUT):
        if child_bitmap >> nibble & 1:
            children[nibble] = next(written)
    if 0 in counts:
        _refuse("children that have entries", "an empty one", at=at)
    size = sum(counts)
    if size <= LEAF_ENTRIES_MAX:
        _refuse(f"more than {LEAF_ENTRIES_MAX} entries in all", str(size), at=at)
    return Interior(size, tuple(children))


def _described(data: bytes) -> str:
    count = leaf_count(data)
    if count:
        return f"a leaf of {count} entries"
    return "an interior node" if data.startswith(_MAP_HEAD) else "bytes that begin as no node"


def _refuse(expected: str, actual: str, *, at: Hash) -> NoReturn:
    node_text = f"index node {hash_text(at)}"
    raise Damage(sentence("damaged", location=node_text, expected=expected, actual=actual))
