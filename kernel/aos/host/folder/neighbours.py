"""The worlds in the same folder: the neighbours of a world, which it reaches by their names
(spec/world-send.md, WS-1 to WS-3).

    worlds/shop     the world itself
    worlds/bank     a neighbour
    worlds/cards    a group, whose shards are neighbours too; it has one name
    worlds/node     of the node that serves the folder, never a world
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aos.errors import AosError, BadUsage, Unavailable
from aos.host.folder.folder import GROUP_FILE, WORLD_FILE, WorldFolder, open_folder
from aos.host.folder.group import GroupFolder, group_of_shard, open_group
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


def names_in(path: Path, file: str = WORLD_FILE) -> list[str]:
    """The names of the worlds in a folder, sorted; with ``GROUP_FILE``, those of the groups.
    Folders with other names are passed over.

    Raises:
        Unavailable: The folder cannot be read.
    """
    try:
        with PlainFolder.at_user_path(path) as folder:
            return sorted(
                name
                for name in folder.names()
                if NAME.fullmatch(name) and name not in RESERVED and (path / name / file).exists()
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
    """The neighbours of the world in ``folder``. Those of a shard are the neighbours of its group,
    and the group. Nothing is remembered but the names of worlds that were found by their ids, which
    are checked again each time.

    Raises as ``find_group``.
    """

    def __init__(self, folder: WorldFolder) -> None:
        self._is_shard = group_of_shard(folder.path) is not None
        own = folder.path.absolute()
        self.path = own.parent.parent if self._is_shard else own.parent
        """The folder that holds the world, or its group, and the neighbours."""
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

    def group_of(self, to: str) -> GroupFolder | None:
        """The group with this name, whose shards take deliveries to it; None if there is none.

        Raises:
            BadUsage: ``to`` is not a name.
            AosError: As ``open_group``.
        """
        check_name(to)
        path = self.path / to
        return open_group(path) if (path / GROUP_FILE).exists() else None

    def has(self, world: Hash) -> bool:
        """Whether a neighbour has this id; a shard is one itself, by the name of its group. Raises:
        Unavailable: The folder cannot be read."""
        return (self._is_shard and world == self._own) or self.name_of(world) is not None

    def name_of(self, world: Hash) -> str | None:
        """The name of the neighbour with this id, ``GROUP/000`` for a shard; None if there is none.

        Raises:
            Unavailable: The folder cannot be read.
        """
        if world == self._own:
            return None
        name = self._name_by_id.get(world)
        if name is None or self._id_of(name) != world:
            self._name_by_id = {id: name for name, id in self._ids()}
            name = self._name_by_id.get(world)
        return name

    def _ids(self) -> Iterator[tuple[str, Hash]]:
        shards = [
            f"{name}/{shard}"
            for name in names_in(self.path, GROUP_FILE)
            for shard in self._shards_of(name)
        ]
        for name in [*names_in(self.path), *shards]:
            id = self._id_of(name)
            if id is not None:
                yield name, id

    def _shards_of(self, name: str) -> tuple[str, ...]:
        """The names of a group's shards; none if it cannot be read."""
        try:
            return open_group(self.path / name).names
        except AosError:
            return ()

    def _id_of(self, name: str) -> Hash | None:
        """The id of the world with this name; None if there is none that can be read."""
        try:
            return open_folder(self.path / name).world
        except AosError:
            return None
