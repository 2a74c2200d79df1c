"""A gateway in the test's own process: each request has a canned answer, and is remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx

from tests.gateway.arweave.lab import ANCHOR

Canned: TypeAlias = "int | str | bytes | dict[str, Any] | httpx.Response | type[Exception]"
"""A status, a body with status 200, a whole response, or the error of a connection."""


@dataclass
class FakeGateway(httpx.AsyncBaseTransport):
    """Answers by method and the beginning of the path; a list is used up, but for its last."""

    answers: dict[str, Canned | list[Canned]] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    """Beginnings of requests that get no answer, ever."""
    seen: list[httpx.Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers = {
            "GET /tx_anchor": ANCHOR,
            "GET /price/": "700000000",
            "GET /wallet/": "1000000000000",
            "GET /info": {"height": 12},
            "GET /tx/": 404,
            "POST /tx": "OK",
            **self.answers,
        }

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.seen.append(request)
        line = f"{request.method} {request.url.path}"
        # The longest match is the most specific one.
        found = max((each for each in self.answers if line.startswith(each)), key=len)
        if found in self.silent:
            await asyncio.Event().wait()
        canned = self.answers[found]
        if isinstance(canned, list):
            canned = canned.pop(0) if len(canned) > 1 else canned[0]
        return response_of(canned)

    @property
    def posted(self) -> list[dict[str, Any]]:
        return [json.loads(each.content) for each in self.seen if each.method == "POST"]


def response_of(canned: Canned) -> httpx.Response:
    match canned:
        case int():
            return answer(canned, b"no")
        case str():
            return answer(200, canned.encode())
        case bytes():
            return answer(200, canned)
        case dict():
            return answer(200, json.dumps(canned).encode())
        case httpx.Response():
            return canned
        case _:
            raise canned("it broke at http://user:token@gateway.test/secret")


def answer(status: int, body: bytes = b"", **headers: str) -> httpx.Response:
    """A response whose body has not been read, as one from a connection."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, stream=httpx.ByteStream(body))


class Endless(httpx.AsyncByteStream):
    """A body that never ends. ``sent`` counts the bytes that were taken."""

    def __init__(self) -> None:
        self.sent = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.sent += 1 << 20
            yield bytes(1 << 20)
