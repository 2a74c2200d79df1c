"""Messages and exit codes of commands with invalid arguments, word for word (C-1, C-2)."""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import aos_cli.entry
import aos_cli.main
from aos.read.views import world_view
from tests.cli.shell import Aos

NO_WORLD = "(make a world: aos init {0}; or name another with --world or AOS_WORLD)"

WRONG = re.findall(
    r"^\$ aos (.*)\n(\d) (.*)$", Path(__file__).with_name("wrong.txt").read_text(), re.MULTILINE
)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0][:60])
def test_wrong_words_are_told_in_one_sentence(
    aos: Aos,
    template: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str, str],
) -> None:
    words, code, error = case
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOS_WORLD", str(template))

    found = aos(*shlex.split(words))

    assert found == (int(code), "", error.replace("{here}", str(tmp_path)) + "\n")


def test_the_world_is_named_by_an_option_or_the_environment_or_is_in_the_current_folder(
    aos: Aos, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-8"""
    monkeypatch.chdir(tmp_path)

    none = aos("inspect", "world")
    monkeypatch.setenv("AOS_WORLD", "")
    empty = aos("inspect", "world")
    monkeypatch.setenv("AOS_WORLD", "elsewhere")
    elsewhere = aos("inspect", "world")
    option = aos("inspect", "world", world=template)
    (tmp_path / ".aos").symlink_to(template)
    monkeypatch.delenv("AOS_WORLD")
    nearby = aos("inspect", "world")

    assert none == (2, "", f"aos: .aos: there is no such folder {NO_WORLD.format('.aos')}\n")
    assert empty == none
    assert elsewhere.err == (
        f"aos: elsewhere: there is no such folder {NO_WORLD.format('elsewhere')}\n"
    )
    assert (option.code, nearby.code) == (0, 0)


def test_a_folder_without_a_world_is_told_from_a_broken_one(aos: Aos, tmp_path: Path) -> None:
    empty = aos("inspect", "cells", world=tmp_path)
    (tmp_path / "world.json").write_text("{")
    damaged = aos("inspect", "cells", world=tmp_path)
    (tmp_path / "world.json").write_text('{"format": 2}')
    newer = aos("inspect", "cells", world=tmp_path)

    assert (empty.code, damaged.code, newer.code) == (2, 3, 1)
    assert "this is no world's folder: there is no world.json" in empty.err
    assert "world.json: the file is not JSON" in damaged.err
    assert "expected format 1, found format 2 (use that release)" in newer.err


def test_a_world_without_a_manifest_says_what_comes_first(aos: Aos, tmp_path: Path) -> None:
    world = tmp_path / "w"
    assert aos("init", world).code == 0

    sent = aos("send", "a/B@1", "{}", world=world)
    shown = aos("inspect", "manifest", world=world)

    words = "this world has no manifest yet (apply one: aos apply PATH)"
    assert sent == (1, "", f"aos: {words}\n")
    assert shown == (2, "", f"aos: {words}\n")


def test_a_key_that_others_may_read_is_refused(aos: Aos, world: Path, manifest: Path) -> None:
    key = world / "keys" / "operator.key"
    key.chmod(0o644)

    found = aos("apply", manifest, world=world)

    assert found.code == 1
    assert found.err == (
        f"aos: {key}: others may read this secret key: expected mode 0600, found mode 0644 "
        f"(chmod 600 {key})\n"
    )


def test_every_problem_of_a_manifest_is_told_at_once(
    aos: Aos, manifest: Path, world: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(manifest, broken)
    nodes = json.loads((broken / "m.air.json").read_text())
    nodes[0]["tpe"] = nodes[0].pop("type")
    nodes[-1]["routing"]["subscriptions"][0]["key_field"] = "kee"
    (broken / "m.air.json").write_text(json.dumps(nodes))

    found = aos("apply", broken, world=world)

    lines = found.err.splitlines()
    assert found.code == 1
    assert lines[0].endswith(
        f"the manifest at {broken} has {len(lines) - 1} problems; nothing was applied"
    )
    assert len(lines) > 2
    assert all(line.startswith("aos: m.air.json#/") for line in lines[1:])


def test_a_file_cut_short_is_damage(aos: Aos, world: Path) -> None:
    os.truncate(world / "store" / "data.mdb", 5000)

    codes = [
        aos(*words, world=world).code for words in (["inspect", "world"], ["replay"], ["verify"])
    ]

    assert codes == [3, 3, 3]


def test_a_bug_of_ours_is_said_to_be_one(
    aos: Aos, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise KeyError("oh")

    monkeypatch.setattr(world_view, "world", fail)

    found = aos("inspect", "world", world=template)

    assert found.code == aos_cli.main.BUG == 70
    assert "KeyError: 'oh'" in found.err
    assert found.err.endswith(
        "aos: this is a bug in aos; the journal of the world is not affected by it. "
        "Please report it with the text above.\n"
    )


def test_ctrl_c_ends_a_command_with_130(
    aos: Aos, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world_view, "world", interrupt)

    assert aos("inspect", "world", world=template) == (130, "", "aos: interrupted\n")


def test_ctrl_c_is_one_line_while_the_program_is_still_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C-1"""

    class Interrupts:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "aos_cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "aos_cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupts(), *sys.meta_path])
    # Nothing undoes it: later tests of this process could not raise its limit again.
    monkeypatch.setattr(aos_cli.entry, "keep_memory_private", lambda: None)

    with pytest.raises(SystemExit) as ended:
        aos_cli.entry.main()

    gc.unfreeze()  # this process continues
    assert ended.value.code == aos_cli.entry.INTERRUPTED == aos_cli.main.INTERRUPTED
    assert capsys.readouterr().err == "aos: interrupted\n"


