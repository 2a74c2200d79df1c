"""The interface of a store, and the checks that all stores share (spec/store.md).

A store makes commit groups durable: when ``append`` returns, the frames, the blobs that they name,
the derived rows and the signed head are all durable, or none of them is. One process writes; any
number of processes read. Every method may be called from any thread; only one thread may write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from aos.core.journal.frame import NO_FRAME, Frame, Head, StoredFrame
from aos.core.journal.inputs import ERASE
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Fork
from aos.errors import AosError, Damage, Erased
from aos.store.cut import Cut, pruned
from aos.store.rows import ErasedRow, IntentRow, PutRow, SnapshotRow, SubmissionRow
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.sha256 import Name, read_name, true_sha256

if TYPE_CHECKING:
    from aos.core.pending import Sealed
    from aos.store.delta import DeltaRow
    from aos.store.rows import Forget


NO_NOTES: Final[Mapping[int, str]] = MappingProxyType({})


class HasHead(Protocol):
    """The head of a store, or of a part of one."""

    def head(self) -> Head | None:
        """Return the head, its signature not checked; None before the genesis is durable."""


class Store(HasHead, Protocol):
    """Frames, blobs and derived rows of one world."""

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
    ) -> None:
        """Make ``group`` durable in one transaction, with ``head`` over its last frame.

        ``expected`` is the hash of the frame that the group follows, ``NO_FRAME`` at genesis.
        ``notes`` are words for people about records of the group, by sequence; nothing hashes them.
        The bytes of each frame's ``erased`` values are removed before its ``blobs`` are stored: a
        value that is in both came again after it was erased, and stays (ST-22, ST-23). A blob may
        be kept as a delta on the one that it ``replaced`` (ST-90).

        Raises:
            NoRoom: The file system is full. Nothing has changed; the same call may pass later.
            CommitFailed: The commit failed for another reason. Nothing has changed, and the store
                refuses all further writes.
            Damage: The store does not end at ``expected``, or a derived row contradicts the group.
                Nothing has changed.
        """

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        """Yield the frames from the one with record ``first_seq`` to the one with ``last_seq``.

        None: to the head at the time of the first item. Later frames are not seen. No transaction
        is open between two items.

        Raises:
            Pruned: One of these records was pruned. The frame of the genesis never is.
            Damage: A frame cannot be read, or is missing before the head. Whether the frames
                follow each other is for the caller to check (``follow``, ST-5).
        """

    def stored_frames(self, first_seq: int, last_seq: int) -> Iterator[StoredFrame]:
        """Yield the same as ``frames``, as bytes whose records were not read yet. Raises as
        ``frames``, but not for the contents of a frame."""

    def frame_at(self, seq: int) -> Frame | None:
        """Return the frame with the record ``seq``; None if there is no such record.

        Raises:
            Pruned: The record was pruned.
            Damage: The frame cannot be read, or is missing before the head.
        """

    def blob(self, hash: Hash) -> bytes:
        """Return the bytes with this content hash.

        Raises:
            Erased: They were erased, and were not stored again since.
            Damage: They are missing or altered.
        """

    def has_blob(self, hash: Hash) -> bool:
        """Whether something is stored under this hash. Its bytes are not checked."""

    def blob_size(self, hash: Hash) -> int | None:
        """Return the size in bytes of what is stored under this hash, without reading it; None if
        nothing is. Its bytes are not checked."""

    def blob_hashes(self) -> Iterator[Hash]:
        """Yield the hashes of all blobs, ascending. No transaction is open between two items."""

    def blob_sizes(self) -> Iterator[tuple[Hash, int]]:
        """Yield the hash and the size in bytes of each blob, ascending by hash."""

    def delta(self, hash: Hash) -> DeltaRow | None:
        """Return how a blob is made from another one, its base; None if it is kept whole, or is not
        there (ST-90)."""

    def put_blobs(self, blobs: Mapping[Hash, bytes]) -> None:
        """Make blobs durable outside a group. Raises as ``append``."""

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        """Return the content hash of the blob with this SHA-256 name, if a name document gives it
        (spec/agentos.md, AG-30). The blob itself may have been removed since."""

    def names(self) -> Iterator[Name]:
        """Yield all names, ascending."""

    def intent(self, hash: Hash) -> IntentRow | None:
        """Return the row of an intent; None if no record opened it, or the row was removed."""

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        """Yield the rows of all intents, ascending by hash."""

    def erased(self, hash: Hash) -> ErasedRow | None:
        """Return the row of an erased value; None if it was not erased, or was stored again."""

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        """Yield the rows of all erased values, ascending by hash."""

    def submission(self, submission_id: str) -> SubmissionRow | None:
        """Return the row of the newest event with this submission id; None if there is none."""

    def submissions(self) -> Iterator[SubmissionRow]:
        """Yield the rows of all submissions, ascending by the bytes of the id."""

    def snapshots(self) -> Iterator[SnapshotRow]:
        """Yield the rows of all snapshots, the oldest first."""

    def snapshot_before(self, seq: int | None = None) -> SnapshotRow | None:
        """Return the newest snapshot that was taken after record ``seq`` or an earlier one.

        Without ``seq``, return the newest snapshot of all.
        """

    def note(self, seq: int) -> str | None:
        """Return the note on the record with this sequence; None if there is none."""

    def cut(self) -> Cut | None:
        """Return where the journal begins since it was pruned; None if it never was."""

    def set_cut(self, cut: Cut) -> None:
        """Declare records 2 to ``cut.seq`` pruned, before their frames are removed. Raises as
        ``append``."""

    def drop_frames(self, frames_max: int) -> int:
        """Remove up to ``frames_max`` pruned frames, and the notes on their records, in one
        transaction; return how many frames were removed. Raises as ``append``."""

    def forget(self, removal: Forget) -> int:
        """Remove rows in one transaction. A blob on which a delta depends stays, unless the delta
        is in ``removal`` too (ST-92). Return how many of the blobs the store no longer has. Raises
        as ``append``."""

    def puts(self) -> Iterator[PutRow]:
        """Yield the rows of blobs that instances put in pruned records, ascending by hash."""

    def add_puts(self, rows: Sequence[PutRow]) -> None:
        """Store more rows of such blobs, in one transaction. Raises as ``append``."""

    def first_bytes(self, hash: Hash, bytes_max: int) -> bytes | None:
        """Return the beginning of a blob, unchecked; None if it cannot be read."""

    def meta_get(self, name: str) -> bytes | None:
        """Return the value that ``meta_put`` stored under this name; None if there is none."""

    def meta_put(self, name: str, value: bytes) -> None:
        """Store a value of the host. It is not part of the journal and not hashed. Raises as
        ``append``."""

    def sync_reader_check(self) -> int:
        """Clear the slots of readers whose process died, which keep free pages from being used;
        return how many."""

    def size_bytes(self) -> int:
        """Return how many bytes the store takes on the disk."""

    def compact(self) -> None:
        """Rewrite the store's file with nothing but its rows, without erased bytes (ST-50).

        Raises:
            Unavailable: This process has the store open elsewhere too, or there is no room for a
                second file of this size. Nothing has changed.
            Damage: A row cannot be read. Nothing has changed.
        """

    def make_reserve(self) -> bool:
        """Reserve disk space for the removal of data, unless that is done already or the disk is
        nearly full (ST-100). Return whether it is reserved."""

    def release_reserve(self) -> bool:
        """Free the reserved disk space, for writes that found no room. False if there is none."""

    def close(self) -> None:
        """Close the store. A second call does nothing."""


def head_of(store: HasHead) -> Head:
    """Return the head of a store.

    Raises:
        Damage: It is empty.
    """
    head = store.head()
    if head is None:
        raise Damage("the store is empty: expected the genesis record of a world")
    return head


# Checks and rows that every implementation makes before it writes


def check_group(group: Sequence[Sealed], head: Head, expected: Hash) -> None:
    """Assert that the group is a chain that begins after ``expected``, and ends with ``head``.

    Anything else is a bug of the caller, found before it is stored.
    """
    assert group, "an empty group"
    prev, seq = expected, group[0].frame.header.first - 1
    for sealed in group:
        header = sealed.frame.header
        assert header.world == head.world, f"frame {header.first}: another world's"
        assert header.prev == prev, f"frame {header.first}: does not follow {prev.hex()[:16]}"
        assert header.first == seq + 1, f"frame {header.first}: does not follow record {seq}"
        prev, seq = sealed.frame.hash, header.last
    tip = group[-1].tip
    assert (head.world, head.seq, head.frame, head.frames, head.log_root) == (
        tip.world, tip.seq, tip.frame, tip.log.size, group[-1].frame.header.log_root,
    ), "the head is not the last frame's"  # fmt: skip
    assert (head.seq, head.frame) == (seq, prev), "the tip is not the last frame's"


def check_expected(
    stored_head: Head | None, group: Sequence[Sealed], head: Head, expected: Hash, location: str
) -> None:
    """Check that the store ends where the caller expects (ST-2).

    Raises:
        Damage: It does not.
    """
    at = NO_FRAME if stored_head is None else stored_head.frame
    if at == expected and (
        stored_head is None
        or stored_head.world == head.world
        or _is_fork(group[0].frame, stored_head)
    ):
        return
    raise Damage(
        "the journal does not end where this process left it",
        location=location,
        expected=_frame_name(expected),
        actual=f"{_frame_name(at)} at record {0 if stored_head is None else stored_head.seq}",
        hint="another process wrote to it; stop both and open the world again",
    )


def _is_fork(frame: Frame, parent_head: Head) -> bool:
    """Whether ``frame`` begins a fork of the world that ends with ``parent_head`` (K-110)."""
    try:
        first = from_bytes(frame.records[0])
    except Damage:
        return False
    return isinstance(first, Fork) and (first.parent, first.frame) == (
        parent_head.world,
        parent_head.frame,
    )


def _frame_name(frame: Hash) -> str:
    return "no frame" if frame == NO_FRAME else f"frame {frame.hex()[:16]}"


class IntentChanges(NamedTuple):
    """The rows of intents that a group writes: of those that it opens, which have no row yet, and
    of those that it ends, which have one."""

    opened: dict[Hash, IntentRow]
    ended: dict[Hash, IntentRow]


def intent_changes(
    group: Sequence[Sealed], stored: Callable[[Hash], IntentRow | None], location: str
) -> IntentChanges:
    """Return the rows of intents that ``group`` writes, in its order (ST-31, ST-32). The caller
    checks that those that it opens have no row yet, and raises ``opened_already`` otherwise.

    Raises:
        Damage: The stored rows and the group contradict each other.
    """
    opened: dict[Hash, IntentRow] = {}
    ended: dict[Hash, IntentRow] = {}

    def existing_row(intent: Hash, seq: int) -> IntentRow:
        intent_row = opened.get(intent) or ended.get(intent) or stored(intent)
        if intent_row is None:
            raise _contradiction(
                intent, location, f"record {seq} ends it, and no row says it was opened"
            )
        return intent_row

    for sealed in group:
        for opening in sealed.opened_intents:
            intent = opening.intent
            if intent in opened or intent in ended:
                raise opened_already(intent, opening.seq, location)
            opened[intent] = IntentRow(opening.seq, opening.index)
        for intent, seq, receipt in sealed.settled:
            row = existing_row(intent, seq)
            if row.settled_seq is not None:
                problem = f"record {seq} settles it, and its row says {row.settled_seq} did"
                raise _contradiction(intent, location, problem)
            changed = opened if intent in opened else ended
            changed[intent] = IntentRow(row.opened_seq, row.index, seq, receipt, row.abandoned)
        for intent in sealed.abandoned:
            row = existing_row(intent, sealed.frame.header.last)
            changed = opened if intent in opened else ended
            changed[intent] = row._replace(abandoned=True)
    return IntentChanges(opened, ended)


def opened_already(intent: Hash, seq: int, location: str) -> Damage:
    """The error of a group that opens an intent which has a row (ST-32)."""
    return _contradiction(intent, location, f"record {seq} opens it, and it has a row already")


def _contradiction(intent: Hash, location: str, problem: str) -> Damage:
    return Damage(
        f"the derived rows are damaged: intent {hash_text(intent)}: {problem}",
        location=location,
        hint="aos rebuild makes them again from the journal",
    )


def submission_changes(group: Sequence[Sealed]) -> dict[str, SubmissionRow]:
    """Return the rows of submissions that ``group`` writes: the newest event of each id."""
    return {
        submission.submission_id: SubmissionRow(
            submission_id=submission.submission_id, seq=submission.seq, payload=submission.payload
        )
        for sealed in group
        for submission in sealed.submissions
    }


def snapshot_changes(group: Sequence[Sealed]) -> list[SnapshotRow]:
    """Return the rows of snapshots that ``group`` writes."""
    return [
        SnapshotRow(at=snapshot.at, seq=snapshot.seq, document=snapshot.document)
        for sealed in group
        for snapshot in sealed.snapshots
    ]


def erasing(sealed: Sealed) -> dict[Hash, int]:
    """Return the values that ``sealed`` erases, each with the newest record in it that does so."""
    if not sealed.erased:
        return {}
    seq_by_value: dict[Hash, int] = {}
    for record in map(from_bytes, sealed.frame.records):
        if isinstance(record, Control) and record.action == ERASE and record.value is not None:
            seq_by_value[Hash(record.value)] = record.seq
        elif isinstance(record, Fork):
            seq_by_value.update(dict.fromkeys(record.erased, record.seq))
    for value in sealed.erased:
        assert value in seq_by_value, (
            f"{hash_text(value)} is erased, and no record of the frame says so"
        )
    return {value: seq_by_value[value] for value in sealed.erased}


def check_blobs(blobs: Mapping[Hash, bytes]) -> None:
    """Assert that each blob has its hash: another one would make the world unreadable (ST-20)."""
    for key, data in blobs.items():
        assert content_hash(data) == key, f"blob {key.hex()}: {len(data)} bytes of another hash"


def names_in(
    blobs: Mapping[Hash, bytes], true_of: Callable[[Hash], bytes | None]
) -> Iterator[tuple[Name, bool]]:
    """Yield the names in name documents among ``blobs``, each with whether it is known to be valid.

    ``true_of`` returns the true name (``true_sha256``) of a blob that was stored before, None if it
    is not there. A name whose blob is not there is stored until the blob comes (AG-35). A document
    with an invalid name is skipped.
    """
    true_names: dict[Hash, bytes | None] = {}
    for data in blobs.values():
        name = read_name(data)
        if name is None:
            continue
        if name.is_given:
            yield name, True
            continue
        if name.blob not in true_names:
            blob = blobs.get(name.blob)
            true_names[name.blob] = true_of(name.blob) if blob is None else true_sha256(blob)
        true = true_names[name.blob]
        if true is None or true == name.sha256:
            yield name, true is not None


def checked_blob(data: bytes | None, hash: Hash, erased: ErasedRow | None, location: str) -> bytes:
    """Return ``data``, the bytes stored under ``hash``, if they have that hash (ST-21).

    ``erased`` is the row of the value if there are no bytes.

    Raises:
        Erased: The value was erased.
        Damage: It is missing, or its bytes have another hash.
    """
    if data is None and erased is not None:
        raise erased_error(hash, erased.seq)
    if data is None:
        raise Damage(
            f"blob {hash_text(hash)} is missing",
            location=location,
            hint="no row says that it was erased: aos rebuild makes such rows again; if that "
            "does not help, restore a backup",
        )
    actual_hash = content_hash(data)
    if actual_hash != hash:
        raise Damage(
            f"blob {hash_text(hash)} is altered",
            location=location,
            expected="bytes of that hash",
            actual=f"{len(data)} bytes of {hash_text(actual_hash)}",
            hint="restore a backup",
        )
    return data


def erased_error(hash: Hash, by: int) -> Erased:
    """Return the error for a value that record ``by`` erased."""
    return Erased(f"the value {hash_text(hash)} was erased by record {by}")


def is_pruned(first: int, cut: Cut | None) -> bool:
    """Whether the frame that begins with record ``first`` was pruned. The frame of the genesis
    never is."""
    return cut is not None and 1 < first <= cut.seq


def first_kept(store: Store) -> int:
    """Return the first record after the genesis that the store has."""
    cut = store.cut()
    return 1 if cut is None else cut.seq + 1


def missing_frame(seq: int, head: Head, cut: Cut | None, location: str) -> AosError:
    """Return the error for a record before the head whose frame is not there (ST-5)."""
    if cut is not None and seq <= cut.seq:
        return pruned(cut, seq)
    return Damage(
        f"the frame with record {seq} is missing",
        location=location,
        expected=f"frames to record {head.seq}, as the head says",
        hint="restore a backup",
    )
