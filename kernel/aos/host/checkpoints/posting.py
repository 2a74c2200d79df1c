"""Send one small HTTP request, and read a bounded answer within a time limit (PF-87)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import httpx

from aos.errors import BadUsage, Unavailable, excerpt

SECONDS_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """The answer to a request."""

    status: int
    kind: str
    body: bytes


def post(url: str, body: bytes, *, kind: str, seconds: float = SECONDS_MAX) -> Posted:
    """Send ``body``. Redirects are not followed, and the environment names no proxy.

    Raises:
        BadUsage: ``url`` is no address of a server.
        Unavailable: The whole answer does not come in ``seconds``, or it is too long.
    """
    try:
        return asyncio.run(_posted(url, body, kind, seconds))
    except TimeoutError:
        raise Unavailable(f"{url}: there is no whole answer after {seconds:g} s") from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as problem:
        raise BadUsage(
            f"{excerpt(url)!r}: expected the http or https address of a server: {problem}"
        ) from None
    except httpx.HTTPError as problem:
        what = excerpt(str(problem)) or type(problem).__name__
        raise Unavailable(f"{url}: no answer: {what}") from None


async def _posted(url: str, body: bytes, kind: str, seconds: float) -> Posted:
    # A server that sends a byte now and then resets the client's own time limits, but not this one.
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(timeout=seconds, trust_env=False) as client,
        client.stream("POST", url, content=body, headers={"Content-Type": kind}) as answer,
    ):
        found = bytearray()
        async for piece in answer.aiter_raw(4096):
            found += piece
            if len(found) > ANSWER_BYTES_MAX:
                raise Unavailable(
                    f"{url}: the answer is too long: expected at most {ANSWER_BYTES_MAX} bytes"
                )
        return Posted(
            status=answer.status_code,
            kind=answer.headers.get("Content-Type", ""),
            body=bytes(found),
        )
