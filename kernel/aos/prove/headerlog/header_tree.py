"""The tree over the headers of frames, as RFC 6962 defines it, and the bytes of its leaves (J-24;
spec/proofs.md, PF-1 to PF-8).

Leaf ``i`` is the header of frame ``i``. The hash is SHA-256, so that existing witnesses and
monitors can check roots and proofs; the trees of the journal itself use BLAKE3 (J-20 to J-28).

A *node* is a complete subtree: ``(height, index)`` is the one with the leaves from
``index << height`` on, ``1 << height`` of them. Such a subtree never changes when the tree grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

from aos.core.journal.frame import VERSION, Header
from aos.errors import Damage
from aos.values.cbor import decode_record, encode, is_nat
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

HASH_BYTES: Final = 32
PATH_MAX: Final = 64
"""Longest path of a proof: a tree has less than 2^64 leaves."""

ReadNode: TypeAlias = Callable[[int, int], bytes]
"""Returns the hash of a node by its height and index."""

EMPTY: Final = sha256(b"").digest()


def leaf_hash(header: bytes) -> bytes:
    """PF-2."""
    return sha256(b"\x00" + header).digest()


def node_hash(left_hash: bytes, right_hash: bytes) -> bytes:
    """PF-3."""
    return sha256(b"\x01" + left_hash + right_hash).digest()


def root(size: int, read: ReadNode) -> bytes:
    """The root of the tree over the first ``size`` leaves."""
    return _range(0, size, read) if size else EMPTY


def inclusion(index: int, size: int, read: ReadNode) -> list[bytes]:
    """The path of leaf ``index`` in the tree of ``size`` leaves, lowest first (PF-5)."""
    if not 0 <= index < size:
        raise IndexError(index)
    path: list[bytes] = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_range(middle, end, read))
            end = middle
        else:
            path.append(_range(begin, middle, read))
            begin = middle
    return path[::-1]


def consistency(old: int, size: int, read: ReadNode) -> list[bytes]:
    """The path that proves that the tree of ``old`` leaves is the beginning of that of ``size``
    (PF-6). It is empty if ``old`` is 0 or ``size``."""
    if not 0 <= old <= size:
        raise IndexError(old)
    if old in (0, size):
        return []
    path: list[bytes] = []
    begin, end = 0, size
    while end != old:
        middle = begin + _split(end - begin)
        if old <= middle:
            path.append(_range(middle, end, read))
            end = middle
        else:
            path.append(_range(begin, middle, read))
            begin = middle
    if begin:
        path.append(_range(begin, end, read))
    return path[::-1]


def root_from(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that ``path`` proves for ``leaf`` at ``index`` of ``size``; None if a path for this
    leaf must have another length (PF-5)."""
    if not 0 <= index < size or len(path) > PATH_MAX:
        return None
    sides: list[bool] = []
    while size > 1:
        split = _split(size)
        is_right = index >= split
        sides.append(is_right)
        index, size = (index - split, size - split) if is_right else (index, split)
    if len(sides) != len(path):
        return None
    root = leaf
    for is_right, sibling in zip(reversed(sides), path, strict=True):
        root = node_hash(sibling, root) if is_right else node_hash(root, sibling)
    return root


def is_consistent(
    old: int, old_root: bytes, size: int, new_root: bytes, path: Sequence[bytes]
) -> bool:
    """Whether ``path`` proves that the tree of ``old`` leaves with ``old_root`` is the beginning of
    the tree of ``size`` leaves with ``new_root`` (PF-6)."""
    if not 0 <= old <= size or len(path) > PATH_MAX:
        return False
    if old in (0, size):
        return not path and old_root == (new_root if old else EMPTY)
    begin, end, sides = 0, size, list[bool]()
    while end != old:
        middle = begin + _split(end - begin)
        is_right = old > middle
        sides.append(is_right)
        begin, end = (middle, end) if is_right else (begin, middle)
    if len(path) != len(sides) + bool(begin):
        return False
    # A tree that is a node of the new one is its own first hash.
    first, siblings = (path[0], path[1:]) if begin else (old_root, path)
    in_old = in_new = first
    for is_right, sibling in zip(reversed(sides), siblings, strict=True):
        if is_right:
            in_old, in_new = node_hash(sibling, in_old), node_hash(sibling, in_new)
        else:
            in_new = node_hash(in_new, sibling)
    return in_old == old_root and in_new == new_root


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1


def _range(begin: int, end: int, read: ReadNode) -> bytes:
    """The root over the leaves from ``begin`` to ``end``, of which a tree has a subtree."""
    size = end - begin
    if size & size - 1 == 0:
        height = size.bit_length() - 1
        return read(height, begin >> height)
    middle = begin + _split(size)
    return node_hash(_range(begin, middle, read), _range(middle, end, read))


def header_bytes(header: Header) -> bytes:
    """The canonical bytes of a header, which are a leaf of the header log (J-24, PF-2)."""
    return encode(header.value())


def read_header(data: bytes) -> Header:
    """Read a header.

    Raises:
        Damage: The bytes are not those of a header.
    """
    try:
        value = decode_record(data, max_bytes=65_535)
    except ValueProblem as problem:
        raise Damage(f"a header is not canonical CBOR: {problem}") from problem
    match value:
        case {
            "version": version, "world": bytes(world), "first": first, "last": last,
            "prev": bytes(prev), "root": bytes(root), "log_root": bytes(log_root), **more,
        } if (
            not more
            and is_nat(version)
            and version == VERSION
            and is_nat(first)
            and is_nat(last)
            and all(len(digest) == HASH_BYTES for digest in (world, prev, root, log_root))
        ):  # fmt: skip
            assert isinstance(first, int)
            assert isinstance(last, int)
            if 1 <= first <= last:
                return Header(
                    world=Hash(world), first=first, last=last, prev=Hash(prev), root=Hash(root),
                    log_root=Hash(log_root),
                )  # fmt: skip
    raise Damage("a header is not {version, world, first, last, prev, root, log_root}")
