"""A bucket in memory, for tests and the simulator: it can lose, delay and double what is written,
and serve what a former leader of the servers has (spec/cluster.md, CL-54).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aos.store.log.bucket import (
    KEY,
    VALUE_BYTES_MAX,
    BucketConflict,
    BucketEntry,
    BucketUnreachable,
    is_below,
)
from aos.store.log.memory_log import Fate


class BucketWrite(NamedTuple):
    """A write as it reaches the leader: ``expected`` is the revision of the key, 0 without one."""

    key: str
    value: bytes
    expected: int


@dataclass(slots=True)
class SharedBucket:
    """The values that the leader of the servers has. ``now_ns`` is its clock."""

    now_ns: Callable[[], int] = lambda: 0
    rows: dict[str, BucketEntry] = field(default_factory=dict)
    revision: int = 0
    late: list[BucketWrite] = field(default_factory=list)

    def write(self, write: BucketWrite) -> int:
        """Write a value, if the key has the expected revision. Raises BucketConflict."""
        entry = self.rows.get(write.key)
        actual = 0 if entry is None else entry.revision
        if actual != write.expected:
            raise BucketConflict(
                f"the value of {write.key} was changed by others",
                expected=f"revision {write.expected}",
                actual=f"revision {actual}",
            )
        self.revision += 1
        self.rows[write.key] = BucketEntry(write.value, self.revision, self.now_ns())
        return self.revision

    def arrive(self, index: int = 0) -> None:
        """Let a late write arrive, if there is one."""
        if self.late:
            with contextlib.suppress(BucketConflict):  # its writer does not listen any more
                self.write(self.late.pop(index % len(self.late)))


class MemoryBucket:
    """One node's view of the bucket, as ``Bucket``. ``fate`` decides about each write: ``DOUBLED``
    is written once, and answered by the conflict of its second copy."""

    def __init__(
        self, shared: SharedBucket, fate: Callable[[], Fate] = lambda: Fate.ANSWERED
    ) -> None:
        self.shared = shared
        self.is_away = False
        self._fate = fate
        self._former: dict[str, BucketEntry] | None = None

    def isolate(self) -> None:
        """From now on, ask a former leader, which does not know yet that it is none: it answers
        reads with what it had, and no write."""
        self._former = dict(self.shared.rows)

    def rejoin(self) -> None:
        """From now on, ask the leader again."""
        self._former = None

    def get(self, key: str) -> BucketEntry | None:
        """As ``Bucket.get``."""
        _check_key(key)
        return self._rows().get(key)

    def create(self, key: str, value: bytes) -> int:
        """As ``Bucket.create``."""
        return self._write(BucketWrite(key, value, 0))

    def replace(self, key: str, value: bytes, revision: int) -> int:
        """As ``Bucket.replace``."""
        assert revision > 0, "the revision of a value"
        return self._write(BucketWrite(key, value, revision))

    def remove(self, key: str) -> None:
        """As ``Bucket.remove``."""
        self._rows()
        if self._former is not None:
            raise BucketUnreachable("the bucket does not answer")
        self.shared.rows.pop(key, None)

    def entries(
        self, below: str = "", *, without: Sequence[str] = ()
    ) -> Iterator[tuple[str, BucketEntry]]:
        """As ``Bucket.entries``."""
        prefix = f"{below}." if below else ""
        yield from sorted(
            row
            for row in self._rows().items()
            if row[0].startswith(prefix) and not is_below(row[0], without)
        )

    def _rows(self) -> dict[str, BucketEntry]:
        if self.is_away:
            raise BucketUnreachable("the bucket does not answer")
        return self.shared.rows if self._former is None else self._former

    def _write(self, write: BucketWrite) -> int:
        _check_key(write.key)
        assert len(write.value) <= VALUE_BYTES_MAX, "a value that is too long"
        if self.is_away or self._former is not None:
            raise BucketUnreachable("the bucket does not answer")
        match self._fate():
            case Fate.ANSWERED:
                return self.shared.write(write)
            case Fate.DOUBLED:
                self.shared.write(write)
                return self.shared.write(write)
            case Fate.UNANSWERED:
                self.shared.write(write)
            case Fate.LATE:
                self.shared.late.append(write)
            case Fate.LOST:
                pass
        raise BucketUnreachable("the bucket does not answer")


def _check_key(key: str) -> None:
    assert KEY.fullmatch(key), f"{key!r}: expected names of letters, digits, _ and - with dots"
