"""A folder of worlds: their names, and what the node keeps of each (spec/worlds.md, WD-1 to WD-5).

DIR/NAME/                   a world
DIR/NAME/node/hosted.json   whether it is to run, and how it went to sleep
DIR/node/                   of the node itself: its socket, its lock, tokens for all worlds
DIR/.removed-…              a world that is being removed
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.folder.folder import STORE, WORLD_FILE, WorldFolder, is_group
from aos.host.folder.making import init_world
from aos.host.folder.neighbours import check_name, names_in, world_in
from aos.node.tokens import NODE
from aos.shell_text import shell_word
from aos.store.first_look import DATA_NAME
from aos.store.lock import LOCK_NAME, WorldLock
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash, hash_text

HOSTED: Final = "hosted.json"
LOCK: Final = "lock"
REMOVED: Final = ".removed-"
_FORMAT: Final = 1
_HOSTED_BYTES_MAX: Final = 4096

JournalMark: TypeAlias = tuple[int, int, int]
"""Which journal a store has: inode, time of the last change in ns, and size of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asleep:
    """How a world went to sleep: with nothing to do before ``wake_ns`` (ns since 1970; None: before
    someone uses it), and with the journal ``mark``."""

    mark: JournalMark
    wake_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """The file that a node keeps of a world. ``is_stopped``: an operator stopped it, so that no
    request and no time starts it."""

    is_stopped: bool = False
    asleep: Asleep | None = None

    @classmethod
    def read(cls, document: Any) -> Self:
        """Raises KeyError, TypeError or ValueError for anything that ``document`` does not
        write."""
        if document["version"] != _FORMAT or not isinstance(document["is_stopped"], bool):
            raise ValueError("another format")
        fields = document["asleep"]
        if fields is None:
            return cls(is_stopped=document["is_stopped"])
        inode, changed_ns, size = map(int, fields["mark"])
        wake_ns = fields["wake_ns"]
        asleep = Asleep(
            mark=(inode, changed_ns, size), wake_ns=None if wake_ns is None else int(wake_ns)
        )
        return cls(is_stopped=document["is_stopped"], asleep=asleep)

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        asleep = self.asleep
        return {
            "version": _FORMAT,
            "is_stopped": self.is_stopped,
            "asleep": None
            if asleep is None
            else {"mark": list(asleep.mark), "wake_ns": asleep.wake_ns},
        }


