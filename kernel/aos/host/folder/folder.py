"""Create and open a world's folder (spec/host.md, H-1 to H-5).

    DIR/world.json    format, world id, time of creation
    DIR/keys/         0700; world.key, operator.key and executors/NAME.key: 0600, 64 hex digits
    DIR/store/        the journal and the blobs
    DIR/log/          the header log, once there is a checkpoint (spec/proofs.md, PF-20)
    DIR/machine/      sessions of this machine's commands, with --host-root (spec/agentos.md, AG-69)
    DIR/lock          the lock of the process that writes
    DIR/aos.sock      the socket of the process that runs the world

``world.json`` is written last: a folder without it is not a world.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from nacl.signing import SigningKey

from aos.errors import BadUsage, Damage, Refused, Unavailable, sentence
from aos.manifest.keys import parse_key
from aos.shell_text import shell_word
from aos.store.plain_files import PlainFolder, open_named
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

if TYPE_CHECKING:  # only ``open_store`` needs them
    from aos.core.journal.frame import Head
    from aos.store.lmdb_store import LmdbStore

FORMAT: Final = 1
WORLD_FILE: Final = "world.json"
UNFINISHED_FILE: Final = "world.json.unfinished"
GROUP_FILE: Final = "group.json"
"""In place of ``WORLD_FILE``: the folder has a group of worlds (spec/groups.md)."""
UNFINISHED_GROUP_FILE: Final = "group.json.unfinished"
REPLICA_FILE: Final = "replica.json"
"""Next to ``WORLD_FILE``: the folder is that of a node of a replicated world (spec/cluster.md)."""
KEYS: Final = "keys"
WORLD_KEY: Final = "world.key"
OPERATOR_KEY: Final = "operator.key"
EXECUTORS: Final = "executors"
STORE: Final = "store"
SOCKET: Final = "aos.sock"
SEED_BYTES: Final = 32
_OTHERS_WRITE: Final = 0o022
_KEY_BYTES_MAX: Final = 256
FILE_BYTES_MAX: Final = 64 * 1024
"""The longest JSON file of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A small JSON file of a folder that has a ``subject``: a world, a group or a node. A newer
    release raises the ``format`` in it; this one reads that one. ``advice`` is for a damaged file.
    """

    name: str
    subject: str
    format: int = 1
    advice: str = ""

    def read(self, folder: Path) -> object | None:
        """Read the file; None if there is none. The value is JSON of any shape, of this format if
        it has one.

        Raises:
            Refused: A newer release wrote it.
            Damage: It is not a regular file, has more than 64 KiB, or is not JSON.
            Unavailable: It cannot be read.
        """
        file = folder / self.name
        try:
            with PlainFolder.at_user_path(folder) as plain:
                data = plain.read(self.name, FILE_BYTES_MAX)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unavailable(f"{file}: the file cannot be read: {error.strerror}") from error
        try:
            value = parse_json(data.decode(), max_bytes=FILE_BYTES_MAX)
        except (ValueProblem, UnicodeDecodeError) as error:
            raise self.damage(folder, f"the file is not JSON: {error}") from error
        match value:
            case {"format": int(number)} if number > self.format:
                raise Refused(
                    f"a newer release made this {self.subject}",
                    location=str(file),
                    expected=f"format {self.format}",
                    actual=f"format {number}",
                    hint="use that release",
                )
        return () if value is None else value  # null is of another shape, and no missing file

    def damage(self, folder: Path, problem: str) -> Damage:
        """The error of a file that cannot be used."""
        advice = f" ({self.advice})" if self.advice else ""
        return Damage(f"{folder / self.name}: {problem}{advice}")


_FILE: Final = JsonFile(name=WORLD_FILE, subject="world", format=FORMAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFolder:
    """A folder that holds a world (H-1). ``created`` is UTC, RFC 3339. ``socket`` is the path of
    the socket, which is there only while a process runs the world (H-50)."""

    path: Path
    world: Hash
    created: str
    executors: Mapping[str, bytes] = field(default_factory=dict)
    """Public keys of the executors whose keys were made with the world, by name."""

    @property
    def socket(self) -> Path:
        return self.path / SOCKET

    def world_key(self) -> SigningKey:
        """Raises as ``read_key``."""
        return self.key(WORLD_KEY)

    def operator_key(self) -> SigningKey:
        """Raises as ``read_key``."""
        return self.key(OPERATOR_KEY)

    def key(self, name: str) -> SigningKey:
        """Read the secret key in this file of ``keys``, or of a folder in it.

        Raises: As ``read_key``; Damage also if it is not a regular file (ST-80), Refused if others
            may replace it.
        """
        file = self.path / KEYS / name
        try:
            with self.open_plain() as world, contextlib.ExitStack() as stack:
                folder = stack.enter_context(world.inner(KEYS))
                _check_keys(folder)
                for below in Path(name).parts[:-1]:
                    folder = stack.enter_context(folder.inner(below))
                    _check_keys(folder)
                fd = folder.open(file.name)
        except OSError as error:
            raise _no_key(file, error) from error
        return _key_in(file, fd)

    def remarks(self) -> list[str]:
        """Return a sentence for each folder of the world that others may write (H-2a)."""
        remarks = []
        for folder in (self.path, self.path / STORE):
            with contextlib.suppress(OSError):
                mode = stat.S_IMODE(folder.stat().st_mode)
                if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
                    remarks.append(
                        _writable("others may replace what is in this folder", folder, mode)
                    )
        return remarks

    def open_plain(self) -> PlainFolder:
        """Open the folder itself. Its path may be a link, because the user names it. Raises
        OSError."""
        return PlainFolder.at_user_path(self.path)

    def open_store(self, *, readonly: bool = False, in_any_place: bool = False) -> LmdbStore:
        """Open the store; a writer must hold the world's lock.

        Raises:
            Refused: It is to be written, ``in_any_place`` is not set, and it is not adopted here or
                is that of a replicated world (CL-98).
            Damage: It is missing or cannot be read, or belongs to another world.
            Unavailable: It cannot be opened now.
        """
        # Every command opens a folder. The client of a running world does not open its store.
        from aos.host.folder.adoption import check_place  # noqa: PLC0415
        from aos.store.lmdb_store import LOG_PLACE, LmdbStore  # noqa: PLC0415

        store = LmdbStore.open(self.path / STORE, readonly=readonly)
        try:
            head = store.head()
            if head is not None:
                check_world(head, self.world)
            if not (readonly or in_any_place):
                check_place(self.path / WORLD_FILE, store)
                if store.meta_get(LOG_PLACE) is not None:
                    raise Refused(
                        "this world is replicated, so nothing writes to this folder but its node: "
                        "the journal of the other nodes would not have it",
                        location=str(self.path),
                        hint=f"run it: aos run --world {shell_word(self.path)}; or ask the node "
                        "that owns the world"
                        if is_replicated(self.path)
                        else f"{REPLICA_FILE} is missing from this folder: restore it from a "
                        "backup, or make the node again: aos join",
                    )
        except BaseException:
            store.close()
            raise
        return store


def is_group(path: Path) -> bool:
    """Whether a folder is that of a group. A command for worlds imports no more than this."""
    return os.path.lexists(path / GROUP_FILE)


def is_replicated(path: Path) -> bool:
    """Whether a folder is that of a node of a replicated world. A command for worlds imports no
    more than this."""
    return os.path.lexists(path / REPLICA_FILE)


def check_world(head: Head, world: Hash) -> None:
    """Raise Damage if the store with this ``head`` does not belong to the folder's world
    (H-41a)."""
    if head.world != world:
        raise Damage(
            "the store holds another world",
            expected=hash_text(world),
            actual=hash_text(head.world),
            hint="world.json and store/ belong together; restore both from one copy",
        )


def open_folder(path: Path) -> WorldFolder:
    """Read a world's ``world.json`` (H-5, H-6). Opens and locks nothing else.

    Raises:
        BadUsage: There is no world here.
        Refused: A newer release created it.
        Damage: Its ``world.json`` is not a regular file, is too large, or is invalid.
    """
    value = _FILE.read(path)
    if value is None:
        raise BadUsage(no_world_text(path))
    match value:
        case {"format": 1, "world": str(world), "created": str(created), **more}:
            executor_keys: Any = more.get("executors", {})
        case _:
            raise _FILE.damage(path, "expected {format, world, created}, found something else")
    try:
        executors = {str(name): parse_key(key) for name, key in executor_keys.items()}
        return WorldFolder(
            path=path,
            world=parse_hash(world),
            created=created,
            executors=MappingProxyType(executors),
        )
    except (ValueProblem, ValueError, AttributeError, TypeError) as problem:
        raise _FILE.damage(path, str(problem)) from problem


def _check_keys(folder: PlainFolder) -> None:
    """Raises: Refused: Others than its owner may replace the keys in a folder (H-2)."""
    mode = stat.S_IMODE(folder.status().st_mode)
    if mode & _OTHERS_WRITE:
        raise Refused(_writable("others may replace the keys in this folder", folder.path, mode))


def _writable(problem: str, folder: Path, mode: int) -> str:
    return sentence(
        problem,
        location=str(folder),
        expected="mode 0700",
        actual=f"mode {mode:04o}",
        hint=f"chmod go-w {quote(str(folder))}",
    )


def read_key(file: Path) -> SigningKey:
    """Read a secret key, 64 hex digits, from a file that the user names.

    Raises:
        BadUsage: There is no such file, or it cannot be opened.
        Refused: Others than its owner may read it.
        Damage: It holds something else.
    """
    try:
        fd = open_named(file)
    except OSError as error:
        raise BadUsage(
            "the key cannot be read",
            location=str(file),
            expected="a file with a secret key, as aos key new writes it",
            actual=error.strerror,
        ) from error
    return _key_in(file, fd)


def _no_key(file: Path, error: OSError) -> Unavailable:
    if isinstance(error, FileNotFoundError):
        only = "; without it, only a fork can continue this world: aos fork DIR --at SEQ"
        return Unavailable(
            f"{file}: the key is missing (restore this file from a backup"
            f"{only if file.name == WORLD_KEY else ''})"
        )
    return Unavailable(f"{file}: the key cannot be read: {error.strerror}")


def _key_in(file: Path, fd: int) -> SigningKey:
    """Read the key from the open file ``fd``, and close it. Only its owner may read it (H-2)."""
    try:
        with os.fdopen(fd, "rb") as open_file:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            text = open_file.read(_KEY_BYTES_MAX).strip()
    except OSError as error:
        raise _no_key(file, error) from error
    if mode & 0o077:
        raise Refused(
            "others may read this secret key",
            location=str(file),
            expected="mode 0600",
            actual=f"mode {mode:04o}",
            hint=f"chmod 600 {shell_word(file)}",
        )
    if not re.fullmatch(rb"[0-9a-f]{64}", text):
        raise Damage(f"{file}: expected a secret key of 64 hex digits, found something else")
    return SigningKey(bytes.fromhex(text.decode()))


def no_world_text(path: Path) -> str:
    """Why a folder is no world's, and what to do."""
    word = shell_word(path)
    if path.exists() and not path.is_dir():
        return (
            f"{path}: expected the folder of a world, found a file "
            f"(if it is a bundle: aos verify {word}, or aos import {word} DIR)"
        )
    if not path.is_dir():
        return (
            f"{path}: there is no such folder (make a world: aos init {word}; "
            "or name another with --world or AOS_WORLD)"
        )
    if is_group(path):
        return (
            f"{path}: expected the folder of a world, found a group of worlds "
            f"(name one of them: --world {shell_word(path / '000')})"
        )
    if os.path.lexists(path / UNFINISHED_GROUP_FILE):
        return (
            f"{path}: this group is not finished: its creation was interrupted, or is in progress "
            "(run aos init with the same options again; it finishes the group)"
        )
    if os.path.lexists(path / UNFINISHED_FILE):
        return (
            f"{path}: this world is not finished: its creation was interrupted, or is in progress "
            "(wait for a process that is creating it, or create the world again in this folder)"
        )
    if (path / STORE).is_dir() or (path / KEYS).is_dir():
        return (
            f"{path}: {WORLD_FILE} is missing from this world's folder (restore this file from a "
            "backup; or, from a bundle of the world: aos import FILE DIR, then aos adopt)"
        )
    return f"{path}: this is no world's folder: there is no {WORLD_FILE} (make one: aos init DIR)"


def key_file(key: SigningKey) -> bytes:
    """The content of a key's file."""
    return f"{bytes(key).hex()}\n".encode()
