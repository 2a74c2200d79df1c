"""Child processes that end with the process that started them, also after SIGKILL."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

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
