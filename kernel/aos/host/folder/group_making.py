"""Make the folder of a new group: a mark with the plan, then each shard, and ``group.json`` last
(spec/groups.md, GR-51, GR-52).

    group.json.unfinished    the plan: how many shards, the operator, the executors; locked by the
                             process that makes the group

A process that is killed leaves the mark and the shards that it made. The same command finishes the
group: finished shards stay, the others are made.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from aos.errors import Damage, Refused, Unavailable
from aos.host.folder.folder import (
    GROUP_FILE,
    UNFINISHED_FILE,
    UNFINISHED_GROUP_FILE,
    WORLD_FILE,
    WORLD_KEY,
    WorldFolder,
    open_folder,
)
from aos.host.folder.group import FORMAT, GroupFolder, check_shards, find_group, shard_name
from aos.host.folder.making import check_names, init_world
from aos.host.stamps import Sources
from aos.shell_text import shell_word
from aos.store.plain_files import PlainFolder

_PLAN_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """A group to make: the number of its shards, and the names that ``init_world`` takes. ``store``
    is the address of a group of replicated worlds."""

    shards: int
    operator: str = "operator"
    executors: tuple[str, ...] = ()
    store: str | None = None

    def write(self) -> bytes:
        """The content of the mark."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps({"format": FORMAT, **fields}, indent=2).encode() + b"\n"

    @property
    def command(self) -> str:
        """The options of ``aos init`` for this plan."""
        names = [f" --executor {shell_word(name)}" for name in self.executors]
        operator = "" if self.operator == "operator" else f" --operator {shell_word(self.operator)}"
        store = "" if self.store is None else f" --store {shell_word(self.store)}"
        return f"--shards {self.shards}{store}{operator}{''.join(names)}"


MakeShard: TypeAlias = Callable[[Path, int, WorldFolder | None], WorldFolder]
"""Makes the shard with an index in a folder, or finishes it, with the keys of the first one."""


def init_group(
    path: Path,
    plan: GroupPlan,
    *,
    sources: Sources | None = None,
    make: MakeShard | None = None,
    finish: Callable[[list[WorldFolder]], None] = lambda _: None,
) -> GroupFolder:
    """Create a group in an empty or new folder, or finish one whose creation was interrupted.

    All shards have the same operator key, world key and executors' keys. ``make`` makes each of
    them; by default, an embedded world. ``finish`` gets all of them before the group is there.

    Raises:
        BadUsage: The number of shards or a name is invalid. Nothing has changed.
        Refused: The folder is not empty, has a group or a world, another process is creating a
            group in it, or an interrupted creation had another plan. Nothing has changed.
        Damage: The mark, or a shard that is there, does not belong to the group.
        Unavailable: The folder cannot be written. The same call continues.
    """
    check_shards(plan.shards)
    check_names(plan.operator, plan.executors)
    sources = sources or Sources()
    try:
        with _marked(path, plan) as folder:
            finished = find_group(path)
            if finished is None:
                make = make or partial(_embedded, plan=plan, sources=sources)
                finished = _fill(path, plan, sources, make, finish)
                folder.put(
                    GROUP_FILE,
                    json.dumps(finished.document(), indent=2).encode() + b"\n",
                    mode=0o644,
                )
            folder.remove(UNFINISHED_GROUP_FILE)
            folder.sync()
        with PlainFolder.at_user_path(path / os.pardir) as parent:
            parent.sync()
    except OSError as error:
        if path.exists() and not path.is_dir():
            raise Refused(f"{path}: expected an empty or new folder, found a file") from error
        raise Unavailable(
            f"{path}: the group cannot be written: {error.strerror} (the same command continues)"
        ) from error
    return finished


def _embedded(
    path: Path, _index: int, first: WorldFolder | None, *, plan: GroupPlan, sources: Sources
) -> WorldFolder:
    if (path / WORLD_FILE).exists():
        return open_folder(path)
    return init_world(
        path, operator=plan.operator, executors=plan.executors, sources=sources, keys_of=first
    )


