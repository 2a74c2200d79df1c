"""Arweave's deep hash: SHA-384 over a tree of byte strings, which every signature covers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha384
from typing import TypeAlias

Tree: TypeAlias = "bytes | Sequence[Tree]"


def deep_hash(tree: Tree) -> bytes:
    """48 bytes that determine ``tree``: its shape, and the length and bytes of every leaf (AW-10).

    A leaf is hashed as ``H(H("blob" length) H(leaf))``; a list starts with ``H("list" length)`` and
    takes in one child after the other, ``H(so far, deep_hash(child))``.
    """
    if isinstance(tree, bytes):
        return _sha384(_tagged("blob", len(tree)) + _sha384(tree))
    so_far = _tagged("list", len(tree))
    for child in tree:
        so_far = _sha384(so_far + deep_hash(child))
    return so_far


def _tagged(kind: str, length: int) -> bytes:
    return _sha384(f"{kind}{length}".encode("ascii"))


def _sha384(data: bytes) -> bytes:
    return sha384(data).digest()
