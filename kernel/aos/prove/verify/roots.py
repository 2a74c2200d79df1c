"""Compute the snapshots again during a pass over a journal (spec/audit.md, A-12a).

A snapshot record says that the world after an earlier record is stored as a document. Replay and
verify take the same snapshot of their own state after that earlier record, and compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from aos.core.journal.frame import Frame, Tip
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Snapshot
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.load import in_format_of, layers
from aos.core.snapshot.take import Put, rebase, take
from aos.core.state.state import State, empty
from aos.errors import Damage
from aos.manifest.judging import judge
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

_KIND = encode("kind") + encode(Snapshot.KIND)


def recorded_snapshots(frames: Iterable[Frame]) -> Iterator[tuple[int, Hash]]:
    """Yield the snapshots that ``frames`` record: the record that each was taken after, and its
    document. Unreadable records are skipped; the pass over the records reports them."""
    for frame in frames:
        for data in frame.records:
            # The encoding is canonical, so a snapshot record always contains these bytes.
            if _KIND in data:
                try:
                    record = from_bytes(data)
                except Damage:
                    continue
                if isinstance(record, Snapshot):
                    yield record.at, record.document.hash


class Roots:
    """Takes a snapshot wherever the journal has one. Parts that ``read`` cannot find are kept
    here."""

    def __init__(
        self, read: BlobReader, recorded: Mapping[int, Hash], *, limits: Limits = LIMITS
    ) -> None:
        self.recorded = recorded
        self.documents: dict[int, Hash] = {}
        """The document of each snapshot taken here, by the record that it was taken after."""
        self._below = read
        self._limits = limits
        self._parts: dict[Hash, bytes] = {}

    def state(self, world: Hash) -> State:
        """Return the state before a world's genesis; it reads its layers from here."""
        return empty(Tip(world=world), self.read, limits=self._limits, manifest_of=judge)

    def part(self, hash: Hash) -> bytes | None:
        """Return a part of a snapshot that was taken here and is stored nowhere else; None if
        there is none."""
        return self._parts.get(hash)

    def read(self, hash: Hash, /) -> bytes:
        part = self._parts.get(hash)
        return self._below(hash) if part is None else part

    def passed(
        self, at: int, snapshot: Callable[[Put, int], Hash], rebase: Callable[[Hash], None]
    ) -> None:
        """If the journal has a snapshot after record ``at``, which ends a frame, take it in its
        format and continue from it. ``snapshot`` returns its document. Raises what the two
        raise."""
        recorded = self.recorded.get(at)
        if recorded is not None:
            document = self.taken_as(recorded, lambda number: snapshot(self._put, number))
            self.documents[at] = document
            rebase(document)

    def taken_as(self, recorded: Hash, snapshot: Callable[[int], Hash]) -> Hash:
        """Take a snapshot in the format of a recorded one; return its document. Raises what
        ``snapshot`` raises."""
        return in_format_of(recorded, self._below, snapshot)

    def passed_state(self, state: State) -> None:
        """As ``passed``, for a state at the end of a frame.

        Raises:
            Damage: A part of the previous snapshot cannot be read.
        """
        self.passed(
            state.tip.seq,
            lambda put, number: take(state, put, format=number).document,
            lambda document: rebase(state, layers(document, self.read)),
        )

    def _put(self, data: bytes) -> Hash:
        hash = content_hash(data)
        if hash not in self._parts:
            try:
                self._below(hash)
            except Damage:
                self._parts[hash] = data
        return hash
