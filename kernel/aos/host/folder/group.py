"""A group: a folder of worlds that share one keyed workload (spec/groups.md, GR-50 to GR-55).

    DIR/group.json    format, time of creation, and the id of each shard's world
    DIR/000/ …        the shards, each an ordinary world; all have the same keys
    DIR/node/         of the process that runs the group: its socket, its lock, tokens

``group.json`` is written last: a folder without it is not a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.folder.folder import (
    GROUP_FILE,
    WORLD_FILE,
    JsonFile,
    WorldFolder,
    is_replicated,
    open_folder,
)
from aos.manifest.placement import Shard
from aos.shell_text import shell_word
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem

FORMAT: Final = 1
SHARDS_MIN: Final = 2
SHARDS_MAX: Final = 32
_FILE: Final = JsonFile(
    name=GROUP_FILE, subject="group", format=FORMAT, advice="restore it from a backup"
)


def shard_name(index: int) -> str:
    """The name of a shard's folder: its index, with three digits."""
    return f"{index:03}"


def check_shards(shards: int) -> None:
    """Raise BadUsage unless a group may have so many shards."""
    if not SHARDS_MIN <= shards <= SHARDS_MAX:
        raise BadUsage(
            "--shards", expected=f"a number from {SHARDS_MIN} to {SHARDS_MAX}", actual=str(shards)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShards:
    """The shards of a group: those of a ``GroupFolder``, or those that are known by its address.
    ``path`` is that folder, or the address; ``worlds`` are the ids of the shards' worlds, by
    index."""

    path: Path
    worlds: tuple[Hash, ...]

    @property
    def shards(self) -> int:
        """The number of shards, which never changes."""
        return len(self.worlds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the shards in the group, in order. Their folders have the same names."""
        return tuple(map(shard_name, range(self.shards)))

    def location(self, index: int) -> Path:
        """Where a command finds the world of a shard: its folder, or its address."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFolder(GroupShards):
    """A folder that holds a group. ``created`` is UTC, RFC 3339."""

    created: str

    def shard_path(self, index: int) -> Path:
        """The folder of a shard."""
        return self.path / shard_name(index)

    def shard(self, index: int) -> WorldFolder:
        """Open the folder of a shard.

        Raises:
            Unavailable: The folder is missing.
            Damage: It holds another world than the one that the group was made with.
            AosError: As ``open_folder``.
        """
        path = self.shard_path(index)
        if not (path / WORLD_FILE).exists():
            raise Unavailable(
                f"a shard of the group is missing: it has {self.shards}",
                location=str(path),
                expected=f"the world {hash_text(self.worlds[index])}",
                hint="restore this folder from a backup; a group runs with all of its shards",
            )
        folder = open_folder(path)
        if folder.world != self.worlds[index]:
            raise Damage(
                "this shard's folder holds another world",
                location=str(path),
                expected=hash_text(self.worlds[index]),
                actual=hash_text(folder.world),
                hint=f"{GROUP_FILE} names the world of each shard; restore the folder that "
                "belongs here",
            )
        return folder

    def location(self, index: int) -> Path:
        """See ``GroupShards``. Raises as ``shard``."""
        return self.shard(index).path

    def are_replicated(self) -> bool:
        """Whether the shards are replicated worlds. Opens none of them.

        Raises:
            Unavailable: Some are and some are not: ``aos adopt`` was interrupted (CL-308).
        """
        replicated = [name for name in self.names if is_replicated(self.path / name)]
        if replicated and len(replicated) < self.shards:
            raise Unavailable(
                "some shards of this group are replicated, and the others are embedded",
                location=str(self.path),
                expected="all of them, or none",
                actual=f"{', '.join(replicated)} of {self.shards} are replicated",
                hint="aos adopt --store, or aos adopt --embedded, was interrupted: run the same "
                "command again",
            )
        return bool(replicated)

    def folders(self) -> tuple[WorldFolder, ...]:
        """Open the folders of all shards. Raises as ``shard``."""
        return tuple(map(self.shard, range(self.shards)))

    def document(self) -> dict[str, Any]:
        """The content of ``group.json``."""
        return {
            "format": FORMAT,
            "created": self.created,
            "worlds": [hash_text(world) for world in self.worlds],
        }


def find_group(path: Path) -> GroupFolder | None:
    """Read the ``group.json`` of a folder; None if it has none. Opens no shard.

    Raises:
        Refused: A newer release created the group.
        Damage: The file is not a regular file, is too large, or is invalid.
        Unavailable: The file cannot be read.
    """
    value = _FILE.read(path)
    if value is None:
        return None
    match value:
        case {"format": 1, "created": str(created), "worlds": list(ids)} if SHARDS_MIN <= len(
            ids
        ) <= SHARDS_MAX and len(set(map(str, ids))) == len(ids):
            pass
        case _:
            raise _FILE.damage(
                path,
                f"expected {{format, created, worlds}} with {SHARDS_MIN} to {SHARDS_MAX} different "
                "worlds, found something else",
            )
    try:
        worlds = tuple(parse_hash(text) for text in ids)
    except (ValueProblem, AttributeError, TypeError) as problem:
        raise _FILE.damage(path, str(problem)) from problem
    return GroupFolder(path=path, worlds=worlds, created=created)


def open_group(path: Path) -> GroupFolder:
    """Read the ``group.json`` of a group's folder. Opens no shard.

    Raises:
        BadUsage: There is no group here.
        AosError: As ``find_group``.
    """
    group = find_group(path)
    if group is None:
        raise BadUsage(f"{path}: this is no group's folder: there is no {GROUP_FILE}")
    return group


def group_of_shard(path: Path) -> GroupFolder | None:
    """The group that has the world at ``path`` as a shard; None if there is none. Raises as
    ``find_group``."""
    absolute = path.absolute()
    group = find_group(absolute.parent)
    return group if group is not None and absolute.name in group.names else None


def check_shard(path: Path, shard: Shard | None) -> None:
    """Check that the manifest of a world that is a shard of a group is that of this shard (GR-72).
    ``shard`` is the one that the manifest names.

    Raises:
        Refused: The world at ``path`` is another shard, and the kernel would take what belongs to
            others.
        AosError: As ``find_group``.
    """
    group = group_of_shard(path)
    if group is None:
        return
    name = path.absolute().name
    expected = Shard(group.names.index(name), group.shards)
    if shard != expected:
        raise Refused(
            "this world is a shard of a group, which has one manifest",
            location=str(path),
            expected=f"the manifest of {_shard_text(expected)}",
            actual=_shard_text(shard),
            hint=f"name the group: aos apply PATH --world {shell_word(group.path)}",
        )


def _shard_text(shard: Shard | None) -> str:
    return "a world in no group" if shard is None else f"shard {shard.index} of {shard.count}"
