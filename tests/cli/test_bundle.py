"""Worlds into files and out of them, as a user does it (C-41a to C-43)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.transfer.exporting import export_world
from aos.node.leases.table import open_table
from aos.values.digests import hash_text
from tests.cli.shell import Aos, environment, run
from tests.host import puppet
from tests.host.transfer.test_bundle import send


def test_a_world_is_exported_verified_replayed_and_imported(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-41a, C-42, C-43"""
    file, copy = tmp_path / "b", tmp_path / "copy"
    world = hash_text(open_folder(lived_in).world)

    exported = aos("export", file, "--json", world=lived_in)
    assert exported.code == 0
    found = exported.json
    assert (found["file"], found["world"], found["to"]) == (str(file), world, None)
    assert found["bytes"] == file.stat().st_size
    assert found["erased"] == 0

    # Nothing but the file: also where there is no world.
    verified = aos("verify", file, "--json", world=tmp_path / "none")
    assert (verified.code, verified.json["sound"]) == (0, True)
    assert verified.json["seq"] == found["seq"]
    replayed = aos("replay", file, "--json")
    assert (replayed.code, replayed.json["identical"]) == (0, True)
    assert replayed.json["frame"] == found["frame"]

    imported = aos("import", file, copy, "--json")
    assert imported.code == 0
    assert imported.json == {
        "world": world, "path": str(copy), "seq": found["seq"], "frames": found["frames"],
        "blobs": found["blobs"], "open_intents": 1,
    }  # fmt: skip
    replay = ("replay", "--core", "both")
    for command in (("verify",), replay, ("inspect", "world"), ("trace", "3")):
        assert aos(*command, world=copy).code == 0
    one, other = (aos("inspect", "cells", "--json", world=each) for each in (lived_in, copy))
    assert one.json == other.json


def test_the_text_output_for_people(aos: Aos, lived_in: Path, tmp_path: Path) -> None:  # C-42, C-43
    file, copy = tmp_path / "b", tmp_path / "copy"

    exported = aos("export", file, world=lived_in)
    assert exported.out.splitlines()[0].startswith("exported to record ")
    assert exported.out.splitlines()[-1] == f"next: aos verify {file}"
    assert aos("verify", file).out.startswith("verify: sound to record ")
    assert aos("replay", file).out.startswith("replay: byte-identical to record ")
    imported = aos("import", file, copy)
    assert imported.out.splitlines()[-1] == (
        f"to run it here, and nowhere else: aos adopt --world {copy} --keys FOLDER"
    )


def test_the_end_of_a_part_is_told(aos: Aos, world: Path, tmp_path: Path) -> None:  # C-42
    with open_writer(world) as writer:
        list(writer.send([puppet.do("a"), puppet.do("b"), puppet.do("c")]))
    found = aos("export", tmp_path / "b", "--to", "3", world=world)
    assert found.out.splitlines()[:2] == [
        f"exported to record 5: {tmp_path / 'b'}",
        "  record 3 is in a frame that ends with record 5",
    ]
    send(world, ("d", None))
    found = aos("export", tmp_path / "b", "--to", "3", "--force", "--json", world=world)
    assert (found.json["to"], found.json["seq"]) == (3, 5)


def test_refusals_state_their_reason(aos: Aos, world: Path, tmp_path: Path) -> None:  # C-1, C-42
    file = tmp_path / "b"
    assert aos("export", file, world=world).code == 0
    again = aos("export", file, world=world)
    assert again.code == 1
    assert again.err == (
        f"aos: {file}: there is such a file already; nothing was changed (--force replaces it)\n"
    )
    assert aos("export", file, "--force", world=world).code == 0
    assert aos("export", file, "--to", "99", "--force", world=world).code == 2
    assert aos("export", file, "--to", "x", world=world).code == 2
    assert aos("export", tmp_path / "none" / "b", world=world).code == 4
    assert aos("import", file, world).code == 1
    assert aos("import", tmp_path / "none", tmp_path / "copy").code == 2
    assert aos("verify", tmp_path / "none").code == 2
    assert aos("verify", world).err == (
        f"aos: {world}: expected a bundle, found a folder (a world's: --world {world})\n"
    )


