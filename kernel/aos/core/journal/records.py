"""The records of a journal: one class for each kind (spec/journal.md, J-10 to J-19).

A record is one canonical CBOR map with text keys: ``kind`` and ``seq``, then the fields of its
kind; an absent option is left out. A value of more than ``INLINE_BYTES`` bytes is a ``Ref`` to a
blob that is stored in the same transaction, so that bytes can be erased while the chain stays
valid.
``record_codec`` writes and reads the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from aos.core.journal.faults import Fault
from aos.core.journal.vocabulary import (
    ApplyMode,
    AttemptPhase,
    CellStatus,
    ControlAction,
    ControlStatus,
    GovernanceAction,
    OpenWork,
    ReceiptOutcome,
    ReceiptStatus,
)
from aos.values.digests import Hash, content_hash

HASH_BYTES: Final = 32

INLINE_BYTES: Final = 1024
"""A longer value is in the blob store; the record holds its hash and size."""

CellId: TypeAlias = tuple[str, bytes]
"""(workflow name, canonical CBOR of the key; empty for an unkeyed workflow)."""

EntryId: TypeAlias = tuple[int, int]
"""(sequence of the record, index of the event in it): what a mailbox holds."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value kept in the blob store: content hash and size in bytes."""

    hash: Hash
    size: int


Slot: TypeAlias = bytes | Ref
"""A value in a record: its bytes, or where they are."""


def slot(data: bytes, blobs: dict[Hash, bytes]) -> Slot:
    """Return what a record holds for ``data``; a long value is added to ``blobs``."""
    if len(data) <= INLINE_BYTES:
        return data
    key = content_hash(data)
    blobs[key] = data
    return Ref(key, len(data))


def slot_bytes(value: Slot, read: Callable[[Hash], bytes]) -> bytes:
    """Return the bytes of a slot.

    Raises:
        Damage: From ``read``: the blob is missing or altered.
    """
    return value if isinstance(value, bytes) else read(value.hash)


def slot_hash(value: Slot) -> Hash:
    """The content hash of a slot's bytes."""
    return content_hash(value) if isinstance(value, bytes) else value.hash


@dataclass(frozen=True, slots=True)
class Stamp:
    """The host adds it to an input once: its wall clock in ns and 64 random bytes."""

    ns: int
    entropy: bytes


