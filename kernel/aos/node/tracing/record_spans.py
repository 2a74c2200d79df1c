"""Records of a journal -> spans (spec/node-tracing.md, N-81 to N-85).

    event ─▶ step ─▶ effect (from its step to its receipt) ─▶ step …
                 └─▶ step of a cell that an emitted event reached

The same journal gives the same spans. A span needs nothing but its record and the records that
caused it, which are looked up; only the attempts of an effect are kept until its receipt. The trace
contexts in which clients send events (W3C Trace Context, ``traceparent``) are not in the journal
(N-84).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

from aos.core.journal.records import (
    Attempt,
    Event,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
)
from aos.errors import BadUsage, Pruned
from aos.read.views.receipts import Settling, code_of
from aos.read.views.view import View
from aos.values.digests import Hash, content_hash, hash_text

V = TypeVar("V")

SpanKind: TypeAlias = Literal["consumer", "internal", "client"]

ATTEMPTS_MAX: Final = 32
"""Attempts of one effect that its span shows, from the first."""

OPEN_MAX: Final = 10_000
"""Open effects whose attempts are kept."""

KNOWN_MAX: Final = 65_536
"""Records whose cause, time and trace are kept in memory."""

Caller: TypeAlias = tuple[bytes, bytes]
"""A trace and a span in it."""

CALLERS_MAX: Final = 10_000
"""Events whose callers are kept until their spans are exported."""

_VERSION_00: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span, at a wall clock in ns."""

    name: str
    at_ns: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpan:
    """A span; ``parent`` is another's ``id`` in the same ``trace``.

    ``seq`` is the record that completes it. ``error`` is the reason of a fault, or the code or
    status of an effect that was not ok.
    """

    seq: int
    trace: bytes
    id: bytes
    parent: bytes | None
    name: str
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int]
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _RecordFacts:
    """Of a record: the record that caused it, its time, and the span that its effects are under."""

    cause: int | None
    at_ns: int
    span: bytes


