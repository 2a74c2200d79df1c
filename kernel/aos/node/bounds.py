"""The HTTP protocol of a front: uvicorn's, with bounds on headers, time and connections
(spec/node-api.md, N-140 to N-144).

uvicorn with httptools accepts 64 MiB of headers and keeps a silent connection for ever. Here each
phase of a connection has a limit:

    connection made ──10 s, 32 KiB, 100 headers──▶ headers complete ──30 s──▶ body complete
    answer written  ──60 s──▶ read by the client
    part of a stream written ──30 s──▶ read by the client
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import Sequence
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from aos.node.bodies import BODY_S, KIB, PROBLEM
from aos.node.calls import SCOPE_KEY, Delivery, DeliveryListener
from aos.node.problems import Problem

HEADER_BYTES_MAX: Final = 32 * KIB
HEADERS_MAX: Final = 100
HEADER_S: Final = 10.0
CONNECTIONS_MAX: Final = 1_024
UNREAD_S: Final = 60.0
"""Seconds that a client may take until it has read a complete answer."""

PART_S: Final = 30.0
"""Seconds that a client may take until it has read enough of a stream for the next part."""

GRACE_S: Final = 1.0
"""Seconds after which the connection is cut where the application has not answered a late body."""


BLANKS: Final = b" \t"
"""Optional whitespace around the value of a header, which is no part of it (RFC 9110, 5.5)."""

_VERSIONS: Final = frozenset({"1.0", "1.1"})


class _HeaderIsTooLargeError(Exception):
    """Raised in a callback of the parser, which then stops."""


class _RequestConnection:
    """The connection of one request, for its handler (N-52a)."""

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self.cycle: RequestResponseCycle | None = None
        self.listener: DeliveryListener | None = None

    def is_gone(self) -> bool:
        """Return whether the client has closed it, even if the loop has not read that yet."""
        return self._protocol.is_closed_by_client()

    def watch(self, listener: DeliveryListener) -> None:
        """Call ``listener`` with the delivery of the answer. A client that has sent its next
        request before the answer is assumed to read it."""
        if self._protocol.request_connection is self:
            self.listener = listener
        else:
            listener(Delivery.READ)

    def end(self, delivery: Delivery) -> None:
        """Tell the listener, if there is one."""
        listener, self.listener = self.listener, None
        if listener is not None:
            listener(delivery)


class _RequestIsMalformedError(Exception):
    """Raised in a callback of the parser, which then stops."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A client that breaks a bound gets a problem document if nothing was answered
    yet; then its connection is closed."""

    header_s = HEADER_S
    body_s = BODY_S
    part_s = PART_S
    connections_max = CONNECTIONS_MAX
    refusal_headers = b""
    """Further header lines of an answer that this class gives itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_in_headers = True
        self._is_in_body = False
        self._header_bytes = 0
        self._header_count = 0
        self._is_refused = False
        self._is_lost = False
        self.request_connection = _RequestConnection(self)
        """That of the last request."""
        self._answering: RequestResponseCycle | None = None
        """The last request that was given to the application; ``cycle`` may be one behind it."""
        self._refusal: Problem | None = None
        """The answer to a request that waits until those before it are answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            self._refuse(
                Problem(
                    503, "connections_are_full",
                    f"{self.connections_max} connections are open already", retry_after_s=1,
                )
            )  # fmt: skip
            return
        self._arm(self.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._disarm()
        self._stop_unread()
        super().connection_lost(exc)
        self.request_connection.end(self._delivery(exc))

    def _delivery(self, exc: Exception | None) -> Delivery:
        """Whether the last answer was read, after the connection has ended with ``exc``."""
        cycle = self.request_connection.cycle
        if cycle is None or not cycle.response_complete:
            return Delivery.UNREAD
        if exc is None:
            return Delivery.READ
        # A Unix socket reports an error only if bytes of it were not read. A TCP connection can be
        # reset by others: a router, or the system of a machine that has started again.
        sock = self.transport.get_extra_info("socket")
        is_local = sock is not None and sock.family == socket.AF_UNIX
        return Delivery.UNREAD if is_local else Delivery.IN_DOUBT

    def is_closed_by_client(self) -> bool:
        """Return whether the client has closed the connection, even if the loop has not read that
        yet."""
        if self._is_lost or self.transport.is_closing():
            return True
        sock = self.transport.get_extra_info("socket")
        if sock is None:
            return False
        state = select.poll()
        state.register(sock.fileno(), select.POLLRDHUP)
        return bool(state.poll(0))

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._is_in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if (
            self._is_in_headers
            and self._header_bytes > HEADER_BYTES_MAX
            and not self.transport.is_closing()
        ):
            self._refuse(_header_is_too_large())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_unread()
        self._unread = self.loop.call_later(self.part_s, self._cut_stream)

    def resume_writing(self) -> None:
        self._stop_unread()
        super().resume_writing()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.request_connection.end(Delivery.READ)
        self.request_connection = _RequestConnection(self)
        self.scope[SCOPE_KEY] = self.request_connection  # type: ignore[typeddict-unknown-key]
        if not self._is_in_headers:
            self._header_bytes = 0
        self._is_in_headers = True
        self._header_count = 0
        if self._timer is None:
            self._arm(self.header_s)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > HEADER_BYTES_MAX:
            raise _HeaderIsTooLargeError

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += len(name) + len(value)
        if self._is_in_headers:  # a trailer is no header
            super().on_header(name, value.strip(BLANKS))
        if len(self.headers) > HEADERS_MAX or self._header_count > HEADER_BYTES_MAX:
            raise _HeaderIsTooLargeError

    def on_headers_complete(self) -> None:
        _check_framing(self.parser.get_http_version(), self.headers)
        self._is_in_headers = False
        self._is_in_body = True
        self._arm(self.body_s + GRACE_S)
        super().on_headers_complete()
        self.request_connection.cycle = self.cycle

    def on_message_complete(self) -> None:
        self._is_in_body = False
        self._disarm()
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refusal is not None:
            self._refuse_after_others(self._refusal)
        if self.transport.get_write_buffer_size():
            self.loop.call_later(UNREAD_S, self._check_read)

    # Ends

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's text
        if self._is_refused:
            return
        is_large = self._header_count > HEADER_BYTES_MAX or len(self.headers or ()) > HEADERS_MAX
        if is_large or len(getattr(self, "url", b"")) > HEADER_BYTES_MAX:
            self._refuse(_header_is_too_large())
        else:
            self._refuse(Problem(400, "request_is_malformed", "this is no valid HTTP/1.1 request"))

    def _cut_stream(self) -> None:
        # A complete answer has a time of its own, and it is not the application that waits.
        if self._is_answering():
            self.transport.abort()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _check_read(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._is_in_headers and not self._is_answering():
            self._refuse(
                Problem(
                    408, "header_is_late",
                    f"the header did not arrive within {self.header_s:g} s",
                )
            )  # fmt: skip
        else:
            self.transport.abort()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _refuse(self, problem: Problem) -> None:
        """Answer the request that arrives with a problem, and close. If its own answer has begun,
        the connection is cut; requests before it are answered first."""
        self._is_refused = True
        self._disarm()
        if self.transport.is_closing():
            return
        if self._is_in_body and self.cycle is self._answering:
            if self.cycle.response_started:
                self.transport.abort()
                return
            self._stop_waiting(self.cycle)
            self._write_refusal(problem)
            return
        if self._is_in_body:
            self.pipeline.popleft()
        self._refuse_after_others(problem)

    def _refuse_after_others(self, problem: Problem) -> None:
        answering = self._answering
        if answering is None or answering.response_complete:
            self._write_refusal(problem)
        else:
            self._refusal = problem

    def _stop_waiting(self, cycle: RequestResponseCycle) -> None:
        """Let the application see that the request will not be complete, and drop its answer."""
        cycle.disconnected = True
        cycle.message_event.set()

    def _write_refusal(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        body = json.dumps(problem.document()).encode()
        retry = b"" if problem.retry_after_s is None else b"retry-after: 1\r\n"
        self.transport.write(
            STATUS_LINE[problem.status]
            + b"content-type: " + PROBLEM.encode() + b"\r\ncontent-length: "
            + str(len(body)).encode() + b"\r\n" + retry + self.refusal_headers
            + b"connection: close\r\n\r\n" + body
        )  # fmt: skip
        self.transport.close()


def _check_framing(version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Check that a request has the version and the transfer coding of this protocol (N-144).

    Raises:
        _RequestIsMalformedError: It has others.
    """
    if version not in _VERSIONS:
        raise _RequestIsMalformedError
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version != "1.1"):
        raise _RequestIsMalformedError
    accepted = b",".join(value for name, value in headers if name == b"te")
    if any(
        coding.partition(b";")[0].strip(BLANKS).lower() == b"chunked"
        for coding in accepted.split(b",")
    ):
        raise _RequestIsMalformedError


def _header_is_too_large() -> Problem:
    return Problem(
        431, "header_is_too_large",
        f"the header: expected at most {HEADERS_MAX} fields of {HEADER_BYTES_MAX:,} bytes together",
    )  # fmt: skip
