"""Child processes that end with the process that started them, whatever signal it gets, SIGKILL
included."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

STOPPING: Final = (signal.SIGTERM, signal.SIGHUP)
"""These end a command as Ctrl-C does, where it has processes to end."""

_TIE: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, which outlasts the exec
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Replaces itself by the given command, whose process ends with its parent in every case."""


def tied(words: Sequence[str]) -> Sequence[str]:
    """Make a command end with this process, also after SIGKILL. Only Linux can do that."""
    if sys.platform != "linux":
        return words
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *words]


@contextlib.contextmanager
def signals_after() -> Iterator[None]:
    """Let a signal that asks this process to end take effect right after the block. The block
    starts a process and keeps it where its end is certain: an exception from within ``Popen`` would
    leave a process that no one knows. Python handles signals in the main thread only, so in other
    threads this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note_signal(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    previous_handlers = {}
    for number in (signal.SIGINT, *STOPPING):
        if signal.getsignal(number) is not signal.SIG_IGN:  # which the process would inherit
            previous_handlers[number] = signal.signal(number, note_signal)
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
