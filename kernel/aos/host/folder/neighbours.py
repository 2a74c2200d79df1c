"""The worlds in the same folder: the neighbours of a world, which it reaches by their names
(spec/world-send.md, WS-1 to WS-3).

    worlds/shop     the world itself
    worlds/bank     a neighbour
    worlds/node     of the node that serves the folder, never a world
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aos.errors import AosError, BadUsage, Unavailable
from aos.host.folder.folder import WORLD_FILE, WorldFolder, open_folder
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash

NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""The form of a world's name: also a label of a domain and a segment of a URL."""

RESERVED: Final = frozenset({"node"})
"""The folder of the node that serves the worlds (WD-2)."""


def check_name(name: str) -> None:
    """Check the name of a world. Raises: BadUsage: It is none."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise BadUsage(
            "not a name of a world",
            expected="1 to 63 lowercase letters, digits and dashes, not a dash first, and not "
            + ", ".join(sorted(RESERVED)),
            actual=repr(name),
        )


def names_in(path: Path) -> list[str]:
    """The names of the worlds in a folder, sorted. Folders with other names are passed over.

    Raises:
        Unavailable: The folder cannot be read.
    """
    try:
        with PlainFolder.at_user_path(path) as folder:
            return sorted(
                name
                for name in folder.names()
                if NAME.fullmatch(name)
                and name not in RESERVED
                and (path / name / WORLD_FILE).exists()
            )
    except OSError as error:
        raise Unavailable(f"{path}: cannot be read: {error.strerror}") from error


def world_in(path: Path, name: str) -> WorldFolder:
    """Open the folder of the world ``name`` in the folder ``path``.

    Raises:
        BadUsage: It is not a name, or there is no such world.
        Refused, Damage, Unavailable: As ``open_folder``.
    """
    check_name(name)
    if not (path / name / WORLD_FILE).exists():
        raise BadUsage(f"no world is called {name}", location=str(path), hint="aos world list")
    return open_folder(path / name)


class Neighbours:
    """The neighbours of the world in ``folder``. Nothing is remembered but the names of worlds that
    were found by their ids, which are checked again each time."""

    def __init__(self, folder: WorldFolder) -> None:
        self.path = folder.path.absolute().parent
        """The folder that holds the world and its neighbours."""
        self._own = folder.world
        self._name_by_id: dict[Hash, str] = {}

    def place_of(self, to: str) -> WorldFolder:
        """The place of a delivery to ``to``: the folder of the world with this name (WS-2).

        Raises:
            BadUsage: ``to`` is not a name, or no world, or the sender itself.
            Refused, Damage, Unavailable: As ``open_folder``.
        """
        folder = world_in(self.path, to)
        if folder.world == self._own:
            raise BadUsage(f"{to} is the world itself (emit the event instead)")
        return folder

    def has(self, world: Hash) -> bool:
        """Whether a neighbour has this id. Raises: Unavailable: The folder cannot be read."""
        return self.name_of(world) is not None

    def name_of(self, world: Hash) -> str | None:
        """The name of the neighbour with this id; None if there is none. Raises: Unavailable: The
        folder cannot be read."""
        if world == self._own:
            return None
        name = self._name_by_id.get(world)
        if name is None or self._id_of(name) != world:
            self._name_by_id = {id: name for name, id in self._ids()}
            name = self._name_by_id.get(world)
        return name

    def _ids(self) -> Iterator[tuple[str, Hash]]:
        for name in names_in(self.path):
            id = self._id_of(name)
            if id is not None:
                yield name, id

    def _id_of(self, name: str) -> Hash | None:
        """The id of the world with this name; None if there is none that can be read."""
        try:
            return open_folder(self.path / name).world
        except AosError:
            return None
