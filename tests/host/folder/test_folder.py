"""World folders: made whole or not at all, opened with clear words."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from aos.core.journal.frame import Head
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Genesis
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.folder.folder import UNFINISHED_FILE, open_folder, read_key
from aos.host.folder.making import init_world, making
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import hash_text
from tests.cli.shell import here
from tests.host.rig import seeded


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def contents(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))


def test_a_new_world_has_its_genesis_and_keys_that_only_the_owner_reads(tmp_path: Path) -> None:
    """H-1, H-2"""
    path = tmp_path / "deep" / "world"

    made = init_world(path, operator="alice", executors=["shop", "mail"])

    assert open_folder(path) == made
    assert mode(path / "keys") == 0o700
    for name in ("world.key", "operator.key", "executors/shop.key", "executors/mail.key"):
        assert mode(path / "keys" / name) == 0o600
    assert made.executors == {
        name: bytes(read_key(path / "keys" / "executors" / f"{name}.key").verify_key)
        for name in ("shop", "mail")
    }
    with made.open_store(readonly=True) as store:
        head = store.head()
        assert head is not None
        assert head.is_signed_by(bytes(made.world_key().verify_key))
        [frame] = store.frames()
        genesis = from_bytes(frame.records[0])
    assert isinstance(genesis, Genesis)
    assert [each.name for each in genesis.operators] == ["alice"]
    assert genesis.operators[0].key == bytes(made.operator_key().verify_key)
    assert head.world == made.world
    assert not (path / UNFINISHED_FILE).exists()


def test_an_empty_folder_is_filled_where_it_is(tmp_path: Path) -> None:  # H-1
    path = tmp_path / "world"
    path.mkdir()
    inode = path.stat().st_ino
    init_world(path)
    assert path.stat().st_ino == inode


def test_a_world_is_the_same_for_the_same_sources(tmp_path: Path) -> None:  # H-10
    one = init_world(tmp_path / "one", sources=seeded("x"))
    other = init_world(tmp_path / "other", sources=seeded("x"))
    assert one.world == other.world


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:  # H-3
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"expected an empty or new folder, found 'notes.txt'"):
        init_world(tmp_path)
    assert contents(tmp_path) == ["notes.txt"]


def test_a_world_is_never_made_over_another(tmp_path: Path) -> None:  # H-3
    made = init_world(tmp_path / "w")
    before = {name: (tmp_path / "w" / name) for name in contents(tmp_path / "w")}
    data = {name: file.read_bytes() for name, file in before.items() if file.is_file()}
    with pytest.raises(Refused, match="there is a world already; nothing was changed"):
        init_world(tmp_path / "w")
    assert {name: f.read_bytes() for name, f in before.items() if f.is_file()} == data
    assert open_folder(tmp_path / "w") == made


def test_a_half_made_folder_is_recognised_by_open_and_finished_by_init(tmp_path: Path) -> None:
    """H-4."""
    path = tmp_path / "w"
    before = init_world(path)
    (path / "world.json").rename(path / UNFINISHED_FILE)
    with pytest.raises(BadUsage, match="this world is not finished"):
        open_folder(path)
    made = init_world(path)
    assert made.world != before.world
    assert open_folder(path) == made


def test_a_half_made_folder_is_left_to_the_process_that_makes_it(tmp_path: Path) -> None:
    """H-4."""
    path = tmp_path / "w"
    with making(path):
        (path / "keys").mkdir()
        with pytest.raises(Refused, match="this world is not finished"):
            init_world(path)
        assert contents(path) == ["keys", UNFINISHED_FILE]


def test_a_half_made_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    """H-4."""
    path = tmp_path / "w"
    init_world(path)
    (path / "world.json").rename(path / UNFINISHED_FILE)
    (path / "notes").write_text("mine")
    with pytest.raises(Refused, match="this world is not finished"):
        init_world(path)
    assert (path / "keys" / "world.key").exists()


def test_a_failed_creation_leaves_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-4"""

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LmdbStore, "append", fail)
    with pytest.raises(Unavailable, match="No space left on device"):
        init_world(tmp_path / "w")
    assert contents(tmp_path / "w") == []
    monkeypatch.undo()
    init_world(tmp_path / "w")


def test_two_makers_of_one_world_cannot_meet(tmp_path: Path) -> None:  # H-4
    made: list[object] = []

    def make() -> None:
        try:
            made.append(init_world(tmp_path / "w"))
        except Refused as refused:
            made.append(refused)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worlds = [each for each in made if not isinstance(each, Refused)]
    assert len(made) == 6
    assert worlds == [open_folder(tmp_path / "w")]


