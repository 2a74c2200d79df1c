"""The canonical Merkle map of the cells at rest: key hash -> entry (spec/state.md, CI-1 to CI-15).

A subtree holds the entries whose key hashes share their first nibbles. One with at most 64 entries
is a leaf; one with more is an interior node with a child for each next nibble that occurs. So the
shape depends on the entries alone, not on earlier changes, and the root identifies exactly these
entries. Nodes are blobs: a changed index shares with its predecessor every node that is not on the
path to a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NoReturn

from aos.core.state.index_node import (
    ENTRY_BYTES_MAX,
    FANOUT,
    INTERIOR_DEPTH_MAX,
    LEAF_ENTRIES_MAX,
    Interior,
    Leaf,
    Subtree,
    entry_in,
    interior_bytes,
    leaf_bytes,
    leaf_count,
    read_interior,
    read_leaf,
)
from aos.errors import Damage, sentence
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

INTERIORS_KEPT_MAX: Final = 4096
"""Interior nodes that an index and its successors keep decoded, some 3 KB each."""

_HEX: Final = "0123456789abcdef"
_TOP_SHIFT: Final = 8 * HASH_BYTES - 4


class _Nodes:
    """The nodes of an index and of all indexes that were made from it, by hash."""

    __slots__ = ("_interior", "read")

    def __init__(self, read: Callable[[Hash], bytes]) -> None:
        self.read = read
        # Keyed by content, so the cache is valid for every version. Failed reads are not kept.
        self._interior = lru_cache(INTERIORS_KEPT_MAX)(lambda at: read_interior(read(at), at=at))

    def interior(self, subtree: Subtree, depth: int) -> Interior:
        return _checked(self._interior(subtree.hash), subtree, depth)

    def leaf(self, subtree: Subtree, prefix: str) -> Leaf:
        return read_leaf(self.read(subtree.hash), subtree.size, prefix, at=subtree.hash)


@dataclass(frozen=True, slots=True)
class CellIndex:
    """The entries under ``root``, ``count`` of them; no root means none.

    ``read`` returns the bytes of a node by its hash, and must have verified the hash. Two indexes
    are equal if they have the same entries. Every method raises Damage if a node that it reads is
    not canonical, and passes on the exceptions of ``read``.
    """

    root: Hash | None
    count: int
    read: Callable[[Hash], bytes] = field(compare=False, repr=False)
    _nodes: _Nodes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.count < 0 or (self.root is None) != (self.count == 0):
            actual = f"{'a' if self.root else 'no'} root and {self.count} entries"
            expected = "a root when there are entries, and only then"
            raise Damage(sentence("a cell index", expected=expected, actual=actual))
        object.__setattr__(self, "_nodes", _Nodes(self.read))

    def get(self, key_hash: Hash) -> bytes | None:
        """The entry of ``key_hash``, or None. Checks only the part of the leaf that it needs."""
        assert len(key_hash) == HASH_BYTES
        subtree = self._top()
        if subtree is None:
            return None
        bits = int.from_bytes(key_hash, "big")
        depth = 0
        while subtree.size > LEAF_ENTRIES_MAX:
            children = self._nodes.interior(subtree, depth).children
            child = children[bits >> _TOP_SHIFT - 4 * depth & 15]
            if child is None:
                return None
            subtree = child
            depth += 1
        return entry_in(self.read(subtree.hash), subtree.size, key_hash, at=subtree.hash)

    def items(self, after_hash: Hash | None = None) -> Iterator[tuple[Hash, bytes]]:
        """Key hashes greater than ``after_hash``, ascending, with their entries.

        One leaf at a time is in memory.
        """
        beyond = "" if after_hash is None else after_hash.hex()
        for subtree, prefix in self._walk(beyond):
            if subtree.size <= LEAF_ENTRIES_MAX:
                keys, entries = self._nodes.leaf(subtree, prefix)
                start = 0 if after_hash is None else sum(key <= after_hash for key in keys)
                yield from zip(keys[start:], entries[start:], strict=True)

    def nodes(self, skip: Callable[[Hash], bool] = lambda _: False) -> Iterator[Hash]:
        """The hash of every node, once, a node before its children. Reads no leaf.

        A node for which ``skip`` returns true is left out, with everything below it.
        """
        for subtree, _ in self._walk("", skip):
            yield subtree.hash

    def leaves(
        self, skip: Callable[[Hash], bool] = lambda _: False
    ) -> Iterator[tuple[Hash, Sequence[bytes]]]:
        """As ``nodes``, each hash with the node's own entries; only leaves have some."""
        for subtree, prefix in self._walk("", skip):
            is_leaf = subtree.size <= LEAF_ENTRIES_MAX
            yield subtree.hash, self._nodes.leaf(subtree, prefix)[1] if is_leaf else ()

    def _walk(
        self, beyond: str, skip: Callable[[Hash], bool] = lambda _: False
    ) -> Iterator[tuple[Subtree, str]]:
        """Every subtree, with the hex digits that its key hashes share, in the order of the digits.

        Subtrees in which no key hash can be greater than the hex digits ``beyond`` are left out.
        """
        top = self._top()
        ahead = [(top, "")] if top else []
        while ahead:
            subtree, prefix = ahead.pop()
            if prefix < beyond[: len(prefix)] or skip(subtree.hash):
                continue
            yield subtree, prefix
            if subtree.size > LEAF_ENTRIES_MAX:
                children = self._nodes.interior(subtree, len(prefix)).children
                ahead += [
                    (child, prefix + _HEX[nibble])
                    for nibble, child in reversed(tuple(enumerate(children)))
                    if child
                ]

    def prove(self, key_hash: Hash) -> tuple[bytes, ...]:
        """The nodes from the root to where the entry of ``key_hash`` is or would be."""
        digits = key_hash.hex()
        proof: list[bytes] = []
        subtree = self._top()
        while subtree is not None:
            data = self.read(subtree.hash)
            proof.append(data)
            if subtree.size <= LEAF_ENTRIES_MAX:
                read_leaf(data, subtree.size, digits[: len(proof) - 1], at=subtree.hash)
                break
            depth = len(proof) - 1
            node = _checked(read_interior(data, at=subtree.hash), subtree, depth)
            subtree = node.children[_nibble(key_hash, depth)]
        return tuple(proof)

    def updated(
        self, changes: Mapping[Hash, bytes | None], put: Callable[[bytes], Hash]
    ) -> CellIndex:
        """Return the index after ``changes``: bytes set an entry, None deletes it if it exists.

        ``put`` receives the bytes of each new node, children first, and returns their content hash;
        ``read`` must find them when the new index is used. After an exception this index is
        unchanged, and nodes that ``put`` received belong to no index.

        Raises:
            OverflowError: An entry is longer than ``ENTRY_BYTES_MAX``. Nothing was put.
        """
        top = _Update(self._nodes, changes, put).written(self._top())
        if top == self._top():
            return self
        index = CellIndex(top.hash, top.size, self.read) if top else CellIndex(None, 0, self.read)
        object.__setattr__(index, "_nodes", self._nodes)
        return index

    def _top(self) -> Subtree | None:
        return None if self.root is None else Subtree(self.root, self.count)


