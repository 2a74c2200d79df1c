"""``aos journal prune`` and ``aos gc`` (C-28a, C-28b, C-41)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.store.lock import WorldLock
from aos.values.digests import hash_text
from tests.cli.shell import Aos, in_silence
from tests.copies import copied
from tests.host import puppet


@pytest.fixture(scope="module")
def taken(lived_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with a snapshot."""
    path = tmp_path_factory.mktemp("taken") / "world"
    copied(lived_in, path)
    assert in_silence("snapshot", "--world", path) == 0
    return path


@pytest.fixture
def world(taken: Path, tmp_path: Path) -> Path:
    return copied(taken, tmp_path / "world")


def test_a_journal_is_pruned_and_everything_says_so(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-28a, C-41."""
    file = tmp_path / "old.aos"
    cells = aos("inspect", "cells", "--json", world=world).json
    seq = aos("inspect", "world", "--json", world=world).json["journal"]["records"]

    done = aos("journal", "prune", "--before", "newest", "--archive", file, "--json", world=world)

    assert done.code == 0, done.err
    found = done.json
    assert found["world"] == hash_text(open_folder(world).world)
    assert (found["first"], found["archive"]) == (1, str(file))
    assert (found["was_begun"], found["compacted"]) == (False, True)
    assert found["bytes_after"] < found["bytes_before"]
    last = found["last"]
    assert 1 < last < seq

    # Present records read as before; for pruned ones the message names the archive.
    assert aos("inspect", "cells", "--json", world=world).json == cells
    pruned: list[tuple[str, ...]] = [("inspect", "record", "2"), ("trace", "2"), ("replay",)]
    for command in pruned:
        refused = aos(*command, world=world)
        assert refused.code == 1
        assert refused.err == (
            f"aos: record 2 was pruned: expected a record after {last} "
            f"(it is in the archive {file}, with records 1 to {last})\n"
        )
    assert aos("inspect", "record", "1", world=world).code == 0
    assert aos("inspect", "world", "--at", "2", world=world).code == 1
    assert aos("inspect", "world", "--at", str(last), world=world).code == 0
    assert aos("replay", "--from", "snapshot", world=world).code == 0
    reads: list[tuple[str, ...]] = [
        ("inspect", "journal"),
        ("inspect", "intents", "--status", "all"),
        ("inspect", "faults"),
        ("trace", "puppet", "ada"),
        ("trace", "puppet", "wait"),
        ("inspect", "cell", "puppet", "bad"),
    ]
    for command in reads:
        assert aos(*command, world=world).code == 0, command
    journal = aos("inspect", "journal", "--json", world=world).lines
    assert [each["seq"] for each in journal] == list(range(last + 1, seq + 1))


def test_world_and_archive_verify_alone_and_together(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-41, C-41a."""
    file = tmp_path / "old.aos"
    assert aos("journal", "prune", "--before", "newest", "--archive", file, world=world).code == 0

    alone = aos("verify", file, "--json")
    rest = aos("verify", "--json", world=world)
    both = aos("verify", "--archive", file, "--json", world=world)

    assert [each.code for each in (alone, rest, both)] == [0, 0, 0]
    last = alone.json["seq"]
    assert (alone.json["pruned"], rest.json["pruned"], both.json["pruned"]) == (0, last, 0)
    assert alone.json["records"] + rest.json["records"] == both.json["records"]
    said = aos("verify", world=world).out
    assert f"from the snapshot of record {last} on: earlier records were pruned" in said
    assert aos("replay", file).code == 0
    wrong = aos("verify", file, "--archive", file)
    assert wrong.code == 2
    assert "an archive alone is verified as FILE" in wrong.err


def test_the_text_output_of_prune(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-28a."""
    file = tmp_path / "old.aos"
    done = aos("journal", "prune", "--before", "newest", "--archive", file, world=world)

    lines = done.out.splitlines()
    assert lines[0].startswith("pruned to record ")
    assert lines[-1] == f"next: aos verify --archive {file}"
    again = aos("journal", "prune", "--before", "newest", world=world)
    assert again.code == 0
    assert again.out.startswith("finished an interrupted prune: pruned to record ")


def test_why_a_journal_is_not_pruned(aos: Aos, world: Path, lived_in: Path) -> None:
    """C-28a, C-1."""
    for words, code, said in (
        (("--before", "2"), 2, "there is no such snapshot: expected newest, or the record that"),
        ((), 2, "--before is required"),
    ):
        done = aos("journal", "prune", *words, world=world)
        assert (done.code, done.out) == (code, "")
        assert said in done.err
    without = aos("journal", "prune", "--before", "newest", world=lived_in)
    assert (without.code, "make one: aos snapshot" in without.err) == (2, True)
    with WorldLock(world, runs=True):
        held = aos("journal", "prune", "--before", "newest", world=world)
    assert (held.code, "the world is written by this process" in held.err) == (4, True)


def test_unneeded_blobs_are_removed(aos: Aos, world: Path) -> None:
    """C-28b."""
    for _ in range(2):
        with open_writer(world) as writer:
            list(writer.send([puppet.do("ada")]))
        assert in_silence("run", "--until-idle", "--world", world) == 0
        assert in_silence("snapshot", "--world", world) == 0
    cells = aos("inspect", "cells", "--json", world=world).json

    dry = aos("gc", "--dry-run", "--keep-snapshots", "1", "--json", world=world)
    done = aos("gc", "--keep-snapshots", "1", "--json", world=world)

    assert (dry.code, done.code) == (0, 0), done.err
    assert dry.json["dry_run"] is True
    assert done.json["dry_run"] is False
    assert dry.json["gone"] == done.json["gone"]
    assert dry.json["kept"] == done.json["kept"]
    assert done.json["gone"]["blobs"] > 0
    assert len(done.json["snapshots_gone"]) == 2
    assert (done.json["spared"], done.json["compacted"]) == (0, True)
    again = aos("gc", "--json", world=world).json
    assert (again["gone"]["blobs"], again["snapshots_gone"]) == (0, [])
    assert aos("inspect", "cells", "--json", world=world).json == cells
    checks: list[tuple[str, ...]] = [("verify",), ("replay",), ("replay", "--from", "snapshot")]
    for command in checks:
        assert aos(*command, world=world).code == 0


def test_the_text_output_of_gc(aos: Aos, world: Path) -> None:
    """C-28b."""
    said = aos("gc", "--dry-run", world=world).out.splitlines()
    assert said[0].endswith(" would go")
    assert any("parts of the snapshots that are kept" in each for each in said)
    done = aos("gc", world=world).out.splitlines()
    assert done[0] == said[0].replace("would go", "taken away")
    refused = aos("gc", "--keep-snapshots", "0", world=world)
    assert (refused.code, refused.out) == (2, "")
    assert "--keep-snapshots: expected 1 or more, found 0" in refused.err
