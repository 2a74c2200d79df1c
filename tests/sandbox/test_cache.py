"""Compiled code between starts can save time and nothing else (spec/sandbox.md, S-50 to S-57)."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import wasmtime

from aos.core.journal.ports import Ran
from aos.sandbox import cache as cache_file
from aos.sandbox.cache import (
    ABANDONED_S,
    CHECKSUM_BYTES,
    ModuleCache,
    standard_cache,
    standard_folder,
)
from aos.sandbox.caps import MIB
from aos.sandbox.config import LIVE_STACK_BYTES, PULLEY, fingerprint
from aos.sandbox.engine import Sandbox
from aos.values.digests import Hash, content_hash
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import wasm

ENGINE = fingerprint(stack_bytes=LIVE_STACK_BYTES, target=None)
MODULE = content_hash(wasm("echo_pair"))


class Node:
    """A folder for compiled code, sandboxes that use it, and what they were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.compiled = 0

    def cache(self, bytes_max: int = 100 * MIB) -> ModuleCache:
        return ModuleCache(self.folder, note=self.notes.append, bytes_max=bytes_max)

    def run(self, name: str = "echo_pair", *, target: str | None = None) -> Ran:
        """One call in a new sandbox, as after a start."""
        body = wasm(name)
        sandbox = Sandbox(lambda _: body, cache=self.cache(), target=target)
        try:
            return sandbox.run(Bench().call(body, b"hello"))
        finally:
            sandbox.close()

    def files(self, suffix: str = ".code") -> list[Path]:
        return sorted(self.folder.glob(f"*{suffix}"))

    @property
    def file(self) -> Path:
        (only,) = self.files()
        return only


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path / "aos" / "modules")
    compile = wasmtime.Module

    class Counted(compile):  # type: ignore[misc, valid-type]  # the class as it is installed
        def __init__(self, engine: wasmtime.Engine, wasm: bytes) -> None:
            node.compiled += 1
            super().__init__(engine, wasm)

    monkeypatch.setattr(wasmtime, "Module", Counted)
    return node


def test_a_second_start_compiles_nothing(node: Node) -> None:
    """S-50"""
    first, second = node.run(), node.run()

    assert first == second
    assert first.output == b"hello"
    assert node.compiled == 1
    assert node.notes == []


def test_the_folder_and_its_files_are_the_owners_alone(node: Node) -> None:
    """S-51"""
    before = os.umask(0)
    try:
        node.run()
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in node.folder.iterdir()}
    assert stat.S_IMODE(node.folder.stat().st_mode) == 0o700
    assert modes == {node.file.name: 0o600}


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


