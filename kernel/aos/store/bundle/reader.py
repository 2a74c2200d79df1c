"""A bundle -> its frames, values and head (spec/bundle.md, B-30 to B-36).

Rule 1: a length in the file is compared with the size of the file before it is used, and an item is
read whole only if its kind may be that long.

Rule 2: ``check`` reads every byte once. Later reads check each value again by its hash.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from blake3 import blake3

from aos.closable import Closable
from aos.core.journal.frame import Frame, Head, read_frame
from aos.errors import BadUsage, Damage, Unavailable
from aos.shell_text import shell_word
from aos.store.bundle.items import (
    BLOB,
    END,
    END_BYTES,
    ERASED,
    FRAME,
    HEAD,
    HEADER,
    INDEX,
    MAGIC,
    OPENING_BYTES_MAX,
    ROW_BYTES,
    BundleHeader,
    End,
    ErasedValue,
    Opening,
    read_opening,
    read_row,
)
from aos.store.store import checked_blob, erased_error
from aos.values.digests import Hash, hash_text

PIECE_BYTES: Final = 1 << 20
"""Bytes that are read at a time of a long item that is only hashed."""

ROWS_AT_ONCE: Final = 1024

T = TypeVar("T")


class Bundle(Closable):
    """A bundle, opened for reading by ``open_bundle``. Any thread may read."""

    def __init__(self, path: Path, fd: int) -> None:
        """Takes over ``fd``.

        Raises:
            Damage: Its first or last items are none. ``fd`` is still open.
        """
        self.path = path
        self._fd = fd
        self.size = os.fstat(fd).st_size
        last = self._opening(max(self.size - END_BYTES, 0), is_last=True)
        self._end = self._body(self.size - END_BYTES, last, End.from_bytes)
        index_at = self._end.index_at
        index = self._expect(index_at, INDEX)
        if index_at + index.item_size + END_BYTES != self.size or index.body % ROW_BYTES:
            raise self._damage(index_at, "the index is not where its end is")
        self._rows_at = index_at + index.size
        self.values = index.body // ROW_BYTES
        """How many values there are, erased ones counted."""
        header = self._expect(0, HEADER)
        self.header = self._body(0, header, BundleHeader.from_bytes)
        self._items_at = header.item_size

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def check(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Read the whole file, and check that each item is valid and in its place, that the index
        has the position of each value, that each value has its hash, and that the closing hash is
        valid. Whether the frames follow each other is for the caller to check.

        ``on_progress`` is called with (bytes read, bytes in all).

        Raises:
            Damage: The first of these that does not hold.
        """
        self.head()
        digest = blake3()
        values = 0
        for at, opening in self._items(0):
            content = self._hash_item(at, opening, digest)
            if opening.kind == BLOB:
                self._check_row(at, content)
            elif opening.kind == ERASED:
                self._check_row(at, self._body(at, opening, ErasedValue.from_bytes).value)
            values += opening.kind in (BLOB, ERASED)
            if on_progress is not None:
                on_progress(at + opening.item_size, self.size)
        if digest.digest() != self._end.digest:
            raise Damage(
                "the file was altered",
                location=str(self.path),
                expected=f"closing hash {self._end.digest.hex()[:16]}",
                actual=digest.hexdigest()[:16],
                hint="copy or export it again",
            )
        if values != self.values:
            problem = f"the index has {self.values} values, and the file {values}"
            raise self._damage(self._end.index_at, problem)
        self._check_order()

    def frames(self) -> Iterator[Frame]:
        """Yield the frames in their order in the file.

        Raises:
            Damage: One cannot be read. Whether they follow one another is for ``follow`` to check.
        """
        for at, opening in self._items(self._items_at):
            if opening.kind == FRAME:
                yield self._body(at, opening, read_frame)

    def head(self) -> Head:
        """Return the signed head; its signature is not checked.

        Raises:
            Damage: It cannot be read.
        """
        at = self._end.head_at
        return self._body(at, self._expect(at, HEAD), Head.from_bytes)

    def blob(self, hash: Hash, /) -> bytes:
        """Return the bytes with this content hash.

        Raises:
            Erased: They are listed as erased.
            Damage: They are missing or altered.
        """
        at = self._find(hash)
        data: bytes | None = None
        if at is not None:
            opening = self._opening(at)
            if opening.kind == ERASED:
                raise erased_error(hash, self._body(at, opening, ErasedValue.from_bytes).seq)
            data = self._body(at, self._expect(at, BLOB), bytes)
        return checked_blob(data, hash, None, str(self.path))

    def has_blob(self, hash: Hash, /) -> bool:
        """Whether the bytes with this content hash are here. They are not checked."""
        at = self._find(hash)
        return at is not None and self._opening(at).kind == BLOB

    def blob_hashes(self) -> Iterator[Hash]:
        """Yield the hashes of all values whose bytes are here, ascending."""
        for value, at in self._rows():
            if self._opening(at).kind == BLOB:
                yield value

    def erased(self) -> Iterator[ErasedValue]:
        """Yield the values that are listed as erased, ascending by hash."""
        for _, at in self._rows():
            opening = self._opening(at)
            if opening.kind == ERASED:
                yield self._body(at, opening, ErasedValue.from_bytes)

    # Items

    def _items(self, at: int) -> Iterator[tuple[int, Opening]]:
        """Each item from ``at`` to the index, with its position."""
        end = self._end
        while at <= end.index_at:
            opening = self._opening(at)
            single = {HEADER: 0, HEAD: end.head_at, INDEX: end.index_at, END: self.size - END_BYTES}
            if (opening.kind in single or at in single.values()) and single.get(opening.kind) != at:
                raise self._damage(at, f"{opening.kind} is in a place where it does not belong")
            if end.head_at < at < end.index_at:
                raise self._damage(at, f"{opening.kind} is behind the head")
            yield at, opening
            at += opening.item_size

    def _hash_item(self, at: int, opening: Opening, digest: blake3) -> Hash:
        """Add an item to ``digest``; return the content hash of its body."""
        content = blake3()
        digest.update(self._read(at, opening.size))
        for start in range(at + opening.size, at + opening.item_size, PIECE_BYTES):
            piece = self._read(start, min(PIECE_BYTES, at + opening.item_size - start))
            digest.update(piece)
            if opening.kind == BLOB:
                content.update(piece)
        return Hash(content.digest())

    def _opening(self, at: int, *, is_last: bool = False) -> Opening:
        try:
            opening = read_opening(self._read(at, min(OPENING_BYTES_MAX, self.size - at)))
        except Damage as problem:
            if is_last:
                raise self._cut_short() from problem
            raise self._damage(at, str(problem)) from problem
        if is_last and opening.kind != END:
            raise self._cut_short()
        if at + opening.item_size > self.size:
            message = (
                f"{opening.kind} of {opening.body} bytes goes beyond the file's end at {self.size}"
            )
            raise self._damage(at, message)
        return opening

    def _expect(self, at: int, kind: str) -> Opening:
        if not 0 <= at < self.size:
            raise self._damage(at, f"expected {kind}, and the file ends before")
        opening = self._opening(at)
        if opening.kind != kind:
            raise self._damage(at, f"expected {kind}, found {opening.kind}")
        return opening

    def _body(self, at: int, opening: Opening, read: Callable[[bytes], T]) -> T:
        try:
            return read(self._read(at + opening.size, opening.body))
        except Damage as problem:
            raise self._damage(at, str(problem)) from problem

    # The index

    def _rows(self) -> Iterator[tuple[Hash, int]]:
        for first in range(0, self.values, ROWS_AT_ONCE):
            number = min(ROWS_AT_ONCE, self.values - first)
            data = self._read(self._rows_at + first * ROW_BYTES, number * ROW_BYTES)
            for at in range(0, len(data), ROW_BYTES):
                yield read_row(data[at : at + ROW_BYTES])

    def _find(self, value: Hash) -> int | None:
        """The position of a value's item; None where the index does not have it."""
        low, high = 0, self.values
        while low < high:
            middle = (low + high) // 2
            row_value, at = read_row(self._read(self._rows_at + middle * ROW_BYTES, ROW_BYTES))
            if row_value == value:
                return at
            low, high = (middle + 1, high) if row_value < value else (low, middle)
        return None

    def _check_row(self, at: int, value: Hash) -> None:
        if self._find(value) != at:
            problem = f"{hash_text(value)} is not in the index: the value or the index was altered"
            raise self._damage(at, problem)

    def _check_order(self) -> None:
        last = b""
        for value, _ in self._rows():
            if value <= last:
                raise self._damage(self._end.index_at, "the rows of the index do not ascend")
            last = value

    # The file

    def _read(self, at: int, size: int) -> bytes:
        """Exactly ``size`` bytes, which were there when the file was opened.

        Raises:
            Damage: They are not there any more.
            Unavailable: They cannot be read.
        """
        parts: list[bytes] = []
        while size > 0:
            try:
                part = os.pread(self._fd, min(size, 1 << 30), at)
            except OSError as error:
                raise Unavailable(
                    f"{self.path}: the file cannot be read: {error.strerror}"
                ) from error
            if not part:
                raise self._damage(at, "the file became shorter while it was read")
            parts.append(part)
            at += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _damage(self, at: int, problem: str) -> Damage:
        return Damage(problem, location=f"{self.path}: byte {at:,}", hint="copy or export it again")

    def _cut_short(self) -> Damage:
        return Damage(
            "the bundle is cut short, or something was added to it",
            location=str(self.path),
            expected=f"its closing hash in the last {END_BYTES} of its {self.size:,} bytes",
            hint="copy or export it again",
        )


def open_bundle(path: Path) -> Bundle:
    """Open a bundle and read its first and last items. ``check`` reads the rest.

    Raises:
        BadUsage: There is no such file, or it is no bundle.
        Damage: It is cut short, or one of these items is damaged.
        Unavailable: It cannot be read.
    """
    try:
        # A pipe would be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise BadUsage(
            f"{path}: there is no such file (make a bundle of a world: aos export FILE)"
        ) from None
    except OSError as error:
        raise Unavailable(f"{path}: the file cannot be read: {error.strerror}") from error
    try:
        _check_kind(path, fd)
        return Bundle(path, fd)
    except BaseException:
        os.close(fd)
        raise


def _check_kind(path: Path, fd: int) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise BadUsage(
            f"{path}: expected a bundle, found a folder (a world's: --world {shell_word(path)})"
        )
    if not stat.S_ISREG(mode):
        raise BadUsage(f"{path}: expected a bundle, found no regular file")
    if os.pread(fd, len(MAGIC), 0) != MAGIC:
        raise BadUsage(f"{path}: this is no bundle (make one of a world: aos export FILE)")
