"""LMDB's two meta pages: is the newer one the last commit? (spec/store.md, ST-17a and ST-17b)

Each commit overwrites the older of two meta pages, which have no checksum, and LMDB uses the page
with the higher transaction number. One flipped bit in that number would silently bring back the
commit before. So both pages are read before LMDB opens the file:

    page 0   header   magic, version   roots of two trees   last page   transaction number, even
    page 1   the same                                                   transaction number, odd

Rule 1: the numbers follow each other. Both are 0 in a file without a commit.

Rule 2: the newer page agrees with the trees that it names. The tree of free pages has an entry for
each commit, under its number: so its highest key is the transaction number of the page.

Of the older page, only the fields that Rule 1 needs are checked: the next commit overwrites the
rest, and a commit that failed may have left it half written (ST-4b).
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from aos.store.plain_files import PlainFolder

_ORDER: Final = "<" if sys.byteorder == "little" else ">"
_PAGE: Final = struct.Struct(_ORDER + "Q2xHHH")
"""The head of a page: number, flags, end of the pointers, begin of the nodes."""

_META: Final = struct.Struct(_ORDER + "II8x8x")
_TREE: Final = struct.Struct(_ORDER + "IHHQQQQQ")
_LAST: Final = struct.Struct(_ORDER + "QQ")
_NODE: Final = struct.Struct(_ORDER + "HHHH")
_NUMBER: Final = struct.Struct(_ORDER + "Q")

_BYTES: Final = _PAGE.size + _META.size + 2 * _TREE.size + _LAST.size
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_NO_PAGE: Final = (1 << 64) - 1
_DEPTH_MAX: Final = 32
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_IS_LONG, _IS_TABLE = 0x01, 0x02
_INTEGER_KEYS: Final = 0x08
_IS_NO_FOLDER: Final = 0x4000
"""Set in a file that ``compact`` made (MDB_NOSUBDIR). LMDB ignores it when it opens the file."""


class _Tree(NamedTuple):
    """The description of one tree in a meta page."""

    pad: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int


class _Meta(NamedTuple):
    free: _Tree
    main: _Tree
    last_page: int
    txn: int


class _InvalidPages(Exception):  # internal: becomes Damage, never escapes this file
    """The file is not as LMDB leaves it."""


def what_is_wrong(fd: int) -> str | None:
    """Return the problem of the meta pages of an open data file; None if they are valid.

    A writer may commit meanwhile: a problem counts only if the pages are the same afterwards.
    Raises: OSError.
    """
    while True:
        pages = meta_pages(fd)
        try:
            _check(fd, pages)
        except (_InvalidPages, struct.error) as problem:
            if meta_pages(fd) == pages:
                return str(problem)
        else:
            return None


def meta_pages(fd: int) -> tuple[bytes, bytes]:
    """Return the meaningful bytes of both meta pages, as far as they exist. Raises: OSError."""
    first = os.pread(fd, _BYTES, 0)
    if len(first) < _BYTES:
        return first, b""
    page_bytes = _TREE.unpack_from(first, _PAGE.size + _META.size)[0]
    return first, os.pread(fd, _BYTES, page_bytes)


def renumber(path: Path, newest: int) -> None:
    """Give the last transaction of a data file, which no one has open, the number ``newest``.

    Its page is chosen by whether the number is even, so ``newest`` must agree with it in that.

    Raises: OSError.
    """
    with PlainFolder.at(path.parent) as folder:
        fd = folder.open(path.name, os.O_RDWR, is_sole=True)
    try:
        even, odd = (_meta(number, data) for number, data in enumerate(meta_pages(fd)))
        newer, older = (0, 1) if even.txn > odd.txn else (1, 0)
        assert newest % 2 == newer, f"transaction {newest} in page {newer}"
        for page, number in ((older, newest - 1), (newer, newest)):
            os.pwrite(fd, _NUMBER.pack(number), page * even.free.pad + _BYTES - _NUMBER.size)
    finally:
        os.close(fd)


def _check(fd: int, pages: tuple[bytes, bytes]) -> None:
    even, odd = (_meta(number, data) for number, data in enumerate(pages))
    if even.free.pad != odd.free.pad:
        raise _InvalidPages("meta pages with different sizes of a page")
    if even.txn == odd.txn == 0:
        return
    if abs(even.txn - odd.txn) != 1 or even.txn % 2:
        raise _InvalidPages(f"transaction {even.txn} in one meta page and {odd.txn} in the other")
    newer, older = (even, odd) if even.txn > odd.txn else (odd, even)
    if newer.last_page < older.last_page:
        raise _InvalidPages(f"{newer.last_page} as the last page, after {older.last_page}")
    _check_trees(fd, newer)


def _meta(number: int, data: bytes) -> _Meta:
    if len(data) < _BYTES:
        raise _InvalidPages(f"no page {number}")
    page_number, flags, _, _ = _PAGE.unpack_from(data)
    magic, version = _META.unpack_from(data, _PAGE.size)
    if (page_number, flags, magic, version) != (number, _META_PAGE, _MAGIC, _VERSION):
        raise _InvalidPages(f"page {number}, which is no meta page of LMDB 0.9")
    at = _PAGE.size + _META.size
    free, main = (_Tree._make(_TREE.unpack_from(data, at + n * _TREE.size)) for n in (0, 1))
    meta = _Meta(free, main, *_LAST.unpack_from(data, at + 2 * _TREE.size))
    if free.flags & ~_IS_NO_FOLDER != _INTEGER_KEYS or (main.pad, main.flags) != (0, 0):
        raise _InvalidPages(f"flags in meta page {number} that no store has")
    return meta


@dataclass(slots=True)
class _Walk:
    """One tree, read page by page: the numbers of its pages and entries."""

    fd: int
    page_bytes: int
    last_page: int
    branches: int = 0
    leaves: int = 0
    overflows: int = 0
    entries: int = 0
    pages: set[int] = field(default_factory=set)

    def nodes(self, tree: _Tree) -> Iterator[tuple[int, bytes, bytes]]:
        """Flags, key and value of each entry, in order.

        Raises:
            _InvalidPages: The tree is none, or not the one that the meta page describes.
        """
        if tree.root != _NO_PAGE:
            yield from self._below(tree.root, tree.depth)
        elif tree.depth:
            raise _InvalidPages("an empty tree with a depth")
        recorded_counts = (tree.branches, tree.leaves, tree.overflows, tree.entries)
        actual_counts = (self.branches, self.leaves, self.overflows, self.entries)
        if recorded_counts != actual_counts:
            raise _InvalidPages(
                f"a tree that has {actual_counts}, and {recorded_counts} in the meta page"
            )

    def _below(self, number: int, depth: int) -> Iterator[tuple[int, bytes, bytes]]:
        if not 0 < depth <= _DEPTH_MAX:
            raise _InvalidPages(f"page {number} too deep in its tree")
        data = self._page(number, 1)
        _, flags, lower, _ = _PAGE.unpack_from(data)
        if flags & ~0x10 != (_LEAF if depth == 1 else _BRANCH):
            raise _InvalidPages(f"page {number} in a tree where it is none")
        for at in struct.unpack_from(f"{_ORDER}{(lower - _PAGE.size) // 2}H", data, _PAGE.size):
            low, high, kind, key_bytes = _NODE.unpack_from(data, at)
            value_at = at + _NODE.size + key_bytes
            if depth > 1:
                yield from self._below(low | high << 16 | kind << 32, depth - 1)
                continue
            self.entries += 1
            size = low | high << 16
            if kind & _IS_LONG:
                (first,) = _NUMBER.unpack_from(data, value_at)
                value = self._long(first, size)
            else:
                value = data[value_at : value_at + size]
            yield kind, data[at + _NODE.size : value_at], value
        self.branches += depth > 1
        self.leaves += depth == 1

    def _page(self, number: int, count: int) -> bytes:
        if number + count - 1 > self.last_page or number in self.pages:
            raise _InvalidPages(f"page {number} in a second place, or behind the last page")
        data = os.pread(self.fd, count * self.page_bytes, number * self.page_bytes)
        if len(data) < count * self.page_bytes or _PAGE.unpack_from(data)[0] != number:
            raise _InvalidPages(f"no page {number}")
        self.pages.update(range(number, number + count))
        return data

    def _long(self, number: int, size: int) -> bytes:
        count = (size + _PAGE.size + self.page_bytes - 1) // self.page_bytes
        data = self._page(number, count)
        if _PAGE.unpack_from(data)[1] != _OVERFLOW:
            raise _InvalidPages(f"page {number} in a long value where it is none")
        self.overflows += count
        return data[_PAGE.size : _PAGE.size + size]


def _check_trees(fd: int, meta: _Meta) -> None:
    """Check that a meta page agrees with its trees (Rule 2).

    Raises:
        _InvalidPages: It does not.
    """
    main = _Walk(fd, meta.free.pad, meta.last_page)
    for kind, _, value in main.nodes(meta.main):
        root = _Tree._make(_TREE.unpack(value)).root if kind & _IS_TABLE else _NO_PAGE
        if meta.last_page < root < _NO_PAGE:
            raise _InvalidPages(f"a table behind the last page, {meta.last_page}")
    free = _Walk(fd, meta.free.pad, meta.last_page)
    newest = 0
    unused = array("Q")
    for _, key, value in free.nodes(meta.free):
        (newest,) = _NUMBER.unpack(key)
        (count,) = _NUMBER.unpack_from(value)
        if len(value) != _NUMBER.size * (1 + count):
            raise _InvalidPages(f"no list of the free pages of transaction {newest}")
        unused.frombytes(value[_NUMBER.size :])
    if newest != meta.txn and (newest or meta.txn > 1):
        raise _InvalidPages(f"transaction {meta.txn} in a meta page, and {newest} in its tree")
    if unused and max(unused) > meta.last_page:
        raise _InvalidPages(f"a free page behind the last page, {meta.last_page}")
    if not (main.pages | free.pages).isdisjoint(unused):
        raise _InvalidPages("a tree of pages that are free")
