"""Compiled code between starts, in a folder of this node that belongs to no world (S-50 to S-57).

    FOLDER/key                        32 random bytes, 0600
    FOLDER/<module>-<engine>.code     mac (32 bytes), what the engine serialised

Rule 1: the engine runs what it is given here without looking at it. So nothing leaves this file
whose MAC, under this node's key, does not bind it to the module's hash and to the engine.

Rule 2: a cache can only save time. Whatever is wrong with it is told once and the module compiled.

Rule 3: whoever checks a journal uses none (``aos.audit``): it compiles from the hashed bytes.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from blake3 import blake3

from aos.sandbox.caps import GIB, MIB
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, digest

CACHE_BYTES_MAX: Final = GIB
CODE_BYTES_MAX: Final = 256 * MIB
"""One module's compiled code. A larger one is compiled at each start."""

KEY_BYTES: Final = 32
MAC_BYTES: Final = 32
ABANDONED_S: Final = 3600.0
"""After so long a file that was never finished is taken away."""

_KEY: Final = "key"
_SUFFIX: Final = ".code"
_UNFINISHED: Final = ".unfinished"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

Engine = Mapping[str, str]
"""A sandbox's fingerprint: wasmtime version, target, hash of all settings."""


class Unusable(Exception):  # internal: becomes a note, never escapes this file
    """The cache cannot be used, and why."""


def standard_cache(
    note: Callable[[str], None], *, outside: Path, environment: Mapping[str, str] = os.environ
) -> ModuleCache | None:
    """The cache of this node: ``AOS_CACHE_DIR``, else ``XDG_CACHE_HOME`` or ``~/.cache``, and there
    ``aos/modules``. None when ``AOS_CACHE_DIR`` is empty, or when the folder would lie in
    ``outside``, the world's own folder, which is copied and exported.
    """
    folder = standard_folder(environment)
    if folder is None:
        return None
    if folder.resolve().is_relative_to(outside.resolve()):
        note(f"{folder}: compiled modules are not kept: the folder lies inside the world's own")
        return None
    return ModuleCache(folder, note=note)


def standard_folder(environment: Mapping[str, str]) -> Path | None:
    """Where the variables say; None for nowhere."""
    own = environment.get("AOS_CACHE_DIR")
    if own is not None:
        return Path(own) if own else None
    shared, home = Path(environment.get("XDG_CACHE_HOME", "")), Path(environment.get("HOME", ""))
    if not shared.is_absolute():  # such a one is to be ignored
        shared = home / ".cache"
    return shared / "aos" / "modules" if shared.is_absolute() else None