def _fill(
    path: Path,
    plan: GroupPlan,
    sources: Sources,
    make: MakeShard,
    finish: Callable[[list[WorldFolder]], None],
) -> GroupFolder:
    folders: list[WorldFolder] = []
    for index in range(plan.shards):
        shard_path = path / shard_name(index)
        first = folders[0] if folders else None
        if first is not None and (shard_path / WORLD_FILE).exists():
            _check_key(open_folder(shard_path), first)
        folders.append(make(shard_path, index, first))
    finish(folders)
    created = datetime.fromtimestamp(sources.stamp().ns // 10**9, UTC)
    return GroupFolder(
        path=path,
        worlds=tuple(folder.world for folder in folders),
        created=created.isoformat().replace("+00:00", "Z"),
    )


def _check_key(shard: WorldFolder, first: WorldFolder) -> None:
    """Raises: Damage: A shard that was there is of another group."""
    if shard.world_key() != first.world_key():
        raise Damage(
            "a world of another group is in this folder",
            location=str(shard.path),
            expected=f"the same keys/{WORLD_KEY} as {first.path}",
            actual="another key",
            hint="move the folder away, and run the same command again",
        )


@contextlib.contextmanager
def _marked(path: Path, plan: GroupPlan) -> Iterator[PlainFolder]:
    """Hold the mark of the group in the block, with the plan in it; it stays after the block.

    Raises:
        Refused, Damage: As ``init_group``.
        OSError: The folder or the mark cannot be made.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    with PlainFolder.at_user_path(path) as folder:
        _check_content(path, plan, set(folder.names()))
        mark = folder.open(UNFINISHED_GROUP_FILE, os.O_RDWR | os.O_CREAT, 0o644, is_sole=True)
        try:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    f"{path}: another process is creating a group here (wait for it)"
                ) from None
            current = folder.find(UNFINISHED_GROUP_FILE)
            if current is None or not os.path.samestat(current, os.fstat(mark)):
                raise Refused(f"{path}: another process has created a group here")
            names = set(folder.names())
            if GROUP_FILE in names and not os.fstat(mark).st_size:
                folder.remove(UNFINISHED_GROUP_FILE)  # made after another process had finished
                raise Refused(f"{path}: another process has created a group here")
            _take_plan(path, plan, mark, is_new=not _shards_in(names))
            yield folder
        finally:
            os.close(mark)


def _check_content(path: Path, plan: GroupPlan, names: set[str]) -> None:
    if WORLD_FILE in names or UNFINISHED_FILE in names:
        raise Refused(
            f"{path}: there is a world already; nothing was changed (a group is made in a folder "
            "of its own)"
        )
    if GROUP_FILE in names and UNFINISHED_GROUP_FILE not in names:
        raise Refused(
            f"{path}: there is a group already; nothing was changed (its number of shards never "
            "changes)"
        )
    marks = {GROUP_FILE, UNFINISHED_GROUP_FILE, f"{GROUP_FILE}.part"}
    is_begun = UNFINISHED_GROUP_FILE in names
    expected = marks | set(map(shard_name, range(plan.shards))) if is_begun else set()
    others = sorted(names - expected)
    if is_begun and _shards_in(set(others)):
        return  # the plan in the mark has more shards, and the message about it is better
    if others:
        raise Refused(
            f"{path}: expected an empty or new folder, found {others[0]!r}; nothing was changed"
        )


def _shards_in(names: set[str]) -> set[str]:
    return {name for name in names if len(name) == len(shard_name(0)) and name.isdecimal()}


def _take_plan(path: Path, plan: GroupPlan, mark: int, *, is_new: bool) -> None:
    """Write the plan into a new mark, or compare it with that of the interrupted creation."""
    begun = os.pread(mark, _PLAN_BYTES_MAX, 0)
    if begun == plan.write():
        return
    begun_plan = _read_plan(begun)
    if begun_plan is None and is_new:
        # The process was killed before it had made anything.
        os.ftruncate(mark, 0)
        os.pwrite(mark, plan.write(), 0)
        os.fsync(mark)
        return
    if begun_plan is None:
        raise Damage(
            "the plan of this unfinished group cannot be read",
            location=str(path / UNFINISHED_GROUP_FILE),
            hint="remove the folder, and create the group again",
        )
    raise Refused(
        "the creation of a group was interrupted here, and that one was to have another form",
        location=str(path),
        expected=begun_plan.command,
        actual=plan.command,
        hint=f"aos init {shell_word(path)} {begun_plan.command}; or remove the folder",
    )


def _read_plan(content: bytes) -> GroupPlan | None:
    try:
        value = json.loads(content)
    except ValueError:
        return None
    match value:
        case {"shards": int(shards), "operator": str(operator), "executors": list(executors)}:
            names = tuple(map(str, executors))
            store = value.get("store")
            return GroupPlan(
                shards=shards, operator=operator, executors=names,
                store=None if store is None else str(store),
            )  # fmt: skip
    return None
