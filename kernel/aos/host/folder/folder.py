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
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.records import Principal
from aos.errors import BadUsage, Damage, Refused, Unavailable, sentence
from aos.host.folder.adoption import KEYS_FOLDER, check_place
from aos.host.stamps import Sources
from aos.manifest.keys import key_text, parse_key
from aos.manifest.names import NODE
from aos.shell_text import shell_word
from aos.store.lmdb_store import LmdbStore
from aos.store.plain_files import PlainFolder, open_named
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

FORMAT: Final = 1
WORLD_FILE: Final = "world.json"
UNFINISHED_FILE: Final = "world.json.unfinished"
KEYS: Final = KEYS_FOLDER
WORLD_KEY: Final = "world.key"
EXECUTORS: Final = "executors"
STORE: Final = "store"
SOCKET: Final = "aos.sock"
SEED_BYTES: Final = 32
NONCE_BYTES: Final = 32
_OTHERS_WRITE: Final = 0o022
_KEY_BYTES_MAX: Final = 256
WORLD_FILE_BYTES_MAX: Final = 64 * 1024

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


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
        return self.key("operator.key")

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
            Refused: It is to be written, not adopted here, and ``in_any_place`` is not set.
            Damage: It is missing or cannot be read, or belongs to another world.
            Unavailable: It cannot be opened now.
        """
        store = LmdbStore.open(self.path / STORE, readonly=readonly)
        try:
            head = store.head()
            if head is not None:
                check_world(head, self.world)
            if not (readonly or in_any_place):
                check_place(self.path / WORLD_FILE, store)
        except BaseException:
            store.close()
            raise
        return store


def check_world(head: Head, world: Hash) -> None:
    """Raise Damage if the store with this ``head`` does not belong to the folder's world
    (H-41a)."""
    if head.world != world:
        raise Damage(
            sentence(
                "the store holds another world",
                expected=hash_text(world),
                actual=hash_text(head.world),
                hint="world.json and store/ belong together; restore both from one copy",
            )
        )


def init_world(
    path: Path,
    *,
    operator: str = "operator",
    executors: Sequence[str] = (),
    sources: Sources | None = None,
) -> WorldFolder:
    """Create a world in an empty or new folder: keys, and a store with the genesis record.

    ``operator`` is the name of the operator, who may apply manifests. Each of ``executors`` gets
    its own key, for ``manifest.executors``.

    Raises:
        Refused: The folder is not empty. Nothing has changed.
        BadUsage: A name is invalid. Nothing has changed.
        Unavailable: The folder cannot be created or written. Its partial files have been removed.
    """
    check_names(operator, executors)
    with making(path):
        folder = _fill(path, operator, executors, sources or Sources())
        with folder.open_store():
            pass  # opening for writing adopts it
        return folder


@contextlib.contextmanager
def making(path: Path) -> Iterator[None]:
    """Reserve an empty or new folder for a new world. The block must end with ``finish``.

    If the block fails, its files are removed. If the process is killed in the block, the folder is
    marked as unfinished, and the next one that makes a world in it begins by removing them.

    Raises:
        Refused: The folder is not empty. Nothing has changed.
        Unavailable: The folder cannot be created or written.
    """
    try:
        mark = _take_folder(path)
    except OSError as error:
        if path.exists() and not path.is_dir():
            raise Refused(f"{path}: expected an empty or new folder, found a file") from error
        raise Unavailable(f"{path}: the folder cannot be made: {error.strerror}") from error
    try:
        yield
    except BaseException as problem:
        _take_away(path)
        if isinstance(problem, OSError):
            raise Unavailable(f"{path}: the world cannot be written: {problem}") from problem
        raise
    finally:
        os.close(mark)


def open_folder(path: Path) -> WorldFolder:
    """Read a world's ``world.json`` (H-5, H-6). Opens and locks nothing else.

    Raises:
        BadUsage: There is no world here.
        Refused: A newer release created it.
        Damage: Its ``world.json`` is not a regular file, is too large, or is invalid.
    """
    file = path / WORLD_FILE
    try:
        with PlainFolder.at_user_path(path) as folder:
            data = folder.read(WORLD_FILE, WORLD_FILE_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        raise BadUsage(_no_world(path)) from None
    except OSError as error:
        raise Unavailable(f"{file}: the file cannot be read: {error.strerror}") from error
    try:
        value = parse_json(data.decode(), max_bytes=WORLD_FILE_BYTES_MAX)
    except (ValueProblem, UnicodeDecodeError) as error:
        raise Damage(f"{file}: the file is not JSON: {error}") from error
    match value:
        case {"format": int(number)} if number > FORMAT:
            raise Refused(
                sentence(
                    "a newer release made this world",
                    location=str(file),
                    expected=f"format {FORMAT}",
                    actual=f"format {number}",
                    hint="use that release",
                )
            )
        case {"format": 1, "world": str(world), "created": str(created), **more}:
            executor_keys: Any = more.get("executors", {})
        case _:
            raise Damage(f"{file}: expected {{format, world, created}}, found something else")
    try:
        executors = {str(name): parse_key(key) for name, key in executor_keys.items()}
        return WorldFolder(
            path=path,
            world=parse_hash(world),
            created=created,
            executors=MappingProxyType(executors),
        )
    except (ValueProblem, ValueError, AttributeError, TypeError) as problem:
        raise Damage(f"{file}: {problem}") from problem


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
            sentence(
                "the key cannot be read",
                location=str(file),
                expected="a file with a secret key, as aos key new writes it",
                actual=error.strerror,
            )
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
            sentence(
                "others may read this secret key",
                location=str(file),
                expected="mode 0600",
                actual=f"mode {mode:04o}",
                hint=f"chmod 600 {shell_word(file)}",
            )
        )
    if not re.fullmatch(rb"[0-9a-f]{64}", text):
        raise Damage(f"{file}: expected a secret key of 64 hex digits, found something else")
    return SigningKey(bytes.fromhex(text.decode()))


def check_names(operator: str, executors: Sequence[str]) -> None:
    """Check the names of a new world's operator and executors. An executor's is also the name of
    its key's file (H-2).

    Raises:
        BadUsage: A name has another form, is reserved, or is given twice.
    """
    for role, name in (("operator", operator), *(("executor", executor) for executor in executors)):
        if not _NAME.fullmatch(name) or (role == "executor" and name == NODE):
            raise BadUsage(
                f"{role} {name!r}: expected a letter and up to 63 letters, digits, '.', '_', '-'"
                + (f", and not {NODE}" if role == "executor" else "")
            )
    if len(set(executors)) != len(executors):
        raise BadUsage(f"executors: expected different names, found {', '.join(executors)}")


def _no_world(path: Path) -> str:
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


def _take_folder(path: Path) -> int:
    """Reserve the folder with a marker, which only one of two processes can lock (H-3, H-4). Return
    its descriptor."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    names = sorted(entry.name for entry in path.iterdir())
    if WORLD_FILE in names:
        raise Refused(f"{path}: there is a world already; nothing was changed")
    if UNFINISHED_FILE in names:
        mark = _take_abandoned(path, names)
        if mark is None:
            raise Refused(_no_world(path))
        return mark
    if names:
        raise Refused(
            f"{path}: expected an empty or new folder, found {names[0]!r}; nothing was changed"
        )
    with PlainFolder.at_user_path(path) as folder:
        try:
            mark = folder.create(UNFINISHED_FILE, 0o644)
        except FileExistsError:
            raise Refused(_no_world(path)) from None
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process took it for one that was left behind
            os.close(mark)
            raise Refused(_no_world(path)) from None
        # Another process may have finished a world since the check.
        names = sorted(name for name in folder.names() if name != UNFINISHED_FILE)
        if not names:
            return mark
        folder.remove(UNFINISHED_FILE)
        os.close(mark)
        raise Refused(f"{path}: expected an empty folder, found {names[0]!r} in it meanwhile")


