"""Transcripts: the commands that a user types, in order, and what each prints."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cookbook.test_concepts import comparable

ANY: Final = "…"
WIDE: Final = "aos trace "
"""These commands run in a terminal of 200 columns."""
ENDS_S: Final = 280.0
"""Less than a test may take (tests/conftest.py), so that a slow run is reported."""

_END: Final = re.compile(r"^@@end (\d+)\n", re.MULTILINE)


@dataclass(slots=True)
class Typed:
    """One command, the line of the file where it is, and the lines that it must print."""

    line: int
    command: str
    expected: list[str] = field(default_factory=list)


def read(path: Path) -> list[Typed]:
    typed: list[Typed] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.startswith("$ "):
            typed.append(Typed(number, line[2:]))
        elif line.startswith(">"):
            typed[-1].command += f"\n{line[2:]}"
        elif line and not line.startswith("#"):
            typed[-1].expected.append(line)
    return typed


def run(typed: list[Typed], *, environment: Mapping[str, str]) -> list[list[str]]:
    """Type all commands into one shell in the current folder; return the lines that each printed.

    A last line ``exit N`` is an exit code other than 0. No process of the shell is left running.
    """
    script = "".join(f"{_ready(each.command)}\necho @@end $?\n" for each in typed)
    with subprocess.Popen(
        ["bash", "-c", script], text=True, env=dict(environment), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as bash:  # fmt: skip
        try:
            out, _ = bash.communicate(timeout=ENDS_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
    parts = _END.split(out)
    return [_printed(text, code) for text, code in zip(parts[0::2], parts[1::2], strict=False)]


def _ready(command: str) -> str:
    if not command.startswith(WIDE):
        return command
    return f"{shlex.quote(sys.executable)} -m tests.transcripts.wide {command.removeprefix('aos ')}"


def _printed(text: str, code: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines if code == "0" else [*lines, f"exit {code}"]


def matches(expected: list[str], found: list[str]) -> bool:
    """Whether the lines are the expected ones. ``…`` is any text; alone in a line, any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == ANY else f"{_pattern(comparable(line))}\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{comparable(line)}\n" for line in found)) is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split(ANY))