@dataclass(frozen=True, slots=True)
class WorldsFolder:
    """The folder ``path``. Any process of its owner may use it."""

    path: Path

    def open_plain(self) -> PlainFolder:
        """Open the folder itself, as ``WorldFolder.open_plain``. Raises OSError."""
        return PlainFolder.at_user_path(self.path)

    def check(self) -> None:
        """Check that it is a folder of worlds, which may be empty.

        Raises:
            BadUsage: There is no such folder, or it is the folder of one world.
        """
        if not self.path.is_dir():
            hint = f"mkdir {shell_word(self.path)}"
            raise BadUsage(f"{self.path}: expected a folder of worlds, found none", hint=hint)
        if (self.path / WORLD_FILE).exists():
            raise BadUsage(
                f"{self.path}: expected a folder of worlds, found a world",
                hint=f"aos node --world {shell_word(self.path)}",
            )

    def names(self) -> list[str]:
        """The names of the worlds in the folder, as ``names_in``."""
        return names_in(self.path)

    def world(self, name: str) -> WorldFolder:
        """Open the folder of a world.

        Raises:
            BadUsage: It is not a name, or there is no such world.
            Damage: As ``open_folder``.
        """
        return world_in(self.path, name)

    def create(self, name: str, *, operator: str = "operator") -> WorldFolder:
        """Make a world with keys of its own.

        Raises:
            BadUsage, Refused, Unavailable: As ``init_world``; nothing has changed.
        """
        check_name(name)
        self._check_is_no_group()
        path = self.path / name
        if (path / WORLD_FILE).exists():
            raise Refused(f"there is a world called {name} already", location=str(path))
        world = init_world(path, operator=operator)
        mark = self.mark(name)
        if mark is not None:  # it has nothing to do before someone uses it
            self.keep(name, Hosted(asleep=Asleep(mark=mark, wake_ns=None)))
        return world

    def remove(self, name: str, world: Hash) -> None:
        """Remove a world with its journal and keys. It cannot be brought back.

        ``world`` is the id of the world that is meant: another one stays. A removal that was
        interrupted is finished by ``sweep``.

        Raises:
            BadUsage: There is no such world, or it has another id.
            Unavailable: A process runs it, or its folder cannot be removed.
        """
        self._check_is_no_group()
        folder = self.world(name)
        if folder.world != world:
            raise BadUsage(
                f"{name}: another world has this name",
                expected=hash_text(world),
                actual=hash_text(folder.world),
            )
        with WorldLock(folder.path):
            try:
                with self.open_plain() as plain:
                    plain.rename(name, f"{REMOVED}{name}-{secrets.token_hex(4)}")
            except OSError as error:
                raise Unavailable(f"{folder.path}: cannot be removed: {error.strerror}") from error
        self.sweep()

    def _check_is_no_group(self) -> None:
        if is_group(self.path):
            raise Refused(
                f"{self.path}: the shards of a group stay as they are: none is added or removed"
            )

    def sweep(self) -> None:
        """Finish removals.

        Raises:
            Unavailable: A folder cannot be removed; the next call tries again.
        """
        for path in self.path.glob(f"{REMOVED}*"):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue  # another process removes it
            except OSError as error:
                raise Unavailable(f"{path}: cannot be removed: {error.strerror}") from error

    def hosted(self, name: str) -> Hosted:
        """The file of a world. A file that cannot be read counts as none: then the world
        is started, and finds out itself what it has to do."""
        try:
            with PlainFolder.at_user_path(self.path / name / NODE) as node:
                return Hosted.read(json.loads(node.read(HOSTED, _HOSTED_BYTES_MAX)))
        except (OSError, ValueError, KeyError, TypeError):
            return Hosted()

    def keep(self, name: str, hosted: Hosted) -> None:
        """Replace what the node keeps of a world. It is durable on return.

        Raises:
            Unavailable: It cannot be written.
        """
        try:
            with (
                PlainFolder.at_user_path(self.path / name) as world,
                world.inner(NODE, make=True) as node,
            ):
                node.put(HOSTED, json.dumps(hosted.document()).encode())
        except OSError as error:
            path = self.path / name / NODE / HOSTED
            raise Unavailable(f"{path}: cannot be written: {error.strerror}") from error

    def mark(self, name: str) -> JournalMark | None:
        """The mark of a world's journal; None if it has none. Each write of any process changes
        it."""
        try:
            data = (self.path / name / STORE / DATA_NAME).stat()
        except OSError:
            return None
        return data.st_ino, data.st_mtime_ns, data.st_size

    def is_held(self, name: str) -> bool:
        """Whether a process holds the lock of a world."""
        return _is_locked(self.path / name / LOCK_NAME)

    def is_hosted(self) -> bool:
        """Whether a node serves these worlds."""
        return _is_locked(self.path / NODE / LOCK)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """The right to host these worlds, inside the block.

        Raises:
            Unavailable: Another node hosts them, or the lock cannot be made.
        """
        try:
            with self.open_plain() as folder, folder.inner(NODE, make=True) as node:
                lock = node.open(LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            path = self.path / NODE / LOCK
            raise Unavailable(f"{path}: cannot be made: {error.strerror}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Unavailable(f"{self.path}: another node hosts these worlds") from error
            yield
        finally:
            os.close(lock)


def _is_locked(path: Path) -> bool:
    try:
        with PlainFolder.at_user_path(path.parent) as folder:
            lock = folder.open(path.name, os.O_RDWR)
    except (OSError, Damage):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
