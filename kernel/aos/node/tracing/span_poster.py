"""Export the spans of a world, each at least once and in the order of the journal (N-86 to N-89).

    DIR/node/tracing/otlp.json     0600: the record that comes next; attempts of open effects

Spans leave about a second after their records, so that the sender's context of an event is known by
then. After a crash the last batch may be exported again: its spans have the same ids. Of a
replicated world, the position is in its bucket, too, so that the next owner's node continues there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import unquote

from aos.core.journal.record_codec import from_bytes
from aos.errors import EXCERPT_CHARACTERS_MAX, AosError, BadUsage
from aos.host.folder.folder import WorldFolder
from aos.host.follower import Follower
from aos.node.position_file import PositionFile, PositionMovedError, SharedPosition
from aos.node.tracing.record_spans import Caller, EventCallers, RecordSpan, RecordSpans, SpanEvent
from aos.read.lens.ports import first_kept
from aos.read.views.view import View
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets
from aos.worker.worker_secrets import SecretValue

FOLDER: Final = "tracing"
NAME: Final = "otlp"
READER: Final = f"{FOLDER}/{NAME}"
"""Its name among the readers of a world (CL-330)."""

SHARED_BYTES_MAX: Final = 48 * 1024
"""Bytes of attempts that are kept in the bucket: the newest. Spans of effects that had others lack
them after a takeover."""

WINDOW: Final = 128
"""Records that are read without a pause for other requests."""

BATCH: Final = 512
"""Spans of one request, about."""

DELAY_S: Final = 1.0
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 60.0
WAIT_S: Final = 15.0

_BYTES_MAX: Final = 128 * 1024 * 1024

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_HEADERS: Final = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """The fate of a batch: ``problem`` is None if it was taken. One that ``is_refused`` would be
    refused again."""

    problem: str | None
    is_refused: bool = False


TAKEN: Final = ExportOutcome(None)


class Exporter(Protocol):
    """Sends spans somewhere; may take ten seconds for it."""

    def export(
        self, spans: Sequence[RecordSpan], callers: Mapping[int, Caller], /
    ) -> ExportOutcome: ...

    def close(self) -> None: ...


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment has an endpoint for spans, and does not turn them off."""
    return (
        any(environment.get(name) for name in _ENDPOINTS)
        and environment.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and environment.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    )


def span_secrets(environment: Mapping[str, str] = os.environ) -> list[SecretValue]:
    """The parts of the endpoints' URLs and of their headers that may be tokens (X-69a)."""
    secrets = [
        secret for name in _ENDPOINTS for secret in url_secrets(environment.get(name, ""), name)
    ]
    for name in _HEADERS:
        for pair in environment.get(name, "").split(","):
            value = pair.partition("=")[2].strip()
            secrets += (
                SecretValue(name=name, value=spelt.encode(), hosts=None)
                for spelt in dict.fromkeys((value, unquote(value)))
            )
    return secrets


