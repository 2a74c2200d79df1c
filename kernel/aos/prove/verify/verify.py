"""Check frames and their records without executing anything (spec/audit.md, A-20 to A-29).

Rule 1: every finding names the frame and, if it is about one record, the record.

Rule 2: the check ends with a report for any stored bytes, however damaged.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from aos.core.journal.fork import forked_world_id
from aos.core.journal.frame import Frame, Head
from aos.core.journal.identity import world_id
from aos.core.journal.merkle import Tree
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Fork, Genesis
from aos.core.limits import LIMITS, Limits
from aos.errors import Damage, sentence
from aos.prove.headerlog.stored_log import StoredLog
from aos.prove.verify.chain import SEARCH_SECONDS, Chain, find_flip, flipped
from aos.prove.verify.checking import Counts
from aos.prove.verify.checkpoints import CheckpointCheck, headers_before
from aos.prove.verify.contents import Contents
from aos.prove.verify.findings import FindingKind, FindingList, VerifyReport
from aos.prove.verify.folding import Folding, newest_snapshot_problem
from aos.prove.verify.pruned_journal import Beginning, archives_to, beginning, beginning_of, reading
from aos.prove.verify.roots import Roots, recorded_snapshots
from aos.store.bundle.reader import Bundle
from aos.store.cut import Cut
from aos.store.store import Store
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text

_FORK: Final = encode("kind") + encode(Fork.KIND)

UNREADABLE_RECORDS_MAX: Final = 65_536
"""How far after an unreadable frame the search for the next one goes, in records."""


def verify_store(
    store: Store,
    *,
    archives: Sequence[Bundle] = (),
    search_seconds: float = SEARCH_SECONDS,
    limits: Limits = LIMITS,
    checkpoints: CheckpointCheck | None = None,
    log: StoredLog | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Verify everything that a store holds up to its head, including the derived rows.

    If the first records of the store were pruned, the check begins at the snapshot. With
    ``archives``, given in any order, it begins where the first of them begins; they must hold all
    records up to the store's first. ``checkpoints`` are compared with it; of a pruned store, the
    headers before come from its own header ``log``. Other processes may write to the store
    meanwhile. ``on_progress`` is called after each frame with the sequence reached.

    Raises:
        BadUsage: The archives are not of this world, or do not lead to where it begins.
    """
    cut = store.cut()
    ordered = archives_to(cut, archives)
    begins, problem = _begins(store, cut, ordered)
    verifier = Verifier(
        reading([store, *ordered]),
        search_seconds=search_seconds,
        limits=limits,
        snapshots=_recorded_snapshots(store, ordered, cut),
        begins=begins,
        cut=cut,
        checkpoints=checkpoints,
    )
    if checkpoints is not None and begins is not None:
        if cut is None or ordered:
            checkpoints.lose()  # the archives do not begin at the genesis
        else:
            checkpoints.begin(cut, begins.genesis, headers_before(log, cut))
    if problem is not None:
        verifier.add(FindingKind.SNAPSHOT_WRONG, problem)
        verifier.skip_to(1 if cut is None else cut.seq + 1)
    head: Head | None = None
    try:
        head = store.head()
        if head is None:
            verifier.add(FindingKind.HEAD_WRONG, "there is no head to say where the journal ends")
    except Damage as unreadable:
        verifier.add(FindingKind.HEAD_WRONG, f"the head cannot be read: {unreadable}")
    for frame in _all_frames(store, ordered, verifier, head, cut):
        verifier.take(frame)
        if on_progress is not None:
            on_progress(frame.header.last)
    verifier.finish(head)
    verifier.compare_rows(store)
    verifier.read_snapshot(store)
    return verifier.report()


def _begins(
    store: Store, cut: Cut | None, archives: Sequence[Bundle]
) -> tuple[Beginning | None, str | None]:
    """Return where to begin, None for the genesis; and the problem if that cannot be read."""
    if archives:
        return beginning_of(archives[0]), None
    if cut is None:
        return None, None
    try:
        return beginning(store, cut), None
    except Damage as problem:
        return None, f"where the journal begins cannot be read: {problem}"