@dataclass(frozen=True, slots=True)
class Principal:
    """An operator named in the genesis, who may change the manifest of the world."""

    name: str
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Genesis:
    """The first record of a world."""

    KIND: ClassVar = "genesis"
    seq: int
    stamp: Stamp
    nonce: bytes
    world_key: bytes
    operators: tuple[Principal, ...]
    semantics: int
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A process began to execute steps. Its content is outside byte-identity."""

    KIND: ClassVar = "start"
    seq: int
    stamp: Stamp
    host: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The cells of one workflow as a migration left them: the root of their index (K-76)."""

    workflow: str
    root: Hash
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest came into force. ``document`` is the effective manifest's blob.

    ``mode`` is absent if it is strict (K-70, K-72, K-76). ``leaves`` are workflows that the
    manifest removes although they still have cells; the cells are kept (K-71b). ``migrated`` are
    the cells that a migration converted, by the names of their workflows. ``proposal`` is the
    record of the approved proposal, in a governed world (GV-40).
    """

    KIND: ClassVar = "manifest"
    seq: int
    stamp: Stamp
    document: Ref
    principal: str
    serial: int
    signature: bytes
    mode: ApplyMode | None = None
    leaves: tuple[str, ...] = ()
    migrated: tuple[Migrated, ...] = ()
    proposal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A domain event was admitted at ingress.

    ``kept`` are the receivers that run it under their own manifest, because they were finished and
    their state does not fit the one in force (K-74a).
    """

    KIND: ClassVar = "event"
    seq: int
    stamp: Stamp
    schema: str
    value: Slot
    submission_id: str | None
    to: tuple[CellId, ...]
    overloaded: tuple[CellId, ...]
    kept: tuple[CellId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A domain event that a step emitted, and the cells that it reached. ``unknown`` are the cells
    that do not exist and that the event may not create (K-42a). ``kept`` is an event's."""

    schema: str
    value: Slot
    to: tuple[CellId, ...]
    overloaded: tuple[CellId, ...]
    unknown: tuple[CellId, ...] = ()
    kept: tuple[CellId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An effect that a step asked for. ``key`` is the idempotency key that the module requested."""

    intent: Hash
    effect: str
    effect_hash: Hash
    params: Slot
    key: str | bytes | None
    issuer_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The ring's head ran once and its whole output was taken.

    ``status`` is the instance's after the step, by its module and its open work (events that it
    sends to itself may also overload and fail it). ``root`` is the sequence of the input that
    caused the step, ``depth`` the number of emitted events between. ``output`` is the content hash
    of the raw output. ``abandoned`` are the intents that ended because the cell was deleted.

    ``under`` is the record of the manifest that a pinned instance ran under, if that is not the one
    in force; ``fits`` is then the record of the one in force, if the new state fits it (K-74).
    """

    KIND: ClassVar = "step"
    seq: int
    cell: CellId
    entry: EntryId
    root: int
    depth: int
    state: Slot | None
    status: CellStatus
    events: tuple[Emitted, ...]
    intents: tuple[Intent, ...]
    abandoned: tuple[Hash, ...]
    ann: Slot | None
    fuel: int
    pages: int
    output: Hash
    under: int | None = None
    fits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """The ring's head ran once and failed: the output was dropped, the instance is failed.

    ``under`` is a step's."""

    KIND: ClassVar = "fault"
    seq: int
    cell: CellId
    entry: EntryId
    root: int
    depth: int
    fault: Fault
    fuel: int
    pages: int
    output: Hash | None
    under: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The place of a receipt among those that were signed together: leaf ``index`` of ``size``, and
    the path to the signed root (J-40)."""

    index: int
    size: int
    path: tuple[Hash, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An executor settled an intent.

    ``payload`` is exactly what was signed. ``outcome`` is the result: ``delivered`` to the
    origin cell, ``rejected`` (its payload did not fit, the cell was told), ``faulted`` (it did not
    fit and the instance failed), ``abandoned`` (no cell waits for it) or ``overloaded``
    (the mailbox was full, the instance failed). ``problem`` is the misfit of the payload. With a
    ``batch``, ``signature`` is over the root of a tree of receipts.
    """

    KIND: ClassVar = "receipt"
    seq: int
    stamp: Stamp
    intent: Hash
    cell: CellId
    effect: str
    attempt: int
    status: ReceiptStatus
    payload: Slot
    payload_schema: str | None
    started_ns: int
    finished_ns: int
    cost_cents: int | None
    executor: str
    key_id: bytes
    signature: bytes
    outcome: ReceiptOutcome
    problem: str | None
    abandoned: tuple[Hash, ...]
    batch: Batch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReceipt:
    """The core itself settled an intent: it answered its own effect, or ended another's as
    ``canceled`` or lost (K-80 to K-86). It has no signature: replay computes it again.

    ``root`` and ``depth`` are those of the step that asked, or the command that did; ``by`` is the
    intent whose answer ended this one. ``outcome``, ``problem`` and ``abandoned`` are a receipt's.
    """

    KIND: ClassVar = "kernel_receipt"
    cost_cents: ClassVar[None] = None
    signature: ClassVar[bytes] = b""
    seq: int
    intent: Hash
    cell: CellId
    effect: str
    status: ReceiptStatus
    payload: Slot
    payload_schema: str | None
    root: int
    depth: int
    by: Hash | None
    outcome: ReceiptOutcome
    problem: str | None
    abandoned: tuple[Hash, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An executor reported the progress of an open intent to its origin cell (K-90 to K-94).

    ``frame_seq`` ascends within the intent; ``payload`` is exactly what was signed.
    """

    KIND: ClassVar = "stream"
    seq: int
    stamp: Stamp
    intent: Hash
    cell: CellId
    effect: str
    attempt: int
    frame_seq: int
    frame_kind: str
    payload: Slot
    payload_ref: Hash | None
    executor: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The host is about to run an intent for the ``attempt``-th time (``phase`` is ``begun``), or
    cannot know how that attempt ended (``lost``): K-95 to K-98.

    Or it does not run the intent now, and the intent stays open: the host lacks what the attempt
    needs (``held``), or no attempt is left after an exception that no author classified
    (``parked``): K-99. ``problem`` is why; ``code`` names the cause of the last two.
    """

    KIND: ClassVar = "attempt"
    seq: int
    stamp: Stamp
    intent: Hash
    cell: CellId
    attempt: int
    phase: AttemptPhase
    problem: str | None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """``document`` is a snapshot of the world after record ``at``, the last record of the frame
    with the hash ``frame`` (SN-1 to SN-4)."""

    KIND: ClassVar = "snapshot"
    seq: int
    stamp: Stamp
    at: int
    frame: Hash
    document: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An operator's command (K-100 to K-109b).

    ``retry``, ``skip``, ``unpin``, ``end`` and ``remove`` name a ``cell``, ``cancel`` and
    ``settle`` an ``intent``, ``erase`` the content hash of a ``value``. ``clock`` names nothing: it
    sets the journal clock to its own stamp. ``serial`` is the number of control records before this
    one.

    ``status`` and ``payload`` are those of the receipt that ``settle`` causes; ``status`` is also
    the one that ``end`` gives the instance. ``why`` is the operator's reason to end or remove it.
    ``dropped`` is the number of entries of its mailbox that were dropped, None if there were none,
    and ``abandoned`` are its intents that were open. With ``restamp``, ``retry`` and ``skip`` give
    their stamp to the mail of the cell; those of older releases lack it (K-101b).
    """

    KIND: ClassVar = "control"
    seq: int
    stamp: Stamp
    action: ControlAction
    cell: CellId | None
    intent: Hash | None
    value: Hash | None
    principal: str
    serial: int
    signature: bytes
    status: ControlStatus | None = None
    payload: Slot | None = None
    why: str | None = None
    restamp: Literal[True] | None = None
    dropped: int | None = None
    abandoned: tuple[Hash, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """An operator or approver proposed a manifest, reported on a proposal, voted on one or withdrew
    one (GV-20).

    ``propose`` has a ``serial``, the number of proposals before this one, the hash of the manifest
    in force (``base``), the next one (``document``) and the ``patch`` between the two; ``mode`` and
    ``leaves`` are those of a manifest. All other actions name the record of their ``proposal``.
    ``report`` is a shadow report, ``seen`` the hash of the report that a voter has read.
    """

    KIND: ClassVar = "governance"
    seq: int
    stamp: Stamp
    action: GovernanceAction
    principal: str
    signature: bytes
    proposal: int | None = None
    serial: int | None = None
    base: Hash | None = None
    document: Ref | None = None
    patch: Ref | None = None
    mode: ApplyMode | None = None
    leaves: tuple[str, ...] = ()
    report: Ref | None = None
    seen: Hash | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Another world continues from here (K-110 to K-116): the first record after those that it has
    from world ``parent``, the last of which is record ``at``, in a frame with the hash ``frame``.

    ``nonce`` and ``world_key`` make its id, as those of a genesis do, and ``operators`` are its
    own. ``open_work`` says what becomes of open intents: ``cancel`` or ``keep``. ``erased`` are
    values that the parent erased after record ``at``. With ``cut``, only the first records of the
    parent's frame of that hash were taken over, and they are a new frame.
    """

    KIND: ClassVar = "fork"
    seq: int
    stamp: Stamp
    parent: Hash
    at: int
    frame: Hash
    nonce: bytes
    world_key: bytes
    operators: tuple[Principal, ...]
    open_work: OpenWork
    erased: tuple[Hash, ...]
    cut: Hash | None
    signature: bytes


Record: TypeAlias = (
    Genesis
    | Start
    | Manifest
    | Event
    | Step
    | Faulted
    | Receipt
    | KernelReceipt
    | Stream
    | Attempt
    | Snapshot
    | Fork
    | Control
    | Governance
)


# The codec, in ``record_codec``: one line per kind, three functions per type of field. ``write``
# encodes; ``read`` takes the value that the record gate decoded and describes its problem;
# ``quick`` takes only the bytes that ``write`` writes and raises IndexError or ValueError for any
# others, without a description.
