"""The results of a decision of the core: a record that follows the state, or an answer to the
sender: admitted, duplicate, or refused by a rule.

The core decides an input (``admit``, ``settle``, ``control``), a step (``step``) or a receipt of
its own (``owed``). Deciding changes nothing; ``Kernel.enter`` applies the decision.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aos.core.journal.faults import clipped
from aos.core.journal.records import CellId, Control, Event, Receipt, Record
from aos.core.journal.vocabulary import ReceiptOutcome
from aos.values.digests import Hash


class Rule(enum.Enum):
    """The rules that refuse an input. The spelling is part of the public contract."""

    WORLD_HAS_NO_MANIFEST = "world_has_no_manifest"
    EVENT_SCHEMA_IS_UNKNOWN = "event_schema_is_unknown"
    EVENT_IS_INTERNAL = "event_is_internal"
    EVENT_IS_INVALID = "event_is_invalid"
    EVENT_KEY_IS_INVALID = "event_key_is_invalid"
    KEY_OF_ANOTHER_SHARD = "key_of_another_shard"
    EVENT_REACHES_TOO_MANY = "event_reaches_too_many"
    EVENT_DOES_NOT_FIT_INSTANCE = "event_does_not_fit_instance"
    INSTANCE_IS_UNKNOWN = "instance_is_unknown"
    SUBMISSION_ID_IS_TAKEN = "submission_id_is_taken"
    SUBMISSION_ID_IS_INVALID = "submission_id_is_invalid"
    DELIVERY_IS_TOO_OLD = "delivery_is_too_old"
    WORLD_IS_BUSY = "world_is_busy"

    RECEIPT_INTENT_IS_UNKNOWN = "receipt_intent_is_unknown"
    RECEIPT_INTENT_IS_SETTLED = "receipt_intent_is_settled"
    RECEIPT_EFFECT_DIFFERS = "receipt_effect_differs"
    RECEIPT_ATTEMPT_IS_OLD = "receipt_attempt_is_old"
    RECEIPT_STATUS_IS_UNKNOWN = "receipt_status_is_unknown"
    RECEIPT_IS_TOO_LARGE = "receipt_is_too_large"
    RECEIPT_TIMES_ARE_INVALID = "receipt_times_are_invalid"
    RECEIPT_EXECUTOR_MAY_NOT_SIGN = "receipt_executor_may_not_sign"
    RECEIPT_SIGNATURE_IS_WRONG = "receipt_signature_is_wrong"
    TIMER_IS_NOT_DUE = "timer_is_not_due"

    STREAM_FRAME_IS_OLD = "stream_frame_is_old"
    STREAM_FRAME_IS_INVALID = "stream_frame_is_invalid"
    STREAM_FRAME_IS_TOO_LARGE = "stream_frame_is_too_large"
    STREAM_IS_TOO_FAST = "stream_is_too_fast"
    STREAM_IS_TOO_LONG = "stream_is_too_long"
    STREAM_HAS_NO_TAKER = "stream_has_no_taker"

    ATTEMPT_IS_OLD = "attempt_is_old"
    ATTEMPT_IS_INVALID = "attempt_is_invalid"

    SNAPSHOT_IS_OLD = "snapshot_is_old"

    CONTROL_PRINCIPAL_IS_UNKNOWN = "control_principal_is_unknown"
    CONTROL_SERIAL_IS_WRONG = "control_serial_is_wrong"
    CONTROL_SIGNATURE_IS_WRONG = "control_signature_is_wrong"
    CONTROL_IS_INVALID = "control_is_invalid"
    CELL_HAS_NOT_FAILED = "cell_has_not_failed"
    CELL_HAS_NOTHING_TO_SKIP = "cell_has_nothing_to_skip"
    CELL_DOES_NOT_FIT = "cell_does_not_fit"
    CELL_IS_NOT_PINNED = "cell_is_not_pinned"
    CELL_IS_UNKNOWN = "cell_is_unknown"
    CELL_HAS_ENDED = "cell_has_ended"
    CELL_HAS_OWN_COMMAND = "cell_has_own_command"
    CLOCK_IS_NOT_AHEAD = "clock_is_not_ahead"
    INTENT_IS_NOT_OPEN = "intent_is_not_open"
    SETTLEMENT_DOES_NOT_FIT = "settlement_does_not_fit"
    VALUE_IS_IN_USE = "value_is_in_use"
    VALUE_IS_UNKNOWN = "value_is_unknown"

    MANIFEST_PRINCIPAL_IS_UNKNOWN = "manifest_principal_is_unknown"
    MANIFEST_SIGNATURE_IS_WRONG = "manifest_signature_is_wrong"
    MANIFEST_SERIAL_IS_WRONG = "manifest_serial_is_wrong"
    MANIFEST_IS_INVALID = "manifest_is_invalid"
    MANIFEST_IS_IN_FORCE = "manifest_is_in_force"
    MANIFEST_MODE_IS_UNKNOWN = "manifest_mode_is_unknown"
    MANIFEST_DOES_NOT_FIT = "manifest_does_not_fit"
    MANIFEST_CHECK_IS_OLD = "manifest_check_is_old"
    MANIFEST_NEEDS_PROPOSAL = "manifest_needs_proposal"
    WORLD_IS_NOT_QUIESCENT = "world_is_not_quiescent"

    WORLD_IS_NOT_GOVERNED = "world_is_not_governed"
    GOVERNANCE_PRINCIPAL_IS_UNKNOWN = "governance_principal_is_unknown"
    GOVERNANCE_SERIAL_IS_WRONG = "governance_serial_is_wrong"
    GOVERNANCE_SIGNATURE_IS_WRONG = "governance_signature_is_wrong"
    PROPOSAL_IS_UNKNOWN = "proposal_is_unknown"
    PROPOSAL_IS_CLOSED = "proposal_is_closed"
    PROPOSAL_IS_STALE = "proposal_is_stale"
    PROPOSAL_IS_INVALID = "proposal_is_invalid"
    PROPOSAL_LACKS_QUORUM = "proposal_lacks_quorum"
    PROPOSAL_DIFFERS = "proposal_differs"
    TOO_MANY_PROPOSALS = "too_many_proposals"
    REPORT_IS_INVALID = "report_is_invalid"
    TOO_MANY_REPORTS = "too_many_reports"
    VOTE_IS_TAKEN = "vote_is_taken"
    REPORT_IS_NEEDED = "report_is_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """Why a manifest cannot be applied now: one of the kinds of K-70 and K-71. ``cell`` has no key
    if a whole workflow is the blocker."""

    kind: str
    cell: CellId
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The input is record ``seq``. It counts once its frame is durable.

    ``to`` are the cells that an event reached; ``ended`` are those of them that are flows that had
    ended, which ignore it (FL-83). ``outcome`` is the result of a receipt. ``dropped`` and
    ``abandoned`` count the mail and the open intents of an instance that a command ended.
    """

    seq: int
    to: tuple[CellId, ...] = ()
    ended: tuple[CellId, ...] = ()
    outcome: ReceiptOutcome | None = None
    dropped: int = 0
    abandoned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """The same input is record ``seq`` already. Nothing has changed."""

    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The input breaks ``rule``. Nothing has changed. ``message`` is one sentence for people."""

    rule: Rule
    message: str
    blockers: tuple[Blocker, ...] = ()

    @property
    def text(self) -> str:
        """The rule and the message on one line, for people. Code decides by ``rule``."""
        return f"{self.rule.value}: {self.message}"


Answer: TypeAlias = Admitted | Duplicate | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A record that follows the state, and the blobs to store with it."""

    record: Record
    """The next record of the journal. Nothing has been folded yet."""

    blobs: Mapping[Hash, bytes]
    """The values that the record names by hash. They become durable with the record's frame."""

    engine_text: str | None = None
    """The engine's own words for a fault, for people. They are in no record, because another
    version of the engine uses other words."""


Decision: TypeAlias = Decided | Duplicate | Refusal
"""How a decision ends; only ``Decided`` can be entered."""


def admission(record: Record) -> Admitted:
    """The answer to the sender of an input that ``record`` admits."""
    match record:
        case Event(to=to):
            return Admitted(seq=record.seq, to=to)
        case Receipt(outcome=came):
            return Admitted(seq=record.seq, outcome=came)
        case Control():
            return Admitted(
                seq=record.seq, dropped=record.dropped or 0, abandoned=len(record.abandoned)
            )
        case _:
            return Admitted(seq=record.seq)


def refusal(rule: Rule, message: str) -> Refusal:
    """A refusal whose message fits an answer."""
    return Refusal(rule=rule, message=clipped(message))