def _all_frames(
    store: Store,
    archives: Sequence[Bundle],
    verifier: Verifier,
    head: Head | None,
    cut: Cut | None,
) -> Iterator[Frame]:
    """Yield the frames of the archives, then those of the store."""
    for archive in archives:
        try:
            archive.check()
        except Damage as problem:
            verifier.add(FindingKind.BUNDLE_DAMAGED, str(problem))
        try:
            yield from archive.frames()
        except Damage as problem:
            verifier.unreadable(str(problem))
    if cut is not None and verifier.next_seq <= cut.seq:
        verifier.unreadable("the archive ends before the world begins")
        verifier.skip_to(cut.seq + 1)
    yield from _readable_frames(store, verifier, head)


def _readable_frames(store: Store, verifier: Verifier, head: Head | None) -> Iterator[Frame]:
    """Yield all readable frames up to the head, and report each unreadable one."""
    last = None if head is None else head.seq
    while last is None or verifier.next_seq <= last:
        try:
            yield from store.frames(verifier.next_seq, last)
        except Damage as problem:
            verifier.unreadable(str(problem))
            seq = _next_readable(store, verifier.next_seq, last)
            if seq is None:
                return
            verifier.skip_to(seq)
        else:
            return


def _recorded_snapshots(
    store: Store, archives: Sequence[Bundle], cut: Cut | None
) -> dict[int, Hash]:
    """Return those in frames before the first unreadable one: later records are not folded."""
    snapshots: dict[int, Hash] = {}
    first = 1 if cut is None else cut.seq + 1
    frames = itertools.chain(*(archive.frames() for archive in archives), store.frames(first))
    with contextlib.suppress(Damage):
        for at, document in recorded_snapshots(frames):
            snapshots[at] = document  # noqa: PERF403  # keep those found before the damage
    return snapshots


def _next_readable(store: Store, seq: int, last: int | None) -> int | None:
    """Return the first record after ``seq`` whose frame can be read and begins after ``seq``."""
    end = seq + UNREADABLE_RECORDS_MAX
    for at in range(seq + 1, end if last is None else min(end, last + 1)):
        try:
            frame = store.frame_at(at)
        except Damage:
            continue
        if frame is None:
            return None
        if frame.header.first > seq:
            return frame.header.first
    return None


def world_of(frame: Frame, witness: Hash | None) -> Hash:
    """Return the world that a journal belongs to, from its first frame. The header names it; if
    the header was altered, the genesis gives the world, confirmed by the frame's witness."""
    header_world = frame.header.world
    try:
        first = from_bytes(frame.records[0])
    except Damage:
        return header_world
    if isinstance(first, Genesis):
        computed = world_id(first.nonce, first.world_key)
        if computed != header_world and replace(frame.header, world=computed).hash() == witness:
            return computed
    return header_world


def _fork_in(frame: Frame) -> Fork | None:
    """Return the fork that the frame begins with; None if it begins with none, or cannot be
    read."""
    if _FORK not in frame.records[0]:
        return None
    try:
        first = from_bytes(frame.records[0])
    except Damage:
        return None
    return first if isinstance(first, Fork) else None


