"""Remember valid signatures, so that the core need not check them again (H-33).

A valid signature stays valid, so remembering it changes no answer. The core's thread finds here the
signatures that this process has just made, and those that another thread has checked. The root of a
batch is checked once for all its receipts.
"""

from __future__ import annotations

import threading
from typing import Final

from aos.core.journal.signing import is_signed

KNOWN_MAX: Final = 8192


class Signatures:
    """The last few thousand valid signatures. For any thread."""

    def __init__(self, limit: int = KNOWN_MAX) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._new: set[tuple[bytes, bytes, bytes]] = set()
        self._old: set[tuple[bytes, bytes, bytes]] = set()

    def __call__(self, message: bytes, signature: bytes, public_key: bytes) -> bool:
        """Whether ``signature`` is valid for ``message`` and the key."""
        entry = (message, signature, public_key)
        if entry in self._new or entry in self._old:
            return True
        if not is_signed(message, signature, public_key):
            return False
        self.trust(message, signature, public_key)
        return True

    def trust(self, message: bytes, signature: bytes, public_key: bytes) -> None:
        """Remember a signature that this process has just made, without checking it."""
        with self._lock:
            if len(self._new) >= self._limit // 2:
                self._old, self._new = self._new, set()
            self._new.add((message, signature, public_key))