SPOILERS: dict[str, Callable[[Path], object]] = {
    "one bit": flip,
    "the checksum": lambda file: file.write_bytes(
        bytes(CHECKSUM_BYTES) + file.read_bytes()[CHECKSUM_BYTES:]
    ),
    "cut short": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "cut in the checksum": lambda file: file.write_bytes(file.read_bytes()[: CHECKSUM_BYTES - 1]),
    "empty": lambda file: file.write_bytes(b""),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "noise": lambda file: file.write_bytes(os.urandom(4096)),
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_a_damaged_file_never_reaches_the_engine_and_is_rebuilt(
    node: Node, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    """S-52, S-53"""
    good = node.run()
    kept = node.file.read_bytes()
    spoil(node.file)
    assert node.file.read_bytes() != kept
    with monkeypatch.context() as patch:
        patch.setattr(wasmtime.Module, "deserialize", never)
        again = node.run()

    assert again == good
    assert node.compiled == 2
    assert len(node.notes) == 1
    assert "is damaged: the module is compiled again" in node.notes[0]
    assert node.run() == good
    assert node.compiled == 2


def never(*_: object) -> None:
    raise AssertionError("bytes whose checksum is wrong were given to the engine")


def test_the_checksum_is_of_everything_that_the_code_is_for() -> None:
    """S-52"""
    good = cache_file._checksum(MODULE, ENGINE, b"code")
    other = Hash(bytes(32))

    assert len(good) == CHECKSUM_BYTES
    assert good not in {
        cache_file._checksum(other, ENGINE, b"code"),
        cache_file._checksum(MODULE, ENGINE, b"cod"),
        *(
            cache_file._checksum(MODULE, {**ENGINE, name: "another"}, b"code")
            for name in ("wasmtime", "target", "engine")
        ),
    }


@pytest.mark.parametrize("theirs", ["another node", "this node"])
def test_another_modules_good_file_in_this_ones_place_is_refused(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """S-52: good under its own name, and wrong here, whichever node made it."""
    source = node if theirs == "this node" else Node(tmp_path / "elsewhere")
    good = node.run("echo_pair")
    name = node.file.name
    source.run("fuel_loop")
    wrong = next(file for file in source.files() if content_hex("fuel_loop") in file.name)
    (node.folder / name).write_bytes(wrong.read_bytes())
    before = node.compiled
    with monkeypatch.context() as patch:
        patch.setattr(wasmtime.Module, "deserialize", never)
        assert node.run("echo_pair") == good

    assert node.compiled == before + 1


def content_hex(name: str) -> str:
    return content_hash(wasm(name)).hex()


def test_two_engines_do_not_share_a_file(node: Node) -> None:
    """S-52: another release, machine or setting has files of its own."""
    machine, pulley = node.run(), node.run(target=PULLEY)

    assert machine.output == pulley.output
    assert len(node.files()) == 2
    assert node.run(target=PULLEY) == pulley
    assert node.compiled == 2
    assert node.notes == []


def test_a_file_under_another_engines_name_is_refused(node: Node) -> None:
    """S-52"""
    node.run()
    machine = node.file
    node.run(target=PULLEY)
    (pulley,) = set(node.files()) - {machine}
    machine.write_bytes(pulley.read_bytes())

    assert node.run().output == b"hello"
    assert node.compiled == 3


def test_code_that_the_engine_refuses_is_compiled_again(node: Node) -> None:
    """S-53: such as for instructions that this machine has not, in a home that two share."""
    cache = node.cache()
    cache.put(MODULE, ENGINE, b"whole and not code")
    assert cache.get(MODULE, ENGINE) == b"whole and not code"

    assert node.run().output == b"hello"
    assert node.compiled == 1
    assert node.run().output == b"hello"
    assert node.compiled == 1


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(node: Node, mode: int) -> None:
    """S-51"""
    node.run()
    node.folder.chmod(mode)
    kept = node.file.read_bytes()
    flip(node.file)
    spoilt = node.file.read_bytes()

    assert node.run().output == b"hello"
    assert node.run().output == b"hello"

    assert node.compiled == 3
    assert node.file.read_bytes() == spoilt != kept
    assert node.notes[0] == (
        f"{node.folder}: compiled modules are not kept: others may write to the folder:"
        f" expected 0700, found 0{mode:o}"
    )


def test_a_folder_of_another_user_is_not_used(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-51"""
    node.run()
    owner = node.folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert node.run().output == b"hello"
    assert node.compiled == 2
    assert node.notes[0] == (
        f"{node.folder}: compiled modules are not kept: the folder belongs to user {owner}"
    )


def test_a_folder_behind_a_link_is_not_followed(node: Node, tmp_path: Path) -> None:
    """S-51: the owner of the folder that contains the link may change it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    node.folder.parent.mkdir(parents=True)
    node.folder.symlink_to(elsewhere)

    assert node.run().output == b"hello"
    assert list(elsewhere.iterdir()) == []
    assert len(node.notes) == 1


def test_a_place_that_cannot_be_written_is_no_error(node: Node, tmp_path: Path) -> None:
    """S-54"""
    node.folder = tmp_path / "file" / "modules"
    (tmp_path / "file").write_bytes(b"")

    assert node.run().output == b"hello"
    assert node.run().output == b"hello"
    assert node.compiled == 2
    assert set(node.notes) == {
        f"{node.folder}: compiled modules are not kept: File exists: {tmp_path / 'file'}"
    }


def test_a_disk_that_is_full_leaves_nothing_behind(node: Node) -> None:
    """S-54: and each problem is told once."""
    cache = node.cache()
    cache.put(MODULE, ENGINE, b"small")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        cache.put(MODULE, ENGINE, bytes(5000))
        cache.put(MODULE, ENGINE, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert node.notes == [f"{node.folder}: compiled modules are not kept: File too large"]
    assert len(list(node.folder.iterdir())) == 1
    assert cache.get(MODULE, ENGINE) == b"small"


def hashes(count: int) -> list[Hash]:
    return [content_hash(bytes([number])) for number in range(count)]


def test_the_least_recently_used_file_makes_room(node: Node) -> None:
    """S-55"""
    cache = node.cache(bytes_max=4 * (CHECKSUM_BYTES + 1000))
    names = hashes(6)
    for at, name in enumerate(names[:4]):
        cache.put(name, ENGINE, bytes(1000))
        file = next(each for each in node.files() if name.hex() in each.name)
        os.utime(file, (at, at))
    assert cache.get(names[0], ENGINE) is not None

    for name in names[4:]:
        cache.put(name, ENGINE, bytes(1000))

    assert [cache.get(name, ENGINE) is not None for name in names] == [
        True, False, False, True, True, True,
    ]  # fmt: skip


def test_the_bound_holds_to_the_byte(node: Node) -> None:
    """S-55"""
    cache = node.cache(bytes_max=2 * CHECKSUM_BYTES + 1000)
    one, two, three = hashes(3)

    cache.put(one, ENGINE, bytes(500))
    cache.put(two, ENGINE, bytes(500))
    assert len(node.files()) == 2
    cache.put(three, ENGINE, bytes(1000 + CHECKSUM_BYTES + 1))
    assert len(node.files()) == 2
    cache.put(three, ENGINE, bytes(501))
    assert len(node.files()) == 1


def test_code_that_is_too_large_is_not_kept(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-55"""
    monkeypatch.setattr(cache_file, "CODE_BYTES_MAX", 1000)
    cache = node.cache()

    cache.put(MODULE, ENGINE, bytes(1001))
    assert not node.folder.exists()
    cache.put(MODULE, ENGINE, bytes(1000))
    assert cache.get(MODULE, ENGINE) == bytes(1000)
    node.file.write_bytes(bytes(2000))
    assert cache.get(MODULE, ENGINE) is None


def test_unfinished_files_are_removed(node: Node) -> None:
    """S-55"""
    cache = node.cache()
    cache.put(MODULE, ENGINE, b"code")
    old, new = node.folder / "old.unfinished", node.folder / "new.unfinished"
    for file in (old, new):
        file.write_bytes(b"")
    past = time.time() - ABANDONED_S - 10
    os.utime(old, (past, past))

    cache.put(MODULE, ENGINE, b"code")

    assert (old.exists(), new.exists()) == (False, True)


def test_a_cache_that_was_removed_is_made_again(node: Node) -> None:
    """S-54"""
    node.run()
    for file in node.folder.iterdir():
        file.unlink()
    node.folder.rmdir()

    node.run()
    node.run()

    assert node.compiled == 2


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"AOS_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"AOS_CACHE_DIR": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, None),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/aos/modules"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/aos/modules"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/aos/modules"),
        ({"HOME": "/h"}, "/h/.cache/aos/modules"),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_the_folder_is_where_the_environment_says(
    environment: dict[str, str], folder: str | None
) -> None:
    """S-50"""
    assert standard_folder(environment) == (None if folder is None else Path(folder))


def test_nothing_is_kept_inside_a_worlds_folder(tmp_path: Path) -> None:
    """S-56: files of a world's folder are copied and exported."""
    world = tmp_path / "world"
    notes: list[str] = []

    for inside in (world, world / "modules", tmp_path / "other" / ".." / "world" / "x"):
        environment = {"AOS_CACHE_DIR": str(inside)}
        assert standard_cache(notes.append, outside=world, environment=environment) is None
    environment = {"AOS_CACHE_DIR": str(tmp_path / "world2")}
    assert standard_cache(notes.append, outside=world, environment=environment) is not None
    assert len(notes) == 3
    assert "the folder lies inside the world's own" in notes[0]
