"""One chat completion over HTTP: sent, streamed, and every other answer refused (AG-75, AG-77)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

import httpx

from aos.effects.llm.api_key import ApiKey, json_text
from aos.effects.llm.chat_answer import (
    SHOWN_CHARS_MAX,
    ChatAnswer,
    TextDelta,
    error_words,
    may_pass,
    read_document,
)
from aos.effects.llm.llm_errors import (
    bad_answer,
    broken_off,
    refused,
    timed_out,
    too_large,
    unavailable,
)
from aos.effects.named_addresses import NamedUrl
from aos.worker import EffectContext, EffectFailed
from aos.worker.redaction import SEARCHED_CHARS_MAX

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
ERROR_BYTES_MAX: Final = 4 * (SEARCHED_CHARS_MAX + 1)
"""More than is searched for secrets, so that a longer body is known to be cut (X-69b)."""

CONNECT_S: Final = 10.0
SILENCE_S: Final = 120.0
"""Without a byte for so long, an answer is given up."""

RESERVE_S: Final = 1.0
"""An answer is given up so long before the effect's timeout: its error is more exact."""

RESENDS_MAX: Final = 3
"""Within one attempt, for ``Retry-After``."""

_DONE: Final = b"[DONE]"

_NEWLINE: Final = b"\n"

_RETRY_AFTER_S_MAX: Final = 24 * 3600.0

T = TypeVar("T")