class RecordSpans:
    """Makes spans of the records of one world, which are given in their order."""

    def __init__(self, view: View) -> None:
        self.attempts: OrderedDict[Hash, list[SpanEvent]] = OrderedDict()
        self._facts: OrderedDict[int, _RecordFacts] = OrderedDict()
        self._origins: OrderedDict[int, int] = OrderedDict()
        self.seen_by(view)

    def seen_by(self, view: View) -> None:
        """Read records through this view from now on."""
        self._view = view
        self._world = view.state.world

    def of(self, record: Record) -> Iterator[RecordSpan]:
        """Yield the span that a record completes, if it completes one.

        Raises:
            Damage: A record cannot be read.
        """
        match record:
            case Event():
                yield self._of_event(record)
            case Step() | Faulted():
                yield self._of_step(record)
            case Receipt() | KernelReceipt():
                yield self._of_effect(record)
            case Attempt():
                self._keep(record)
            case _:
                pass

    def traceparent(self, intent: Hash) -> str:
        """The W3C trace context of an effect. Raises Damage as ``of``."""
        trace, span = self._trace(self._opening_seq(intent)), self._effect_span(intent)
        return f"00-{trace.hex()}-{span.hex()}-01"

    # Spans

    def _of_event(self, record: Event) -> RecordSpan:
        attributes: dict[str, str | int] = {
            "aos.world": hash_text(self._world),
            "aos.seq": record.seq,
            "aos.schema": record.schema,
            "aos.receivers": len(record.to),
        }
        if record.submission_id is not None:
            attributes["aos.submission_id"] = record.submission_id
        return RecordSpan(
            seq=record.seq,
            trace=self._trace(record.seq),
            id=self._span(record.seq),
            parent=None,
            name=f"event {record.schema}",
            kind="consumer",
            start_ns=record.stamp.ns,
            end_ns=record.stamp.ns,
            attributes=attributes,
            error="overloaded" if record.overloaded else None,
        )

    def _of_step(self, record: Step | Faulted) -> RecordSpan:
        at_ns = self._look(record.seq, record).at_ns
        attributes = self._of_cell(record.seq, record.cell) | {"aos.fuel": record.fuel}
        events: tuple[SpanEvent, ...] = ()
        error: str | None = None
        if isinstance(record, Step):
            attributes["aos.status"] = record.status
            events = tuple(
                SpanEvent(
                    f"emit {event.schema}",
                    at_ns,
                    {"aos.schema": event.schema, "aos.receivers": len(event.to)},
                )
                for event in record.events
            )
        else:
            error = str(record.fault.kind)
        return RecordSpan(
            seq=record.seq,
            trace=self._trace(record.seq),
            id=self._span(record.seq),
            parent=self._span_of(record.entry[0]),
            name=f"step {record.cell[0]}",
            kind="internal",
            start_ns=at_ns,
            end_ns=at_ns,
            attributes=attributes,
            events=events,
            error=error,
        )

    def _of_effect(self, record: Settling) -> RecordSpan:
        opening_seq = self._opening_seq(record.intent)
        opening = self._look(opening_seq)
        events = self.attempts.pop(record.intent, [])
        attributes = self._of_cell(record.seq, record.cell)
        attributes |= {"aos.effect": record.effect, "aos.intent": hash_text(record.intent)}
        attributes["aos.receipt.status"] = record.status
        if isinstance(record, Receipt):
            attributes |= {"aos.attempt": record.attempt, "aos.executor": record.executor}
            events = [*events, SpanEvent("started", record.started_ns)]
        error = None
        if record.status != "ok":
            error = code_of(record, self._view.full_lens) or record.status
        return RecordSpan(
            seq=record.seq,
            trace=self._trace(opening_seq),
            id=self._effect_span(record.intent),
            parent=opening.span,
            name=f"effect {record.effect}",
            kind="client",
            start_ns=opening.at_ns,
            end_ns=max(opening.at_ns, self._look(record.seq, record).at_ns),
            attributes=attributes,
            events=tuple(sorted(events, key=lambda event: event.at_ns)),
            error=error,
        )

    def _of_cell(self, seq: int, cell: tuple[str, bytes]) -> dict[str, str | int]:
        return {
            "aos.world": hash_text(self._world),
            "aos.seq": seq,
            "aos.workflow": cell[0],
            "aos.key": self._view.full_lens.key_text(cell, seq=seq) if cell[1] else "",
        }

    def _keep(self, record: Attempt) -> None:
        events = self.attempts.setdefault(record.intent, [])
        if len(events) < ATTEMPTS_MAX:
            attributes: dict[str, str | int] = {
                "aos.seq": record.seq,
                "aos.attempt": record.attempt,
            }
            if record.problem is not None:
                attributes["aos.problem"] = record.problem
            events.append(SpanEvent(f"attempt {record.phase}", record.stamp.ns, attributes))
        if len(self.attempts) > OPEN_MAX:
            self.attempts.popitem(last=False)

    # Causes

    def _opening_seq(self, intent: Hash) -> int:
        row = self._view.journal.intent(intent)
        return 0 if row is None else row.opened_seq

    def _trace(self, seq: int) -> bytes:
        data = b"aos/trace/1" + self._world + self._origin(seq).to_bytes(8, "big")
        return bytes(content_hash(data)[:16])

    def _span(self, seq: int) -> bytes:
        return bytes(content_hash(b"aos/span/1" + self._world + seq.to_bytes(8, "big"))[:8])

    def _effect_span(self, intent: Hash) -> bytes:
        return bytes(content_hash(b"aos/span/1" + self._world + intent)[:8])

    def _span_of(self, seq: int) -> bytes:
        return self._look(seq).span

    def _origin(self, seq: int) -> int:
        """The first cause of a record: mostly an event, or a record that is not kept any more."""
        passed: list[int] = []
        while (origin := self._origins.get(seq)) is None:
            passed.append(seq)
            cause = self._look(seq).cause
            if cause is None:
                origin = seq
                break
            seq = cause
        for passed_seq in passed:
            _remember(self._origins, passed_seq, origin)
        return origin

    def _look(self, seq: int, record: Record | None = None) -> _RecordFacts:
        facts = self._facts.get(seq)
        if facts is None:
            facts = self._read(seq, record)
            _remember(self._facts, seq, facts)
        return facts

    def _read(self, seq: int, record: Record | None) -> _RecordFacts:
        if record is None:
            try:
                record = self._view.records.at(seq)
            except (Pruned, BadUsage):
                # It was moved to an archive, or is no record: a trace of its own begins there.
                return _RecordFacts(None, 0, self._span(seq))
        match record:
            case Step() | Faulted():
                return _RecordFacts(record.entry[0], self._look(record.root).at_ns, self._span(seq))
            case KernelReceipt():
                at_ns = self._look(record.root).at_ns
                return _RecordFacts(
                    self._opening_seq(record.intent), at_ns, self._effect_span(record.intent)
                )
            case Receipt() | Stream():
                return _RecordFacts(
                    self._opening_seq(record.intent),
                    record.stamp.ns,
                    self._effect_span(record.intent),
                )
            case _:
                return _RecordFacts(None, record.stamp.ns, self._span(seq))


def _remember(memory: OrderedDict[int, V], key: int, value: V) -> None:
    memory[key] = value
    if len(memory) > KNOWN_MAX:
        memory.popitem(last=False)


def read_traceparent(header: bytes | None) -> Caller | None:
    """The trace and the span of a header; None without one, or if it is invalid (then the
    specification says to ignore it)."""
    match = None if header is None else _VERSION_00.fullmatch(header)
    if match is None:
        return None
    trace, span = (bytes.fromhex(group.decode()) for group in match.groups())
    return (trace, span) if any(trace) and any(span) else None


class EventCallers:
    """The trace contexts of events, by the events' sequences; the latest ones."""

    def __init__(self) -> None:
        self._callers: OrderedDict[int, Caller] = OrderedDict()

    def add(self, seq: int, context: Caller) -> None:
        """Keep the context of an event. Only the first sender's counts."""
        self._callers.setdefault(seq, context)
        if len(self._callers) > CALLERS_MAX:
            self._callers.popitem(last=False)

    def take(self, seq: int) -> Caller | None:
        """Return and forget the context of an event."""
        return self._callers.pop(seq, None)
