"""Messages and exit codes of commands with invalid arguments, word for word (C-1, C-2)."""

from __future__ import annotations

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
from aos.audit.views import world_view
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
    beside = aos("inspect", "world")

    assert none == (2, "", f"aos: .aos: there is no such folder {NO_WORLD.format('.aos')}\n")
    assert empty == none
    assert elsewhere.err == (
        f"aos: elsewhere: there is no such folder {NO_WORLD.format('elsewhere')}\n"
    )
    assert (option.code, beside.code) == (0, 0)


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

    with pytest.raises(SystemExit) as ended:
        aos_cli.entry.main()

    assert ended.value.code == aos_cli.entry.INTERRUPTED == aos_cli.main.INTERRUPTED
    assert capsys.readouterr().err == "aos: interrupted\n"
