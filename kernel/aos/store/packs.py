"""Large blobs, each in a file of its own beside the store's file (spec/store.md, ST-60 to ST-67).

    DIR/store/packs/<64 hex digits of the content hash>     the bytes of one blob, nothing else

Rule 1: a pack is whole and synced, its name too, before the transaction that names it; so a row in
``packed`` means that the file is there.

Rule 2: its bytes go after the transaction that takes the row away. So a file that no row names is
nobody's: what a crash left. The next writer takes it away.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aos.errors import Damage, Unavailable, sentence
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

PACKED_BYTES: Final = 1 << 20
"""A blob of so many bytes is packed. A smaller one lies in the store's file with many others."""

FOLDER_NAME: Final = "packs"


class Packs:
    """The packs of one store. One writer; any number of readers, in any process."""

    def __init__(self, store: Path) -> None:
        self.folder = store / FOLDER_NAME

    def path(self, hash: Hash) -> Path:
        return self.folder / hash.hex()

    def write(self, blobs: Mapping[Hash, bytes]) -> None:
        """Make a pack of each, durable with its name. Those that no row names yet are written anew.

        Raises:
            OSError: The disk is full, or broken. What was written is taken away again.
        """
        if not blobs:
            return
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o700)
                sync_folder(self.folder.parent)
            for hash, data in blobs.items():
                _write(self.path(hash), data)
            sync_folder(self.folder)
        except BaseException:
            self.remove(blobs)
            raise

    def read(self, hash: Hash, size: int) -> bytes:
        """Return the bytes of a pack that a row names, ``size`` bytes of this hash.

        Raises:
            Damage: It is missing, cut off or altered; or it was taken away meanwhile.
            Unavailable: It may not be read.
        """
        path = self.path(hash)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise self._damage(hash, "is missing", None, None) from None
        except PermissionError as error:
            raise Unavailable(
                sentence(f"no permission to read a blob: {error.strerror}", where=str(path))
            ) from error
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise self._damage(hash, what, None, None) from error
        if len(data) != size:
            what = "is cut off" if len(data) < size else "is too long"
            raise self._damage(hash, what, f"{size} bytes", f"{len(data)} bytes")
        found = content_hash(data)
        if found != hash:
            shown = f"{len(data)} bytes of {hash_text(found)}"
            raise self._damage(hash, "is altered", "bytes of that hash", shown)
        return data

    def first_bytes(self, hash: Hash, most: int) -> bytes | None:
        """The beginning of a pack, not checked; None where it cannot be read."""
        try:
            with self.path(hash).open("rb", buffering=0) as pack:
                return pack.read(most)
        except OSError:
            return None

    def remove(self, hashes: Mapping[Hash, object] | set[Hash]) -> None:
        """Take packs away that no row names. What cannot be removed, the next writer removes."""
        for hash in hashes:
            with contextlib.suppress(OSError):
                self.path(hash).unlink(missing_ok=True)

    def sweep(self, is_named: Callable[[Hash], bool]) -> int:
        """Take away whatever no row names; return how many files. Only while nobody writes."""
        count = 0
        for name in list(self._names()):
            hash = _hash_of(name)
            if hash is None or not is_named(hash):
                (self.folder / name).unlink(missing_ok=True)
                count += 1
        return count

    def size_bytes(self) -> int:
        total = 0
        for name in self._names():
            with contextlib.suppress(FileNotFoundError):
                total += (self.folder / name).stat().st_size
        return total

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as entries:
                yield from (each.name for each in entries)
        except FileNotFoundError:
            return

    def _damage(self, hash: Hash, what: str, expected: str | None, found: str | None) -> Damage:
        return Damage(
            sentence(
                f"blob {hash_text(hash)} {what}",
                where=str(self.path(hash)),
                expected=expected,
                found=found,
                hint="restore this file from a backup",
            )
        )


def _write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _hash_of(name: str) -> Hash | None:
    """The hash that a pack is named by; None for any other name."""
    try:
        hash = Hash(bytes.fromhex(name))
    except ValueError:
        return None
    return hash if len(hash) == HASH_BYTES and hash.hex() == name else None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises: OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
