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
_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """``code`` and ``text`` of a command that has ended; ``plain`` is without colours and moves."""

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
        return _CODES.sub("", self.text).replace("\r\n", "\n")


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
