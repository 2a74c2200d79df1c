"""A world runs where it was adopted and nowhere else (spec/bundle.md, B-60 to B-66; ST-70)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import CANCEL
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.apply.dry_run import dry_run_of
from aos.host.door.remote import ask_running
from aos.host.door.writer import open_writer
from aos.host.folder.adoption import ROW, Origin
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.transfer.adopting import adopt_world, origin_at
from aos.host.transfer.exporting import export_world
from aos.host.transfer.importing import import_world
from aos.store.lmdb_store import LmdbStore
from aos.store.lock import WorldLock
from aos.store.plain_files import PlainFolder
from aos.values.cbor import encode
from tests.cli.shell import in_silence
from tests.copies import copied
from tests.host.puppet import asks, manifest
from tests.host.transfer.test_bundle import environment, send, world_contents
from tests.run_seed import in_turns

ROOT = Path(__file__).parents[3]


def copy(world: Path, target: Path) -> None:
    shutil.copytree(world, target)


def copy_as_it_is(world: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(world), str(target)], check=True)


def pack_and_unpack(world: Path, target: Path) -> None:
    """With owner, mode and times, as backups do."""
    file = target.with_suffix(".tar")
    with tarfile.open(file, "w") as tar:
        tar.add(world, arcname=target.name)
    with tarfile.open(file) as tar:
        tar.extractall(target.parent, filter="fully_trusted")


def bring_back(world: Path, target: Path) -> None:
    """Move the world there, copy it, and bring the copy back in its place."""
    world.rename(target)
    kept = target.with_name("kept")
    copy_as_it_is(target, kept)
    shutil.rmtree(target)
    copy_as_it_is(kept, target)


def bring_back_over(world: Path, target: Path) -> None:
    """Copy a backup over the folder, file by file: every inode stays."""
    world.rename(target)
    kept = target.with_name("kept")
    copy_as_it_is(target, kept)
    subprocess.run(["cp", "-a", f"{kept}/.", str(target)], check=True)


def bring_back_what_changed(world: Path, target: Path) -> None:
    """Put older files in the place of those that changed since, as rsync does."""
    world.rename(target)
    kept = target.with_name("kept")
    copy_as_it_is(target, kept)
    send(target, ("later", None))
    for name in ("data.mdb", "lock.mdb", "closed"):
        shutil.copy2(kept / "store" / name, target / "store" / "new")
        (target / "store" / "new").rename(target / "store" / name)


COPIES = [
    copy, copy_as_it_is, pack_and_unpack, bring_back, bring_back_over, bring_back_what_changed,
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("make", in_turns(2, COPIES))
def test_nothing_runs_in_a_copy_and_nothing_is_written(
    world: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    """B-60, B-63"""
    send(world, ("wait", asks("hello")))
    assert in_silence("run", "--until-idle", "--world", world) == 0
    with open_reader(world) as reader:
        [intent] = map(bytes.hex, reader.state.intents)
    make(world, tmp_path / "copy")
    before = files(tmp_path / "copy")

    assert origin_at(tmp_path / "copy") is Origin.COPIED
    with pytest.raises(Refused, match=r"is a copy of a world's folder, or came back from a backup"):
        open_writer(tmp_path / "copy")
    assert in_silence("run", "--until-idle", "--world", tmp_path / "copy") == 1
    assert in_silence("send", "host/Do@1", '{"key": "x"}', "--world", tmp_path / "copy") == 1
    assert in_silence("effects", "cancel", intent, "--world", tmp_path / "copy") == 1
    assert files(tmp_path / "copy") == before
    # Readers are served.
    dry_run_of(tmp_path / "copy", manifest(version=2))
    for words in (("verify",), ("replay",), ("trace", "3"), ("inspect", "world")):
        assert in_silence(*words, "--world", tmp_path / "copy") == 0

    adopted = adopt_world(tmp_path / "copy")

    assert adopted.origin is Origin.COPIED
    assert origin_at(tmp_path / "copy") is None
    send(tmp_path / "copy", ("x", None))
    assert adopt_world(tmp_path / "copy").origin is None


def files(folder: Path) -> dict[str, bytes]:
    """The contents of a folder, without locks."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file() and each.name not in ("lock", "lock.mdb", "closed")
    }


def test_the_original_stays_adopted(world: Path, tmp_path: Path) -> None:  # B-60
    for make in (copy, copy_as_it_is, pack_and_unpack):
        make(world, tmp_path / f"copy-{make.__name__}")
    assert origin_at(world) is None
    send(world, ("x", None))


