"""A journal that is read whole, that of a store or of a bundle, and the sandbox in which other code
is tried on it (spec/audit.md, A-19, A-86; spec/exports.md, EX-61)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from aos.core.journal.frame import Frame, Head, Tip
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.load import load
from aos.core.state.fold import fold_frame
from aos.core.state.state import State, empty
from aos.errors import Damage
from aos.manifest.judging import judge
from aos.prove.verify.pruned_journal import Beginning, beginning, beginning_of
from aos.sandbox.config import REPLAY_STACK_BYTES
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.bundle.reader import Bundle
from aos.store.store import Store, head_of
from aos.values.cbor import encode
from aos.values.digests import Hash

Progress = Callable[[int, int], None]
"""Called on another thread with (sequence reached, last one). An exception that it raises ends the
work, which raises the same exception."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSource:
    """``frames(first, last)`` are those with these records. ``head`` is the durable end, ``begins``
    where a pruned journal continues from. ``snapshots`` returns the document of each kept snapshot
    by the record that it was taken after. ``limits`` are others than those of every world only in
    tests."""

    frames: Callable[[int, int], Iterator[Frame]]
    blob: BlobReader
    has_blob: Callable[[Hash], bool]
    head: Head
    begins: Beginning | None
    snapshots: Callable[[], Mapping[int, Hash]]
    limits: Limits = LIMITS

    @property
    def first(self) -> int:
        """The first record that is kept."""
        return 1 if self.begins is None else self.begins.tip.seq + 1

    @property
    def last(self) -> int:
        return self.head.seq

    def all_frames(self) -> Iterator[Frame]:
        return self.frames(self.first, self.last)

    def first_state(self) -> State:
        """Return the state before the first record that is kept.

        Raises:
            Damage: There is no frame, or the snapshot that a pruned journal continues from cannot
                be read.
        """
        if self.begins is not None:
            return self.begins.state(self.blob)
        first = next(self.frames(self.first, self.first), None)
        if first is None:
            raise Damage("the journal has no frame")
        return empty(
            Tip(world=first.header.world), self.blob, limits=self.limits, manifest_of=judge
        )

    def state_at(self, snapshot: Hash) -> State | None:
        """Return the state of a snapshot; None if it is not kept.

        Raises:
            Damage: It cannot be read.
        """
        if not self.has_blob(snapshot):
            return None
        return load(snapshot, self.blob, limits=self.limits, manifest_of=judge)

    def state_before(self, seq: int) -> State:
        """Return a state at or before record ``seq`` - 1, from the newest snapshot there.

        Raises:
            Damage: A snapshot cannot be read.
        """
        for at, document in sorted(self.snapshots().items(), reverse=True):
            state = self.state_at(document) if at < seq else None
            if state is not None:
                return state
        return self.first_state()

    def last_state(
        self,
        snapshot: Hash | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> State:
        """Return the state at the end of the journal, folded from a snapshot if it is kept.

        Raises:
            Damage: A frame or a value cannot be read.
        """
        state = None if snapshot is None else self.state_at(snapshot)
        if state is None:
            state = self.first_state()
        for frame in self.all_frames():
            if frame.header.first > state.tip.seq:
                fold_frame(state, frame, self.blob)
                if on_progress is not None:
                    on_progress(frame.header.last)
        return state

    def in_sandbox(self, modules: Mapping[Hash, bytes], work: Callable[[Sandbox], T]) -> T:
        """Call ``work`` with the real sandbox, as in replay (A-19), on a thread with the stack that
        modules need. ``modules`` are those that the journal does not have."""

        def wasm(hash: Hash) -> bytes:
            module = modules.get(hash)
            return self.blob(hash) if module is None else module

        def run() -> T:
            sandbox = Sandbox(wasm, stack_bytes=REPLAY_STACK_BYTES)
            try:
                return work(sandbox)
            finally:
                sandbox.close()

        return run_on_big_stack(run)


def source_of_store(store: Store) -> JournalSource:
    """The journal of a store up to its head. Other processes may append to it meanwhile.

    Raises:
        Damage: The head, or where a pruned journal begins, cannot be read.
    """
    cut = store.cut()
    return JournalSource(
        frames=store.frames,
        blob=store.blob,
        has_blob=store.has_blob,
        head=head_of(store),
        begins=None if cut is None else beginning(store, cut),
        snapshots=lambda: {snapshot.at: snapshot.document for snapshot in store.snapshots()},
    )


def source_of_bundle(bundle: Bundle) -> JournalSource:
    """Raises: Damage: The head, or where an archive begins, cannot be read."""

    def frames(first: int, last: int) -> Iterator[Frame]:
        for frame in bundle.frames():
            if frame.header.first > last:
                return
            if frame.header.last >= first:
                yield frame

    return JournalSource(
        frames=frames,
        blob=bundle.blob,
        has_blob=bundle.has_blob,
        head=bundle.head(),
        begins=beginning_of(bundle),
        snapshots=dict,
    )


def records_of_kinds(frames: Iterable[Frame], *record_types: type[Record]) -> Iterator[Record]:
    """Yield the records of some types. Only records that may be of one are decoded.

    Raises:
        Damage: Such a record cannot be read.
    """
    kinds = [encode("kind") + encode(record_type.KIND) for record_type in record_types]
    for frame in frames:
        for data in frame.records:
            if any(kind in data for kind in kinds):
                record = from_bytes(data)
                if isinstance(record, record_types):
                    yield record
