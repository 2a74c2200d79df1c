"""Where words go, whatever the shell gave us: terminals, pipes, full disks (C-3 to C-7)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos_cli import output
from aos_cli.output import progress
from tests.cli.shell import AOS, Aos, environment, run, start
from tests.cli.terminal import Terminal
from tests.copies import copied
from tests.host import puppet

COMMANDS = "\x1b\x9b\u202e\x07"
NASTY = "\x1b[2J\x9b1m\u202eevil\x07"


def test_values_from_outside_cannot_command_a_terminal(aos: Aos, world: Path) -> None:
    """C-6"""
    assert aos("send", puppet.DO, json.dumps({"key": NASTY}), world=world).code == 0

    for words in (["cells"], ["journal"], ["cell", "puppet", NASTY], ["cells", "--json"]):
        found = aos("inspect", *words, world=world)
        assert found.code == 0
        assert "evil" in found.out
        assert not set(found.out + found.err) & set(COMMANDS)
        assert "\\u001b" in found.out

    [cell] = aos("inspect", "cells", "--json", world=world).json["cells"]
    assert cell["key"] == NASTY


def test_tabs_and_line_ends_of_values_do_not_break_the_lines_of_a_table(
    aos: Aos, world: Path
) -> None:
    """C-4"""
    assert aos("send", puppet.DO, json.dumps({"key": "a\tb\nc"}), world=world).code == 0

    found = aos("inspect", "cells", world=world)

    header, row = found.out.splitlines()
    assert len(row.split("\t")) == len(header.split("\t"))


def test_a_terminal_without_utf8_gets_ascii(lived_in: Path) -> None:
    """C-6"""
    found = run("trace", "6", "--world", lived_in, env={"PYTHONIOENCODING": "ascii"})
    document = run("inspect", "journal", "--json", "--world", lived_in,
                   env={"PYTHONIOENCODING": "latin-1"})  # fmt: skip

    assert (found.code, found.err) == (0, "")
    assert found.out.isascii()
    assert "`- step 11: host/puppet@1 wait -> waiting" in found.out
    assert "... " in found.out
    assert document.out.isascii()
    assert "→" in document.lines[2]["summary"]


def test_a_reader_that_leaves_ends_a_reading_command_quietly(lived_in: Path) -> None:
    """C-7"""
    command = " ".join([*AOS, "inspect", "journal", "--from", "1", "--world", str(lived_in)])
    pipe = f"set -o pipefail; {command} | head -n 1"

    done = subprocess.run(
        ["bash", "-c", pipe], env=environment(), capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1\tgenesis\t")


def test_a_reader_that_has_left_does_not_change_the_exit_code(
    lived_in: Path, tmp_path: Path
) -> None:
    """C-7: damage stays exit 3."""
    damaged = tmp_path / "w"
    shutil.copytree(lived_in, damaged)
    os.truncate(damaged / "store" / "data.mdb", 5000)
    reading, writing = os.pipe()
    os.close(reading)

    codes = [
        start(*words, stdout=writing, stderr=subprocess.DEVNULL).wait(90)
        for words in (("inspect", "world", "-w", lived_in), ("verify", "-w", damaged))
    ]
    os.close(writing)

    assert codes == [0, 3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_stdout_that_cannot_be_written_is_exit_4(lived_in: Path) -> None:
    """C-7"""
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        process = start(
            "inspect", "world", "--json", "--world", lived_in, stdout=full, stderr=subprocess.PIPE
        )
        _, err = process.communicate(timeout=90)

    assert process.returncode == 4
    assert err == b"aos: stdout: cannot be written: No space left on device\n"


def test_a_closed_stdout_is_no_reason_to_fail(lived_in: Path) -> None:
    """C-7"""
    command = " ".join([*AOS, "inspect", "world", "--world", str(lived_in), ">&-"])

    done = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_writing_continues_when_the_reader_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-7: what a command changes does not depend on who reads of it."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(output._Output, "has_reader", True)
        os.close(reading)

        output.write("one\n", at_once=True)
        output.write("two\n", at_once=True)
        output.line("three")
        output.finish()

        assert not output.has_reader()


def test_a_write_that_fails_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123  # a device
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(Unavailable, match="stdout: cannot be written: No space left"):
            output.write("one\n", at_once=True)
        output.finish()


def test_progress_is_a_line_now_and_then_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-4"""
    now = 0.0
    monkeypatch.setattr("aos_cli.output.monotonic", lambda: now)

    with progress("counting") as advance:
        for now in (1.0, 2.0, 2.5, 4.0):  # the clock reads it
            advance(int(now * 1000), 5000)
        now = 6.5
        advance(6500, 0)

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "counting: 2,000 of 5,000", "counting: 4,000 of 5,000", "counting: 6,500",
    ]  # fmt: skip


# In a terminal


def test_a_terminal_of_80_columns_gets_a_table_with_colours(lived_in: Path) -> None:
    """C-4"""
    found = Terminal("inspect", "cells", "--world", lived_in)

    lines = found.plain.splitlines()
    assert found.code == 0
    assert lines[0].split() == [
        "workflow", "key", "status", "effects", "mail", "record", "last", "active", "fault",
    ]  # fmt: skip
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b[31mfailed" in found.text
    assert "\t" not in found.text


def test_a_table_has_no_column_that_is_empty(lived_in: Path) -> None:
    """C-33"""
    found = Terminal("inspect", "cells", "--key-prefix", "a", "--world", lived_in)

    assert found.plain.splitlines()[0].split()[-2:] == ["last", "active"]


def test_no_color_leaves_the_table(lived_in: Path) -> None:
    """C-4"""
    found = Terminal("inspect", "cells", "--world", lived_in, NO_COLOR="1")

    assert "\x1b[3" not in found.text
    assert found.plain.splitlines()[0].startswith("workflow")


def test_a_trace_is_a_tree_that_is_folded(lived_in: Path) -> None:
    """C-4, C-39"""
    found = Terminal("trace", "puppet", "wait", "--world", lived_in)

    lines = found.plain.splitlines()
    assert found.code == 0
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("└── step 11: host/puppet@1 wait → waiting") for line in lines)


def test_json_on_a_terminal_is_indented(lived_in: Path) -> None:
    """C-5"""
    found = Terminal("inspect", "world", "--json", "--world", lived_in)

    assert json.loads(found.plain)["cells"]["total"] == 4
    assert found.plain.startswith('{\n  "path"')


def test_run_has_a_live_line_and_leaves_its_summary(lived_in: Path, tmp_path: Path) -> None:
    """C-4, C-25"""
    world = tmp_path / "w"
    copied(lived_in, world)

    found = Terminal("run", "--until-idle", "--world", world)

    assert found.code == 0
    assert "effect open" in found.text
    assert "\x1b[2K" in found.text, "the progress line is erased and drawn again"
    assert found.plain.rstrip().splitlines()[-1].lstrip().startswith("1 waits for host/echo@1")


def test_an_error_on_a_terminal_is_one_line_of_red(tmp_path: Path) -> None:
    """C-2, C-4"""
    found = Terminal("inspect", "world", "--world", tmp_path / "none")

    assert found.code == 2
    assert found.text.startswith("\x1b[31maos: ")
    assert len(found.plain.splitlines()) == 1
