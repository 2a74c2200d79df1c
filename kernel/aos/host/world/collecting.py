"""What may be taken away from a world that runs: nothing that came meanwhile (RT-20 to RT-24).

Somebody marks what is needed, in a process of its own, and says what is not. The committer's thread
takes that away, between two groups, and leaves out what has come since the marking began: so what
is needed is what was marked, or came later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aos.errors import Unavailable
from aos.store.forget import FORGET_MAX, Forget
from aos.values.digests import Hash

OPEN_S: Final = 600.0
"""How long a marking may say nothing before it counts as given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A marking has begun. What is durable now may be marked; ``base`` is the record of the
    snapshot that the running core reads from, 0 for none: that one is needed too."""

    token: int
    base: int


class Arrivals:
    """What was put since a marking began. One marking at a time: a later one ends an earlier one.

    ``spilled`` are blobs that the core needs and nothing durable names.
    """

    def __init__(self, spilled: Container[Hash]) -> None:
        self._spilled = spilled
        self._lock = threading.RLock()
        self._token = 0
        self._since: set[Hash] | None = None
        self._heard_s = 0.0

    def begin(self) -> int:
        """On the committer's thread: everything before this is durable."""
        with self._lock:
            self._token += 1
            self._since = set()
            self._heard_s = time.monotonic()
            return self._token

    def note(self, hashes: Iterable[Hash]) -> None:
        """These are about to be put, whether or not they are there already."""
        with self._lock:
            if self._since is None:
                return
            if time.monotonic() - self._heard_s > OPEN_S:
                self._since = None
            else:
                self._since.update(hashes)

    def is_needed(self, hash: Hash, has: Callable[[Hash], bool]) -> bool:
        """Whether ``hash`` is there; if so, it stays."""
        with self._lock:
            found = has(hash)
            if found:
                self.note((hash,))
            return found

    @contextmanager
    def taking(self, token: int, hashes: Sequence[Hash]) -> Iterator[list[Hash]]:
        """Those of ``hashes`` that may go; nothing comes to count as needed inside the block.

        Raises:
            Unavailable: The marking was given up, or another one has begun.
        """
        with self._lock:
            if self._since is None or token != self._token:
                raise Unavailable("the marking took too long or another one began (try again)")
            self._heard_s = time.monotonic()
            since = self._since
            yield [each for each in hashes if each not in since and each not in self._spilled]

    def heard(self, token: int) -> None:
        """Who marks is still at work. Raises as ``taking``."""
        with self.taking(token, ()):
            pass

    def end(self, token: int) -> None:
        with self._lock:
            if token == self._token:
                self._since = None


def parts(forget: Forget) -> Iterator[Forget]:
    """The same in parts that one transaction may have. Rows of snapshots and puts come first: a row
    must not be there when what it names has gone."""
    for field in ("snapshots", "puts", "blobs"):
        rows = getattr(forget, field)
        for at in range(0, len(rows), FORGET_MAX):
            yield Forget(**{field: rows[at : at + FORGET_MAX]})
