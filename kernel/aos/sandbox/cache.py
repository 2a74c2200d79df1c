"""Compiled code between starts, in a folder of this user that belongs to no world (S-50 to S-57).

    FOLDER/<module>-<engine>.code     checksum (32 bytes), what the engine serialised

Rule 1: the engine runs this code unchecked. So it is read only from a folder that this user owns
and no one else may write to, and never from a world's folder, which a stranger may have made. The
checksum finds damage; it is no protection from the user's own account, and needs to be none.

Rule 2: a cache can only save time. A problem with it is reported once and the module compiled.

Rule 3: replay and verify use none (``aos.audit``): they compile from the hashed bytes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aos.sandbox.caps import GIB, MIB
from aos.values.digests import Hash, digest

CACHE_BYTES_MAX: Final = GIB
CODE_BYTES_MAX: Final = 256 * MIB
"""One module's compiled code. A larger one is compiled at each start."""

CHECKSUM_BYTES: Final = 32
ABANDONED_S: Final = 3600.0
"""After so long a file that was never finished is taken away."""

_SUFFIX: Final = ".code"
_UNFINISHED: Final = ".unfinished"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

Engine = Mapping[str, str]
"""A sandbox's fingerprint: wasmtime version, target, hash of all settings."""


class Unusable(Exception):  # internal: becomes a note, never escapes this file
    """The cache cannot be used, and why."""


def standard_cache(
    note: Callable[[str], None], *, outside: Path, environment: Mapping[str, str] = os.environ
) -> ModuleCache | None:
    """The cache of this user: ``AOS_CACHE_DIR``, else ``XDG_CACHE_HOME`` or ``~/.cache``, and there
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
        """Return the code that ``put`` kept for this module and engine; None where there is none.

        Never raises for what is in the folder.
        """
        name = _name(module, engine)
        try:
            with self._opened() as folder:
                stored = _read(folder, name, CHECKSUM_BYTES + CODE_BYTES_MAX)
                if stored is None:
                    return None
                code = stored[CHECKSUM_BYTES:]
                if stored[:CHECKSUM_BYTES] != _checksum(module, engine, code):
                    self._tell(f"{name} is damaged: the module is compiled again")
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
        if len(code) > CODE_BYTES_MAX or CHECKSUM_BYTES + len(code) > self._bytes_max:
            return
        try:
            with self._opened() as folder:
                unfinished = _write_unfinished(folder, _checksum(module, engine, code) + code)
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
    return f"{module.hex()}-{digest('aos/code-name/2', *parts).hex()[:16]}{_SUFFIX}"


def _checksum(module: Hash, engine: Engine, code: bytes) -> bytes:
    """Of the code with what it is for: a file that was renamed has a wrong one, too."""
    named = (engine["wasmtime"], engine["target"], engine["engine"])
    return digest("aos/code/2", module, *named, code)


def _read(folder: int, name: str, most: int) -> bytes | None:
    """A file's bytes; None when it is not there or longer than ``most``."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as opened:
        data = opened.read(most + 1)
    return data if len(data) <= most else None


def _write_unfinished(folder: int, data: bytes) -> str:
    """Write a file of a name that nobody reads. Nothing is left when it cannot be written."""
    name = f"{secrets.token_hex(8)}{_UNFINISHED}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(data)
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