def test_a_file_where_a_world_is_expected_is_said_to_be_one(aos: Aos, tmp_path: Path) -> None:
    """C-8"""
    file = tmp_path / "shop.aos"
    file.write_text("")

    found = aos("inspect", "world", world=file)

    assert found == (
        2,
        "",
        (
            f"aos: {file}: expected the folder of a world, found a file "
            f"(if it is a bundle: aos verify {file}, or aos import {file} DIR)\n"
        ),
    )


def test_a_world_without_world_json_or_its_key_says_what_to_restore(aos: Aos, world: Path) -> None:
    """H-6"""
    (world / "keys/world.key").unlink()
    no_key = aos("run", "--until-idle", world=world)
    (world / "world.json").unlink()
    no_file = aos("run", "--until-idle", world=world)

    assert no_key.code == 4
    assert no_key.err == (
        f"aos: {world}/keys/world.key: the key is missing (restore this file from a backup; "
        "without it, only a fork can continue this world: aos fork DIR --at SEQ)\n"
    )
    assert no_file == (
        2,
        "",
        (
            f"aos: {world}: world.json is missing from this world's folder (restore this file "
            "from a backup; or, from a bundle of the world: aos import FILE DIR, then aos adopt)\n"
        ),
    )


@pytest.mark.parametrize("sign", ["\n", "\t", "\x1b", "\x07", "\u202e"])
def test_control_characters_in_names_are_printed_as_escapes(
    aos: Aos, tmp_path: Path, sign: str
) -> None:
    """C-2"""
    escaped = json.dumps(sign)[1:-1]
    name = tmp_path / f"a{sign}b"

    missing = aos("inspect", "world", world=name)
    no_manifest = aos("apply", name / "air")
    made = aos("init", name)
    seen = aos("inspect", "world", world=name)

    shown = f"{tmp_path}/a{escaped}b"
    assert missing.err.startswith(f"aos: {shown}: there is no such folder (make a world: ")
    assert no_manifest.err == (
        f"aos: {shown}/air: there is no such file or folder (expected a manifest)\n"
    )
    assert made.out.startswith(f"new world in {shown}\n")
    assert f"\nfolder\t{shown}\n" in seen.out
    for each in (missing, no_manifest, made, seen):
        assert sign not in (each.out + each.err).replace("\n", "").replace("\t", "")


def test_help_and_version_are_commands_too(aos: Aos) -> None:
    """C-47"""
    assert aos("help") == aos("--help")
    assert aos("help", "inspect", "cells") == aos("inspect", "cells", "--help")
    assert aos("version") == aos("--version")


def test_paths_that_are_mistaken_for_a_manifest_or_a_new_folder_are_named(
    aos: Aos, world: Path, tmp_path: Path
) -> None:
    """C-2"""
    file = tmp_path / "notes.txt"
    file.write_text("")

    of_a_world = aos("apply", world, world=world)
    of_a_file = aos("apply", file, world=world)
    made = aos("init", file)
    demo = aos("demo", file)

    assert of_a_world.err == (
        f"aos: {world}: expected a manifest, found the folder of a world "
        f"(aos apply PATH --world {world})\n"
    )
    assert of_a_file.err == (
        f"aos: {file}: expected a folder, or a file whose name ends in .air.json\n"
    )
    assert made == demo
    assert made == (1, "", f"aos: {file}: expected an empty or new folder, found a file\n")
    assert (of_a_world.code, of_a_file.code) == (2, 2)


def test_of_a_file_that_is_no_module_only_that_is_said(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-2"""
    file = tmp_path / "module.wasm"
    file.write_bytes(b"PK other")

    found = aos("replay", "--against", file, world=lived_in)

    assert found.err.endswith("this is not a WASM module: it does not begin with \\0asm (byte 0)\n")