def test_a_world_may_be_moved_read_and_run_again(world: Path, tmp_path: Path) -> None:  # B-63
    (tmp_path / "deep").mkdir()
    world.rename(tmp_path / "deep" / "moved")
    world = tmp_path / "deep" / "moved"
    for _ in range(2):
        send(world, ("x", None))
        assert in_silence("run", "--until-idle", "--world", world) == 0
        assert in_silence("verify", "--world", world) == 0
    link = tmp_path / "link"
    link.symlink_to(world)
    send(link, ("y", None))
    with tarfile.open(tmp_path / "backup.tar", "w") as tar:
        tar.add(world)
    assert origin_at(world) is None


def test_a_touched_world_json_costs_one_adopt(world: Path) -> None:  # B-63
    os.utime(world / "world.json")
    assert origin_at(world) is Origin.COPIED
    adopt_world(world)
    assert origin_at(world) is None


def test_a_copy_of_hard_links_that_is_deleted_leaves_the_original_adopted(
    world: Path, tmp_path: Path
) -> None:
    """B-63. The copy itself is one, also if it is the original that is deleted."""
    for each in range(2):
        subprocess.run(["cp", "-al", world, tmp_path / "links"], check=True)
        if each == 0:
            shutil.rmtree(tmp_path / "links")
            assert origin_at(world) is None
            send(world, ("x", None))
    shutil.rmtree(world)
    assert origin_at(tmp_path / "links") is Origin.COPIED


def test_a_folder_that_is_written_over_in_place_is_no_longer_adopted(
    world: Path, tmp_path: Path
) -> None:
    """B-63: no file is replaced, and each time is that of before."""
    subprocess.run(["cp", "-a", world, tmp_path / "old"], check=True)
    send(world, ("x", None))
    subprocess.run(["cp", "-a", f"{tmp_path / 'old'}/.", world], check=True)
    assert origin_at(world) is Origin.COPIED


def test_a_row_of_an_earlier_release_is_read_and_written_anew(world: Path) -> None:
    """B-62."""
    found = (world / "world.json").stat()
    with LmdbStore.open(world / "store") as store:
        row = encode([1, "adopted", found.st_ino, found.st_ctime_ns])
        store.meta_put("place", row)
    assert origin_at(world) is None
    send(world, ("x", None))
    with LmdbStore.open(world / "store") as store:
        assert store.meta_get("place") != row
    assert origin_at(world) is None


def test_a_compacted_store_is_still_at_home(world: Path, tmp_path: Path) -> None:  # ST-70
    before = (world / "store" / "data.mdb").stat().st_ino
    for _ in range(3):
        with open_writer(world) as writer:
            assert writer.compact()
        assert origin_at(world) is None
        send(world, ("x", None))
    assert (world / "store" / "data.mdb").stat().st_ino != before
    # Compacting what is not at home does not make it so.
    shutil.copytree(world, tmp_path / "copy")
    with LmdbStore.open(tmp_path / "copy" / "store") as store:
        assert store.is_home() is False
        store.compact()
        assert store.is_home() is False
        store.settle()
        assert store.is_home() is True
    assert origin_at(tmp_path / "copy") is Origin.COPIED


def test_a_new_store_has_no_recorded_home(tmp_path: Path) -> None:  # ST-70
    with LmdbStore.create(tmp_path / "store") as store:
        assert store.is_home() is None
        store.compact()
        assert store.is_home() is None


def older(world: Path) -> None:
    """Make the folder one of a release that knew nothing of places."""
    with LmdbStore.open(world / "store") as store, store._environment.write(0) as txn:
        txn.delete(b"home", db=store._environment.tables["system"])
        txn.delete(ROW.encode(), db=store._environment.tables["meta"])


def test_a_world_of_an_earlier_release_is_adopted_when_it_is_first_written(
    world: Path, tmp_path: Path
) -> None:
    """B-61"""
    older(world)
    shutil.copytree(world, tmp_path / "before")
    assert origin_at(world) is None
    send(world, ("x", None))
    shutil.copytree(world, tmp_path / "after")
    send(tmp_path / "before", ("x", None))
    with pytest.raises(Refused, match="came back from a backup"):
        open_writer(tmp_path / "after")


def test_a_new_world_is_adopted(tmp_path: Path) -> None:  # B-61
    init_world(tmp_path / "new")
    shutil.copytree(tmp_path / "new", tmp_path / "copy")
    assert origin_at(tmp_path / "new") is None
    assert origin_at(tmp_path / "copy") is Origin.COPIED


