"""Messages of a worker process on stderr, for its operator.

They are lost if a function has closed the stream.
"""

from __future__ import annotations

import contextlib
import sys
import traceback

from aos.worker import redacted_output
from aos.worker.redaction import Redactor


def say(line: str) -> None:
    """Print one line; without effect if a function has closed the stream."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{line}\n")


def show(error: BaseException, redactor: Redactor | None = None) -> None:
    """Print the traceback, which is never journaled, without the secrets of ``redactor``."""
    with contextlib.suppress(Exception):
        text = "".join(traceback.format_exception(error))
        sys.stderr.write(text if redactor is None else redactor.text(text))


def flush() -> None:
    """Write what functions have printed to both streams. ``os._exit`` would lose it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    redacted_output.end_lines()
