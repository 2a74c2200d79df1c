"""The inputs of the core, and the messages that their senders sign.

The host stamps each input once and hands it to ``Kernel.admit``; nothing else enters the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.merkle import root_from
from aos.core.journal.records import Batch, CellId, Principal
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash, digest

SEMANTICS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GenesisInput:
    nonce: bytes
    world_key: bytes
    operators: tuple[Principal, ...]
    signature: bytes

    @staticmethod
    def message(nonce: bytes, world_key: bytes, operators: tuple[Principal, ...]) -> bytes:
        """The bytes that the world key signs."""
        named: list[Value] = [[each.name, each.key] for each in operators]
        return encode(["aos/genesis/1", nonce, world_key, named, SEMANTICS])


CANCEL_OPEN: Final = "cancel"
KEEP_OPEN: Final = "keep"


def fork_message(
    *,
    parent: Hash,
    at: int,
    frame: Hash,
    nonce: bytes,
    world_key: bytes,
    operators: tuple[Principal, ...],
    open_work: str,
    erased: tuple[Hash, ...],
    cut: Hash | None,
) -> bytes:
    """The bytes that the key of a forked world signs (J-43)."""
    named: list[Value] = [[each.name, each.key] for each in operators]
    gone: list[Value] = list(erased)
    return encode(
        [
            "aos/fork/1", parent, at, frame, nonce, world_key, named, open_work, gone, cut,
            SEMANTICS,
        ]
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StartInput:
    """The software that executes from now on: kernel, wasmtime, target, engine fingerprint."""

    host: tuple[tuple[str, str], ...]


STRICT: Final = "strict"
"""Nothing may be in flight (K-70)."""
PIN: Final = "pin"
"""Instances in flight stay on the manifest that they run under (K-72)."""
MIGRATE: Final = "migrate"
"""The new modules convert the stored states (K-76)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestInput:
    """An operator puts an effective manifest in force.

    ``serial`` is the number of manifest records before this one, so that a signed command is valid
    once. ``leaves`` are workflows that the manifest removes although they still have cells; the
    cells are kept.

    Two fields are in no signature and no record. ``checked``: the host itself has compared the
    stored states up to this record with the new schemas (K-71a). ``is_recorded``: this is a replay,
    and the stored states were checked when the manifest was first applied (K-71c).
    """

    document: bytes
    principal: str
    serial: int
    signature: bytes
    mode: str = STRICT
    leaves: tuple[str, ...] = ()
    checked: int | None = None
    is_recorded: bool = False

    @staticmethod
    def message(
        world: Hash,
        serial: int,
        document: Hash,
        *,
        mode: str = STRICT,
        leaves: tuple[str, ...] = (),
    ) -> bytes:
        """The bytes that the operator signs."""
        if mode == STRICT and not leaves:
            return encode(["aos/apply/1", world, serial, document])
        return encode(["aos/apply/2", world, serial, document, mode, list(leaves)])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInput:
    """A domain event; ``value`` is CBOR at the ingress gate."""

    schema: str
    value: bytes
    submission_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptInput:
    """An executor's signed receipt: how an intent ended.

    ``payload`` is the canonical CBOR of the effect's receipt or, if the status is not ``ok``, of
    ``sys/EffectError@1``. ``executor`` is a name in the manifest (``node`` for the world's own
    key). ``key_id`` is the public key that signed this receipt or, with a ``batch``, the root of
    the tree of which the receipt is a leaf.
    """

    intent: Hash
    effect: str
    attempt: int
    status: str
    payload: bytes
    started_ns: int
    finished_ns: int
    executor: str
    key_id: bytes
    signature: bytes
    cost_cents: int | None = None
    batch: Batch | None = None

    def signed_message(self, world: Hash) -> bytes | None:
        """The bytes that ``signature`` signs; None if the batch's path leads to no root."""
        message = self.message(world)
        if self.batch is None:
            return message
        index, size, path = self.batch.index, self.batch.size, self.batch.path
        # A path has at most as many hashes as a size has bits, or it is none.
        if size > BATCH_MAX or len(path) > BATCH_MAX.bit_length():
            return None
        root = root_from(receipt_leaf(message), index, size, path)
        if root is None:
            return None
        return batch_message(
            world=world, executor=self.executor, key_id=self.key_id, root=root, size=size
        )

    def message(self, world: Hash) -> bytes:
        """The bytes that the executor signs when it signs this receipt alone."""
        return receipt_message(
            world=world,
            intent=self.intent,
            effect=self.effect,
            executor=self.executor,
            key_id=self.key_id,
            attempt=self.attempt,
            status=self.status,
            payload=content_hash(self.payload),
            started_ns=self.started_ns,
            finished_ns=self.finished_ns,
            cost_cents=self.cost_cents,
        )