def test_a_row_that_is_none_is_damage(world: Path) -> None:  # B-62
    for row in (b"\xff", b"\x80", b"\x84\x01\x65other\x00\x00", b"\x84\x02\x67adopted\x00\x00"):
        with LmdbStore.open(world / "store") as store:
            store.meta_put(ROW, row)
        with pytest.raises(Damage, match="the row of its adoption"):
            open_writer(world)


# Imported


@pytest.fixture
def imported(world: Path, tmp_path: Path) -> Path:
    """An imported world with an open effect; its keys are with the world it came from."""
    send(world, ("wait", asks("hello")))
    assert in_silence("run", "--until-idle", "--world", world) == 0
    export_world(world, tmp_path / "b")
    import_world(tmp_path / "b", tmp_path / "w")
    return tmp_path / "w"


def test_an_imported_world_is_adopted_with_its_keys_and_continues(
    world: Path, imported: Path
) -> None:
    """B-40, B-60, B-65"""
    assert origin_at(imported) is Origin.IMPORTED
    with pytest.raises(Refused, match=r"was imported and not adopted yet.*then: aos adopt --world"):
        open_writer(imported)
    with pytest.raises(Refused, match=r"the world's own key is needed.*with --keys FOLDER"):
        adopt_world(imported)
    assert origin_at(imported) is Origin.IMPORTED

    adopted = adopt_world(imported, keys=world / "keys")

    assert adopted.origin is Origin.IMPORTED
    assert adopted.keys == ("world.key", "operator.key", "executors/shop.key")
    assert adopted.open_intents == 1
    for name in adopted.keys:
        assert (imported / "keys" / name).read_bytes() == (world / "keys" / name).read_bytes()
        assert (imported / "keys" / name).stat().st_mode & 0o777 == 0o600
    assert (imported / "keys").stat().st_mode & 0o777 == 0o700
    send(imported, ("x", None))
    with open_reader(imported) as reader:
        [intent] = reader.state.intents
    with open_writer(imported) as writer:
        assert isinstance(writer.control(CANCEL, intent=intent), Admitted)
    assert in_silence("verify", "--world", imported) == 0
    assert adopt_world(imported, keys=world / "keys").keys == ()


def test_each_of_the_keys_may_be_missing_but_the_worlds_own(
    world: Path, imported: Path, tmp_path: Path
) -> None:
    """B-65"""
    keys = tmp_path / "keys"
    keys.mkdir()
    with pytest.raises(Refused, match="the world's own key is needed"):
        adopt_world(imported, keys=keys)
    shutil.copy2(world / "keys" / "operator.key", keys)
    with pytest.raises(Refused, match="the world's own key is needed"):
        adopt_world(imported, keys=keys)
    assert list((imported / "keys").iterdir()) == []
    shutil.copy2(world / "keys" / "world.key", keys)
    assert adopt_world(imported, keys=keys).keys == ("world.key", "operator.key")


def write_key(file: Path, seed: int = 7) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(bytes(SigningKey(bytes([seed]) * 32)).hex())
    file.chmod(0o600)


@pytest.mark.parametrize(
    "name", ["world.key", "operator.key", "executors/shop.key", "executors/other.key"]
)
def test_a_key_of_another_world_is_refused_and_nothing_is_copied(
    world: Path, imported: Path, tmp_path: Path, name: str
) -> None:
    """B-65"""
    keys = tmp_path / "keys"
    shutil.copytree(world / "keys", keys)
    write_key(keys / name)
    with pytest.raises(Refused, match=r"this key is not this world's; nothing was changed"):
        adopt_world(imported, keys=keys)
    assert list((imported / "keys").iterdir()) == []
    assert origin_at(imported) is Origin.IMPORTED


def test_a_key_of_the_manifest_in_force_is_taken(world: Path, tmp_path: Path) -> None:  # B-65
    key = SigningKey(bytes([7]) * 32)
    public = f"ed25519:{bytes(key.verify_key).hex()}"
    node = f"ed25519:{bytes(open_folder(world).world_key().verify_key).hex()}"
    with open_writer(world) as writer:
        applied = writer.apply(
            manifest(
                version=2,
                executors=[
                    {"name": "node", "public_key": node, "effects": []},
                    {"name": "test", "public_key": public, "effects": ["host/echo@1"]},
                ],
            )
        )
    assert isinstance(applied.answer, Admitted), applied.answer
    export_world(world, tmp_path / "b")
    import_world(tmp_path / "b", tmp_path / "w")
    shutil.copytree(world / "keys", tmp_path / "keys")
    write_key(tmp_path / "keys" / "executors" / "test.key")
    adopted = adopt_world(tmp_path / "w", keys=tmp_path / "keys")
    assert adopted.keys[2:] == ("executors/shop.key", "executors/test.key")