class SpanPoster:
    """Exports the spans of one world. Used from one event loop.

    ``exported`` counts spans that were taken, ``refused`` those that never will be, ``failed``
    requests that are repeated; ``position`` is the record that is looked at next.
    """

    def __init__(
        self,
        folder: WorldFolder,
        follower: Follower,
        exporter: Exporter,
        report: Callable[[str], None],
    ) -> None:
        self.callers = EventCallers()
        self.exported = 0
        self.refused = 0
        self.failed = 0
        self.position = 0
        self._follower = follower
        self._exporter = exporter
        self._file = PositionFile(folder, FOLDER, NAME, bytes_max=_BYTES_MAX)
        self._redactor = Redactor(span_secrets())
        self._report = self._redactor.redacting(report)
        self._reported_problem: str | None = None
        self._view: View | None = None
        self._spans: RecordSpans | None = None
        self._shared: SharedPosition | None = None

    def traceparent(self, intent: Hash) -> str:
        """The trace context of an effect, for the worker that carries it out.

        Raises:
            Damage: A record that led to it cannot be read.
        """
        return self._now().traceparent(intent)

    async def run(self, shared: SharedPosition | None = None) -> None:
        """Export spans until cancelled. ``shared`` is the position of a replicated world.

        Raises:
            PositionMovedError: Another node has exported further.
            AosError: The position or the world cannot be read.
        """
        self._shared = shared
        await self._follower.advance_to()
        saved = await self._begun()
        while True:
            await self._follower.advance_to()
            last = self._follower.seq
            await asyncio.sleep(DELAY_S)
            while self.position <= last:
                batch: list[RecordSpan] = []
                following = self.position
                while following <= last and len(batch) < BATCH:
                    until = min(last, following + WINDOW - 1)
                    batch += self._read(following, until)
                    following = until + 1
                    await asyncio.sleep(0)
                if batch:
                    await self._accepted(batch)
                self.position = following
                if batch or self.position - saved >= 10 * WINDOW:
                    await self._save()
                    saved = self.position
            await self._follower.wait_past(self.position - 1, WAIT_S)

    def close(self) -> None:
        """Let the exporter end."""
        self._exporter.close()

    async def _begun(self) -> int:
        """Go to the position that is kept, or to the next record, which is saved."""
        follower, spans = self._follower, self._now()
        try:
            document, are_equal = await self._loaded()
            spans.attempts.clear()
            spans.attempts.update(_attempts(document))
            position = None if document is None else int(document["seq"])
        except (ValueError, ValueProblem, KeyError, TypeError, AttributeError) as problem:
            raise BadUsage(
                "the position of the spans cannot be read",
                location=str(self._file.path),
                hint="remove the file: spans begin again with the next record",
            ) from problem
        self.position = follower.seq + 1 if position is None else position
        if self.position > follower.seq + 1:
            self._report(
                f"spans: they were exported up to record {self.position - 1}, and the journal ends "
                f"at {follower.seq} (an older backup?): they continue with the next record"
            )
            self.position = follower.seq + 1
        oldest_seq = first_kept(follower.store)
        if self.position < oldest_seq:
            self._report(
                f"spans: records {self.position} to {oldest_seq - 1} were moved to an archive "
                "and are not exported"
            )
            self.position = oldest_seq
        if self.position != position or not are_equal:
            await self._save()
        return self.position

    async def _loaded(self) -> tuple[Mapping[str, Any] | None, bool]:
        """The document of the later one of the positions that are kept, and whether all of them are
        equal. Raises as ``PositionFile.load``."""
        document = await asyncio.to_thread(self._file.load)
        if self._shared is None:
            return document, True
        kept = await self._shared.load()
        if kept is None:
            return document, False
        seq, _, attempts = kept
        seq_of_file = None if document is None else int(document["seq"])
        if seq_of_file is not None and seq_of_file >= seq:
            return document, seq_of_file == seq
        return {"seq": seq, "attempts": json.loads(attempts)}, False

    async def _save(self) -> None:
        """Keep the position: in the bucket first, so that the file is never ahead of it."""
        document = self._document()
        if self._shared is not None:
            await self._shared.save(document["seq"], more=newest_attempts(document["attempts"]))
        await asyncio.to_thread(self._file.save, document)

    def _document(self) -> dict[str, Any]:
        return {
            "seq": self.position,
            "attempts": {
                hash_text(intent): [
                    [event.name, event.at_ns, dict(event.attributes)] for event in events
                ]
                for intent, events in self._now().attempts.items()
            },
        }

    def _now(self) -> RecordSpans:
        follower = self._follower
        if self._view is None or self._view.state is not follower.state:
            self._view = View(follower.state, follower.store)
            if self._spans is not None:
                self._spans.seen_by(self._view)
        if self._spans is None:
            self._spans = RecordSpans(self._view)
        return self._spans

    def _read(self, first: int, last: int) -> list[RecordSpan]:
        spans = self._now()
        assert self._view is not None
        batch: list[RecordSpan] = []
        for frame in self._view.journal.frames(first, last):
            for seq, data in enumerate(frame.records, frame.header.first):
                if first <= seq <= last:
                    batch += spans.of(from_bytes(data))
        return batch

    async def _accepted(self, batch: Sequence[RecordSpan]) -> None:
        """Export a batch until the receiver has taken it, or has refused it."""
        caller_by_seq = {span.seq: self.callers.take(span.seq) for span in batch}
        callers = {seq: caller for seq, caller in caller_by_seq.items() if caller is not None}
        pause_s = PAUSE_S
        while True:
            outcome = await _exported(self._exporter, batch, callers, self._redactor)
            problem = outcome.problem
            if problem is None:
                self.exported += len(batch)
                if self._reported_problem is not None:
                    self._report("spans: they are exported again")
                    self._reported_problem = None
                return
            fate = "they are left out" if outcome.is_refused else "they are exported again"
            if problem != self._reported_problem:
                self._reported_problem = problem
                self._report(f"spans: {len(batch)} were not taken: {problem}; {fate}")
            if outcome.is_refused:
                self.refused += len(batch)
                return
            self.failed += 1
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)


