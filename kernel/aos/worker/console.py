"""Messages of a worker process on stderr, for its operator.

They are lost if a function has closed the stream.
"""

from __future__ import annotations

import contextlib
import sys
import traceback


def say(line: str) -> None:
    """Print one line; without effect if a function has closed the stream."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{line}\n")


def show(error: BaseException) -> None:
    """Print the traceback, which is never journaled."""
    with contextlib.suppress(Exception):
        traceback.print_exception(error)


def flush() -> None:
    """Write what functions have printed to both streams. ``os._exit`` would lose it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
