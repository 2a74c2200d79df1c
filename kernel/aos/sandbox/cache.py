"""Cache compiled code between starts, in a folder of this user outside of any world (S-50 to S-57).

    FOLDER/<module>-<engine>.code     checksum (32 bytes), the engine's serialized code

Rule 1: the engine runs this code unchecked. So it is read only from a folder that this user owns
and no one else may write to, and never from a world's folder, which another user may have made.
The checksum detects damage; it does not have to protect against the user's own account.

Rule 2: the cache only saves time. A problem with it is reported once, and the module is compiled.

Rule 3: replay and verify (``aos.prove``) do not use it: they compile the hashed bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
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
"""Maximum size of one module's compiled code. A larger module is compiled at each start."""

CHECKSUM_BYTES: Final = 32
ABANDONED_S: Final = 3600.0
"""Age at which an unfinished file is removed."""

_SUFFIX: Final = ".code"
_UNFINISHED: Final = ".unfinished"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

Engine = Mapping[str, str]
"""A sandbox's fingerprint: wasmtime version, target, hash of all settings."""


class Unusable(Exception):  # internal: becomes a note, never escapes this file
    """The reason why the cache cannot be used."""


def standard_cache(
    note: Callable[[str], None] = lambda _: None,
    *,
    outside: Path | None,
    environment: Mapping[str, str] = os.environ,
) -> ModuleCache | None:
    """The user's cache: ``aos/modules`` in ``AOS_CACHE_DIR``, ``XDG_CACHE_HOME`` or ``~/.cache``.

    None if ``AOS_CACHE_DIR`` is empty, or if the folder would be inside of ``outside``, the world's
    folder, which is copied and exported. A world in memory has none.
    """
    folder = standard_folder(environment)
    if folder is None:
        return None
    if outside is not None and folder.resolve().is_relative_to(outside.resolve()):
        note(f"{folder}: compiled modules are not kept: the folder lies inside the world's own")
        return None
    return ModuleCache(folder, note=note)


def standard_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder that the environment variables name; None without one."""
    folder_text = environment.get("AOS_CACHE_DIR")
    if folder_text is not None:
        return Path(folder_text) if folder_text else None
    shared, home = Path(environment.get("XDG_CACHE_HOME", "")), Path(environment.get("HOME", ""))
    if not shared.is_absolute():  # the XDG specification: ignore it
        shared = home / ".cache"
    return shared / "aos" / "modules" if shared.is_absolute() else None


class ModuleCache:
    """Compiled code by module and engine. Any number of processes may share one folder.

    Each call opens and checks the folder again, and accesses its files relative to the open folder,
    so that a replaced folder has no effect.
    """

    def __init__(
        self,
        folder: Path,
        *,
        note: Callable[[str], None] = lambda _: None,
        bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        """Touches no files yet. ``note`` is called once for each problem, with one line."""
        self.folder: Final = folder
        self._note = note
        self._reported: set[str] = set()
        self._bytes_max = bytes_max

    def get(self, module: Hash, engine: Engine) -> bytes | None:
        """Return the code that ``put`` stored for this module and engine, or None.

        Never raises, whatever is in the folder.
        """
        name = _name(module, engine)
        try:
            with self._open_folder() as folder:
                stored = _read(folder, name)
                if stored is None:
                    return None
                checksum, code = stored
                if checksum != _checksum(module, engine, code):
                    self._tell(f"{name} is damaged: the module is compiled again")
                    return None
                with contextlib.suppress(OSError):  # it is only removed earlier
                    os.utime(name, dir_fd=folder)
                return code
        except (OSError, Unusable) as problem:
            self._tell(_not_kept(problem))
            return None

    def put(self, module: Hash, engine: Engine, code: bytes) -> None:
        """Store ``code`` atomically, and remove the least recently used code to make room.

        Never raises: if the cache cannot be written, nothing is stored.
        """
        if len(code) > CODE_BYTES_MAX or CHECKSUM_BYTES + len(code) > self._bytes_max:
            return
        try:
            with self._open_folder() as folder:
                unfinished = _write_unfinished(folder, _checksum(module, engine, code) + code)
                os.replace(unfinished, _name(module, engine), src_dir_fd=folder, dst_dir_fd=folder)
                _make_room(folder, self._bytes_max)
        except (OSError, Unusable) as problem:
            self._tell(_not_kept(problem))

    def lock(self, name: str) -> int | None:
        """Lock a name, and return the open file that holds the lock. The lock ends when the last
        process that has it open closes it.

        None if another process has it, or if the cache cannot be used. Never raises.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with self._open_folder() as folder:
                lock = os.open(f"{name}.lock", flags, 0o600, dir_fd=folder)
        except (OSError, Unusable) as problem:
            self._tell(_not_kept(problem))
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[int]:
        """Open the folder, created if missing. Raises Unusable if other users may write to it."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self.folder, flags)
        try:
            status = os.fstat(folder)
            if status.st_uid != os.geteuid():
                raise Unusable(f"the folder belongs to user {status.st_uid}")
            if status.st_mode & _OTHERS_WRITE:
                mode = stat.S_IMODE(status.st_mode)
                raise Unusable(f"others may write to the folder: expected 0700, found {mode:04o}")
            yield folder
        finally:
            os.close(folder)

    def _tell(self, problem: str) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            self._note(f"{self.folder}: {problem}")


def _not_kept(problem: OSError | Unusable) -> str:
    reason = str(problem)
    if isinstance(problem, OSError) and problem.strerror:
        file_text = f": {problem.filename}" if isinstance(problem.filename, str | Path) else ""
        reason = problem.strerror + file_text
    return f"compiled modules are not kept: {reason}"


def _name(module: Hash, engine: Engine) -> str:
    """File name by module and engine, so that two releases on one node do not replace each
    other's code."""
    parts = (engine["wasmtime"], engine["target"], engine["engine"])
    return f"{module.hex()}-{digest('aos/code-name/2', *parts).hex()[:16]}{_SUFFIX}"


def _checksum(module: Hash, engine: Engine, code: bytes) -> bytes:
    """Checksum over module, engine and code, so that it also detects a renamed file."""
    engine_fields = (engine["wasmtime"], engine["target"], engine["engine"])
    return digest("aos/code/2", module, *engine_fields, code)


def _read(folder: int, name: str) -> tuple[bytes, bytes] | None:
    """The checksum and the code in a file; None if it is missing or too long."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        checksum, code = file.read(CHECKSUM_BYTES), file.read(CODE_BYTES_MAX + 1)
    return (checksum, code) if len(code) <= CODE_BYTES_MAX else None


def _write_unfinished(folder: int, data: bytes) -> str:
    """Write a file under a temporary name, which no one reads. If that fails, no file is left."""
    name = f"{secrets.token_hex(8)}{_UNFINISHED}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise
    return name


def _make_room(folder: int, bytes_max: int) -> None:
    """Remove unfinished files, and the least recently used ones until the rest fits."""
    files: list[tuple[float, str, int]] = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # another process removes files too
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if name.endswith(_SUFFIX):
                files.append((status.st_mtime, name, status.st_size))
            elif name.endswith(_UNFINISHED) and time.time() - status.st_mtime > ABANDONED_S:
                os.unlink(name, dir_fd=folder)
    size = sum(file_size for _, _, file_size in files)
    for _, name, file_size in sorted(files):
        if size <= bytes_max:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        size -= file_size