def test_a_damaged_file_is_exit_3_everywhere(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-1, C-41a"""
    file = tmp_path / "b"
    assert aos("export", file, world=world).code == 0
    os.truncate(file, file.stat().st_size - 1)
    verified = aos("verify", file)
    assert verified.code == 3
    assert verified.err == "aos: the bundle is damaged: 1 finding\n"
    assert "bundle_damaged" in verified.out
    assert aos("replay", file).code == 3
    assert aos("import", file, tmp_path / "copy").code == 3
    assert not (tmp_path / "copy").exists()


def test_an_interrupted_replay_of_a_file_ends_with_130(tmp_path: Path, world: Path) -> None:
    """C-1. The interpreter of a process of its own meets Ctrl-C while it replays."""
    export_world(world, tmp_path / "b")
    code = (
        "import sys, threading, _thread\n"
        "from aos.prove.replay import replay_store\n"
        "from aos_cli import main\n"
        "replay = replay_store.replay\n"
        "def late(*given, **more):\n"
        "    _thread.interrupt_main()\n"
        "    return replay(*given, **more)\n"
        "replay_store.replay = late\n"
        "sys.exit(main.run_command(['replay', sys.argv[1]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "b")], env=environment(), capture_output=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr


def test_no_process_leaves_anything_in_the_folder_for_temporary_files(
    world: Path, tmp_path: Path
) -> None:
    """B-9"""
    (tmp_path / "tmp").mkdir()
    done = run("export", tmp_path / "b", "--world", world, env={"TMPDIR": str(tmp_path / "tmp")})
    assert done.code == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_imported_world_is_adopted_and_runs(aos: Aos, lived_in: Path, tmp_path: Path) -> None:
    """C-31, C-44"""
    file, copy = tmp_path / "b", tmp_path / "copy"
    assert aos("export", file, world=lived_in).code == 0
    assert aos("import", file, copy).code == 0

    refused = aos("send", puppet.DO, '{"key": "x"}', world=copy)
    assert refused.code == 1
    assert refused.err == (
        f"aos: {copy}: this world was imported and not adopted yet: nothing runs in it and nothing "
        "is written (make sure that it runs nowhere else, then: aos adopt --world "
        f"{copy})\n"
    )
    assert aos("inspect", "world", "--json", world=copy).json["origin"] == "imported"
    assert "process\tnone: this world was imported and not adopted yet (aos adopt)" in (
        aos("inspect", "world", world=copy).out
    )
    without = aos("adopt", world=copy)
    assert without.code == 1
    assert "name the folder of world.key with --keys FOLDER" in without.err

    open_table(copy, seq=1, report=lambda _: None).close()
    leases = copy / "node" / "leases" / "data.mdb"
    assert leases.exists()

    adopted = aos("adopt", "--keys", lived_in / "keys", world=copy)

    assert adopted.code == 0
    assert not leases.exists(), "its leases are those of another folder"
    assert adopted.out.splitlines() == [
        f"adopted: {copy} continues from record 13",
        f"  {hash_text(open_folder(copy).world)}",
        f"  {copy}/keys/world.key copied",
        f"  {copy}/keys/operator.key copied",
        "  1 open effect published again when it runs: this world must run nowhere else",
    ]
    again = aos("adopt", "--json", world=copy)
    assert again.json == {
        "world": hash_text(open_folder(copy).world), "path": str(copy), "origin": None, "keys": [],
        "seq": 13, "open_intents": 1,
    }  # fmt: skip
    assert aos("adopt", world=copy).out.startswith(f"adopted already: {copy}\n")
    assert aos("send", puppet.DO, '{"key": "x"}', world=copy).code == 0
    assert aos("run", "--until-idle", world=copy).code == 0
    assert aos("inspect", "world", "--json", world=copy).json["origin"] is None


def test_a_world_is_forked_adopted_and_runs(aos: Aos, lived_in: Path, tmp_path: Path) -> None:
    """C-45"""
    path = tmp_path / "f"
    parent = hash_text(open_folder(lived_in).world)

    forked = aos("fork", path, "--at", "13", "--executor", "mail", "--json", world=lived_in)

    assert forked.code == 0
    found = forked.json
    assert list(found) == [
        "world", "path", "created", "parent", "at", "seq", "canceled", "kept", "operator",
        "executors",
    ]  # fmt: skip
    assert (found["parent"], found["at"], found["seq"]) == (parent, 13, 15)
    assert (found["canceled"], found["kept"]) == (1, 0)
    assert [each["name"] for each in found["executors"]] == ["mail"]
    refused = aos("run", "--until-idle", world=path)
    assert refused.code == 1
    assert "this world was forked and not adopted yet" in refused.err
    shown = aos("inspect", "world", "--json", world=path).json
    assert shown["ancestors"] == [{"world": parent, "at": 13}]
    assert shown["origin"] == "forked"
    assert f"forked of\t{parent}, after record 13" in aos("inspect", "world", world=path).out
    listed = aos("inspect", "journal", "--kind", "fork", world=path)
    assert "forked of" in listed.out
    assert aos("inspect", "record", "14", "--json", world=path).json["at"] == 13
    assert "the world was forked" in aos("trace", "14", world=path).out
    for command in (("verify",), ("replay",)):
        assert aos(*command, world=path).code == 0
    assert aos("adopt", world=path).code == 0
    assert aos("run", "--until-idle", world=path).code == 0
    assert aos("verify", world=path).code == 0


def test_fork_reports_the_reason_why_a_kept_effect_waits(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-45"""
    path = tmp_path / "f"
    forked = aos("fork", path, "--at", "13", "--intents", "keep", world=lived_in)
    advice = f"(aos effects cancel --world {path})"
    assert forked.code == 0
    assert forked.out.splitlines()[3:] == [
        f"  1 open effect kept: no executor carries out inherited effects {advice}",
        f"next: aos adopt --world {path}",
    ]
    assert aos("adopt", world=path).code == 0
    [row] = aos("inspect", "intents", "--json", world=path).json["intents"]
    told = aos("inspect", "intent", row["intent"], world=path)
    assert "no executor carries it out here" in told.out
    assert aos("effects", "cancel", row["intent"], world=path).code == 0
    assert aos("run", "--until-idle", world=path).code == 0
    assert aos("verify", world=path).code == 0


def test_a_fork_needs_a_record_and_an_empty_folder(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-1, C-45"""
    assert aos("fork", tmp_path / "f", world=lived_in).code == 2
    assert aos("fork", tmp_path / "f", "--at", "x", world=lived_in).code == 2
    assert aos("fork", tmp_path / "f", "--at", "99", world=lived_in).code == 2
    assert aos("fork", tmp_path / "f", "--at", "3", "--intents", "x", world=lived_in).code == 2
    assert aos("fork", lived_in, "--at", "3", world=lived_in).code == 1
    assert not (tmp_path / "f").exists()