class Verifier:
    """One pass over a journal: ``take`` each frame, then ``finish``, then ``report``.

    A frame is checked when the next one is known, because that is a witness of its hash.
    """

    def __init__(
        self,
        read: BlobReader,
        *,
        search_seconds: float = SEARCH_SECONDS,
        limits: Limits = LIMITS,
        snapshots: Mapping[int, Hash] | None = None,
        begins: Beginning | None = None,
        cut: Cut | None = None,
        checkpoints: CheckpointCheck | None = None,
    ) -> None:
        """``begins`` is where to begin if not at the genesis. ``cut`` is where the compared
        derived rows begin: rows that only older records made are no longer stored."""
        self._findings = FindingList()
        roots = Roots(read, snapshots or {}, limits=limits)
        self._folding = Folding(read, roots, cut, self._findings)
        self._begins = begins
        self._cut = cut
        self._checkpoints = checkpoints
        self._began = time.perf_counter()
        self._read = read
        self._search_seconds = search_seconds
        self._frames = 0
        self._waiting: Frame | None = None
        self._next_seq = 1 if begins is None else begins.tip.seq + 1
        self._skipped = False
        self._chain: Chain | None = None
        self._contents: Contents | None = None
        self._erased_since: list[Control] = []
        self._prev: Hash | None = None
        """The hash of the frame before the current one; None if damage left it unknown."""

    @property
    def next_seq(self) -> int:
        """The record that the next frame must begin with."""
        return self._next_seq

    @property
    def world(self) -> Hash | None:
        """The world that the frames belong to; None before the first was checked."""
        return self._chain.world if self._chain else None

    @property
    def genesis(self) -> Genesis | Fork | None:
        """The record that the world begins with: its genesis, or the last fork."""
        return self._contents.genesis if self._contents else None

    def erased_since(self, command: Control) -> None:
        """Take an operator's command from after the journal's end that erased a value: it may be
        missing."""
        self._erased_since.append(command)

    def take(self, frame: Frame) -> None:
        """Take the next frame, and check the one before it."""
        self._check_waiting(frame.header.prev)
        self._waiting = frame
        if self._checkpoints is not None:
            self._checkpoints.take(frame)
        self._next_seq = frame.header.first + len(frame.records)

    def unreadable(self, message: str) -> None:
        """Report that the next frame cannot be read."""
        self._check_waiting(None)
        self._findings.frame = self.next_seq
        self.add(FindingKind.FRAME_UNREADABLE, message)
        self._findings.frame = None
        self._folding.stop()

    def skip_to(self, seq: int) -> None:
        """Continue with the frame that begins with record ``seq``; earlier ones are lost."""
        self._next_seq = seq
        self._skipped = True
        if self._checkpoints is not None:
            self._checkpoints.lose()

    def finish(self, head: Head | None) -> None:
        """Check the last frame, and that the journal ends where ``head`` says."""
        witness = None
        if head is not None and self._waiting is not None:
            witness = head.frame if self._waiting.header.last == head.seq else None
        self._check_waiting(witness)
        if self._contents is not None:
            for command in self._erased_since:
                self._contents.erased_since(command)
            self._contents.finish()
        self._folding.finish()
        if head is not None:
            self._check_head(head)
        elif not self._frames and not self._findings.findings:
            self.add(FindingKind.FRAME_MISSING, "the journal is empty: it has no genesis")
        if self._checkpoints is not None:
            for kind, message in self._checkpoints.problems():
                self.add(kind, message)

    def compare_rows(self, store: Store) -> None:
        """Compare a store's derived rows with those computed from the records, if all were
        folded."""
        self._folding.compare_rows(store)

    def read_snapshot(self, store: Store) -> None:
        """Read every part of the newest snapshot, where a restart begins."""
        problem = newest_snapshot_problem(store)
        if problem is not None:
            self.add(FindingKind.SNAPSHOT_WRONG, problem)

    def add(self, kind: FindingKind, message: str) -> None:
        """Report a problem of the current frame and record."""
        self._findings.add(kind, message)

    def report(self) -> VerifyReport:
        chain, contents = self._chain, self._contents
        counts = contents.counts if contents else Counts()
        return VerifyReport(
            world=chain.world if chain else None,
            frames=self._frames,
            **asdict(counts),
            blobs=contents.blobs_read if contents else 0,
            rows=self._folding.rows,
            folded=self._folding.is_whole,
            pruned=0 if self._begins is None else self._begins.tip.seq,
            seq=chain.next_seq - 1 if chain else 0,
            frame=chain.prev if chain else None,
            log_root=chain.log.root() if chain and chain.log else None,
            seconds=time.perf_counter() - self._began,
            findings=tuple(self._findings.findings),
            unlisted=self._findings.unlisted,
        )

    def _check_waiting(self, witness: Hash | None) -> None:
        """Check the last frame taken; ``witness`` is its hash as its neighbour gives it."""
        frame, self._waiting = self._waiting, None
        if frame is None:
            return
        self._findings.frame = frame.header.first
        self._frames += 1
        chain, contents = self._begin(frame, witness)
        if self._skipped:
            self._skipped = False
            chain.skip_to(frame.header.first)
        self._enter(chain, contents, frame, witness)
        self._prev = chain.prev
        is_whole, problems = chain.check(frame, witness)
        for kind, message in problems:
            self.add(kind, message)
            if kind is FindingKind.FRAME_MISSING:
                self._folding.stop()
        for index, data in enumerate(frame.records if is_whole else self._mended(frame)):
            self._findings.record = frame.header.first + index
            self._check_record(data, contents)
        if contents.world != chain.world:
            self._findings.record = None
            self.add(FindingKind.CHAIN_BROKEN, "it belongs to another world, and no fork says so")
            contents.enter(chain.world)
            self._folding.stop()
        self._folding.end_frame(frame, chain)
        self._findings.frame = self._findings.record = None
        if self._cut is not None and frame.header.last == self._cut.seq:
            self._folding.pass_cut(self._cut, chain)

    def _enter(self, chain: Chain, contents: Contents, frame: Frame, witness: Hash | None) -> None:
        """Continue as the fork's world if a frame begins with a fork. The header names that
        world if it fits its witness; otherwise the fork record gives it."""
        if frame.header.hash() == witness:
            chain.world = frame.header.world
            return
        fork = _fork_in(frame)
        if fork is not None and fork.parent == contents.world:
            chain.world = forked_world_id(fork)

    def _begin(self, frame: Frame, witness: Hash | None) -> tuple[Chain, Contents]:
        if self._chain is None or self._contents is None:
            if self._begins is not None:
                return self._begin_behind(self._begins)
            world = world_of(frame, witness)
            self._chain = Chain(world=world, log=Tree())
            self._contents = self._contents_of(world)
            self._folding.begin(world)
        return self._chain, self._contents

    def _begin_behind(self, begins: Beginning) -> tuple[Chain, Contents]:
        tip = begins.tip
        self._chain = Chain(world=tip.world, next_seq=tip.seq + 1, prev=tip.frame, log=tip.log)
        self._contents = self._contents_of(tip.world)
        state = self._folding.begin_behind(begins)
        self._contents.go_on(begins.genesis, state)
        return self._chain, self._contents

    def _contents_of(self, world: Hash) -> Contents:
        return Contents(world, self._read, self.add, self._findings.later)

    def _check_record(self, data: bytes, contents: Contents) -> None:
        contents.counts.records += 1
        try:
            record = from_bytes(data)
        except Damage as problem:
            self.add(FindingKind.RECORD_UNREADABLE, str(problem))
            self._folding.stop()
            return
        if record.seq != self._findings.record:
            self.add(
                FindingKind.RECORD_OUT_OF_ORDER,
                sentence(
                    "it calls itself another record",
                    expected=f"record {self._findings.record}",
                    actual=f"record {record.seq}",
                ),
            )
            self._folding.stop()
            return
        contents.check(record)
        if isinstance(record, Fork) and self._prev is not None and record.frame != self._prev:
            self.add(
                FindingKind.CHAIN_BROKEN,
                sentence(
                    "it is forked from another frame than the one before it",
                    expected=f"frame {hash_text(self._prev)}",
                    actual=hash_text(record.frame),
                ),
            )
        self._folding.take(record)

    def _mended(self, frame: Frame) -> Sequence[bytes]:
        """Return an altered frame's records with the flipped bit restored; unchanged if more was
        altered."""
        header = frame.header
        began = time.monotonic()
        flip = find_flip(frame, seconds=self._search_seconds)
        self._search_seconds -= time.monotonic() - began
        if flip is None:
            self.add(
                FindingKind.FRAME_ALTERED,
                f"one of its records {header.first} to {header.last}, or its salt, was altered in "
                "more than one bit: they do not give the root that its hash commits to",
            )
            self._folding.stop()
            return frame.records
        template = f"bit {flip.bit} of byte {flip.byte} was flipped{{}}: flipped back, it is whole"
        if flip.index is None:
            self.add(FindingKind.FRAME_ALTERED, template.format(" in its salt"))
            return frame.records
        self._findings.record = header.first + flip.index
        self.add(FindingKind.RECORD_ALTERED, template.format(""))
        records = list(frame.records)
        records[flip.index] = flipped(records[flip.index], flip)
        return records

    def _check_head(self, head: Head) -> None:
        chain, contents = self._chain, self._contents
        if chain is None or contents is None:
            self.add(
                FindingKind.HEAD_WRONG, f"the head says record {head.seq}, and no frame is there"
            )
            return
        if contents.genesis is not None:
            contents.counts.signatures += 1
            if not head.is_signed_by(contents.genesis.world_key):
                self.add(FindingKind.HEAD_WRONG, "the head's signature is not the world key's")
        problem = chain.head_problem(head)
        if problem is not None:
            self.add(FindingKind.HEAD_WRONG, problem)
