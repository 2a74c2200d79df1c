"""Shorten the interpreter's switch interval while any engine of this process runs (H-17)."""

from __future__ import annotations

import sys
import threading
from typing import Final

SWITCH_S: Final = 0.0001
"""With the default of 5 ms the committer waits that long for the interpreter at each call of the
store while the core is busy: 100 rows took 12 ms, and 0.7 ms with a short interval."""


class Switching:
    """The switch interval belongs to the process, so engines are counted: the first one shortens
    it, and the last one restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines = 0
        self._before_s = 0.0

    def shorten(self) -> None:
        """Count one more engine."""
        with self._lock:
            if not self._engines:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, SWITCH_S))
            self._engines += 1

    def restore(self) -> None:
        """Count one engine less."""
        with self._lock:
            self._engines -= 1
            if not self._engines:
                sys.setswitchinterval(self._before_s)


SWITCHING: Final = Switching()
