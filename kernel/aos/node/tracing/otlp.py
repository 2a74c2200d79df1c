"""Export spans by OTLP over HTTP, in bounded requests, with the packages of the extra ``otel``
(N-80, N-86).

The variables of OpenTelemetry configure it: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``…_HEADERS``,
``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES`` and the others of its exporter.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as OtelEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from aos.node.tracing.record_spans import Caller, RecordSpan
from aos.node.tracing.span_poster import TAKEN, ExportOutcome

SERVICE: Final = "aos"
"""The name of the service unless ``OTEL_SERVICE_NAME`` gives one."""

EXCHANGE_S: Final = 10.0
"""Seconds of one request without another limit: from the connection to the end of the header."""

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
            context=_span_context(span.trace, span.id),
            parent=None if span.parent is None else _span_context(span.trace, span.parent),
            resource=self._resource,
            attributes=span.attributes,
            events=[
                OtelEvent(event.name, attributes=event.attributes, timestamp=event.at_ns)
                for event in span.events
            ],
            links=() if caller is None else (Link(_span_context(*caller, is_remote=True)),),
            kind=_KINDS[span.kind],
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _span_context(trace: bytes, span: bytes, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace, "big"), int.from_bytes(span, "big"), is_remote, _SAMPLED
    )


class BoundedAdapter(HTTPAdapter):
    """Ends each request in time, and reads no body: only the status of an answer counts (N-86b).

    ``requests`` reads the answer to a request whole and unpacked, and its time limit starts again
    with each byte that comes.
    """

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Called by requests: make the pools, whose connections can be cut."""
        super().init_poolmanager(*args, **kwargs)
        noted = self._connections

        class Plain(HTTPConnection):
            def connect(self) -> None:
                noted.add(self)
                super().connect()

        class Secured(HTTPSConnection):
            def connect(self) -> None:
                noted.add(self)
                super().connect()

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecuredPool(HTTPSConnectionPool):
            ConnectionCls = Secured

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecuredPool}

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: ARG002  # the body is not read
        timeout: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> requests.Response:
        """Called by requests. The answer has an empty body."""
        seconds = timeout if isinstance(timeout, int | float) else EXCHANGE_S
        is_late = threading.Event()
        timer = threading.Timer(seconds, self._cut, [is_late])
        timer.daemon = True
        timer.start()
        try:
            answer = super().send(request, True, timeout, *args, **kwargs)
        finally:
            timer.cancel()
        if is_late.is_set():
            # A header that was cut off looks as if it were complete.
            answer.raw.close()
            raise requests.ReadTimeout(f"no answer within {seconds:g} s", request=request)
        if answer.raw.length_remaining == 0:
            answer.raw.read()
            answer.raw.release_conn()
        else:
            answer.raw.close()
        answer.raw = io.BytesIO()
        return answer

    def _cut(self, is_late: threading.Event) -> None:
        is_late.set()
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
