"""The one door for time and chance: a stamp for each input, a salt for each frame (H-10)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aos.core.journal.frame import SALT_BYTES
from aos.core.journal.records import Stamp

ENTROPY_BYTES: Final = 64
_DRAW_BYTES: Final = 4096


class _Drawn:
    """The system's random bytes, many at a time: each call of the system lets other threads in."""

    def __init__(self) -> None:
        self._left = b""

    def __call__(self, size: int) -> bytes:
        if len(self._left) < size:
            self._left = os.urandom(_DRAW_BYTES)
        taken, self._left = self._left[:size], self._left[size:]
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where stamps and salts come from; a test gives its own. Not for two threads at once."""

    clock_ns: Callable[[], int] = time.time_ns
    random: Callable[[int], bytes] = field(default_factory=_Drawn)

    def stamp(self) -> Stamp:
        # A machine that has lost its clock may stand before 1970, which is no stamp.
        return Stamp(max(0, self.clock_ns()), self.random(ENTROPY_BYTES))

    def salt(self) -> bytes:
        return self.random(SALT_BYTES)
