"""``sys/http.request@1``: ``python -m aos.worker.http``, started by the node (X-60 to X-66).

A name is resolved where the connection is made, so that the address that was checked is the one
that is connected to. No redirects are followed, no proxy and no other setting is taken from the
environment.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import httpcore
import httpx

from aos.values.digests import content_hash, hash_text
from aos.worker.allow import AllowList
from aos.worker.api import EffectContext, EffectFunction, Executors
from aos.worker.body import Body, BodyProblem
from aos.worker.child import serve
from aos.worker.connections import CONNECT_FAILED, Connections, not_allowed
from aos.worker.failure import EffectFailed
from aos.worker.limits import CONCURRENCY, HTTP, Limits
from aos.worker.request import BAD_REQUEST, Request, read_request
from aos.worker.results import WithBlobs

RESPONSE_HEADERS_MAX: Final = 256
CONNECT_S: Final = 10.0

BAD_RESPONSE: Final = "http_bad_response"
TOO_LARGE: Final = "http_too_large"
FAILED: Final = "http_failed"


class Client:
    """Sends requests. ``ssl_context`` is for tests."""

    def __init__(
        self, allowed: AllowList, limits: Limits, *, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._allowed = allowed
        self._limits = limits
        self.connections = Connections(
            allowed, ssl_context or httpx.create_ssl_context(trust_env=False)
        )

    async def request(self, params: Mapping[str, Any], ctx: EffectContext) -> WithBlobs:
        """Send one request and read the whole response.

        Raises:
            EffectFailed: With one of the codes of X-65.
        """
        request = read_request(params, ctx)
        if self._allowed.find(request.host, request.port) is None:
            raise not_allowed(request.host, request.port)
        started = time.time_ns()
        try:
            status, headers, body = await self._exchange(request)
        except httpcore.LocalProtocolError as error:
            raise EffectFailed(BAD_REQUEST, _text(error)) from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise EffectFailed(
                CONNECT_FAILED,
                f"{request.host}:{request.port}: {_text(error)}",
                retryable=not _is_about_certificate(error),
            ) from error
        except _BROKEN as error:
            raise EffectFailed(
                FAILED, f"{request.host}:{request.port}: {_text(error)}", retryable=True
            ) from error
        is_inline = len(body) <= self._limits.inline_bytes_max
        receipt = {
            "status": status,
            "headers": headers,
            "body": body if is_inline else None,
            "body_ref": None if is_inline else hash_text(content_hash(body)),
            "timings": {"start_ns": started, "end_ns": max(started, time.time_ns())},
        }
        return WithBlobs(value=receipt, blobs=() if is_inline else (body,))

    async def _exchange(self, request: Request) -> tuple[int, dict[str, str], bytes]:
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
                body = await self._read(response)
            finally:
                await response.aclose()
            headers = _joined(response.headers, is_decoded=body.is_decoded)
            return response.status, headers, body.end()

    async def _read(self, response: httpcore.Response) -> Body:
        if len(response.headers) > RESPONSE_HEADERS_MAX:
            raise EffectFailed(
                BAD_RESPONSE,
                f"expected at most {RESPONSE_HEADERS_MAX} headers, found {len(response.headers)}",
            )
        encoding = ",".join(
            value.decode("latin-1")
            for name, value in response.headers
            if name.lower() == b"content-encoding"
        )
        body = Body(encoding, bytes_max=self._limits.response_bytes_max)
        try:
            async for chunk in response.aiter_stream():
                body.feed(chunk)
            body.end()
        except BodyProblem as problem:
            code = TOO_LARGE if problem.is_size else BAD_RESPONSE
            raise EffectFailed(code, str(problem)) from problem
        return body


_BROKEN: Final = (
    httpcore.NetworkError,
    httpcore.RemoteProtocolError,
    httpcore.TimeoutException,
)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_about_certificate(error: BaseException) -> bool:
    """Whether the server's certificate was refused: that does not pass by itself."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _joined(headers: Iterable[tuple[bytes, bytes]], *, is_decoded: bool) -> dict[str, str]:
    """One text a name, in lower case: values are joined by a comma, cookies by a line feed."""
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if is_decoded and name in ("content-encoding", "content-length"):
            continue  # they are about bytes that nobody sees
        between = "\n" if name == "set-cookie" else ", "
        joined[name] = f"{joined[name]}{between}{value}" if name in joined else value
    return joined


def executors(
    allowed: AllowList, limits: Limits, *, ssl_context: ssl.SSLContext | None = None
) -> Executors:
    """The one effect as an Executors, for the same process as any other."""

    @asynccontextmanager
    async def setup() -> AsyncIterator[Client]:
        client = Client(allowed, limits, ssl_context=ssl_context)
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
        attempts=1,
        timeout_s=None,
        backoff_ms=None,
        backoff_cap_ms=None,
    )
    return Executors("http", [function], setup=setup)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m aos.worker.http")
    parser.add_argument("--allow", action="append", default=[], metavar="HOST[:PORT]")
    parser.add_argument("--response-bytes-max", type=int, required=True)
    parser.add_argument("--inline-bytes-max", type=int, required=True)
    given = parser.parse_args(arguments)
    limits = Limits(
        response_bytes_max=given.response_bytes_max, inline_bytes_max=given.inline_bytes_max
    )
    return serve(lambda: executors(AllowList(given.allow), limits))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
