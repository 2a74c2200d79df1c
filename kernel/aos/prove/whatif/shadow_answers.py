"""Answer the intents of a shadow: as the journal answers its own, as a file of the user does, or
alone (spec/shadow.md, SH-21 to SH-25).

Each line of a user's file is a JSON object:

    {"effect": "shop/card.charge@1", "params": {"order_id": "o-1"}, "status": "ok", "payload": {…}}

``params`` is a pattern: only the fields that it names must be the same. The first line that matches
answers, as often as it matches.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, get_args

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Receipt, Stamp, slot_bytes
from aos.core.journal.vocabulary import ReceiptStatus, word_of
from aos.core.state.cell import OpenIntent
from aos.core.state.continuation import payload_schemas
from aos.errors import BadUsage, Erased
from aos.manifest.effective import Effect, Effective
from aos.manifest.names import KERNEL_EFFECTS, TIMER
from aos.prove.whatif.shadow_course import Course
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash, derive
from aos.values.errors import ValueProblem, quoted
from aos.values.json_text import parse_json

ANSWERS_BYTES_MAX: Final = 16 << 20
"""Largest file of answers, in bytes."""

_STATUSES: Final[tuple[ReceiptStatus, ...]] = get_args(ReceiptStatus)

_CHANCE: Final = "aos shadow chance"

CarriedOut: TypeAlias = tuple[ReceiptStatus, bytes, Mapping[Hash, bytes]]
CarryOut: TypeAlias = Callable[[str, bytes, BlobReader, int], CarriedOut | None]
"""(effect, params, reader of blobs, most bytes of a payload) -> (status, payload, blobs) of a
built-in effect that needs nothing but blobs; None for any other effect."""


def carries_nothing_out(_effect: str, _params: bytes, _read: BlobReader, _bytes_max: int) -> None:
    """A ``CarryOut`` without built-in effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """An answer to the intents of ``effect`` whose params match ``params`` (None: all).
    ``payload`` is its canonical CBOR."""

    effect: str
    params: object
    status: ReceiptStatus
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswers:
    """Answers that a user gives to effects that the journal does not answer (SH-25): all answers of
    a file, and the content hash of its bytes."""

    answers: tuple[ScriptAnswer, ...]
    hash: Hash

    def find(self, effect: Effect, params: bytes) -> ScriptAnswer | None:
        """Return the first answer to an intent with these params, in canonical CBOR."""
        answers = [answer for answer in self.answers if answer.effect == effect.name]
        if not answers:
            return None
        params_json = effect.params.to_json(effect.params.from_record(params))
        return next(
            (
                answer
                for answer in answers
                if answer.params is None or _matches_pattern(answer.params, params_json)
            ),
            None,
        )


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


def read_script_answers(data: bytes, manifest: Effective) -> ScriptAnswers:
    """Read a file of answers to effects of ``manifest``.

    Raises:
        BadUsage: It is too large, or a line is no answer; the message names the line.
    """
    if len(data) > ANSWERS_BYTES_MAX:
        raise BadUsage(
            "--answers: the file is too large",
            expected=f"{ANSWERS_BYTES_MAX} bytes",
            actual=str(len(data)),
        )
    answers = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            answers.append(_script_answer(parse_json(line.decode(), max_bytes=len(line)), manifest))
        except (ValueProblem, UnicodeDecodeError) as problem:
            raise BadUsage(f"--answers: line {number}: {problem}") from problem
    return ScriptAnswers(answers=tuple(answers), hash=content_hash(data))


def _script_answer(value: object, manifest: Effective) -> ScriptAnswer:
    match value:
        case {"effect": str(name), "status": str(word), "payload": payload, **rest} if (
            rest.keys() <= {"params"}
        ):
            effect = manifest.effects.get(name)
            if effect is None or name in KERNEL_EFFECTS or name == TIMER:
                raise ValueProblem(
                    f"{quoted(name)} is no effect of this manifest that executors answer",
                    path="$.effect",
                )
            status = word_of(_STATUSES, word)
            if status is None:
                raise ValueProblem(
                    f"expected {' or '.join(_STATUSES)}, found {quoted(word)}", path="$.status"
                )
            return ScriptAnswer(
                effect=name,
                params=rest.get("params"),
                status=status,
                payload=_payload_bytes(effect, status, payload),
            )
    raise ValueProblem(
        'expected {"effect": NAME, "params": PATTERN, "status": STATUS, "payload": VALUE}; params '
        "may be left out"
    )


def _payload_bytes(effect: Effect, status: ReceiptStatus, value: object) -> bytes:
    problems = []
    for schema in payload_schemas(effect, status):
        try:
            return schema.encode(schema.from_json_object(value))
        except ValueProblem as problem:
            problems.append(f"{schema.name}: {problem}")
    raise ValueProblem("; ".join(problems), path="$.payload")


def _matches_pattern(pattern: object, value: object) -> bool:
    """Whether ``value`` has everything that ``pattern`` has; objects may have more fields."""
    if isinstance(pattern, dict) and isinstance(value, dict):
        return all(
            name in value and _matches_pattern(subpattern, value[name])
            for name, subpattern in pattern.items()
        )
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(map(_matches_pattern, pattern, value))
    return type(pattern) is type(value) and pattern == value
