"""spec/guides/monitor.md names fields, log lines and exit codes that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from tests.cli.shell import here
from tests.client.conftest import template, trips
from tests.cookbook.worlds import ROOT

__all__ = ["template", "trips"]

PAGE: Final = ROOT / "spec" / "guides" / "monitor.md"
CODES: Final = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def text() -> str:
    return PAGE.read_text("utf-8")


def section(title: str) -> str:
    return text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_each_command_of_the_check_reads_the_world_and_each_field_is_in_its_document(
    trips: Path,
) -> None:
    check = section("A check every minute")
    commands = re.findall(r"^aos (.*) --world trips$", check, re.MULTILINE)
    documents = [here(*command.split(), "--world", trips) for command in commands]

    assert [each.code for each in documents] == [0, 0, 0]
    world: Any = json.loads(documents[0].out)
    world["process"] = {"no_room": None, "queued": 0}  # no process runs it here
    for field in re.findall(r"^\| `([a-z_.]+)` \|", check, re.MULTILINE):
        value = world
        for part in field.split("."):
            assert part in value, field
            value = value[part]


def test_each_part_of_the_status_line_is_one_that_the_command_prints() -> None:
    cli = ROOT / "cli" / "aos_cli"
    run = "".join((cli / name).read_text("utf-8") for name in ("commands/run.py", "run_process.py"))
    parts = re.findall(r"^\| `([^`]*)` \|", section("The status line"), re.MULTILINE)

    assert len(parts) == 9
    for part in parts:
        assert part in run or all(f'"{word}' in run or word in run for word in part.split()), part


def test_each_log_line_is_one_that_the_process_prints() -> None:
    sources = "".join(
        path.read_text("utf-8")
        for folder in ("kernel/aos/host", "cli/aos_cli/commands")
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
    lines = re.findall(r"^\| (`.*?`) \|", section("Log lines"), re.MULTILINE)

    assert len(lines) > 5
    for line in ", ".join(lines).strip("`").split("`, `"):
        pieces = [
            each.strip(" ,:;()")
            for each in re.split(r"[…;]|\bN\b|\bM\b|\b[A-Z]{3,}\b| 5 times", line)
        ]
        for piece in filter(None, pieces):
            assert piece in sources, f"{line}: {piece!r}"


def test_each_exit_code_is_one_of_the_command_line() -> None:
    cli = (ROOT / "spec" / "cli.md").read_text("utf-8")
    known = set(CODES.findall(cli.partition("**C-1**")[2].partition("**C-2**")[0]))
    named = set(CODES.findall(section("Exit codes of `aos run`")))

    assert named - {"137"} == known - {"130"}
