"""A command in a terminal of its own: what a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Final

from tests.cli.shell import AOS, environment

TIMEOUT_S: Final = 240.0
_PARTS: Final = re.compile(r"\x1b\[(?P<number>[0-9;?]*)(?P<code>[A-Za-z])|(?P<control>[\r\n])")


class Terminal:
    """``code`` and ``text`` of a command that has ended. ``plain`` is the text that is left on the
    screen, without colours: a busy machine shows progress bars, which are removed at their end."""

    def __init__(self, *words: str | Path, columns: int = 80, rows: int = 24, **env: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        kept = environment(TERM="xterm-256color", **env)
        for name in ("NO_COLOR", "COLUMNS"):
            if name not in env:
                kept.pop(name, None)
        process = subprocess.Popen(
            [*AOS, *map(str, words)], env=kept, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        try:
            self.text = _read(ours).decode()
            self.code = process.wait(TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    @property
    def plain(self) -> str:
        return _left_on_screen(self.text)


def _left_on_screen(text: str) -> str:
    """The lines that are left once the cursor has moved up and lines were erased."""
    lines, row, column, at = [""], 0, 0, 0
    for part in [*_PARTS.finditer(text), None]:
        written = text[at : None if part is None else part.start()]
        line = lines[row]
        lines[row] = line[:column].ljust(column) + written + line[column + len(written) :]
        column += len(written)
        if part is None:
            break
        at = part.end()
        match part["control"] or part["code"]:
            case "\r":
                column = 0
            case "\n":
                row, column = row + 1, 0
                if row == len(lines):
                    lines.append("")
            case "A":
                row = max(0, row - int(part["number"] or 1))
            case "K":
                lines[row] = ""
            case _:
                pass
    return "\n".join(lines)


def _read(terminal: int) -> bytes:
    """Everything until the other side is closed."""
    found = b""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux reports with an error that the other end is closed
            return found
        if not data:
            return found
        found += data
    raise TimeoutError(found.decode(errors="replace"))
