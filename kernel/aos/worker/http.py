"""The process that sends HTTP requests for ``sys/http.request@1`` (X-60 to X-69).

The node starts it as ``python -m aos.worker.http``. A name is resolved where the connection is
opened, so that the address that was checked is the one that is used. It follows no redirects and
takes no proxy or other setting from the environment.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import httpcore

from aos.private_memory import keep_memory_private
from aos.values.digests import content_hash, hash_text
from aos.worker.api import EffectContext, EffectFunction
from aos.worker.child import serve
from aos.worker.connections import CONNECT_FAILED, ConnectionGate, Connections, Outside, not_allowed
from aos.worker.executors import Executors
from aos.worker.failure import EffectFailed, NotConfigured
from aos.worker.http_settings import (
    BAD_REQUEST,
    CONCURRENCY,
    HTTP,
    TOO_LARGE,
    AllowList,
    HttpLimits,
)
from aos.worker.redaction import Overlong, Redactor
from aos.worker.request import Request, read_request, secrets_of
from aos.worker.results import WithBlobs

RESPONSE_HEADERS_MAX: Final = 256
RESPONSE_HEADER_BYTES_MAX: Final = 64 * 1024
CONNECT_S: Final = 10.0
TOO_MUCH_HEAD: Final = 431
"""The status that h11 suggests when it gives up on response headers that do not end."""

BAD_RESPONSE: Final = "http_bad_response"
FAILED: Final = "http_failed"

GZIP: Final = ("gzip", "x-gzip")
DEFLATE: Final = "deflate"
STEP_BYTES: Final = 64 * 1024
ZLIB_HEAD_BYTES: Final = 2

_CONNECTION_ERRORS: Final = (
    httpcore.NetworkError,
    httpcore.RemoteProtocolError,
    httpcore.TimeoutException,
)

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class Client:
    """Sends requests to allowed hosts (X-60)."""

    def __init__(self, allowed: AllowList, limits: HttpLimits, *, outside: Outside) -> None:
        self._allowed = allowed
        self._limits = limits
        gate = ConnectionGate(allowed, outside, bytes_max=limits.wire_bytes_max)
        self.connections = Connections(gate, outside.ssl_context)

    async def request(self, params: Mapping[str, Any], ctx: EffectContext) -> WithBlobs:
        """Send one request and read the whole response.

        Raises:
            EffectFailed: With one of the codes of X-65 and X-68.
            NotConfigured: The host is not allowed, or a secret cannot be used (X-61, X-68).
            RuntimeError: Anything else, in a request with secrets: they are not in its message.
        """
        secrets = secrets_of(params, ctx)
        if not secrets:
            return await self._send(read_request(params, ctx, secrets), None)
        redactor = Redactor(secrets.values())
        try:
            return await self._send(read_request(params, ctx, secrets), redactor)
        except EffectFailed as failure:
            # Not ``from failure``: a protocol error quotes bytes that may hold a secret.
            message = redactor.text(failure.message)
            raise EffectFailed(failure.code, message, failure.retryable) from None
        except NotConfigured:
            raise  # it names the host and the secret, and nothing of the request
        except Exception as error:  # noqa: BLE001  # its traceback would print the message
            message = redactor.text(f"{type(error).__name__}: {error}")
            raise RuntimeError(message) from None

    async def _send(self, request: Request, redactor: Redactor | None) -> WithBlobs:
        if self._allowed.find(request.host, request.port) is None:
            raise not_allowed(request.host, request.port)
        started = time.time_ns()
        response = await self._exchange(request, redactor)
        body = response.body
        is_inline = len(body) <= self._limits.inline_bytes_max
        receipt = {
            "status": response.status,
            "headers": response.headers,
            "body": body if is_inline else None,
            "body_ref": None if is_inline else hash_text(content_hash(body)),
            "timings": {"start_ns": started, "end_ns": max(started, time.time_ns())},
        }
        return WithBlobs(value=receipt, blobs=() if is_inline else (body,))

    async def _exchange(self, request: Request, redactor: Redactor | None) -> _Response:
        try:
            async with self.connections.lease(request.url.origin) as connection:
                response = await connection.handle_async_request(
                    httpcore.Request(
                        request.method,
                        request.url,
                        headers=request.headers,
                        content=request.content,
                        extensions={"timeout": {"connect": CONNECT_S}},
                    )
                )
                try:
                    return await self._read(response, redactor)
                finally:
                    await response.aclose()
        except httpcore.LocalProtocolError as error:
            raise EffectFailed(BAD_REQUEST, _error_text(error)) from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise EffectFailed(
                CONNECT_FAILED,
                f"{request.host}:{request.port}: {_error_text(error)}",
                retryable=not _is_about_certificate(error),
            ) from error
        except _CONNECTION_ERRORS as error:
            if getattr(error.__cause__, "error_status_hint", None) == TOO_MUCH_HEAD:
                raise EffectFailed(BAD_RESPONSE, "the head of the response does not end") from error
            raise EffectFailed(
                FAILED, f"{request.host}:{request.port}: {_error_text(error)}", retryable=True
            ) from error

    async def _read(self, response: httpcore.Response, redactor: Redactor | None) -> _Response:
        headers: Headers = response.headers
        size = sum(len(name) + len(value) for name, value in headers)
        if len(headers) > RESPONSE_HEADERS_MAX or size > RESPONSE_HEADER_BYTES_MAX:
            raise EffectFailed(
                BAD_RESPONSE,
                f"expected at most {RESPONSE_HEADERS_MAX} headers and {RESPONSE_HEADER_BYTES_MAX} "
                f"bytes of them, found {len(headers)} and {size}",
            )
        if redactor is not None:  # before a message quotes the beginning of one
            headers = [(redactor.redacted(n), redactor.redacted(v)) for n, v in headers]
        coding = _content_coding(headers)
        body = Body(coding, bytes_max=self._limits.response_bytes_max)
        if redactor is not None and coding and not body.is_decoded:
            raise EffectFailed(
                BAD_RESPONSE,
                f"the body is encoded as {coding:.40}, in which secrets cannot be looked for",
            )
        try:
            async for chunk in response.aiter_stream():
                body.feed(chunk)
            data = body.end()
        except BodyProblem as problem:
            code = TOO_LARGE if problem.is_size else BAD_RESPONSE
            raise EffectFailed(code, str(problem)) from problem
        dropped = {"content-encoding", "content-length"} if body.is_decoded else set()
        if redactor is not None:
            data, unredacted = self._redacted(data, redactor), data
            if data is not unredacted:
                dropped.add("content-length")
        return _Response(
            status=response.status, headers=_joined_headers(headers, dropped), body=data
        )

    def _redacted(self, data: bytes, redactor: Redactor) -> bytes:
        bytes_max = self._limits.response_bytes_max
        try:
            return redactor.redacted(data, bytes_max=bytes_max)
        except Overlong:
            raise EffectFailed(
                TOO_LARGE,
                f"the body is longer than {bytes_max} bytes once secrets are taken out of it",
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    status: int
    headers: dict[str, str]
    body: bytes


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_about_certificate(error: BaseException) -> bool:
    """Whether the server's certificate was rejected: a retry does not help then."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _content_coding(headers: Headers) -> str:
    """The body's only content coding, or an empty text.

    Raises:
        EffectFailed: There are several, nested: each level would multiply the work of decoding.
    """
    encodings = ",".join(
        value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"
    )
    codings = [coding.strip().lower() for coding in encodings.split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if len(codings) > 1:
        raise EffectFailed(BAD_RESPONSE, f"expected one content encoding, found {encodings!r:.80}")
    return "".join(codings)


def _joined_headers(headers: Headers, dropped: AbstractSet[str]) -> dict[str, str]:
    """One text per lower-case name: values joined by a comma, cookies by a line feed."""
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in dropped:
            continue  # it describes bytes that are not returned
        between = "\n" if name == "set-cookie" else ", "
        joined[name] = f"{joined[name]}{between}{value}" if name in joined else value
    return joined


class _Inflate(Protocol):
    """The type of ``zlib.decompressobj()``, which has no public name."""

    @property
    def eof(self) -> bool: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class BodyProblem(Exception):
    """The body exceeds its limit (``is_size``), or does not match its content encoding."""

    def __init__(self, message: str, *, is_size: bool) -> None:
        super().__init__(message)
        self.is_size = is_size


class Body:
    """The body of a response, decoded as it arrives, up to a limit (X-64).

    ``encoding`` is one content coding, or empty; an unknown one is not decoded.

    ``bytes_max`` bounds the decoded and the compressed bytes separately; either may exceed it by
    at most ``STEP_BYTES`` before the limit is noticed.
    """

    def __init__(self, encoding: str, *, bytes_max: int) -> None:
        self._encoding = encoding
        self.is_decoded = encoding in (*GZIP, DEFLATE)
        self._bytes_max = bytes_max
        self._bytes_fed = 0
        self._data = bytearray()
        self._head = b""
        self._inflate: _Inflate | None = None

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk of the wire's bytes.

        Raises:
            BodyProblem: The limit is passed, or the chunk does not match the content encoding.
        """
        if not self.is_decoded:
            self._add(chunk)
            return
        self._bytes_fed += len(chunk)
        if self._bytes_fed > self._bytes_max + STEP_BYTES:  # members without content cost time too
            raise self._too_long()
        if self._inflate is None:
            chunk = self._head = self._head + chunk
            if len(chunk) < ZLIB_HEAD_BYTES:
                return
            self._inflate = self._new()
        try:
            self._decode(self._inflate, chunk)
        except zlib.error as error:
            raise BodyProblem(
                f"the body is not {self._encoding}: {error}", is_size=False
            ) from error

    def _new(self) -> _Inflate:
        if self._encoding != DEFLATE:
            return zlib.decompressobj(zlib.MAX_WBITS | 16)
        # Some servers send raw deflate, without the zlib header.
        method, check = self._head[:ZLIB_HEAD_BYTES]
        has_head = method & 15 == zlib.DEFLATED and (method << 8 | check) % 31 == 0
        return zlib.decompressobj(zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS)

    def _decode(self, inflate: _Inflate, chunk: bytes) -> None:
        while chunk:
            if inflate.eof:  # a gzip body may have several members
                inflate = self._inflate = self._new()
            data = inflate.decompress(chunk, STEP_BYTES)
            self._add(data)
            chunk = inflate.unconsumed_tail or inflate.unused_data
            # All input may be consumed while output is still buffered.
            while len(data) == STEP_BYTES and not chunk and not inflate.eof:
                data = inflate.decompress(b"", STEP_BYTES)
                self._add(data)
                chunk = inflate.unused_data

    def _add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._bytes_max:
            raise self._too_long()

    def _too_long(self) -> BodyProblem:
        return BodyProblem(f"the body is longer than {self._bytes_max} bytes", is_size=True)

    def end(self) -> bytes:
        """Return the whole decoded body.

        Raises:
            BodyProblem: The compressed stream is cut short.
        """
        if self._head and (self._inflate is None or not self._inflate.eof):
            raise BodyProblem(f"the {self._encoding} body is cut short", is_size=False)
        return bytes(self._data)


def executors(allowed: AllowList, limits: HttpLimits, *, outside: Outside) -> Executors:
    """Make the Executors of ``sys/http.request@1``, for the usual worker process."""

    @asynccontextmanager
    async def setup() -> AsyncIterator[Client]:
        client = Client(allowed, limits, outside=outside)
        async with aclosing(client.connections):
            yield client

    async def request(params: Mapping[str, Any], ctx: EffectContext) -> WithBlobs:
        client: Client = ctx.resource
        return await client.request(params, ctx)

    function = EffectFunction(
        name=HTTP,
        function=request,
        is_async=True,
        concurrency=CONCURRENCY,
        attempts=None,
        timeout_s=limits.timeout_s,
        backoff_ms=None,
        backoff_cap_ms=None,
    )
    return Executors("http", [function], setup=setup)


def main(arguments: Sequence[str], *, outside: Outside | None = None) -> int:
    """Serve HTTP requests for the node. ``outside`` replaces the network in tests."""
    parser = argparse.ArgumentParser(prog="python -m aos.worker.http")
    parser.add_argument("--allow", action="append", default=[], metavar="HOST[:PORT]")
    parser.add_argument("--response-bytes-max", type=int, required=True)
    parser.add_argument("--inline-bytes-max", type=int, required=True)
    parser.add_argument("--timeout-s", type=float, required=True)
    options = parser.parse_args(arguments)
    limits = HttpLimits(
        response_bytes_max=options.response_bytes_max,
        inline_bytes_max=options.inline_bytes_max,
        timeout_s=options.timeout_s,
    )
    return serve(lambda: executors(AllowList(options.allow), limits, outside=outside or Outside()))


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(sys.argv[1:]))
