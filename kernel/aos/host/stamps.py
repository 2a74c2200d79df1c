"""The only source of time and randomness: a stamp for each input, a salt for each frame (H-10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aos.core.journal.frame import SALT_BYTES
from aos.core.journal.records import Stamp
from aos.host.machine_clock import now_ns

ENTROPY_BYTES: Final = 64
_DRAW_BYTES: Final = 4096


class _Drawn:
    """Random bytes of the system, drawn many at a time: each system call lets other threads run."""

    def __init__(self) -> None:
        self._unused = b""

    def __call__(self, size: int) -> bytes:
        if len(self._unused) < size:
            self._unused = os.urandom(_DRAW_BYTES)
        drawn, self._unused = self._unused[:size], self._unused[size:]
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where stamps and salts come from; tests pass their own. Used by one thread."""

    clock_ns: Callable[[], int] = now_ns
    random: Callable[[int], bytes] = field(default_factory=_Drawn)

    def stamp(self) -> Stamp:
        """Return the stamp of one input."""
        # The clock of a broken machine may be before 1970, which a stamp cannot express.
        return Stamp(max(0, self.clock_ns()), self.random(ENTROPY_BYTES))

    def salt(self) -> bytes:
        """Return the salt of one frame."""
        return self.random(SALT_BYTES)
