"""Every command that makes a file: on a full disk, and killed at each system call (ST-85)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.cli.shell import AOS, environment, here
from tests.copies import copied
from tests.store.disk import SmallDisk
from tests.store.strace import need_strace

Words: TypeAlias = Callable[[Path, Path, Path], Sequence[str | Path]]
"""The words of a command, of the folder that is full, a world elsewhere, and its bundle."""

OUTSIDE: Final[dict[str, Words]] = {
    "key new": lambda disk, _world, _bundle: ("key", "new", disk / "new"),
    "keyring new": lambda disk, _world, _bundle: ("keyring", "new", disk / "new"),
    "checkpoint": lambda disk, world, _bundle: (
        "checkpoint", "--out", disk / "new", "--world", world,
    ),
    "proof": lambda disk, world, _bundle: ("proof", "1", "--out", disk / "new", "--world", world),
    "audit": lambda disk, world, _bundle: ("audit", "--out", disk / "new.md", "--world", world),
    "export": lambda disk, world, _bundle: ("export", disk / "new", "--world", world),
    "event log": lambda disk, world, _bundle: (
        "export", disk / "new.jsonl", "--format", "jsonl", "--world", world,
    ),
    "init": lambda disk, _world, _bundle: ("init", disk / "new"),
    "import": lambda disk, _world, bundle: ("import", bundle, disk / "new"),
    "fork": lambda disk, world, _bundle: ("fork", disk / "new", "--at", "1", "--world", world),
    "new": lambda disk, _world, _bundle: ("new", disk / "parcels", "--lang", "rust"),
}  # fmt: skip
"""Commands that make a file or folder where the user says."""

INSIDE: Final[dict[str, Sequence[str]]] = {
    "token create": ("token", "create", "ada", "--scope", "read"),
    "checkpoint": ("checkpoint",),
}
"""Commands that make a file in the folder of the world."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path_factory.mktemp("small"), megabytes=64) as made:
        yield made


@pytest.fixture(scope="module")
def bundle(lived_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundle") / "bundle"
    assert here("export", file, "--world", lived_in).code == 0
    return file


def files_of(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*"))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_command_that_makes_a_file_says_so_where_the_disk_is_full(
    disk: SmallDisk, lived_in: Path, bundle: Path, tmp_path: Path, name: str
) -> None:
    world = copied(lived_in, tmp_path / "world")
    folder = disk.path / name.replace(" ", "-")
    folder.mkdir()
    words = OUTSIDE[name](folder, world, bundle)
    disk.fill()
    try:
        full = here(*words)
        left = files_of(folder)
    finally:
        disk.make_room()
    assert full.code == 4, full
    assert "No space left on device" in full.err or "no room" in full.err
    assert "Traceback" not in full.err
    assert left in ([], ["new"]), "at most the empty folder of a world"
    after = here(*words)
    assert after.code == 0, after


@pytest.mark.parametrize("name", INSIDE)
def test_a_command_that_makes_a_file_in_a_world_says_so_where_the_disk_is_full(
    disk: SmallDisk, lived_in: Path, name: str
) -> None:
    world = copied(lived_in, disk.path / f"world-{name.replace(' ', '-')}")
    before = files_of(world)
    words: tuple[str | Path, ...] = (*INSIDE[name], "--world", world)
    disk.fill()
    try:
        full = here(*words)
        left = files_of(world)
    finally:
        disk.make_room()
    assert full.code == 4, full
    assert "Traceback" not in full.err
    assert "No space left on device" in full.err
    assert not [each for each in left if each not in before and each.endswith(".part")]
    after = here(*words)
    assert after.code == 0, after


CALLS: Final = "openat,write,fsync,flock,ftruncate,fchmod,linkat,renameat,unlinkat,close"


@pytest.mark.parametrize(
    ("words", "bytes_min"),
    [(("key", "new"), 64), pytest.param(("keyring", "new"), 100, marks=pytest.mark.long)],
)
def test_a_command_killed_at_any_system_call_leaves_nothing_that_blocks_the_next_try(
    tmp_path: Path, words: Sequence[str], bytes_min: int
) -> None:
    """ST-85. Only the calls on the new file, its part and its folder are counted."""
    need_strace(of_aos=True)
    is_over = False
    for call in range(1, 60):
        folder = tmp_path / str(call)
        folder.mkdir()
        file = folder / "new"
        watched = [word for each in (folder, file, f"{file}.part") for word in ("-P", str(each))]
        traced = [
            "strace", "-f", "-q", "-o", "/dev/null", *watched,
            f"--inject={CALLS}:signal=KILL:when={call}",
        ]  # fmt: skip
        command = [*AOS, *words, str(file)]
        done = subprocess.run(
            [*traced, *command], env=environment(), check=False, capture_output=True
        )
        if file.exists():
            assert file.stat().st_size >= bytes_min, (call, "it is whole")
            file.rename(folder / "kept")
        again = subprocess.run(command, env=environment(), check=False, capture_output=True)
        assert again.returncode == 0, (call, again.stderr)
        assert file.stat().st_mode & 0o777 == 0o600
        assert not list(folder.glob("*.part"))
        if done.returncode == 0:
            is_over = True
            break
        assert done.returncode in (-9, 137), done
    assert is_over, "the last one was not killed at all"
