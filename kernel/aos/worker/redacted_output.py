"""Standard output and error of a worker process, without the secrets of its running calls (X-77).

``protect_output`` replaces both streams before any function is loaded, so that loggers keep the
replaced ones. While a call has secrets, only whole lines are written: in a part of a line, a secret
may not be complete. Output that bypasses Python's streams (of a child process, or written to the
descriptor) is not covered.

``say`` and ``show`` print messages for the operator of the process on stderr. They are lost if a
function has closed the stream.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import traceback
from typing import Any, Final

from aos.worker.redaction import Redactor

LINE_BYTES_MAX: Final = 64 * 1024
"""Bytes without a line feed that are kept back."""


class RedactedFile(io.RawIOBase):
    """Writes to a descriptor, without the secrets of ``hidden``. Used from any thread."""

    def __init__(self, descriptor: int, hidden: list[Redactor]) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._hidden = hidden
        self._lock = threading.Lock()
        self._unfinished = b""

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        chunk = bytes(data)
        with self._lock:
            if self._unfinished or self._hidden:
                self._take(chunk)
            else:
                self._put(chunk)
        return len(chunk)

    def end_line(self) -> None:
        """Write what is kept back of a line that has not ended."""
        with self._lock:
            unfinished, self._unfinished = self._unfinished, b""
            self._put(self._redacted(unfinished))

    def _take(self, chunk: bytes) -> None:
        lines, line_feed, self._unfinished = (self._unfinished + chunk).rpartition(b"\n")
        self._put(self._redacted(lines + line_feed))
        if len(self._unfinished) > LINE_BYTES_MAX:
            # A secret may begin in the last bytes and continue in the next ones.
            overlap_bytes = max((redactor.longest for redactor in self._hidden), default=0)
            text = self._redacted(self._unfinished)
            self._put(text[: max(0, len(text) - overlap_bytes)])
            self._unfinished = text[max(0, len(text) - overlap_bytes) :]

    def _redacted(self, data: bytes) -> bytes:
        for redactor in tuple(self._hidden):
            data = redactor.redacted(data)
        return data

    def _put(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


_HIDDEN: Final[list[Redactor]] = []
_STREAMS: Final[list[tuple[io.TextIOWrapper, RedactedFile]]] = []


def protect_output() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr``; both write each line immediately."""
    sys.stdout = _replaced(1, sys.stdout.encoding, sys.stdout.errors)
    sys.stderr = _replaced(2, sys.stderr.encoding, sys.stderr.errors)


def _replaced(descriptor: int, encoding: str, errors: str | None) -> io.TextIOWrapper:
    file = RedactedFile(descriptor, _HIDDEN)
    buffer: Any = file  # it is unbuffered, as with ``python -u``
    stream = io.TextIOWrapper(buffer, encoding=encoding, errors=errors, line_buffering=True)
    _STREAMS.append((stream, file))
    return stream


def hide(redactor: Redactor) -> None:
    """From now on, write no secret of this redactor."""
    _HIDDEN.append(redactor)


def unhide(redactor: Redactor) -> None:
    """Its calls have ended. A line that has not ended is written before."""
    end_lines()
    _HIDDEN.remove(redactor)


def end_lines() -> None:
    """Write the lines that have not ended."""
    for stream, file in _STREAMS:
        # A function has closed the stream, or the node is gone.
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
        with contextlib.suppress(OSError):
            file.end_line()


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
    end_lines()