class _ComeBack(Exception):
    """The endpoint takes no request for ``after_s`` seconds."""

    def __init__(self, failure: EffectFailed, after_s: float) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.after_s = after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A complete answer, and the headers of its response, in lower case."""

    answer: ChatAnswer
    headers: Mapping[str, str]


class ChatClient:
    """Requests of one effect to one endpoint. Messages have the endpoint's host, and never the rest
    of its URL nor the API key (AG-71)."""

    def __init__(
        self, http: httpx.AsyncClient, address: NamedUrl, key: ApiKey, ctx: EffectContext
    ) -> None:
        self._http = http
        self._address = address
        self._key = key
        self._ctx = ctx

    async def complete(
        self, body: Mapping[str, Any], on_delta: Callable[[TextDelta], None]
    ) -> Completion:
        """Ask for a completion; call ``on_delta`` with its text while it comes.

        Raises:
            EffectFailed: With a code of AG-78.
        """
        data = json_text(body).encode("utf-8", "replace")

        async def attempt() -> Completion:
            return await self._complete(data, on_delta)

        return await self._until_taken(attempt)

    async def json(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post a JSON document to the address itself, for an object in JSON. Raises as
        ``complete``."""
        data = json_text(body).encode("utf-8", "replace")

        async def attempt() -> dict[str, Any]:
            async with self._open(self._address.url, data, "application/json") as response:
                return read_document(await _read_body(response, BODY_BYTES_MAX))

        return await self._until_taken(attempt)

    async def _until_taken(self, attempt: Callable[[], Awaitable[T]]) -> T:
        left_s = (self._ctx.deadline_ns - time.time_ns()) / 1e9 - RESERVE_S
        deadline_s = time.monotonic() + left_s
        try:
            async with asyncio.timeout(max(left_s, 0.0)):
                for _ in range(RESENDS_MAX):
                    try:
                        return await self._checked(attempt)
                    except _ComeBack as later:
                        if later.after_s > deadline_s - time.monotonic():
                            raise later.failure from None
                        await asyncio.sleep(later.after_s)
                try:
                    return await self._checked(attempt)
                except _ComeBack as later:
                    raise later.failure from None
        except TimeoutError:
            raise timed_out(
                f"{self._host} gave no complete answer in the time of the effect"
            ) from None

    async def _checked(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Errors of this package pass, with the host in front; those of HTTP become one."""
        try:
            return await attempt()
        except EffectFailed as failure:
            raise self._redacted_failure(failure) from None
        except _ComeBack as later:
            raise _ComeBack(self._redacted_failure(later.failure), later.after_s) from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise unavailable(f"{self._host}: no connection ({type(error).__name__})") from None
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            # The text of an error may contain the URL.
            raise broken_off(
                f"{self._host}: the exchange broke off ({type(error).__name__})"
            ) from None

    def _redacted_failure(self, failure: EffectFailed) -> EffectFailed:
        """A failure that may have words of the endpoint, as it may be in a receipt (AG-78)."""
        words = self._key.redactor.line(failure.message, characters_max=SHOWN_CHARS_MAX)
        return EffectFailed(failure.code, f"{self._host}: {words}", failure.retryable)

    async def _complete(self, data: bytes, on_delta: Callable[[TextDelta], None]) -> Completion:
        url = f"{self._address.url}/chat/completions"
        async with self._open(url, data, "text/event-stream, application/json") as response:
            answer = ChatAnswer()
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "application/json":  # an endpoint that does not stream
                on_delta(answer.add(await _read_body(response, BODY_BYTES_MAX), part="message"))
            elif kind == "text/event-stream":
                await _read_stream(response, answer, on_delta)
            else:
                raise bad_answer(
                    f"the endpoint answered with content of type {kind or 'none'}: expected "
                    "text/event-stream or application/json"
                )
            answer.check()
            return Completion(answer=answer, headers=dict(response.headers))

    def _open(self, url: str, data: bytes, accept: str) -> _CheckedResponse:
        headers = {
            "Accept": accept,
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "Idempotency-Key": self._ctx.idempotency_key,
            "User-Agent": "aos",
            **self._key.headers,
        }
        return _CheckedResponse(self._http, url, data, headers)

    @property
    def _host(self) -> str:
        return self._address.host


class _CheckedResponse:
    """A response with status 200, as an async context manager; any other is an error."""

    def __init__(
        self, http: httpx.AsyncClient, url: str, data: bytes, headers: Mapping[str, str]
    ) -> None:
        self._stream = http.stream("POST", url, content=data, headers=headers)

    async def __aenter__(self) -> httpx.Response:
        response = await self._stream.__aenter__()
        try:
            await _check_status(response)
        except BaseException:
            await self._stream.__aexit__(None, None, None)
            raise
        return response

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)  # type: ignore[arg-type]


async def _check_status(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise bad_answer("the endpoint answered in an encoding that was not asked for")
    status = response.status_code
    if status == HTTPStatus.OK:
        return
    words = _endpoint_words(await _read_beginning(response, ERROR_BYTES_MAX))
    message = f"the endpoint answered {status}" + (f": {words}" if words.strip() else "")
    if not may_pass(status):
        raise refused(message)
    after_s = _retry_after_s(response.headers.get("retry-after"))
    if after_s is None:
        raise unavailable(message)
    raise _ComeBack(unavailable(message), after_s)


async def _read_stream(
    response: httpx.Response, answer: ChatAnswer, on_delta: Callable[[TextDelta], None]
) -> None:
    reader = SseReader()
    size = 0

    def take(events: Iterator[bytes]) -> bool:
        """Add events; return whether the last one has come."""
        for data in events:
            if data.strip() == _DONE:
                return True
            on_delta(answer.add(data))
        return False

    async for part in response.aiter_raw():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise _overlong(BODY_BYTES_MAX)
        if take(reader.feed(part)):
            return
    if not take(reader.end()) and answer.finish is None:
        raise broken_off("the stream ended before the answer did")


class SseReader:
    """Reads one stream of server-sent events: bytes as they come -> the data of each event.

    Comments and all fields but ``data`` are skipped. A line ends with LF or CRLF. The caller
    bounds the bytes of the stream.
    """

    def __init__(self) -> None:
        self._partial_line = bytearray()
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the data of each event that they complete."""
        self._partial_line += part
        if _NEWLINE not in part:  # a long line may come in many parts
            return
        *lines, partial_line = bytes(self._partial_line).split(_NEWLINE)
        self._partial_line = bytearray(partial_line)
        for line in lines:
            yield from self._line(bytes(line).removesuffix(b"\r"))

    def end(self) -> Iterator[bytes]:
        """The stream has ended; yield the data of an event without its empty line."""
        yield from self._line(bytes(self._partial_line))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[bytes]:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
        elif self._data:
            yield _NEWLINE.join(self._data)
            self._data = []


async def _read_body(response: httpx.Response, bytes_max: int) -> bytes:
    data = bytearray()
    async for part in response.aiter_raw():
        data += part
        if len(data) > bytes_max:
            raise _overlong(bytes_max)
    return bytes(data)


async def _read_beginning(response: httpx.Response, bytes_max: int) -> bytes:
    """The first bytes of an error's body. One that breaks off is no second error."""
    data = bytearray()
    try:
        async for part in response.aiter_raw():
            data += part
            if len(data) > bytes_max:
                break
    except (httpx.HTTPError, httpx.StreamError):
        pass
    return bytes(data[:bytes_max])


def _endpoint_words(body: bytes) -> str:
    """The endpoint's own words: of an error in JSON, or of plain text that is no page."""
    try:
        return error_words(read_document(body))
    except EffectFailed:
        text = body.decode("utf-8", "replace")
        return "" if text.lstrip().startswith(("<", "{", "[")) else text


def _retry_after_s(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        after_s = float(value) if value.isdecimal() else _seconds_until(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(after_s, 0.0), _RETRY_AFTER_S_MAX)


def _seconds_until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


def _overlong(bytes_max: int) -> EffectFailed:
    return too_large(f"the endpoint answered more than {bytes_max:,} bytes")
