"""``aos adopt``: let a world run in this folder (spec/bundle.md, B-60 to B-66)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nacl.signing import SigningKey

from aos.errors import BadUsage, Refused, Unavailable
from aos.host.folder.adoption import Origin, origin_of, settle
from aos.host.folder.folder import (
    EXECUTORS,
    KEYS,
    WORLD_FILE,
    WORLD_KEY,
    WorldFolder,
    is_replicated,
    key_file,
    open_folder,
    read_key,
)
from aos.host.folder.restore import Progress, check_key, restore
from aos.host.folder.second_fold import SecondFold
from aos.manifest.keys import key_text
from aos.store.lock import world_locked

if TYPE_CHECKING:
    from aos.core.kernel_protocol import KernelFigures
    from aos.core.state.state import State

_SUFFIX: Final = ".key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """The result of adopting. ``origin`` is how the world came here, None if it was adopted before;
    ``keys`` are the files that were copied."""

    folder: WorldFolder
    origin: Origin | None
    seq: int
    open_intents: int
    keys: tuple[str, ...]


def origin_at(path: Path) -> Origin | None:
    """How the world at ``path`` came there; None if it is adopted, or replicated: the log, and not
    the folder, has one writer (spec/cluster.md, CL-90). Takes no lock.

    Raises:
        BadUsage, Refused, Damage, Unavailable: As ``open_folder``, and the store cannot be read.
    """
    folder = open_folder(path)
    if is_replicated(path):
        return None
    with folder.open_store(readonly=True) as store:
        return origin_of(path / WORLD_FILE, store)


def adopt_world(
    path: Path, *, keys: Path | None = None, progress: Progress | None = None
) -> Adopted:
    """Let the world at ``path`` run here. The caller guarantees that it runs nowhere else.

    ``keys`` is a folder with ``world.key``, ``operator.key`` and ``executors/NAME.key``, each of
    which may be missing; they are copied into the world's folder.

    Raises:
        BadUsage: There is no world here, or no folder ``keys``.
        Refused: A key is not this world's, or the world's own key is missing. Nothing has changed.
        Damage: The journal is not complete and valid. Nothing has changed.
        Unavailable: A process runs it, or a file cannot be written. Keys may have been copied.
    """
    folder = open_folder(path)
    with world_locked(path), folder.open_store(in_any_place=True) as store:
        origin = origin_of(path / WORLD_FILE, store)
        second = SecondFold(outside=path)
        state = restore(store, folder.world, progress=progress, second=second)
        new_keys: dict[str, SigningKey] = {}
        if keys is not None:
            new_keys = keys_to_copy(folder, keys, state)
        key = new_keys.get("world.key") or _own_key(folder)
        check_key(state.world_key, key)
        copy_keys(folder, new_keys)
        if origin is not None:
            settle(path / WORLD_FILE, store)
        return Adopted(
            folder=folder,
            origin=origin,
            seq=state.tip.seq,
            open_intents=len(state.intents),
            keys=tuple(new_keys),
        )


def _own_key(folder: WorldFolder) -> SigningKey:
    try:
        return folder.world_key()
    except Unavailable as problem:
        cause = problem.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else None) or str(problem)
        raise Refused(
            "the world's own key is needed to continue its journal: "
            f"{folder.path / KEYS / WORLD_KEY}: {reason}",
            hint="name the folder of world.key with --keys FOLDER; "
            "without that key only a fork can continue: aos fork",
        ) from problem


def keys_to_copy(
    folder: WorldFolder, keys: Path, state: State | KernelFigures
) -> dict[str, SigningKey]:
    """Return the keys to copy from the folder ``keys`` into that of a world, all of them checked,
    by file name in ``keys/``.

    Raises:
        BadUsage: There is no folder ``keys``.
        Refused: A key is not this world's, or there is another one already.
    """
    if not keys.is_dir():
        raise BadUsage(f"{keys}: expected a folder with world.key in it, found none")
    operators = {operator.key: operator.name for operator in state.operators}
    executors = _executors(folder, state)
    keys_to_copy: dict[str, SigningKey] = {}
    for name in _names(keys):
        key = read_key(keys / name)
        public = bytes(key.verify_key)
        stem = Path(name).name.removesuffix(_SUFFIX)
        if name == "world.key":
            is_right, expected = public == state.world_key, key_text(state.world_key)
        elif name == "operator.key":
            is_right, expected = public in operators, "a key of " + ", ".join(operators.values())
        else:
            executor_keys = executors.get(stem, ())
            is_right = public in executor_keys
            expected = (
                " or ".join(map(key_text, executor_keys)) or "no key: it has no such executor"
            )
        if not is_right:
            raise Refused(
                "this key is not this world's; nothing was changed",
                location=str(keys / name),
                expected=expected,
                actual=key_text(public),
            )
        if _is_to_be_copied(folder, name, key):
            keys_to_copy[name] = key
    return keys_to_copy


def _names(keys: Path) -> Iterator[str]:
    for name in ("world.key", "operator.key"):
        if os.path.lexists(keys / name):
            yield name
    below = keys / EXECUTORS
    if below.is_dir():
        for file in sorted(below.iterdir()):
            if file.suffix == _SUFFIX:
                yield f"{EXECUTORS}/{file.name}"


def executor_keys(keys: Path) -> dict[str, bytes]:
    """Return the public keys of the executors in a folder of keys, by name. Raises as
    ``read_key``."""
    names = [name for name in _names(keys) if name.startswith(f"{EXECUTORS}/")]
    return {
        Path(name).name.removesuffix(_SUFFIX): bytes(read_key(keys / name).verify_key)
        for name in names
    }


def copy_keys(folder: WorldFolder, new_keys: Mapping[str, SigningKey]) -> None:
    """Write keys into the folder of a world, each atomically. Raises Unavailable."""
    for name, key in new_keys.items():
        _write(folder, name, key)


def _executors(
    folder: WorldFolder, state: State | KernelFigures
) -> Mapping[str, tuple[bytes, ...]]:
    """The public keys that each executor may have here: those created with the world, and those of
    the manifest in force."""
    keys_by_executor: dict[str, tuple[bytes, ...]] = {
        name: (key,) for name, key in folder.executors.items()
    }
    manifest = state.manifest
    for executor in ((manifest.executors if manifest else None) or {}).values():
        keys_by_executor[executor.name] = tuple(
            dict.fromkeys((*keys_by_executor.get(executor.name, ()), executor.public_key))
        )
    return keys_by_executor


def _is_to_be_copied(folder: WorldFolder, name: str, key: SigningKey) -> bool:
    """Whether a key is missing here. Raises: Refused: The file has another key."""
    target = folder.path / KEYS / name
    if not os.path.lexists(target):
        return True
    existing_key = folder.key(name)
    if existing_key == key:
        return False
    raise Refused(
        "there is already another key here; nothing was changed",
        location=str(target),
        expected=key_text(bytes(key.verify_key)),
        actual=key_text(bytes(existing_key.verify_key)),
        hint="move it away",
    )


def _write(folder: WorldFolder, name: str, key: SigningKey) -> None:
    """Write a key file atomically."""
    target = folder.path / KEYS / name
    try:
        with folder.open_plain() as world, contextlib.ExitStack() as stack:
            folders = [world, stack.enter_context(world.inner(KEYS, make=True))]
            for below in Path(name).parts[:-1]:
                folders.append(stack.enter_context(folders[-1].inner(below, make=True)))
            keys = folders[-1]
            keys.put(target.name, key_file(key))
            for inner_folder in reversed(folders):
                inner_folder.sync()
    except OSError as error:
        raise Unavailable(f"{target}: the key cannot be written: {error.strerror}") from error
