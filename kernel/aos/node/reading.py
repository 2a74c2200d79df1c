"""Read requests by name, as a process of a node is asked for them (spec/node-api.md, N-114), and
the time that a list of the page may take, before it asks the user to narrow it (spec/page.md,
PG-8).

Short documents are made in the front, from the follower's state. Those that may take long are made
in a reader process (``readers.py``) in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aos.core.journal.frame import Frame, Head
from aos.errors import BadUsage
from aos.node.batches.batch import batch_items
from aos.node.problems import Problem
from aos.read.lens.ports import Journal
from aos.read.operations import table
from aos.read.operations.operation import Query, ReadOperation, is_always_long
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.store.cut import Cut
from aos.store.rows import ErasedRow, IntentRow
from aos.values.digests import Hash

LIST_BATCH_ITEMS: Final = ReadOperation(
    name="list_batch_items", summary="List the items of a batch before it begins.",
    document=batch_items, is_long=is_always_long,
)  # fmt: skip
"""The front needs it for itself."""

BY_NAME: Final[Mapping[str, ReadOperation]] = {
    **table.BY_NAME, LIST_BATCH_ITEMS.name: LIST_BATCH_ITEMS,
}  # fmt: skip

LIST_IS_LATE: Final = "list_takes_too_long"
LIST_S: Final = 0.15
"""Seconds within which a list is read."""


def read_document(view: View, operation: str, query: Query) -> Document:
    """Make the document of a read request.

    Raises:
        BadUsage: The query names something that the world does not have, or a record after the
            last one of the view.
    """
    request, end = BY_NAME[operation], view.state.next_seq - 1
    for parameter in request.parameters:
        seq = query.get(parameter.name, 0) if parameter.is_record else 0
        if seq > end:
            raise BadUsage(f"{parameter.name}: expected a record, 1 to {end}, found {seq}")
    return request.read(view, query)


class ListTime:
    """The time of one list, from now on. ``check`` is called for each thing that is read."""

    def __init__(
        self, seconds: float = LIST_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._until_s = clock() + seconds
        self._seconds = seconds
        self._count = 0

    def check(self) -> None:
        """Count one more cell, frame or row.

        Raises:
            Problem: The time is over (503).
        """
        self._count += 1
        if self._clock() > self._until_s:
            raise Problem(
                503, LIST_IS_LATE,
                f"the list takes longer than {self._seconds * 1000:.0f} ms (more than "
                f"{self._count - 1:,} entries were read): narrow it with a filter, or run the "
                "command", retry_after_s=1,
            )  # fmt: skip


def timed(view: View, limit: ListTime) -> View:
    """Return the same view, whose documents have the time of one list."""
    timed_view = View(view.state, TimedJournal(view.journal, limit), now_ns=view.now_ns)
    timed_view.check_time = limit.check
    return timed_view


class TimedJournal:
    """A journal whose reading counts against the time of a list."""

    def __init__(self, journal: Journal, time: ListTime) -> None:
        self._journal = journal
        self._time = time

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        for frame in self._journal.frames(first_seq, last_seq):
            self._time.check()
            yield frame

    def frame_at(self, seq: int) -> Frame | None:
        self._time.check()
        return self._journal.frame_at(seq)

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        for row in self._journal.intents():
            self._time.check()
            yield row

    def head(self) -> Head | None:
        return self._journal.head()

    def blob(self, hash: Hash) -> bytes:
        return self._journal.blob(hash)

    def has_blob(self, hash: Hash) -> bool:
        return self._journal.has_blob(hash)

    def blob_size(self, hash: Hash) -> int | None:
        return self._journal.blob_size(hash)

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        return self._journal.hash_by_sha256(sha256)

    def erased(self, hash: Hash) -> ErasedRow | None:
        return self._journal.erased(hash)

    def intent(self, hash: Hash) -> IntentRow | None:
        return self._journal.intent(hash)

    def note(self, seq: int) -> str | None:
        return self._journal.note(seq)

    def cut(self) -> Cut | None:
        return self._journal.cut()
