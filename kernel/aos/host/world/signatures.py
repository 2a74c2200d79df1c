"""Signatures that are known to be right, so that the core need not check them again (H-33).

Whether a signature is right never changes, so remembering it changes no answer. What this process
has just signed itself, and what another thread has checked, is found here by the core's thread;
the root of a batch is checked once for all its receipts.
"""

from __future__ import annotations

import threading
from typing import Final

from aos.core.journal.signing import is_signed

KNOWN_MAX: Final = 8192


class Signatures:
    """Remembers right signatures, the last few thousand of them. Any thread may use it."""

    def __init__(self, most: int = KNOWN_MAX) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._new: set[tuple[bytes, bytes, bytes]] = set()
        self._old: set[tuple[bytes, bytes, bytes]] = set()

    def __call__(self, message: bytes, signature: bytes, public_key: bytes) -> bool:
        """Whether ``signature`` is the key's over ``message``."""
        named = (message, signature, public_key)
        if named in self._new or named in self._old:
            return True
        if not is_signed(message, signature, public_key):
            return False
        self.trust(message, signature, public_key)
        return True

    def trust(self, message: bytes, signature: bytes, public_key: bytes) -> None:
        """Take a signature as right: this process made it, with the key, over the message."""
        with self._lock:
            if len(self._new) >= self._most // 2:
                self._old, self._new = self._new, set()
            self._new.add((message, signature, public_key))