@pytest.mark.parametrize("name", ["", "node", "a b", "../x", "x" * 65])
def test_a_name_that_cannot_be_a_file_is_refused_before_anything_is_made(
    tmp_path: Path, name: str
) -> None:
    """H-3"""
    with pytest.raises(BadUsage, match="expected a letter"):
        init_world(tmp_path / "w", executors=[name])
    assert not (tmp_path / "w").exists()


def test_executors_have_different_names(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="expected different names"):
        init_world(tmp_path / "w", executors=["a", "a"])


def test_opening_what_is_no_world_says_how_to_make_one(tmp_path: Path) -> None:  # H-5
    with pytest.raises(BadUsage, match=r"there is no such folder \(make a world: aos init"):
        open_folder(tmp_path / "none")
    with pytest.raises(BadUsage, match=r"this is no world's folder: there is no world\.json"):
        open_folder(tmp_path)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BadUsage, match="expected the folder of a world, found a file"):
        open_folder(file)


def test_a_folder_of_a_newer_release_is_refused(tmp_path: Path) -> None:  # H-5
    (tmp_path / "world.json").write_text(json.dumps({"format": 2, "world": "blake4:x"}))
    with pytest.raises(Refused, match="a newer release made this world: expected format 1, found"):
        open_folder(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "world": "x", "created": "y"}']
)
def test_a_world_file_that_cannot_be_read_is_damage(tmp_path: Path, text: str) -> None:  # H-5
    (tmp_path / "world.json").write_text(text)
    with pytest.raises(Damage, match=r"world\.json"):
        open_folder(tmp_path)


def test_executor_keys_in_the_world_file_are_checked(tmp_path: Path) -> None:
    init_world(tmp_path / "w", executors=["shop"])
    file = tmp_path / "w" / "world.json"
    about = json.loads(file.read_text())
    assert about["operators"]["operator"].startswith("ed25519:")
    about["executors"]["shop"] = "ed25519:00"
    file.write_text(json.dumps(about))
    with pytest.raises(Damage, match="ed25519"):
        open_folder(tmp_path / "w")


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:  # H-2
    made = init_world(tmp_path / "w")
    (tmp_path / "w" / "keys" / "world.key").chmod(0o640)
    with pytest.raises(Refused, match=r"others may read this secret key.*0640.*chmod 600"):
        made.world_key()


def test_a_key_is_64_hex_digits(tmp_path: Path) -> None:  # H-2
    file = tmp_path / "a.key"
    with pytest.raises(BadUsage, match=r"a.key: the key cannot be read: .*aos key new"):
        read_key(file)
    for text in ("", "ab" * 31, "ab" * 33, "AB" * 32, "zz" * 32):
        file.write_text(text)
        file.chmod(0o600)
        with pytest.raises(Damage, match="expected a secret key of 64 hex digits"):
            read_key(file)
    file.write_text("ab" * 32)
    assert bytes(read_key(file)) == bytes.fromhex("ab" * 32)


def test_a_folder_that_may_not_be_written_is_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(Unavailable, match="the folder cannot be made"):
        init_world(file / "w")
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(Unavailable):
            init_world(tmp_path / "w")
        tmp_path.chmod(0o700)


def test_the_head_of_a_new_world_is_that_of_its_one_frame(tmp_path: Path) -> None:
    made = init_world(tmp_path / "w")
    with LmdbStore.open(tmp_path / "w" / "store") as store:
        head = store.head()
        assert isinstance(head, Head)
        assert (head.seq, head.frames) == (1, 1)
    assert hash_text(made.world) in (tmp_path / "w" / "world.json").read_text()


@pytest.mark.parametrize("below", [".", "executors"])
@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777])
def test_a_key_in_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, below: str, bits: int
) -> None:
    """H-2."""
    folder = init_world(tmp_path / "w", executors=["shop"])
    (folder.path / "keys" / below).chmod(bits)
    with pytest.raises(Refused, match=rf"others may replace the keys.*found mode {bits:04o}"):
        folder.key("executors/shop.key")


@pytest.mark.parametrize(("place", "bits"), [(".", 0o777), (".", 0o770), ("store", 0o707)])
def test_a_folder_that_others_may_write_draws_a_remark(
    tmp_path: Path, place: str, bits: int
) -> None:
    """H-2a."""
    folder = init_world(tmp_path / "w")
    assert folder.remarks() == []
    (folder.path / place).chmod(bits)
    [remark] = folder.remarks()
    where = folder.path if place == "." else folder.path / place
    assert remark == (
        f"{where}: others may replace what is in this folder: expected mode 0700, found mode "
        f"{bits:04o} (chmod go-w {where})"
    )
    sent = here("run", "--until-idle", "--world", folder.path)
    assert (sent.code, sent.err.count(remark)) == (0, 1)
    (folder.path / place).chmod(bits | stat.S_ISVTX)
    assert folder.remarks() == []
