"""What a worker process tells the person at the terminal, if a function left a stream open."""

from __future__ import annotations

import contextlib
import sys
import traceback


def say(line: str) -> None:
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{line}\n")


def show(error: BaseException) -> None:
    """The traceback, which is never journaled."""
    with contextlib.suppress(Exception):
        traceback.print_exception(error)


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
