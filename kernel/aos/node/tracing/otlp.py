"""Export spans by OTLP over HTTP, with the packages of the extra ``otel`` (N-80, N-86).

The variables of OpenTelemetry configure it: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``…_HEADERS``,
``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES`` and the others of its exporter.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as OtelEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from aos.node.tracing.bounded_adapter import BoundedAdapter
from aos.node.tracing.record_spans import RecordSpan
from aos.node.tracing.span_poster import TAKEN, ExportOutcome
from aos.node.tracing.traceparent import Caller

SERVICE: Final = "aos"
"""The name of the service unless ``OTEL_SERVICE_NAME`` gives one."""

_KINDS: Final = {
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
}
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """Sends spans to the endpoint of the environment. Used from one thread at a time."""

    def __init__(self) -> None:
        # Its own lines would repeat ours, with tracebacks.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource.create()
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": SERVICE}))
        self._resource = resource
        self._scope = InstrumentationScope("aos", version("aos-kernel"))
        self._answers: list[int] = []
        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, BoundedAdapter())
        session.hooks["response"].append(self._answered)
        self._exporter = OTLPSpanExporter(session=session)

    def export(self, spans: Sequence[RecordSpan], callers: Mapping[int, Caller]) -> ExportOutcome:
        """Send spans, at most for about ten seconds. ``callers`` are the contexts in which events
        were sent, by the events' sequences."""
        readable_spans = [self._span(span, callers.get(span.seq)) for span in spans]
        self._answers.clear()
        if self._exporter.export(readable_spans) is SpanExportResult.SUCCESS:
            return TAKEN
        if not self._answers:
            return ExportOutcome("no answer")
        status = self._answers[-1]
        is_refused = 400 <= status < 500 and status not in (408, 429)
        return ExportOutcome(f"answered {status}", is_refused=is_refused)

    def close(self) -> None:
        """End the pause of a request that is repeated."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _answered(self, response: requests.Response, *_: object, **__: object) -> None:
        self._answers.append(response.status_code)

    def _span(self, span: RecordSpan, caller: Caller | None) -> ReadableSpan:
        status = Status(StatusCode.UNSET)
        if span.error is not None:
            status = Status(StatusCode.ERROR, span.error)
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.id),
            parent=None if span.parent is None else _context(span.trace, span.parent),
            resource=self._resource,
            attributes=span.attributes,
            events=[
                OtelEvent(event.name, attributes=event.attributes, timestamp=event.at_ns)
                for event in span.events
            ],
            links=() if caller is None else (Link(_context(*caller, is_remote=True)),),
            kind=_KINDS[span.kind],
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _context(trace: bytes, span: bytes, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace, "big"), int.from_bytes(span, "big"), is_remote, _SAMPLED
    )
