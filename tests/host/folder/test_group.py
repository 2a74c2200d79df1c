"""Folders of groups: made whole or not at all, and opened with clear words."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.folder.folder import (
    GROUP_FILE,
    UNFINISHED_GROUP_FILE,
    WorldFolder,
    open_folder,
    read_key,
)
from aos.host.folder.group import GroupFolder, check_shard, find_group, group_of_shard
from aos.host.folder.group_making import GroupPlan, init_group
from aos.host.folder.making import init_world
from aos.host.stamps import Sources
from aos.manifest.placement import Shard
from aos.values.digests import hash_text
from tests.host.rig import seeded

PLAN = GroupPlan(shards=3, operator="ann", executors=("shop",))
KILLED = 9


def made(path: Path, plan: GroupPlan = PLAN) -> GroupFolder:
    return init_group(path, plan, sources=seeded())


def key_files(path: Path) -> dict[str, bytes]:
    keys = path / "keys"
    return {
        str(file.relative_to(keys)): file.read_bytes() for file in keys.rglob("*") if file.is_file()
    }


def test_all_shards_of_a_group_have_the_same_keys_and_worlds_of_their_own(tmp_path: Path) -> None:
    """GR-50, GR-51"""
    group = made(tmp_path / "deep" / "shop")

    assert find_group(group.path) == group
    assert sorted(path.name for path in group.path.iterdir()) == ["000", "001", "002", GROUP_FILE]
    assert len(set(group.worlds)) == 3
    assert [folder.world for folder in group.folders()] == list(group.worlds)
    first, *others = [key_files(group.shard_path(index)) for index in range(3)]
    assert set(first) == {"world.key", "operator.key", "executors/shop.key"}
    assert others == [first, first]
    for folder in group.folders():
        assert folder.executors["shop"] == bytes(folder.key("executors/shop.key").verify_key)
    mode = (group.shard_path(2) / "keys" / "world.key").stat().st_mode
    assert mode & 0o777 == 0o600


def killed_at(path: Path, draw: int) -> bool:
    """Whether a process that creates the group at ``path`` was killed at this draw."""
    left = iter(range(draw))

    def drawn(size: int) -> bytes:
        if next(left, None) is None:
            os._exit(KILLED)
        return os.urandom(size)

    pid = os.fork()
    if not pid:
        try:
            init_group(path, PLAN, sources=Sources(random=drawn))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == KILLED


def test_an_interrupted_creation_is_finished_by_the_same_command(tmp_path: Path) -> None:
    """GR-52: killed at each place where a shard is made."""
    draws = 0
    while killed_at(path := tmp_path / str(draws), draws):
        kept = [shard.world for name in ("000", "001", "002") if (shard := _world(path / name))]
        assert find_group(path) is None
        with pytest.raises(BadUsage, match="this group is not finished"):
            open_folder(path)
        with pytest.raises(Refused, match="was to have another form: expected --shards 3 --operat"):
            init_group(path, replace(PLAN, shards=4))
        with pytest.raises(Refused, match=r"found --shards 3 --executor shop \(aos init "):
            init_group(path, replace(PLAN, operator="operator"))

        group = init_group(path, PLAN)

        assert list(group.worlds[: len(kept)]) == kept
        assert len({read_key(path / name / "keys" / "world.key") for name in group.names}) == 1
        assert not (path / UNFINISHED_GROUP_FILE).exists()
        draws += 1
    assert draws > 3 * 2, "each shard draws its nonce and its salt"
    assert find_group(path) is not None, "the last process finished"


def _world(path: Path) -> WorldFolder | None:
    return open_folder(path) if (path / "world.json").exists() else None


def test_an_interruption_before_the_plan_was_written_leaves_a_folder_to_use(tmp_path: Path) -> None:
    """GR-52"""
    (tmp_path / UNFINISHED_GROUP_FILE).write_bytes(b'{"shards": 3, "oper')

    assert made(tmp_path).shards == 3


def test_an_interruption_at_the_very_end_leaves_a_whole_group(tmp_path: Path) -> None:  # GR-52
    group = made(tmp_path)
    (tmp_path / UNFINISHED_GROUP_FILE).write_bytes(PLAN.write())

    assert made(tmp_path) == group
    assert not (tmp_path / UNFINISHED_GROUP_FILE).exists()


@pytest.mark.parametrize("shards", [-1, 0, 1, 33, 1000])
def test_a_group_has_2_to_32_shards(shards: int, tmp_path: Path) -> None:  # GR-50
    with pytest.raises(BadUsage, match=f"--shards: expected a number from 2 to 32, found {shards}"):
        made(tmp_path / "shop", GroupPlan(shards=shards))

    assert not (tmp_path / "shop").exists()


def test_a_group_is_made_in_an_empty_folder_alone(tmp_path: Path) -> None:  # GR-51
    other, world, group, file = (tmp_path / name for name in ("other", "world", "group", "file"))
    (other / "000").mkdir(parents=True)
    init_world(world)
    made(group)
    file.touch()

    for path, reason in (
        (other, "expected an empty or new folder, found '000'"),
        (world, "there is a world already"),
        (group, "there is a group already"),
        (file, "expected an empty or new folder, found a file"),
    ):
        before = sorted(path.rglob("*"))
        with pytest.raises(Refused, match=reason):
            made(path, GroupPlan(shards=2))
        assert sorted(path.rglob("*")) == before
    with pytest.raises(Refused, match="there is a group of worlds already"):
        init_world(group)


def test_a_world_of_someone_else_is_not_taken_for_a_shard(tmp_path: Path) -> None:  # GR-52
    (tmp_path / UNFINISHED_GROUP_FILE).write_bytes(PLAN.write())
    init_world(tmp_path / "000", operator="ann", executors=["shop"])
    init_world(tmp_path / "001", operator="ann", executors=["shop"])

    with pytest.raises(Damage, match="/001: a world of another group is in this folder"):
        made(tmp_path)

    assert find_group(tmp_path) is None


def test_a_missing_shard_and_one_with_another_world_are_named(tmp_path: Path) -> None:  # GR-53
    group = made(tmp_path / "shop")
    shutil.rmtree(group.shard_path(1))
    with pytest.raises(Unavailable, match="/shop/001: a shard of the group is missing"):
        group.folders()

    stranger = init_world(group.shard_path(1))
    with pytest.raises(Damage, match="holds another world") as problem:
        group.folders()

    assert hash_text(group.worlds[1]) in str(problem.value)
    assert hash_text(stranger.world) in str(problem.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "the file is not JSON"),
        (b"[" * 60_000, "the file is not JSON"),
        (b"null", "expected {format, created, worlds}"),
        (b"[]", "expected {format, created, worlds}"),
        (b'{"format": 2}', "a newer release made this group"),
        (b'{"format": 1, "created": "", "worlds": []}', "with 2 to 32 different worlds"),
        (b'{"format": 1, "created": "", "worlds": [1, 2]}', "group.json: "),
        (b'{"format": 1, "created": "", "worlds": ["a", "a"]}', "with 2 to 32 different worlds"),
        (b'{"format": 1, "created": "", "worlds": ["a", "b"]}', "group.json: "),
    ],
)
def test_a_group_file_of_another_form_is_refused(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    """GR-53"""
    (tmp_path / GROUP_FILE).write_bytes(content)

    with pytest.raises((Damage, Refused), match=reason):
        find_group(tmp_path)


def test_a_group_of_fewer_or_more_shards_than_it_was_made_with_is_refused(tmp_path: Path) -> None:
    """GR-53: an edited group.json."""
    group = made(tmp_path)
    document = json.loads((tmp_path / GROUP_FILE).read_bytes())
    document["worlds"].append(hash_text(bytes(32)))  # type: ignore[arg-type]  # bytes are a hash
    (tmp_path / GROUP_FILE).write_text(json.dumps(document))
    edited = find_group(tmp_path)
    assert edited is not None

    assert edited.shards == group.shards + 1
    with pytest.raises(Unavailable, match="a shard of the group is missing: it has 4"):
        edited.folders()


def test_a_shard_knows_its_group_and_other_worlds_have_none(tmp_path: Path) -> None:  # GR-54
    group = made(tmp_path / "shop")
    other = init_world(tmp_path / "other")
    stranger = init_world(group.path / "stranger")

    assert group_of_shard(group.shard_path(2)) == replace(group, path=group.path.absolute())
    assert group_of_shard(other.path) is None
    assert group_of_shard(stranger.path) is None
    check_shard(group.shard_path(1), Shard(1, 3))
    check_shard(other.path, None)
    for shard in (None, Shard(0, 3), Shard(1, 4)):
        with pytest.raises(
            Refused, match=r"expected the manifest of shard 1 of 3, found .* aos apply"
        ):
            check_shard(group.shard_path(1), shard)
    with pytest.raises(
        BadUsage, match=r"found a group of worlds \(name one of them: --world .*/000"
    ):
        open_folder(group.path)