def _take_abandoned(path: Path, names: Sequence[str]) -> int | None:
    """Lock the marker of a world whose creator was killed, and remove what it had made; None if
    another process is creating it, or the folder has more than that."""
    if not {KEYS, STORE, UNFINISHED_FILE}.issuperset(names):
        return None
    with PlainFolder.at_user_path(path) as folder:
        try:
            mark = folder.open(UNFINISHED_FILE, os.O_RDWR, is_sole=True)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = folder.find(UNFINISHED_FILE)
            if is_there is None or not os.path.samestat(is_there, os.fstat(mark)):
                raise BlockingIOError  # its creator has finished it meanwhile
            for name in (KEYS, STORE):
                folder.check_folder(name)
                shutil.rmtree(path / name, ignore_errors=True)
            os.ftruncate(mark, 0)
        except BlockingIOError:
            os.close(mark)
            return None
        except BaseException:
            os.close(mark)
            raise
    return mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of a new world: its own, and the public ones of its operator and executors."""

    world: SigningKey
    operators: tuple[Principal, ...]
    executors: Mapping[str, bytes]


def make_keys(path: Path, operator: str, executors: Sequence[str], sources: Sources) -> Keys:
    """Make the keys of a new world in its folder."""
    executor_keys: dict[str, bytes] = {}
    with PlainFolder.at_user_path(path) as folder, folder.inner(KEYS, make=True) as keys:
        world_key = _make_key(keys, "world.key", sources)
        operator_key = _make_key(keys, "operator.key", sources)
        if executors:
            with keys.inner(EXECUTORS, make=True) as below:
                for name in executors:
                    key = _make_key(below, f"{name}.key", sources)
                    executor_keys[name] = bytes(key.verify_key)
    operators = (Principal(operator, bytes(operator_key.verify_key)),)
    return Keys(world=world_key, operators=operators, executors=executor_keys)


def _fill(path: Path, operator: str, executors: Sequence[str], sources: Sources) -> WorldFolder:
    # Every command opens a folder; only one that makes a world needs the kernel for its genesis.
    from aos.core.journal.inputs import GenesisInput  # noqa: PLC0415
    from aos.core.kernel import genesis  # noqa: PLC0415

    keys = make_keys(path, operator, executors, sources)
    world_key, operators = keys.world, keys.operators
    nonce, public = sources.random(NONCE_BYTES), bytes(world_key.verify_key)
    message = GenesisInput.message(nonce, public, operators)
    genesis_input = GenesisInput(
        nonce=nonce,
        world_key=public,
        operators=operators,
        signature=world_key.sign(message).signature,
    )
    stamp = sources.stamp()
    state, sealed = genesis(genesis_input, stamp, sources.salt())
    with LmdbStore.create(path / STORE) as store:
        store.append([sealed], Head.of(sealed.tip).signed(world_key), expected=NO_FRAME)
    created = datetime.fromtimestamp(stamp.ns // 10**9, UTC).isoformat().replace("+00:00", "Z")
    folder = WorldFolder(
        path=path,
        world=state.world,
        created=created,
        executors=MappingProxyType(dict(keys.executors)),
    )
    finish(folder, operators)
    return folder


def finish(folder: WorldFolder, operators: Sequence[Principal]) -> None:
    """Make everything durable, and only then rename ``world.json`` to its final name."""
    document = {
        "format": FORMAT,
        "world": hash_text(folder.world),
        "created": folder.created,
        "operators": {operator.name: key_text(operator.key) for operator in operators},
        "executors": {name: key_text(key) for name, key in folder.executors.items()},
    }
    with folder.open_plain() as world:
        with os.fdopen(world.open(UNFINISHED_FILE, os.O_WRONLY, is_sole=True), "w") as open_file:
            json.dump(document, open_file, indent=2)
            open_file.write("\n")
            open_file.flush()
            os.fsync(open_file.fileno())
        with world.inner(KEYS) as keys:
            if keys.find(EXECUTORS) is not None:
                with keys.inner(EXECUTORS) as below:
                    below.sync()
            keys.sync()
        with world.inner(STORE) as store:
            store.sync()
        world.sync()
        world.rename(UNFINISHED_FILE, WORLD_FILE)
        world.sync()
    with PlainFolder.at_user_path(folder.path / os.pardir) as parent:
        parent.sync()


def _make_key(folder: PlainFolder, name: str, sources: Sources) -> SigningKey:
    key = SigningKey(sources.random(SEED_BYTES))
    folder.put(name, key_file(key))
    return key


def key_file(key: SigningKey) -> bytes:
    """The content of a key's file."""
    return f"{bytes(key).hex()}\n".encode()


def _take_away(path: Path) -> None:
    """Remove the files that ``_fill`` wrote into an empty folder. The folder itself is kept."""
    for name in (KEYS, STORE):
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (WORLD_FILE, UNFINISHED_FILE):
        (path / name).unlink(missing_ok=True)
