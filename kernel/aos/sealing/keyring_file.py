"""The file of a keyring: read, made, and changed by ``aos keyring`` (spec/sealed.md, SL-30 to
SL-36).

    {
      "keyring": 1,
      "current": "f3a1…",
      "keys": [{"id": "f3a1…", "created": "2026-11-26T15:20:00Z", "secret": "64 hex digits"}]
    }

Each change writes a new file in its place, under a lock of the old one, so a reader sees one of
the two and two commands cannot lose each other's key.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage, Refused, Unavailable
from aos.sealing.keyring import SECRET_BYTES, Keyring, SealingKey
from aos.shell_text import shell_word
from aos.store.part_file import FileTaken, write_file
from aos.store.plain_files import PlainFolder, open_named

FORMAT: Final = 1
KEYS_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 1 << 20
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyringEntry:
    """One key of a file. ``created`` is UTC, RFC 3339."""

    key: SealingKey = field(repr=False)
    created: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyringContent:
    """The keys of a keyring file. ``current`` is the id of the key that seals."""

    entries: tuple[KeyringEntry, ...]
    current: bytes

    def to_text(self) -> str:
        """The text of the file."""
        keys = [
            {"id": entry.key.id.hex(), "created": entry.created, "secret": entry.key.secret.hex()}
            for entry in self.entries
        ]
        document = {"keyring": FORMAT, "current": self.current.hex(), "keys": keys}
        return json.dumps(document, indent=2) + "\n"


def read_keyring(path: Path) -> KeyringContent:
    """Read a keyring file.

    Raises:
        BadUsage: It is missing, readable by others than its owner, or holds something else.
    """
    try:
        with os.fdopen(open_named(path), "rb") as file:
            return _content(path, file)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> BadUsage:
    hint = (
        f" (aos keyring new {shell_word(path)} makes one)"
        if isinstance(error, FileNotFoundError)
        else ""
    )
    return BadUsage(f"keyring {path}: cannot be read: {error.strerror}{hint}")


def new_keyring(path: Path, *, secret: bytes, created: str) -> KeyringContent:
    """Make a keyring with one key in a new file, mode 0600.

    Raises:
        Refused: The file exists. It is as it was.
        Unavailable: It cannot be written.
    """
    content = _with_key(KeyringContent(entries=(), current=b""), secret, created)
    try:
        write_file(path, content.to_text().encode())
    except FileTaken:
        raise Refused(
            f"{path}: the file exists, and a keyring is never replaced (aos keyring rotate "
            f"{shell_word(path)} adds a key)"
        ) from None
    return content


def rotate_keyring(path: Path, *, secret: bytes, created: str) -> KeyringContent:
    """Add a key that seals from now on. The other keys stay, and open what they sealed.

    Raises:
        BadUsage: The file is none. It is as it was.
        Refused: It has as many keys as a keyring may have.
        Unavailable: It cannot be written.
    """
    return _change(path, lambda content: _with_key(content, secret, created))


def drop_key(path: Path, id: bytes) -> KeyringContent:
    """Remove a key. Values that it sealed can no longer be opened with this file.

    Raises:
        BadUsage: The file is none, or has no such key.
        Refused: It is the current key.
        Unavailable: It cannot be written.
    """

    def without(content: KeyringContent) -> KeyringContent:
        remaining = tuple(entry for entry in content.entries if entry.key.id != id)
        if len(remaining) == len(content.entries):
            raise BadUsage(
                f"keyring {path}: it has no key {id.hex()} (aos keyring show {shell_word(path)})"
            )
        if id == content.current:
            raise Refused(
                f"keyring {path}: {id.hex()} is the current key (aos keyring rotate "
                f"{shell_word(path)} first)"
            )
        return KeyringContent(entries=remaining, current=content.current)

    return _change(path, without)


def _with_key(content: KeyringContent, secret: bytes, created: str) -> KeyringContent:
    if len(content.entries) >= KEYS_MAX:
        raise Refused(f"a keyring has at most {KEYS_MAX:,} keys: drop those that seal nothing")
    key = SealingKey(secret)
    return KeyringContent(
        entries=(*content.entries, KeyringEntry(key=key, created=created)), current=key.id
    )


def _change(path: Path, change: Callable[[KeyringContent], KeyringContent]) -> KeyringContent:
    path = path.resolve()  # a link stays, and the file that it leads to is replaced
    with _locked(path) as content:
        changed = change(content)
        try:
            with PlainFolder.at_user_path(path.parent) as folder:
                folder.put(path.name, changed.to_text().encode())
        except OSError as error:
            raise Unavailable(f"{path}: the keyring cannot be written: {error.strerror}") from error
    return changed


@contextmanager
def _locked(path: Path) -> Iterator[KeyringContent]:
    """The content of the file, which no other command changes during the block."""
    while True:
        try:
            fd = open_named(path)
        except OSError as error:
            raise _unreadable(path, error) from error
        with os.fdopen(fd, "rb") as file:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Another command may have replaced the file while this one waited for the lock.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), path.stat()):
                    yield _content(path, file)
                    return


def _content(path: Path, file: Any) -> KeyringContent:
    location = f"keyring {path}"
    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if mode & _OTHERS:
        raise BadUsage(
            f"{location}: expected mode 0600, found {mode:04o}: others may read it (chmod 600 "
            f"{shell_word(path)})"
        )
    data: bytes = file.read(FILE_BYTES_MAX + 1)
    try:
        return _read(json.loads(data[: FILE_BYTES_MAX + 1]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # The text of these errors may quote a secret.
        raise BadUsage(
            f"{location}: expected a keyring, as aos keyring new makes one, found something else "
            "(restore the file from a copy; its content is not shown)"
        ) from None


def _read(document: Any) -> KeyringContent:
    """Raises ValueError, TypeError or KeyError for what is not a keyring."""
    if set(document) != {"keyring", "current", "keys"} or document["keyring"] != FORMAT:
        raise ValueError("another format")
    entries = []
    for fields in document["keys"]:
        secret = bytes.fromhex(fields["secret"])
        if set(fields) != {"id", "created", "secret"} or len(secret) != SECRET_BYTES:
            raise ValueError("another key")
        key = SealingKey(secret)
        if key.id.hex() != fields["id"] or not isinstance(fields["created"], str):
            raise ValueError("an id of another key")
        entries.append(KeyringEntry(key=key, created=fields["created"]))
    content = KeyringContent(entries=tuple(entries), current=bytes.fromhex(document["current"]))
    ids = [entry.key.id for entry in entries]
    if len(set(ids)) != len(ids) or content.current not in ids or len(ids) > KEYS_MAX:
        raise ValueError("no current key, or a key twice")
    return content


class KeyringFile:
    """A keyring file that is read again when it has changed, so that a worker that runs gets the
    keys of ``aos keyring rotate`` (SL-36). Used from one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._keyring: Keyring | None = None

    def keyring(self) -> Keyring:
        """The keyring of the file as it is now. Raises as ``read_keyring``."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise _unreadable(self.path, error) from error
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._keyring is None or stamp != self._stamp:
            self._keyring = Keyring.read(self.path)
            self._stamp = stamp
        return self._keyring
