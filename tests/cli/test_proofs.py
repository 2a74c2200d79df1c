"""Checkpoints and proofs as a user makes them (C-130 to C-135, C-25, C-41)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from aos.host.folder.folder import open_folder
from aos.prove.headerlog.signed_note import parse_note_key
from aos.values.digests import hash_text
from tests.cli.shell import Aos
from tests.copies import copied


@pytest.fixture
def kept(aos: Aos, settled: Path, tmp_path: Path) -> Path:
    file = tmp_path / "kept.checkpoint"
    assert aos("checkpoint", "--out", file, world=settled).code == 0
    return file


def test_a_checkpoint_is_made_and_a_journal_is_compared_with_it(
    aos: Aos, settled: Path, tmp_path: Path
) -> None:
    file = tmp_path / "kept"
    made = aos("checkpoint", "--out", file, "--json", world=settled)
    assert made.code == 0
    found = made.json
    assert found["world"] == hash_text(open_folder(settled).world)
    assert found["out"] == str(file)
    assert parse_note_key(found["key"]).name == f"aos/{open_folder(settled).world.hex()}"
    assert found["failed"] == found["witnesses"] == []

    shown = aos("checkpoint", "--out", file, world=settled)
    assert shown.out.startswith("checkpoint to record ")
    assert shown.out.splitlines()[-1] == f"next: aos verify --checkpoint {file}"
    verified = aos("verify", "--checkpoint", file, "--log", settled / "log", world=settled)
    assert verified.code == 0
    assert "  it continues 1 checkpoint\n" in verified.out

    (tmp_path / "none").write_text("nothing")
    wrong = aos("verify", "--checkpoint", tmp_path / "none", world=settled)
    assert wrong.code == 3
    assert "checkpoint_wrong" in wrong.out
    assert aos("verify", "--log", settled / "log", world=settled).code == 2
    assert aos("verify", "--checkpoint", tmp_path / "missing", world=settled).code == 2


def test_a_proof_goes_to_a_stranger(aos: Aos, settled: Path, kept: Path, tmp_path: Path) -> None:
    world = hash_text(open_folder(settled).world)
    file = tmp_path / "proof.json"
    (intent,) = aos("inspect", "intents", "--status", "settled", "--json", world=settled).json[
        "intents"
    ]
    for words in (("4",), (intent["intent"],), (intent["intent"][7:19],), ("since", kept)):
        made = aos("proof", *words, "--out", file, world=settled)
        assert made.code == 0, made.err
        assert made.out.splitlines()[-1] == f"next: aos verify-proof {file} --world {world}"
        checked = aos("verify-proof", file, "--world", world)
        assert checked.code == 0
        assert checked.out.startswith("the proof holds\n")
        nobody = aos("verify-proof", file)
        assert nobody.code == 1
        assert "--world" in nobody.err

    printed = aos("proof", "4", world=settled)
    assert json.loads(printed.out)["format"] == "aos-proof/1"
    found = aos("proof", "4", "--out", file, "--json", world=settled).json
    assert (found["kind"], found["anchor"], found["records"]) == (
        "record", "checkpoint", {"record": 4},
    )  # fmt: skip
    said = aos("verify-proof", file, "--world", world, "--json").json
    assert (said["holds"], said["trusted"], said["problems"]) == (True, True, [])
    file.write_bytes(file.read_bytes().replace(b'"seq": 4', b'"seq": 5'))
    broken = aos("verify-proof", file, "--world", world)
    assert broken.code == 3
    assert broken.out == ""
    assert broken.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("verify-proof", "/nowhere"),
        ("verify-proof", "FILE", "--world", "x"),
        ("verify-proof", "FILE", "--key", "x"),
        ("verify-proof", "FILE", "--witness", "x"),
        ("checkpoint", "--witness", "x"),
        ("proof",),
        ("key", "show", "/nowhere/x"),
        ("cosign", "/nowhere", "--key", "/nowhere", "--log", "x"),
        ("run", "--checkpoint-every", "1ms"),
    ],
)
def test_a_wrong_option_is_explained(
    aos: Aos, settled: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    of_world = settled if words[0] in ("checkpoint", "proof", "run") else None
    found = aos(*words, world=of_world)

    assert found.code in (2, 4)
    assert found.out == ""
    assert found.err.startswith("aos: ")


def test_keys_are_made_and_shown(aos: Aos, tmp_path: Path) -> None:
    file = tmp_path / "alice.key"
    made = aos("key", "new", file, "--name", "w.example/1", "--json")
    shown = aos("key", "show", file, "--name", "w.example/1", "--json")

    assert made.json == shown.json
    assert made.json["public_key"].startswith("ed25519:")
    assert parse_note_key(made.json["witness"]).name == "w.example/1"
    assert file.stat().st_mode & 0o777 == 0o600
    again = aos("key", "new", file)
    assert again.code == 1
    assert aos("key", "new", tmp_path / "b.key", "--name", "a b").code == 2
    assert not (tmp_path / "b.key").exists()
    assert file.read_text().strip() not in made.out + shown.out + again.err


def test_a_run_makes_checkpoints(aos: Aos, lived_in: Path, tmp_path: Path) -> None:
    """C-25: at least one, at its end."""
    path = copied(lived_in, tmp_path / "world")
    ended = aos("run", "--until-idle", "--checkpoint-every", "1h", world=path)

    assert ended.code == 0
    assert ended.err.count("no checkpoint") == 0
    assert aos("verify", "--checkpoint", path / "log/checkpoint", world=path).code == 0


@pytest.fixture
def alone(settled: Path, tmp_path: Path) -> Path:
    """A world that never had a checkpoint."""
    world = copied(settled, tmp_path / "alone")
    shutil.rmtree(world / "log", ignore_errors=True)
    return world


def test_the_status_names_the_last_checkpoint_that_someone_else_holds(
    aos: Aos, alone: Path, tmp_path: Path
) -> None:
    """C-131a, PF-29b."""
    none = aos("checkpoint", "status", world=alone)
    assert none.code == 1
    assert none.out.splitlines()[1:] == [
        "last checkpoint: none", "kept outside of this folder: none",
    ]  # fmt: skip
    assert "aos checkpoint --out FILE" in none.err
    assert aos("checkpoint", "--out", alone / "log" / "inside", world=alone).code == 0
    inside = aos("checkpoint", "status", "--json", world=alone)
    assert (inside.code, inside.json["outside"]) == (1, None)
    assert inside.json["latest"]["records_since"] == 0

    kept = tmp_path / "kept"
    assert aos("checkpoint", "--out", kept, world=alone).code == 0
    end = aos("checkpoint", "status", "--json", world=alone).json
    assert end["outside"] == {
        **{name: end["latest"][name] for name in ("frames", "seq", "root", "witnesses")},
        "frames_since": 0, "records_since": 0, "file": str(kept), "time": end["outside"]["time"],
    }  # fmt: skip

    assert aos("snapshot", world=alone).code == 0
    assert aos("checkpoint", world=alone).code == 0
    found = aos("checkpoint", "status", world=alone)
    assert found.code == 0
    assert "0 records written since" in found.out
    assert "1 record written since" in found.out
    assert f"  in {kept}, written at 20" in found.out
    assert aos("checkpoint", "status", "--json", world=alone).json["outside"]["seq"] == end["seq"]


def test_the_status_reports_a_journal_that_is_shorter_than_its_checkpoint(
    aos: Aos, alone: Path, tmp_path: Path
) -> None:
    older = copied(alone, tmp_path / "older")
    assert aos("snapshot", world=alone).code == 0
    assert aos("checkpoint", "--out", tmp_path / "kept", world=alone).code == 0
    shutil.copytree(alone / "log", older / "log")

    found = aos("checkpoint", "status", world=older)

    assert found.code == 3
    assert "rolled back" in found.err


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b'{"checkpoint": "x", "seq": 1, "file": null, "time": 1}',
     b'{"checkpoint": "x", "seq": true, "file": null, "time": 1}',
     b'{"checkpoint": 1, "seq": 1, "file": null, "time": 1}'],
)  # fmt: skip
def test_a_damaged_note_about_the_checkpoint_outside_is_named(
    aos: Aos, settled: Path, kept: Path, content: bytes
) -> None:
    assert kept.exists()
    (settled / "log" / ".outside").write_bytes(content)

    found = aos("checkpoint", "status", world=settled)

    assert found.code == 3
    assert found.err.count("\n") == 1


def test_verify_names_the_command_that_finds_what_it_cannot(aos: Aos, settled: Path) -> None:
    """C-41."""
    last = aos("verify", world=settled).out.splitlines()[-1]

    assert last == (
        "  verify alone finds neither a rollback nor a rewriting of the journal: "
        "see aos checkpoint status"
    )
