"""Checkpoints of a world on disk: extended, checked against what was, never half there (PF-25)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aos.errors import AosError, Damage, Pruned, Refused, Unavailable
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.host.checkpoints.header_log import LogFolder
from aos.host.checkpoints.proving import ProofRequest, prove
from aos.host.folder.folder import open_folder
from aos.host.retention.pruning import prune_world
from aos.host.transfer.adopting import adopt_world
from aos.host.transfer.exporting import export_world
from aos.host.transfer.importing import import_world
from aos.prove.headerlog.checkpoint import log_key, open_checkpoint
from aos.prove.headerlog.header_tree import read_header, root
from aos.prove.headerlog.stored_log import StoredLog
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.replay.replay_store import verify_bundle
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify_world import verify_world
from aos.store.plain_files import PlainFolder
from tests.host.on_disk import folder_of, more_of
from tests.memory_world import WORLD_KEY
from tests.prove.journals import Shop


def orders(shop: Shop, first: int, number: int) -> None:
    """One frame for each order."""
    for each in range(first, first + number):
        shop.place(f"ord-{each}", 0)
        shop.run()


@pytest.fixture
def shop() -> Shop:
    world = Shop()
    orders(world, 0, 20)
    return world


@pytest.fixture
def folder(shop: Shop, tmp_path: Path) -> Path:
    return folder_of(shop, tmp_path / "world")


def check_log(folder: Path, shop: Shop) -> int:
    """The stored checkpoint, and every header and hash in the tiles up to it; return its size."""
    key = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    with StoredLog.of_world(folder) as log:
        assert log is not None
        data = log.checkpoint()
        assert data is not None
        found, _ = open_checkpoint(data, key)
        tiles = TiledLog(found.size, log.read_tile)
        assert root(found.size, tiles.node) == found.root
        for index, frame in enumerate(shop.frames[: found.size]):
            assert read_header(tiles.header(index)) == frame.header
        return found.size


def test_a_log_grows_with_the_journal_and_is_the_same_as_one_made_at_once(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    assert make_checkpoint(folder).added == len(shop.frames)
    for some in (1, 2, 240):
        orders(shop, len(shop.frames), some)
        more_of(shop, folder)
        made = make_checkpoint(folder)

        assert made.added == some
        assert check_log(folder, shop) == len(shop.frames)
    whole = folder_of(shop, tmp_path / "other")
    assert make_checkpoint(whole).checkpoint == made.checkpoint
    assert make_checkpoint(whole).added == 0


def test_partial_tiles_go_once_a_full_one_is_there(shop: Shop, folder: Path) -> None:
    make_checkpoint(folder)
    orders(shop, len(shop.frames), 240)
    more_of(shop, folder)
    make_checkpoint(folder)

    assert sorted(each.name for each in (folder / "log/tile/0").iterdir()) == ["000", "001.p"]


def test_an_older_journal_signs_nothing(shop: Shop, folder: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    orders(shop, 100, 3)
    more_of(shop, folder)
    make_checkpoint(folder, out=tmp_path / "kept")
    before = (folder / "log/checkpoint").read_bytes()
    shutil.rmtree(folder / "store")
    shutil.copytree(older / "store", folder / "store")
    before_tiles = tiles_of(folder)

    with pytest.raises(Damage, match="rolled back"):
        make_checkpoint(folder)

    assert (folder / "log/checkpoint").read_bytes() == before
    assert tiles_of(folder) == before_tiles
    report = verify_world(folder, checkpoints=[tmp_path / "kept"])
    assert [each.kind for each in report.findings] == [FindingKind.JOURNAL_TRUNCATED]


def tiles_of(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in (folder / "log").rglob("*") if each.is_file()}


def rewritten(shop: Shop) -> Shop:
    """The same world with another order in it, as the holder of its key can make it."""
    other = Shop()
    orders(other, 0, 9)
    other.place("another", 0)
    other.run()
    orders(other, 10, len(shop.frames))
    assert other.state.world == shop.state.world
    return other


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_rewritten_journal_signs_nothing_and_the_first_frame_is_named(
    shop: Shop, folder: Path, tmp_path: Path, rebuild: bool
) -> None:
    make_checkpoint(folder, out=tmp_path / "kept")
    other = rewritten(shop)
    first = next(
        at
        for at, (one, two) in enumerate(zip(shop.frames, other.frames, strict=False))
        if one != two
    )
    path = folder_of(other, tmp_path / "other")
    shutil.copytree(folder / "log", path / "log")
    before = tiles_of(path)

    with pytest.raises(Damage, match="rewritten"):
        make_checkpoint(path, rebuild=rebuild)

    assert tiles_of(path) == before
    report = verify_world(path, checkpoints=[tmp_path / "kept"], log=folder / "log")
    (finding,) = report.findings
    assert finding.kind is FindingKind.JOURNAL_REWRITTEN
    assert f"the first is frame {first}, from record {other.frames[first].header.first} on" in (
        finding.message
    )
    assert verify_world(folder, checkpoints=[tmp_path / "kept"], log=folder / "log").is_sound


def test_checkpoints_of_others_and_none_are_findings(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    make_checkpoint(folder, out=tmp_path / "kept")
    shop.fork()
    orders(shop, 200, 2)
    fork = folder_of(shop, tmp_path / "fork")
    make_checkpoint(fork, out=tmp_path / "of-the-fork")
    (tmp_path / "none").write_bytes(b"nothing")

    assert verify_world(fork, checkpoints=[tmp_path / "kept", tmp_path / "of-the-fork"]).is_sound
    for file in ("of-the-fork", "none"):
        found = verify_world(folder, checkpoints=[tmp_path / file]).findings
        assert [each.kind for each in found] == [FindingKind.CHECKPOINT_WRONG]
        assert file in found[0].message


def test_a_lost_log_is_written_again_from_frames_and_archives(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    make_checkpoint(folder)
    shop.snapshot()
    orders(shop, 300, 2)
    more_of(shop, folder)
    archive = tmp_path / "archive.aos"
    prune_world(folder, snapshot_name="newest", archive=archive)
    seq = shop.frames[3].header.first

    # The pruning extended the log, so that proofs need the archive for the record alone.
    assert check_log(folder, shop) == len(shop.frames)
    with pytest.raises(Pruned, match="archive"):
        prove(folder, ProofRequest(words=(str(seq),)))
    made = prove(folder, ProofRequest(words=(str(seq),)), archives=[archive])
    assert made.checkpoint == len(shop.frames)
    kept = tmp_path / "kept"
    shutil.copy(folder / "log/checkpoint", kept)
    assert verify_world(folder, checkpoints=[kept]).is_sound

    shutil.rmtree(folder / "log")
    found = verify_world(folder, checkpoints=[kept]).findings
    assert [each.kind for each in found] == [FindingKind.CHECKPOINT_WRONG]
    assert "--archive" in found[0].message
    assert verify_world(folder, archives=[archive], checkpoints=[kept]).is_sound
    with pytest.raises(Pruned, match="--archive"):
        make_checkpoint(folder)
    assert make_checkpoint(folder, archives=[archive]).checkpoint.size == len(shop.frames)
    assert check_log(folder, shop) == len(shop.frames)


def test_an_imported_world_writes_its_log_again(shop: Shop, folder: Path, tmp_path: Path) -> None:
    """PF-29a."""
    first = make_checkpoint(folder, out=tmp_path / "kept")
    bundle, found = tmp_path / "bundle.aos", tmp_path / "imported"
    export_world(folder, bundle)
    import_world(bundle, found)
    adopt_world(found, keys=folder / "keys")

    assert not (found / "log").exists()
    assert make_checkpoint(found).checkpoint == first.checkpoint
    assert check_log(found, shop) == len(shop.frames)
    assert verify_world(found, checkpoints=[tmp_path / "kept"]).is_sound


def test_a_bundle_is_compared_with_checkpoints_too(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    early = tmp_path / "early.aos"
    export_world(folder, early)
    make_checkpoint(folder, out=tmp_path / "old")
    orders(shop, 100, 1)
    more_of(shop, folder)
    make_checkpoint(folder, out=tmp_path / "new")

    assert verify_bundle(early, checkpoints=[tmp_path / "old"]).is_sound
    found = verify_bundle(early, checkpoints=[tmp_path / "new"]).findings
    assert [each.kind for each in found] == [FindingKind.JOURNAL_TRUNCATED]


@pytest.mark.parametrize("level", ["entries", "0"])
@pytest.mark.parametrize("what", ["missing", "short", "longer", "altered", "empty"])
def test_a_damaged_tile_at_the_end_is_written_again(
    shop: Shop, folder: Path, level: str, what: str
) -> None:
    make_checkpoint(folder)
    (tile,) = (each for each in (folder / f"log/tile/{level}").rglob("*") if each.is_file())
    data = tile.read_bytes()
    damage(tile, data, what)

    if level == "0" or what != "altered":
        with pytest.raises(Damage, match="tile"):
            prove(folder, ProofRequest(words=(str(shop.frames[-1].header.last),)))
    make_checkpoint(folder)

    assert tile.read_bytes() == data
    check_log(folder, shop)


def damage(tile: Path, data: bytes, what: str) -> None:
    tile.unlink()
    if what != "missing":
        altered = bytes([data[0], data[1], data[2] ^ 1]) + data[3:]
        tile.write_bytes(
            {"short": data[:-1], "longer": data + b"x", "altered": altered, "empty": b""}[what]
        )


def test_a_link_in_the_place_of_a_tile_is_not_followed(folder: Path, tmp_path: Path) -> None:
    make_checkpoint(folder)
    (tile,) = (each for each in (folder / "log/tile/0").rglob("*") if each.is_file())
    outside = tmp_path / "outside"
    outside.write_bytes(tile.read_bytes())
    tile.unlink()
    tile.symlink_to(outside)

    with pytest.raises(Damage, match="symbolic link"):
        prove(folder, ProofRequest(words=("1",)))
    with pytest.raises(Damage, match="symbolic link"):
        make_checkpoint(folder, rebuild=True)


def test_a_stored_checkpoint_that_is_none_stops_everything(folder: Path) -> None:
    make_checkpoint(folder)
    (folder / "log/checkpoint").write_bytes(b"nothing\n")

    with pytest.raises(Damage, match="no signed note"):
        make_checkpoint(folder)


def test_another_key_signs_nothing(folder: Path) -> None:
    file = folder / "keys/world.key"
    file.write_text("11" * 32)

    with pytest.raises(Refused, match="not this world's key"):
        make_checkpoint(folder)
    assert not (folder / "log/checkpoint").exists()


def test_two_processes_do_not_extend_one_log(folder: Path) -> None:
    make_checkpoint(folder)
    with LogFolder.of_world(folder) as log:
        assert log is not None
        with log.locked(), pytest.raises(Unavailable, match="another process"):
            make_checkpoint(folder)


class Killed(BaseException):
    """The process ends here."""


def steps_of(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Die at the ``at``-th change of a file."""
    done: list[str] = []
    for name in ("create", "rename", "sync", "remove", "remove_folder"):
        real = getattr(PlainFolder, name)

        def step(self: object, *words: object, real: object = real, name: str = name) -> object:
            done.append(name)
            if len(done) == at:
                raise Killed
            assert callable(real)
            return real(self, *words)

        monkeypatch.setattr(PlainFolder, name, step)
    return done


