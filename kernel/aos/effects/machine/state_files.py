"""The executor's own files: small, each replaced as a whole and durable (AG-69).

They are in the folder of the world, so each is opened through ``PlainFolder``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.store.plain_files import PlainFolder
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import MalformedCbor

FILE_BYTES_MAX: Final = 80 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A folder below ``path``, which is opened for each use. A use raises ``OSError``, or
    ``Damage`` for a link or a special file."""

    path: Path
    names: tuple[str, ...] = ()

    def inner(self, *names: str) -> StateFolder:
        return StateFolder(self.path, (*self.names, *names))

    def file(self, name: str) -> StateFile:
        return StateFile(self, name)

    @contextmanager
    def open_plain(self, *, make: bool = False) -> Iterator[PlainFolder]:
        """The folder, made with all above it if ``make``."""
        with ExitStack() as stack:
            folder = stack.enter_context(PlainFolder.at_user_path(self.path.parent))
            for name in (self.path.name, *self.names):
                folder = stack.enter_context(folder.inner(name, make=make))
            yield folder


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file with one value. Its methods raise as the folder's uses do."""

    folder: StateFolder
    name: str

    def write(self, value: Value) -> None:
        """Replace the file. It is durable when this returns."""
        with self.folder.open_plain(make=True) as folder:
            folder.put(self.name, encode(value))

    def create(self) -> bool:
        """Make it without a value, durably; False if it exists."""
        with self.folder.open_plain(make=True) as folder:
            try:
                os.close(folder.create(self.name))
            except FileExistsError:
                return False
            folder.sync()
        return True

    def read(self) -> Any:
        """Its value; None if it is absent or has none."""
        try:
            with self.folder.open_plain() as folder:
                data = folder.read(self.name, FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        with contextlib.suppress(MalformedCbor):
            return decode_record(data)
        return None

    @property
    def exists(self) -> bool:
        """Whether anything has its name."""
        try:
            with self.folder.open_plain() as folder:
                return folder.find(self.name) is not None
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Remove it, if it is there."""
        with self.folder.open_plain() as folder:
            folder.remove(self.name)