def receipt_message(
    *,
    world: Hash,
    intent: Hash,
    effect: str,
    executor: str,
    key_id: bytes,
    attempt: int,
    status: str,
    payload: Hash,
    started_ns: int,
    finished_ns: int,
    cost_cents: int | None,
) -> bytes:
    """The bytes under a receipt's signature; ``payload`` is the content hash of the payload."""
    body: dict[str | int, Value] = {
        "world": world,
        "intent": intent,
        "effect": effect,
        "executor": executor,
        "key_id": key_id,
        "attempt": attempt,
        "status": status,
        "payload": payload,
        "started_ns": started_ns,
        "finished_ns": finished_ns,
    }
    if cost_cents is not None:
        body["cost_cents"] = cost_cents
    return encode(["aos/receipt/1", body])


BATCH_MAX: Final = 65_536
"""Receipts under one signature."""


def receipt_leaf(message: bytes) -> Hash:
    """The leaf of a receipt in the tree of its batch (J-40)."""
    return digest("aos/receipt-leaf/1", message)


def batch_message(*, world: Hash, executor: str, key_id: bytes, root: Hash, size: int) -> bytes:
    """The bytes under the one signature of a batch of ``size`` receipts."""
    body: dict[str | int, Value] = {
        "world": world,
        "executor": executor,
        "key_id": key_id,
        "root": root,
        "size": size,
    }
    return encode(["aos/receipts/1", body])


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInput:
    """An executor's signed stream frame: the progress of an open intent.

    ``frame_seq`` ascends within the intent. The executor chooses ``frame_kind`` and ``payload``;
    ``payload_ref`` is a blob that the frame names.
    """

    intent: Hash
    effect: str
    attempt: int
    frame_seq: int
    frame_kind: str
    payload: bytes
    executor: str
    key_id: bytes
    signature: bytes
    payload_ref: Hash | None = None

    def signed_message(self, world: Hash) -> bytes:
        """The bytes that ``signature`` signs."""
        return stream_message(
            world=world,
            intent=self.intent,
            effect=self.effect,
            executor=self.executor,
            key_id=self.key_id,
            attempt=self.attempt,
            frame_seq=self.frame_seq,
            frame_kind=self.frame_kind,
            payload=content_hash(self.payload),
            payload_ref=self.payload_ref,
        )


def stream_message(
    *,
    world: Hash,
    intent: Hash,
    effect: str,
    executor: str,
    key_id: bytes,
    attempt: int,
    frame_seq: int,
    frame_kind: str,
    payload: Hash,
    payload_ref: Hash | None,
) -> bytes:
    """The bytes under a stream frame's signature; ``payload`` is the payload's content hash."""
    body: dict[str | int, Value] = {
        "world": world,
        "intent": intent,
        "effect": effect,
        "executor": executor,
        "key_id": key_id,
        "attempt": attempt,
        "frame_seq": frame_seq,
        "frame_kind": frame_kind,
        "payload": payload,
    }
    if payload_ref is not None:
        body["payload_ref"] = payload_ref
    return encode(["aos/stream/1", body])


BEGUN: Final = "begun"
LOST: Final = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInput:
    """The host is about to run an intent again, or cannot know how a run ended (K-95).

    ``phase`` is ``begun`` or ``lost``; ``problem`` is the reason for another attempt, or for the
    loss.
    """

    intent: Hash
    attempt: int
    phase: str = BEGUN
    problem: str | None = None


RETRY: Final = "retry"
SKIP: Final = "skip"
CANCEL: Final = "cancel"
ERASE: Final = "erase"
UNPIN: Final = "unpin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInput:
    """The host has stored a snapshot: the document with this hash and size, and all blobs that it
    names. It is the world after record ``at``, the last record of the frame ``frame``."""

    at: int
    frame: Hash
    document: Hash
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlInput:
    """An operator's signed command: ``action`` and its target (K-100).

    ``serial`` is the number of control records before this one, so that a command is valid once.
    """

    action: str
    principal: str
    serial: int
    signature: bytes
    cell: CellId | None = None
    intent: Hash | None = None
    value: Hash | None = None

    def message(self, world: Hash) -> bytes:
        """The bytes that the operator signs."""
        return control_message(
            world=world,
            serial=self.serial,
            action=self.action,
            cell=self.cell,
            intent=self.intent,
            value=self.value,
        )


def control_message(
    *,
    world: Hash,
    serial: int,
    action: str,
    cell: CellId | None = None,
    intent: Hash | None = None,
    value: Hash | None = None,
) -> bytes:
    """The bytes that an operator signs for a command. The other kinds of target are null."""
    named: Value = None if cell is None else [cell[0], cell[1]]
    return encode(["aos/control/1", world, serial, action, named, intent, value])


Input: TypeAlias = (
    GenesisInput
    | StartInput
    | ManifestInput
    | EventInput
    | ReceiptInput
    | StreamInput
    | AttemptInput
    | SnapshotInput
    | ControlInput
)