class _Update:
    """One batch of changes on its way down, and the new nodes on their way up.

    Entries of a leaf are ``Held`` until it is known that they form a leaf of their own: the
    interior node above may have become so small that its children merge into one leaf.
    """

    __slots__ = ("_keys", "_nodes", "_put", "_values")

    def __init__(
        self, nodes: _Nodes, changes: Mapping[Hash, bytes | None], put: Callable[[bytes], Hash]
    ) -> None:
        self._keys = sorted(changes)
        self._values = [changes[key] for key in self._keys]
        self._nodes = nodes
        self._put = put
        assert all(len(key) == HASH_BYTES for key in self._keys)
        if any(value is not None and len(value) > ENTRY_BYTES_MAX for value in self._values):
            raise OverflowError(f"an entry of a cell index has at most {ENTRY_BYTES_MAX} bytes")

    def written(self, top: Subtree | None) -> Subtree | None:
        changed = self._changed(top, 0, 0, len(self._keys)) if self._keys else top
        return self._stored(changed)

    def _changed(
        self, subtree: Subtree | None, depth: int, start: int, end: int
    ) -> Subtree | Leaf | None:
        """``subtree`` after the changes from ``start`` to ``end``, which all belong to it.

        Returns the same subtree if they change nothing.
        """
        if subtree is None or subtree.size <= LEAF_ENTRIES_MAX:
            return self._changed_leaf(subtree, depth, start, end)
        old_children = self._nodes.interior(subtree, depth).children
        children: list[Subtree | Leaf | None] = list(old_children)
        at = start
        while at < end:
            nibble, after_it = _group(self._keys, depth, at, end)
            children[nibble] = self._changed(old_children[nibble], depth + 1, at, after_it)
            at = after_it
        if all(map(_is_same, old_children, children)):
            return subtree
        if sum(map(_size, children)) > LEAF_ENTRIES_MAX:
            return self._interior(children)
        return self._gathered(children, self._keys[start].hex()[:depth])

    def _changed_leaf(
        self, leaf: Subtree | None, depth: int, start: int, end: int
    ) -> Subtree | Leaf | None:
        prefix = self._keys[start].hex()[:depth]
        old_contents = self._nodes.leaf(leaf, prefix) if leaf else Leaf([], [])
        entries = dict(zip(old_contents.keys, old_contents.entries, strict=True))
        for at in range(start, end):
            value = self._values[at]
            if value is None:
                entries.pop(self._keys[at], None)
            else:
                entries[self._keys[at]] = value
        keys = sorted(entries)
        contents = Leaf(keys, [entries[key] for key in keys])
        return self._split(contents, depth, leaf, old_contents)

    def _split(
        self, contents: Leaf, depth: int, leaf: Subtree | None, old_contents: Leaf
    ) -> Subtree | Leaf | None:
        """Make a subtree of entries: one leaf, or an interior node that splits them by nibble.

        If they equal ``old_contents``, the result is the stored ``leaf``, at this depth or a deeper
        one: the bytes of a leaf do not depend on its depth.
        """
        keys, entries = contents
        if len(keys) <= LEAF_ENTRIES_MAX:
            return leaf if contents == old_contents else contents if keys else None
        children: list[Subtree | Leaf | None] = [None] * FANOUT
        at = 0
        while at < len(keys):
            nibble, end = _group(keys, depth, at, len(keys))
            part = Leaf(keys[at:end], entries[at:end])
            children[nibble] = self._split(part, depth + 1, leaf, old_contents)
            at = end
        return self._interior(children)

    def _gathered(
        self, children: Sequence[Subtree | Leaf | None], prefix: str
    ) -> Subtree | Leaf | None:
        """Merge the children of a node that became too small to be interior; all are leaves."""
        present = [(nibble, child) for nibble, child in enumerate(children) if child]
        if len(present) <= 1:
            # The only child takes the place of its parent and is not written again.
            return present[0][1] if present else None
        gathered = Leaf([], [])
        for nibble, child in present:
            contents = self._contents_of(child, prefix + _HEX[nibble])
            gathered.keys.extend(contents.keys)
            gathered.entries.extend(contents.entries)
        return gathered

    def _contents_of(self, leaf: Subtree | Leaf, prefix: str) -> Leaf:
        return leaf if isinstance(leaf, Leaf) else self._nodes.leaf(leaf, prefix)

    def _interior(self, children: Sequence[Subtree | Leaf | None]) -> Subtree:
        subtrees = tuple(map(self._stored, children))
        node = Interior(sum(map(_size, subtrees)), subtrees)
        return Subtree(self._put(interior_bytes(node)), node.size)

    def _stored(self, part: Subtree | Leaf | None) -> Subtree | None:
        """Write ``part`` unless it is written."""
        if isinstance(part, Leaf):
            return Subtree(self._put(leaf_bytes(part)), len(part.keys))
        return part


