"""The inputs of the core, and the messages that their senders sign.

The host stamps each input once and hands it to ``Kernel.admit``; nothing else enters the core.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from aos.core.journal.governing import GovernanceInput
from aos.core.journal.records import Batch, CellId, Principal
from aos.core.journal.statements import (
    Statement,
    StreamStatement,
    receipt_message,
    signed_receipt_message,
    stream_message,
)
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash

SEMANTICS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GenesisInput:
    """The beginning of a world, signed with the world's key."""

    nonce: bytes
    world_key: bytes
    operators: tuple[Principal, ...]
    signature: bytes

    @staticmethod
    def message(nonce: bytes, world_key: bytes, operators: tuple[Principal, ...]) -> bytes:
        """The bytes that the world key signs."""
        operator_rows: list[Value] = [[operator.name, operator.key] for operator in operators]
        return encode(["aos/genesis/1", nonce, world_key, operator_rows, SEMANTICS])


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
    operator_rows: list[Value] = [[operator.name, operator.key] for operator in operators]
    erased_hashes: list[Value] = list(erased)
    return encode(
        [
            "aos/fork/1", parent, at, frame, nonce, world_key, operator_rows, open_work,
            erased_hashes, cut,
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
    cells are kept. ``proposal`` is the record of the approved proposal, in a governed world.

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
    proposal: int | None = None
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
        proposal: int | None = None,
    ) -> bytes:
        """The bytes that the operator signs (J-36, J-36a, J-36b)."""
        if proposal is not None:
            return encode(["aos/apply/3", world, serial, document, mode, list(leaves), proposal])
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

    @classmethod
    def of(
        cls,
        statement: Statement,
        *,
        payload: bytes,
        executor: str,
        key_id: bytes,
        signature: bytes,
        batch: Batch | None = None,
    ) -> ReceiptInput:
        """The receipt that signs ``statement``."""
        return cls(
            intent=statement.intent,
            effect=statement.effect,
            attempt=statement.attempt,
            status=statement.status,
            payload=payload,
            started_ns=statement.started_ns,
            finished_ns=statement.finished_ns,
            executor=executor,
            key_id=key_id,
            signature=signature,
            cost_cents=statement.cost_cents,
            batch=batch,
        )

    def signed_message(self, world: Hash) -> bytes | None:
        """The bytes that ``signature`` signs; None if the batch's path leads to no root."""
        return signed_receipt_message(
            world,
            self,
            payload=content_hash(self.payload),
            executor=self.executor,
            key_id=self.key_id,
            batch=self.batch,
        )

    def message(self, world: Hash) -> bytes:
        """The bytes that the executor signs when it signs this receipt alone."""
        return receipt_message(
            world,
            self,
            payload=content_hash(self.payload),
            executor=self.executor,
            key_id=self.key_id,
        )


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

    @classmethod
    def of(
        cls,
        statement: StreamStatement,
        *,
        payload: bytes,
        payload_ref: Hash | None,
        executor: str,
        key_id: bytes,
        signature: bytes,
    ) -> StreamInput:
        """The stream frame that signs ``statement``."""
        return cls(
            intent=statement.intent,
            effect=statement.effect,
            attempt=statement.attempt,
            frame_seq=statement.frame_seq,
            frame_kind=statement.frame_kind,
            payload=payload,
            executor=executor,
            key_id=key_id,
            signature=signature,
            payload_ref=payload_ref,
        )

    def signed_message(self, world: Hash) -> bytes:
        """The bytes that ``signature`` signs."""
        return stream_message(
            world,
            self,
            payload=content_hash(self.payload),
            payload_ref=self.payload_ref,
            executor=self.executor,
            key_id=self.key_id,
        )


BEGUN: Final = "begun"
LOST: Final = "lost"
HELD: Final = "held"
PARKED: Final = "parked"

CODE_BYTES_MAX: Final = 128
"""Longest code of a held or parked attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInput:
    """The host is about to run an intent again, cannot know how a run ended (K-95), or does not run
    the intent now (K-99).

    ``phase`` is ``begun``, ``lost``, ``held`` or ``parked``; ``problem`` is the reason, ``code``
    the cause of the last two in one word.
    """

    intent: Hash
    attempt: int
    phase: str = BEGUN
    problem: str | None = None
    code: str | None = None


RETRY: Final = "retry"
SKIP: Final = "skip"
CANCEL: Final = "cancel"
ERASE: Final = "erase"
UNPIN: Final = "unpin"
SETTLE: Final = "settle"
END: Final = "end"
REMOVE: Final = "remove"
CLOCK: Final = "clock"

COMMAND_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    RETRY: ("cell", "restamp"),
    SKIP: ("cell", "restamp"),
    UNPIN: ("cell",),
    CANCEL: ("intent",),
    ERASE: ("value",),
    SETTLE: ("intent", "status", "payload"),
    END: ("cell", "status", "why"),
    REMOVE: ("cell", "why"),
    CLOCK: (),
}
"""The fields of each command, in its input and in its record. See ``needed_fields``."""

RESUMING: Final = (RETRY, SKIP)
"""The commands that let a failed instance go on."""

_SIGNED_WITH_NAMES: Final = (SETTLE, END, REMOVE)


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
    """An operator's signed command: ``action`` and the fields of ``COMMAND_FIELDS`` (K-100).

    ``serial`` is the number of control records before this one, so that a command is valid once.
    ``status`` and ``payload``, canonical CBOR, are those of a settled intent (K-108); ``status`` is
    also that of an ended instance, and ``why`` the operator's reason to end it (K-109). With
    ``restamp``, a retry or skip gives its own stamp to the mail of the instance (K-101b).
    """

    action: str
    principal: str
    serial: int
    signature: bytes
    cell: CellId | None = None
    intent: Hash | None = None
    value: Hash | None = None
    status: str | None = None
    payload: bytes | None = None
    why: str | None = None
    restamp: Literal[True] | None = None

    def message(self, world: Hash) -> bytes:
        """The bytes that the operator signs."""
        return control_message(
            world=world,
            serial=self.serial,
            action=self.action,
            cell=self.cell,
            intent=self.intent,
            value=self.value,
            status=self.status,
            payload=None if self.payload is None else content_hash(self.payload),
            why=self.why,
            restamp=self.restamp,
        )


def control_message(
    *,
    world: Hash,
    serial: int,
    action: str,
    cell: CellId | None = None,
    intent: Hash | None = None,
    value: Hash | None = None,
    status: str | None = None,
    payload: Hash | None = None,
    why: str | None = None,
    restamp: Literal[True] | None = None,
) -> bytes:
    """The bytes that an operator signs for a command (J-42); ``payload`` is the payload's content
    hash. A field that the command has and that is absent is null."""
    cell_row: Value = None if cell is None else [cell[0], cell[1]]
    is_restamped = action in RESUMING and restamp is not None
    if action not in _SIGNED_WITH_NAMES and not is_restamped:
        return encode(["aos/control/1", world, serial, action, cell_row, intent, value])
    value_by_field: dict[str, Value] = {
        "cell": cell_row, "intent": intent, "status": status, "payload": payload, "why": why,
        "restamp": restamp,
    }  # fmt: skip
    fields: dict[str | int, Value] = {name: value_by_field[name] for name in COMMAND_FIELDS[action]}
    return encode(["aos/control/2", world, serial, action, fields])


def needed_fields(action: str) -> tuple[str, ...]:
    """The fields that ``action``, one of ``COMMAND_FIELDS``, cannot lack."""
    return tuple(name for name in COMMAND_FIELDS[action] if name not in ("why", "restamp"))


def has_fields_of(action: str, field_names: Collection[str]) -> bool:
    """Whether ``field_names``, the fields that a command has, are those of ``action``."""
    fields = COMMAND_FIELDS.get(action)
    if fields is None:
        return False
    return set(needed_fields(action)) <= set(field_names) <= set(fields)


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
    | GovernanceInput
)
