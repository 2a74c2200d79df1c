"""The interface of a bucket: small values by key, changed by compare-and-set alone
(spec/cluster.md, CL-50 to CL-54).

A bucket has the beats of the nodes of a world, and the place of its log. Which entries of a log
count never depends on one: a beat that is lost, old or wrong costs time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from aos.errors import Unavailable

KEY: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""The form of a key: names of letters, digits, ``_`` and ``-``, with dots between them."""

RESERVED: Final = "_aos"
"""The first name of keys that belong to no world (spec/cluster.md, CL-231)."""

POSITIONS: Final = f"{RESERVED}.position"
BATCHES: Final = f"{RESERVED}.batch"
"""The beginnings of keys of which each world has many (spec/cluster.md, CL-330, CL-335)."""

VALUE_BYTES_MAX: Final = 64 * 1024
"""The longest value."""


class BucketEntry(NamedTuple):
    """A value of a bucket. ``revision`` is greater than that of each value before it, of all keys;
    ``written_ns`` is the server's time at which it was written, in nanoseconds since 1970."""

    value: bytes
    revision: int
    written_ns: int


class BucketConflict(Unavailable):
    """The key has another revision than the writer expects, or has a value already. Nothing was
    written by this attempt; an earlier one without an answer may be the cause (CL-52)."""


class BucketUnreachable(Unavailable):
    """The bucket did not answer. It is unknown whether something was written."""


class Bucket(Protocol):
    """Values by key. Every method asks the leader of the servers, since another one may not know
    the newest value. Methods may be called from one thread."""

    def get(self, key: str) -> BucketEntry | None:
        """Return the value of a key; None if it has none. Raises BucketUnreachable."""

    def create(self, key: str, value: bytes) -> int:
        """Give a key its first value; return its revision.

        Raises:
            BucketConflict: The key has a value.
            BucketUnreachable: It is unknown whether the value was written.
        """

    def replace(self, key: str, value: bytes, revision: int) -> int:
        """Replace the value of a key that has this revision; return the new one.

        Raises:
            BucketConflict: The key has another revision, or no value.
            BucketUnreachable: It is unknown whether the value was written.
        """

    def remove(self, key: str) -> None:
        """Remove the value of a key, whichever it is, if there is one. Raises BucketUnreachable."""

    def entries(
        self, below: str = "", *, without: Sequence[str] = ()
    ) -> Iterator[tuple[str, BucketEntry]]:
        """Yield each key with its value, ascending by key; with ``below``, those of keys that begin
        with that name and a dot alone. Values of keys that begin so with a name of ``without`` are
        not read. Raises BucketUnreachable."""


def is_below(key: str, names: Sequence[str]) -> bool:
    """Whether a key begins with one of these names and a dot."""
    return any(key.startswith(f"{name}.") for name in names)