def proved(root: Hash | None, key_hash: Hash, proof: Sequence[bytes]) -> bytes | None:
    """The entry that ``proof`` proves under ``root``; None if it proves that there is none.

    Raises:
        Damage: It proves neither.
    """
    assert len(key_hash) == HASH_BYTES
    if root is None:
        if proof:
            _refuse_proof("no nodes, for an index without entries", str(len(proof)))
        return None
    subtree: Subtree | None = None
    for depth, data in enumerate(proof):
        if depth and subtree is None:
            _refuse_proof(f"its end after {depth} nodes, for there is no child", str(len(proof)))
        node_hash = subtree.hash if subtree else root
        if content_hash(data) != node_hash:
            _refuse_proof(f"{hash_text(node_hash)} as node {depth}", hash_text(content_hash(data)))
        size = subtree.size if subtree else _size_in(data, at=root)
        if size <= LEAF_ENTRIES_MAX:
            if depth + 1 != len(proof):
                _refuse_proof(f"its end after {depth + 1} nodes, at a leaf", str(len(proof)))
            read_leaf(data, size, key_hash.hex()[:depth], at=node_hash)
            return entry_in(data, size, key_hash, at=node_hash)
        node = _checked(read_interior(data, at=node_hash), Subtree(node_hash, size), depth)
        subtree = node.children[_nibble(key_hash, depth)]
    if subtree or not proof:
        _refuse_proof("the nodes down to the key hash", f"{len(proof)}, and no more")
    return None


def _size_in(data: bytes, *, at: Hash) -> int:
    return leaf_count(data) or read_interior(data, at=at).size


def _nibble(key_hash: Hash, depth: int) -> int:
    byte = key_hash[depth >> 1]
    return byte & 15 if depth & 1 else byte >> 4


def _group(keys: Sequence[Hash], depth: int, start: int, end: int) -> tuple[int, int]:
    """The nibble of the key hash at ``start``, and the end of the run of keys that share it."""
    nibble = _nibble(keys[start], depth)
    low, high = start + 1, end
    while low < high:
        middle = (low + high) // 2
        if _nibble(keys[middle], depth) == nibble:
            low = middle + 1
        else:
            high = middle
    return nibble, low


def _size(part: Subtree | Leaf | None) -> int:
    if part is None:
        return 0
    return len(part.keys) if isinstance(part, Leaf) else part.size


def _is_same(old_part: Subtree | None, new_part: Subtree | Leaf | None) -> bool:
    return old_part is new_part or old_part == new_part


def _checked(node: Interior, subtree: Subtree, depth: int) -> Interior:
    """Check that ``node`` has the size that its parent states, at a possible depth; return it."""
    if node.size != subtree.size or depth > INTERIOR_DEPTH_MAX:
        expected = f"{subtree.size} entries, at most {INTERIOR_DEPTH_MAX} nibbles down"
        actual = f"{node.size}, {depth} nibbles down"
        node_text = f"index node {hash_text(subtree.hash)}"
        raise Damage(sentence("damaged", location=node_text, expected=expected, actual=actual))
    return node


def _refuse_proof(expected: str, actual: str) -> NoReturn:
    problem = "the proof of an entry is not one"
    raise Damage(sentence(problem, expected=expected, actual=actual, hint="get it again"))