def test_a_key_that_lies_there_is_not_replaced(world: Path, imported: Path, tmp_path: Path) -> None:
    """B-65"""
    write_key(imported / "keys" / "operator.key")
    with pytest.raises(Refused, match="there is already another key here; nothing was changed"):
        adopt_world(imported, keys=world / "keys")
    assert [each.name for each in (imported / "keys").iterdir()] == ["operator.key"]
    assert origin_at(imported) is Origin.IMPORTED


def test_a_key_that_others_may_read_is_refused(world: Path, imported: Path, tmp_path: Path) -> None:
    """B-65, H-2"""
    shutil.copytree(world / "keys", tmp_path / "keys")
    (tmp_path / "keys" / "operator.key").chmod(0o644)
    with pytest.raises(Refused, match="others may read this secret key"):
        adopt_world(imported, keys=tmp_path / "keys")


def test_a_path_that_is_no_folder_of_keys_is_named(imported: Path, tmp_path: Path) -> None:  # B-65
    with pytest.raises(BadUsage, match=r"expected a folder with world\.key in it, found none"):
        adopt_world(imported, keys=tmp_path / "none")


def test_a_damaged_world_is_not_adopted(world: Path, imported: Path) -> None:  # B-66
    with LmdbStore.open(imported / "store") as store:
        frames = store._environment.tables["frames"]
        with store._environment.write(0) as txn:
            txn.delete((2).to_bytes(8, "big"), db=frames)
    with pytest.raises(Damage):
        adopt_world(imported, keys=world / "keys")
    assert list((imported / "keys").iterdir()) == []


def test_a_world_that_is_held_is_not_adopted(world: Path, tmp_path: Path) -> None:  # B-66
    with WorldLock(world, runs=True), pytest.raises(Unavailable, match="the world is written by"):
        adopt_world(world)
    with pytest.raises(BadUsage, match="there is no such folder"):
        adopt_world(tmp_path / "none")
    with pytest.raises(Unavailable, match="no process runs this world"):
        ask_running(world, "status")


KILLED = """
import os, sys
from pathlib import Path
from aos.host.transfer import adopting
def die(*_):
    os.kill(os.getpid(), 9)
kind, world, keys = sys.argv[1:]
if kind == "settle":
    from aos.store.lmdb_store import LmdbStore
    LmdbStore.settle = die
else:
    write, seen = adopting._write, []
    def later(folder, name, key):
        seen.append(name)
        if len(seen) == int(kind):
            target = folder.path / "keys" / name
            target.parent.mkdir(exist_ok=True)
            target.with_name(target.name + ".part").write_text("half")
            die()
        write(folder, name, key)
    adopting._write = later
adopting.adopt_world(Path(world), keys=Path(keys))
"""


@pytest.mark.parametrize("point", ["1", "2", "3", "settle"])
def test_adopting_that_was_killed_is_done_by_adopting_again(
    world: Path, imported: Path, point: str
) -> None:
    """B-66"""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, point, str(imported), str(world / "keys")],
        env=environment(), cwd=ROOT, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert origin_at(imported) is not None
    with pytest.raises(Refused, match="aos adopt"):
        open_writer(imported)

    adopt_world(imported, keys=world / "keys")

    send(imported, ("x", None))
    assert sorted(each.name for each in (imported / "keys").rglob("*")) == [
        "executors", "operator.key", "shop.key", "world.key",
    ]  # fmt: skip


def test_a_key_that_cannot_be_written_is_said(
    world: Path, imported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-65"""

    def full(_: PlainFolder) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PlainFolder, "sync", full)
    with pytest.raises(Unavailable, match="the key cannot be written: No space left on device"):
        adopt_world(imported, keys=world / "keys")
    assert origin_at(imported) is Origin.IMPORTED


def test_a_copy_that_was_adopted_has_a_journal_of_its_own(world: Path, tmp_path: Path) -> None:
    """B-61: two that run are two histories; each is sound."""
    copied(world, tmp_path / "copy")
    send(world, ("one", None))
    send(tmp_path / "copy", ("other", None))
    assert world_contents(world)["head"] != world_contents(tmp_path / "copy")["head"]
    for each in (world, tmp_path / "copy"):
        assert in_silence("verify", "--world", each) == 0