async def _exported(
    exporter: Exporter,
    batch: Sequence[RecordSpan],
    callers: Mapping[int, Caller],
    redactor: Redactor,
) -> ExportOutcome:
    """Export on a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[ExportOutcome] = loop.create_future()

    def finish(outcome: ExportOutcome) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def work() -> None:
        try:
            outcome = exporter.export(batch, callers)
        except Exception as error:  # noqa: BLE001  # a package's, and another batch may pass
            words = redactor.line(str(error), characters_max=EXCERPT_CHARACTERS_MAX)
            outcome = ExportOutcome(f"{type(error).__name__}: {words}")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish, outcome)

    threading.Thread(target=work, name="spans", daemon=True).start()
    return await ended


def newest_attempts(attempts: Mapping[str, Any], bytes_max: int = SHARED_BYTES_MAX) -> bytes:
    """Return the last of these attempts as JSON, as many as fit, in their order."""
    kept: list[tuple[str, Any]] = []
    size = 2
    for intent, events in reversed(list(attempts.items())):
        size += len(json.dumps({intent: events}).encode())
        if size > bytes_max:
            break
        kept.append((intent, events))
    return json.dumps(dict(reversed(kept))).encode()


def bring_position(folder: WorldFolder, seq: int, attempts: bytes) -> None:
    """Write the position of the spans to the file of a folder, as ``newest_attempts`` has kept it.
    A file that is not before it stays, and so does one that is not ours. Raises OSError."""
    file = PositionFile(folder, FOLDER, NAME, bytes_max=_BYTES_MAX)
    try:
        document = file.load()
        if document is None or int(document["seq"]) < seq:
            file.save({"seq": seq, "attempts": json.loads(attempts)})
    except (ValueError, KeyError, TypeError):
        return  # the poster reports a file that it cannot read


def _attempts(document: Mapping[str, Any] | None) -> dict[Hash, list[SpanEvent]]:
    """Read the attempts of open effects. Raises KeyError, TypeError, ValueError, AttributeError."""
    if document is None:
        return {}
    return {
        parse_hash(intent): [
            SpanEvent(str(name), int(ns), dict(attributes)) for name, ns, attributes in events
        ]
        for intent, events in document["attempts"].items()
    }


async def keep_exporting(
    poster: SpanPoster, report: Callable[[str], None], shared: SharedPosition | None = None
) -> None:
    """Run a poster for ever; a problem with the world's files is reported, and tried again. One
    whose position another node has moved continues there."""
    while True:
        try:
            await poster.run(shared)
        except PositionMovedError:
            await asyncio.sleep(PAUSE_S)
            continue
        except (AosError, OSError) as problem:
            report(f"spans: {problem}")
        await asyncio.sleep(PAUSE_S_MAX)
