"""Make the folder of a new world: its keys, its ``world.json``, and a store with the genesis record
(spec/host.md, H-1 to H-5)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.inputs import GenesisInput
from aos.core.journal.records import Principal, Stamp
from aos.core.kernel import genesis
from aos.core.pending import Sealed
from aos.errors import BadUsage, Refused, Unavailable
from aos.host.folder.folder import (
    EXECUTORS,
    FORMAT,
    GROUP_FILE,
    KEYS,
    OPERATOR_KEY,
    REPLICA_FILE,
    SEED_BYTES,
    STORE,
    UNFINISHED_FILE,
    UNFINISHED_GROUP_FILE,
    WORLD_FILE,
    WORLD_KEY,
    WorldFolder,
    key_file,
    no_world_text,
)
from aos.host.stamps import Sources
from aos.manifest.keys import key_text
from aos.manifest.names import NODE
from aos.store.lmdb_store import LmdbStore
from aos.store.plain_files import PlainFolder
from aos.values.digests import hash_text

NONCE_BYTES: Final = 32

REPLICA_FILES: Final = (REPLICA_FILE, f"{REPLICA_FILE}.part")
"""Files that the folder of a node has, too, and perhaps before it is finished."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


def init_world(
    path: Path,
    *,
    operator: str = "operator",
    executors: Sequence[str] = (),
    sources: Sources | None = None,
    keys_of: WorldFolder | None = None,
) -> WorldFolder:
    """Create a world in an empty or new folder: keys, and a store with the genesis record.

    ``operator`` is the name of the operator, who may apply manifests. Each of ``executors`` gets
    its own key, for ``manifest.executors``. With ``keys_of``, the keys are those of that world,
    which has the same executors.

    Raises:
        Refused: The folder is not empty. Nothing has changed.
        BadUsage: A name is invalid. Nothing has changed.
        AosError: A key of ``keys_of`` cannot be read. Nothing has changed.
        Unavailable: The folder cannot be created or written. Its partial files have been removed.
    """
    check_names(operator, executors)
    with making(path):
        chance = sources or Sources()
        keys = make_keys(path, operator, executors, chance, keys_of=keys_of)
        folder = _fill(path, keys, chance)
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


def _take_folder(path: Path) -> int:
    """Reserve the folder with a marker, which only one of two processes can lock (H-3, H-4). Return
    its descriptor."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    names = sorted(entry.name for entry in path.iterdir())
    if WORLD_FILE in names:
        raise Refused(f"{path}: there is a world already; nothing was changed")
    if GROUP_FILE in names or UNFINISHED_GROUP_FILE in names:
        raise Refused(f"{path}: there is a group of worlds already; nothing was changed")
    if UNFINISHED_FILE in names:
        mark = _take_abandoned(path, names)
        if mark is None:
            raise Refused(no_world_text(path))
        return mark
    if names:
        raise Refused(
            f"{path}: expected an empty or new folder, found {names[0]!r}; nothing was changed"
        )
    with PlainFolder.at_user_path(path) as folder:
        try:
            mark = folder.create(UNFINISHED_FILE, 0o644)
        except FileExistsError:
            raise Refused(no_world_text(path)) from None
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process took it for one that was left behind
            os.close(mark)
            raise Refused(no_world_text(path)) from None
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
    if not {KEYS, STORE, UNFINISHED_FILE, *REPLICA_FILES}.issuperset(names):
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
            for name in REPLICA_FILES:
                folder.remove(name)
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


def make_keys(
    path: Path,
    operator: str,
    executors: Sequence[str],
    sources: Sources,
    *,
    keys_of: WorldFolder | None = None,
) -> Keys:
    """Make the keys of a new world in its folder, or copy those of ``keys_of``. Raises as
    ``WorldFolder.key``."""

    def make(folder: PlainFolder, name: str, file: str) -> SigningKey:
        key = SigningKey(sources.random(SEED_BYTES)) if keys_of is None else keys_of.key(file)
        folder.put(name, key_file(key))
        return key

    executor_keys: dict[str, bytes] = {}
    with PlainFolder.at_user_path(path) as folder, folder.inner(KEYS, make=True) as keys:
        world_key = make(keys, WORLD_KEY, WORLD_KEY)
        operator_key = make(keys, OPERATOR_KEY, OPERATOR_KEY)
        if executors:
            with keys.inner(EXECUTORS, make=True) as below:
                for name in executors:
                    file = f"{name}.key"
                    key = make(below, file, f"{EXECUTORS}/{file}")
                    executor_keys[name] = bytes(key.verify_key)
    operators = (Principal(operator, bytes(operator_key.verify_key)),)
    return Keys(world=world_key, operators=operators, executors=executor_keys)


def _fill(path: Path, keys: Keys, sources: Sources) -> WorldFolder:
    sealed, stamp = new_genesis(keys, sources)
    with LmdbStore.create(path / STORE) as store:
        store.append([sealed], Head.of(sealed.tip).signed(keys.world), expected=NO_FRAME)
    folder = new_folder(path, keys, sealed, stamp)
    finish(folder, keys.operators)
    return folder


def new_genesis(keys: Keys, sources: Sources) -> tuple[Sealed, Stamp]:
    """Return the first frame of a new world with these keys, and its time."""
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
    return genesis(genesis_input, stamp, sources.salt()), stamp


def new_folder(path: Path, keys: Keys, sealed: Sealed, stamp: Stamp) -> WorldFolder:
    """The folder of a new world, which is not finished."""
    created = datetime.fromtimestamp(stamp.ns // 10**9, UTC).isoformat().replace("+00:00", "Z")
    return WorldFolder(
        path=path,
        world=sealed.tip.world,
        created=created,
        executors=MappingProxyType(dict(keys.executors)),
    )


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


def _take_away(path: Path) -> None:
    """Remove the files that ``_fill`` wrote into an empty folder. The folder itself is kept."""
    for name in (KEYS, STORE):
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (WORLD_FILE, UNFINISHED_FILE, *REPLICA_FILES):
        (path / name).unlink(missing_ok=True)