def test_a_process_that_dies_anywhere_leaves_a_whole_log(
    shop: Shop, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old checkpoint or the new one, each with all tiles; and the next run completes it."""
    orders(shop, 100, 230)
    more_of(shop, folder)
    make_checkpoint(folder)
    old = len(shop.frames)
    orders(shop, 400, 10)
    more_of(shop, folder)
    assert old < 256 < len(shop.frames), "a tile becomes full"
    shutil.copytree(folder / "log", tmp_path / "log")
    at, sizes = 1, set()
    while True:
        shutil.rmtree(folder / "log")
        shutil.copytree(tmp_path / "log", folder / "log")
        with monkeypatch.context() as patch:
            done = steps_of(patch, at)
            with contextlib.suppress(Killed):
                make_checkpoint(folder)
        sizes.add(check_log(folder, shop))
        assert make_checkpoint(folder).checkpoint.size == len(shop.frames)
        assert check_log(folder, shop) == len(shop.frames)
        if len(done) < at:
            break
        at += 1
    assert at > 15
    assert sizes == {old, len(shop.frames)}


def test_a_killed_process_leaves_a_whole_log(shop: Shop, folder: Path, tmp_path: Path) -> None:
    """With the real signal, at some times after its start."""
    make_checkpoint(folder)
    sizes = {len(shop.frames)}
    orders(shop, 100, 20)
    more_of(shop, folder)
    sizes.add(len(shop.frames))
    for wait in (0.0, 0.6):
        child = subprocess.Popen(
            [sys.executable, "-m", "aos.host.checkpoints.checkpointing", str(folder)],
            stderr=subprocess.DEVNULL,
        )
        try:
            child.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        assert check_log(folder, shop) in sizes
    make_checkpoint(folder)


def test_a_full_disk_leaves_the_old_checkpoint(
    shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_checkpoint(folder)
    old = len(shop.frames)
    orders(shop, 100, 3)
    more_of(shop, folder)

    def full(self: object, name: str, mode: int = 0o600) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PlainFolder, "create", full)
        with pytest.raises(Unavailable, match="No space left"):
            make_checkpoint(folder)

    assert check_log(folder, shop) == old


def test_a_world_that_was_copied_signs_nothing(folder: Path, tmp_path: Path) -> None:
    with open_folder(folder).open_store():
        pass  # opening for writing adopts it
    shutil.copytree(folder, tmp_path / "copy")

    with pytest.raises(AosError, match="adopt"):
        make_checkpoint(tmp_path / "copy")
