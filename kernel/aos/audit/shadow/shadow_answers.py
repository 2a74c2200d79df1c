"""Answer the intents of a shadow: as the journal answers its own, or alone (spec/shadow.md, SH-21
to SH-25)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from aos.audit.shadow.course import Course
from aos.audit.shadow.script_answers import ScriptAnswers
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Receipt, Stamp, slot_bytes
from aos.core.journal.vocabulary import ReceiptStatus
from aos.core.state.cell import OpenIntent
from aos.errors import Erased
from aos.manifest.builtins import KERNEL_EFFECTS, TIMER
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, derive

_CHANCE: Final = "aos shadow chance"

CarriedOut: TypeAlias = tuple[ReceiptStatus, bytes, Mapping[Hash, bytes]]
CarryOut: TypeAlias = Callable[[str, bytes, BlobReader, int], CarriedOut | None]
"""(effect, params, reader of blobs, most bytes of a payload) -> (status, payload, blobs) of a
built-in effect that needs nothing but blobs; None for any other effect."""


def carries_nothing_out(_effect: str, _params: bytes, _read: BlobReader, _bytes_max: int) -> None:
    """A ``CarryOut`` without built-in effects."""


class ShadowAnswers:
    """Settles intents of the shadow. ``script`` are the answers of a user."""

    def __init__(self, course: Course, script: ScriptAnswers | None, carry_out: CarryOut) -> None:
        self._course = course
        self._script = script
        self._carry_out = carry_out
        self._timers: list[tuple[int, int, Hash]] = []
        self._timers_set = 0

    def take(self, record: Receipt) -> None:
        """Give a recorded receipt to the intent that is paired with its own."""
        self._course.writing.pass_by(record.stamp)
        shadow = self._course.intents.shadow.get(record.intent)
        intent = None if shadow is None else self._open(shadow)
        if intent is None:
            if shadow is None:
                self._course.early_receipts[record.intent] = record
            return
        self._answer_as_recorded(intent, record, record.stamp, record.seq)

    def _open(self, shadow: Hash) -> OpenIntent | None:
        return self._course.state.intents.get(shadow) or self._course.state.abandoned.get(shadow)

    def _answer_as_recorded(
        self, intent: OpenIntent, record: Receipt, stamp: Stamp, seq: int | None
    ) -> None:
        try:
            payload = slot_bytes(record.payload, self._course.read)
            receipt = self._course.writing.settle(
                intent, record.status, payload, stamp, seq=seq, recorded=record
            )
        except Erased:
            self._course.tally.erased += 1
            state = self._course.state
            is_open = intent.intent in state.intents
            is_faulted = is_open and record.outcome == "faulted"
            inflight = tuple(state.cells[intent.cell].inflight) if is_faulted else ()
            receipt = replace(
                record,
                seq=self._course.writing.begin_record(seq),
                stamp=stamp,
                intent=intent.intent,
                outcome=record.outcome if is_open else "abandoned",
                abandoned=tuple(
                    inflight_intent
                    for inflight_intent in inflight
                    if inflight_intent != intent.intent
                ),
            )
            self._course.writing.append(receipt, {})
        self._course.note_record(receipt)
        self._course.mail.pair(intent.cell, (receipt.seq, 0), (record.seq, 0))
        if record.intent not in self._course.recorded.abandoned:
            self._course.intents.forget(intent.intent)

    def answer_open(self) -> bool:
        """Answer an intent to which no recorded receipt comes."""
        while self._course.unanswered:
            shadow = self._course.unanswered.popleft()
            intent = self._course.state.intents.get(shadow)
            if intent is None or intent.effect.name in KERNEL_EFFECTS:
                continue
            recorded = self._course.intents.recorded.get(shadow)
            early_receipt = (
                None if recorded is None else self._course.early_receipts.pop(recorded, None)
            )
            if early_receipt is not None:
                stamp = Stamp(self._course.state.clock_ns, early_receipt.stamp.entropy)
                self._answer_as_recorded(intent, early_receipt, stamp, None)
                return True
            if self._course.is_alone(shadow) and self._answer_alone(intent):
                return True
        return False

    def _answer_alone(self, intent: OpenIntent) -> bool:
        """Answer it now, or set its timer; False if no one answers it."""
        try:
            params = slot_bytes(intent.params, self._course.read)
        except Erased:
            self._course.tally.erased += 1
            return False
        if intent.effect.name == TIMER:
            timer_params: Any = decode_record(params)
            self._timers_set += 1
            timer = (timer_params["deliver_at_ns"], self._timers_set, intent.intent)
            heapq.heappush(self._timers, timer)
            return False
        payload_bytes_max = self._course.state.effective.limits.event_bytes
        carried = self._carry_out(intent.effect.name, params, self._course.read, payload_bytes_max)
        who = "blobs"
        if (
            carried is None
            and self._script is not None
            and not self._course.intents.is_to_come(intent)
        ):
            scripted = self._script.find(intent.effect, params)
            if scripted is not None:
                carried, who = (scripted.status, scripted.payload, {}), "file"
        if carried is None:
            return False
        self._answer(intent, carried, at_ns=self._course.state.clock_ns, who=who)
        return True

    def _answer(
        self,
        intent: OpenIntent,
        carried: CarriedOut,
        *,
        at_ns: int,
        who: str,
    ) -> None:
        status, payload, blobs = carried
        position = encode(
            [self._course.recorded.manifest_seq, self._course.at, self._course.writing.extra]
        )
        stamp = Stamp(at_ns, derive(_CHANCE, position, 64))
        receipt = self._course.writing.settle(intent, status, payload, stamp, blobs=blobs)
        self._course.note_record(receipt)
        self._course.intents.settled_alone(intent)
        self._course.tally.answered[who] += 1

    def fire(self, now_ns: int | None = None) -> bool:
        """Fire the first timer that is due at a time, or by the journal's clock."""
        now = self._course.state.clock_ns if now_ns is None else now_ns
        while self._timers and self._timers[0][0] <= now:
            due, _, shadow = heapq.heappop(self._timers)
            intent = self._course.state.intents.get(shadow)
            if intent is None or not self._course.is_alone(shadow):
                continue
            timer_params: Any = decode_record(slot_bytes(intent.params, self._course.read))
            at_ns = max(due, self._course.state.clock_ns)
            payload = encode({"delivered_at_ns": at_ns, "key": timer_params["key"]})
            self._answer(intent, ("ok", payload, {}), at_ns=at_ns, who="timers")
            return True
        return False

    def first_due(self) -> int | None:
        """When the first timer that was set alone is due; None without one."""
        return self._timers[0][0] if self._timers else None