class ModuleCache:
    """Compiled code by module and engine. Any number of processes may share one folder.

    The folder is opened and checked anew for each call, and everything is done relative to what was
    opened: a folder that is changed or swapped meanwhile is not followed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        note: Callable[[str], None] = lambda _: None,
        bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        """Nothing is made or read yet. ``note`` is told each problem once, in one line."""
        self._folder = folder
        self._note = note
        self._told: set[str] = set()
        self._bytes_max = bytes_max

    def get(self, module: Hash, engine: Engine) -> bytes | None:
        """What ``put`` was given for this module and engine on this node; None for anything else.

        Never raises for what is in the folder.
        """
        name = _name(module, engine)
        try:
            with self._opened() as folder:
                key = _read_key(folder)
                stored = None if key is None else _read(folder, name, MAC_BYTES + CODE_BYTES_MAX)
                if key is None or stored is None:
                    return None
                code = stored[MAC_BYTES:]
                if not hmac.compare_digest(stored[:MAC_BYTES], _mac(key, module, engine, code)):
                    self._tell(f"{name} is not what this node compiled: it is compiled again")
                    return None
                with contextlib.suppress(OSError):  # only its turn to be removed comes earlier
                    os.utime(name, dir_fd=folder)
                return code
        except (OSError, Unusable) as problem:
            self._tell(_not_kept(problem))
            return None

    def put(self, module: Hash, engine: Engine, code: bytes) -> None:
        """Keep ``code``, whole or not at all; what was used longest ago makes room for it.

        Never raises: a cache that cannot be written is none.
        """
        if len(code) > CODE_BYTES_MAX or MAC_BYTES + len(code) > self._bytes_max:
            return
        try:
            with self._opened() as folder:
                key = _read_key(folder) or _make_key(folder)
                mac = _mac(key, module, engine, code)
                unfinished = _write_unfinished(folder, mac + code)
                os.replace(unfinished, _name(module, engine), src_dir_fd=folder, dst_dir_fd=folder)
                _make_room(folder, self._bytes_max)
        except (OSError, Unusable) as problem:
            self._tell(_not_kept(problem))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The folder, made if it is not there, with nobody else able to write to it."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self._folder, flags)
        try:
            found = os.fstat(folder)
            if found.st_uid != os.geteuid():
                raise Unusable(f"the folder belongs to user {found.st_uid}")
            if found.st_mode & _OTHERS_WRITE:
                mode = stat.S_IMODE(found.st_mode)
                raise Unusable(f"others may write to the folder: expected 0700, found {mode:04o}")
            yield folder
        finally:
            os.close(folder)

    def _tell(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self._note(f"{self._folder}: {problem}")


def _not_kept(problem: OSError | Unusable) -> str:
    why = str(problem)
    if isinstance(problem, OSError) and problem.strerror:
        named = f": {problem.filename}" if isinstance(problem.filename, str | Path) else ""
        why = problem.strerror + named
    return f"compiled modules are not kept: {why}"


def _name(module: Hash, engine: Engine) -> str:
    """A file for each engine, so that two releases on one node do not take turns."""
    parts = (engine["wasmtime"], engine["target"], engine["engine"])
    return f"{module.hex()}-{digest('aos/code-name/1', *parts).hex()[:16]}{_SUFFIX}"


def _mac(key: bytes, module: Hash, engine: Engine, code: bytes) -> bytes:
    parts: list[Value] = ["aos/code/1", module, engine["wasmtime"], engine["target"]]
    return blake3(encode([*parts, engine["engine"], code]), key=key).digest()


def _read(folder: int, name: str, most: int) -> bytes | None:
    """A file's bytes; None when it is not there or longer than ``most``."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as opened:
        data = opened.read(most + 1)
    return data if len(data) <= most else None


def _read_key(folder: int) -> bytes | None:
    """None when there is none, or one that others may have read: nothing it signed counts."""
    try:
        found = os.stat(_KEY, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        return None
    key = _read(folder, _KEY, KEY_BYTES)
    return key if key is not None and len(key) == KEY_BYTES else None


def _make_key(folder: int) -> bytes:
    """Make one, in place of one that cannot be used. Of two makers the first one's stands."""
    unfinished = _write_unfinished(folder, secrets.token_bytes(KEY_BYTES), sync=True)
    try:
        if _read_key(folder) is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_KEY, dir_fd=folder)
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, _KEY, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.unlink(unfinished, dir_fd=folder)
    key = _read_key(folder)
    if key is None:
        raise Unusable("no key can be kept there")
    return key


def _write_unfinished(folder: int, data: bytes, *, sync: bool = False) -> str:
    """Write a file of a name that nobody reads. Nothing is left when it cannot be written."""
    name = f"{secrets.token_hex(8)}{_UNFINISHED}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(data)
            opened.flush()
            if sync:
                os.fsync(fd)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise
    return name


def _make_room(folder: int, bytes_max: int) -> None:
    """Remove what was used longest ago until the rest fits, and what was never finished."""
    kept: list[tuple[float, str, int]] = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # another process makes room, too
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if name.endswith(_SUFFIX):
                kept.append((found.st_mtime, name, found.st_size))
            elif name.endswith(_UNFINISHED) and time.time() - found.st_mtime > ABANDONED_S:
                os.unlink(name, dir_fd=folder)
    size = sum(each for _, _, each in kept)
    for _, name, each in sorted(kept):
        if size <= bytes_max:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        size -= each
