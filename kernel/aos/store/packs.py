"""Large blobs, each in a file of its own next to the store's file (spec/store.md, ST-60 to ST-67).

    DIR/store/packs/<64 hex digits of the content hash>     the bytes of one blob, nothing else

Rule 1: a pack is whole and synced, its name too, before the transaction that names it; so a row in
``packed`` means that the file is there.

Rule 2: a pack is removed after the transaction that removes its row. So a file that no row names
was left by a crash. The next writer removes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aos.errors import Damage, Unavailable
from aos.store.plain_files import PlainFolder
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

PACKED_BYTES: Final = 1 << 20
"""A blob of at least so many bytes is packed. Smaller ones are in the store's file (ST-60)."""

FOLDER_NAME: Final = "packs"


class Packs:
    """The packs of one store. One writer; any number of readers, in any process."""

    def __init__(self, store: Path) -> None:
        self.folder = store / FOLDER_NAME

    def path(self, hash: Hash) -> Path:
        """Return the path of a blob's pack."""
        return self.folder / hash.hex()

    def write(self, blobs: Mapping[Hash, bytes]) -> None:
        """Write a pack for each blob, durable with its name (ST-61). A file with such a name, left
        by a crash, is replaced.

        Raises:
            OSError: The disk is full, or broken. The new packs are removed again.
            Damage: The folder or a file in it is not plain (ST-80).
        """
        if not blobs:
            return
        try:
            with self._make_folder() as folder:
                for hash, data in blobs.items():
                    _write(folder, hash, data)
                folder.sync()
        except BaseException:
            self.remove(blobs)
            raise

    def read(self, hash: Hash, size: int) -> bytes:
        """Return the bytes of a pack that a row names, ``size`` bytes of this hash.

        Raises:
            Damage: It is missing, cut off or altered (ST-64); or it was removed meanwhile.
            Unavailable: It may not be read.
        """
        path = self.path(hash)
        try:
            data, found_bytes = self._read(hash, size)
        except FileNotFoundError:
            raise self._damage(hash, "is missing", None, None) from None
        except PermissionError as error:
            raise Unavailable(
                f"no permission to read a blob: {error.strerror}", location=str(path)
            ) from error
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            raise self._damage(hash, problem, None, None) from error
        if found_bytes != size:
            problem = "is cut off" if found_bytes < size else "is too long"
            raise self._damage(hash, problem, f"{size} bytes", f"{found_bytes} bytes")
        actual_hash = content_hash(data)
        if actual_hash != hash:
            actual = f"{len(data)} bytes of {hash_text(actual_hash)}"
            raise self._damage(hash, "is altered", "bytes of that hash", actual)
        return data

    def first_bytes(self, hash: Hash, bytes_max: int) -> bytes | None:
        """Return the beginning of a pack, unchecked; None if it cannot be read."""
        try:
            with PlainFolder.at(self.folder) as folder:
                pack = folder.open(hash.hex())
        except (OSError, Damage):
            return None
        try:
            return os.pread(pack, bytes_max, 0)
        except OSError:
            return None
        finally:
            os.close(pack)

    def remove(self, hashes: Mapping[Hash, object] | set[Hash]) -> None:
        """Remove packs that no row names (ST-63). If that fails, the next writer removes them."""
        if not hashes:
            return  # as nearly every commit
        with contextlib.suppress(OSError, Damage), PlainFolder.at(self.folder) as folder:
            for hash in hashes:
                with contextlib.suppress(OSError):
                    folder.remove(hash.hex())

    def sweep(self, is_named: Callable[[Hash], bool]) -> int:
        """Remove every file that no row names; return how many (ST-65). Only for the one writer.

        Raises:
            Damage: The folder is not plain, or something in it is a folder.
        """
        count = 0
        with self._open_folder() as folder:
            if folder is None:
                return 0
            for name in list(folder.names()):
                hash = _hash_of(name)
                if hash is None or not is_named(hash):
                    try:
                        folder.remove(name)
                    except OSError:
                        folder.check_file(name)
                        raise
                    count += 1
        return count

    def size_bytes(self) -> int:
        """Return the size of all packs together."""
        total = 0
        with self._open_folder() as folder:
            if folder is None:
                return 0
            for name in folder.names():
                status = folder.find(name)
                total += 0 if status is None else status.st_size
        return total

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[PlainFolder | None]:
        """The folder of the packs; None if there is none."""
        try:
            folder = PlainFolder.at(self.folder)
        except FileNotFoundError:
            yield None
            return
        with folder:
            yield folder

    def _make_folder(self) -> PlainFolder:
        """The folder of the packs, made if there is none, and its name durable."""
        try:
            return PlainFolder.at(self.folder)
        except FileNotFoundError:
            with PlainFolder.at(self.folder.parent) as store:
                folder = store.inner(FOLDER_NAME, make=True)
                store.sync()
                return folder

    def _read(self, hash: Hash, size: int) -> tuple[bytes, int]:
        """The bytes of a pack and how many they are. One of another size is not read."""
        with PlainFolder.at(self.folder) as folder:
            pack = folder.open(hash.hex())
        with os.fdopen(pack, "rb", buffering=0) as file:
            actual_size = os.fstat(pack).st_size
            data = file.readall() if actual_size == size else b""
        return data, len(data) if actual_size == size else actual_size

    def _damage(self, hash: Hash, problem: str, expected: str | None, actual: str | None) -> Damage:
        return Damage(
            f"blob {hash_text(hash)} {problem}",
            location=str(self.path(hash)),
            expected=expected,
            actual=actual,
            hint="restore this file from a backup",
        )


def _write(folder: PlainFolder, hash: Hash, data: bytes) -> None:
    folder.remove(hash.hex())
    fd = folder.create(hash.hex())
    try:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(fd, remaining) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _hash_of(name: str) -> Hash | None:
    """Return the hash in a pack's name; None for any other name."""
    try:
        hash = Hash(bytes.fromhex(name))
    except ValueError:
        return None
    return hash if len(hash) == HASH_BYTES and hash.hex() == name else None
