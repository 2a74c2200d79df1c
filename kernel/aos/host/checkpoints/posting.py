"""Send one small HTTP request to a server that a command names, and read a bounded answer within a
time limit (PF-87)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Self

import httpx

from aos.errors import BadUsage, Unavailable
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets

SECONDS_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024
LINE_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """The answer to a request."""

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server and its address, which may hold a token: messages say ``redacted_url`` (PF-87a)."""

    url: str = field(repr=False)
    redactor: Redactor = field(repr=False, compare=False)
    redacted_url: str

    @classmethod
    def at(cls, url: str, name: str) -> Self:
        """The server at ``url``; ``name`` is the option that gave it.

        Raises:
            BadUsage: It is no URL. The text names ``name`` alone.
        """
        redactor = Redactor(url_secrets(url, name))
        return cls(url, redactor, redactor.line(url, characters_max=LINE_CHARACTERS_MAX))

    def line(self, words: str | bytes) -> str:
        """Words of its answer for a message: one line, without parts of the address."""
        return self.redactor.line(words, characters_max=LINE_CHARACTERS_MAX)

    def post(
        self, body: bytes, *, kind: str, path: str = "", seconds: float = SECONDS_MAX
    ) -> Posted:
        """Send ``body`` to ``path`` below the address. Redirects are not followed, and the
        environment names no proxy.

        Raises:
            BadUsage: It is no address of a server.
            Unavailable: The whole answer does not come in ``seconds``, or it is too long.
        """
        try:
            return asyncio.run(self._posted(self.url + path, body, kind, seconds))
        except TimeoutError:
            raise Unavailable(
                f"{self.redacted_url}: there is no whole answer after {seconds:g} s"
            ) from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as problem:
            raise BadUsage(
                f"{self.redacted_url!r}: expected the http or https address of a server: "
                f"{self.line(str(problem))}"
            ) from None
        except httpx.HTTPError as problem:
            reason = self.line(str(problem)) or type(problem).__name__
            raise Unavailable(f"{self.redacted_url}: no answer: {reason}") from None

    async def _posted(self, url: str, body: bytes, kind: str, seconds: float) -> Posted:
        # A server that sends a byte now and then resets the client's own time limits, not this one.
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(timeout=seconds, trust_env=False) as client,
            client.stream("POST", url, content=body, headers={"Content-Type": kind}) as answer,
        ):
            received = bytearray()
            async for piece in answer.aiter_raw(4096):
                received += piece
                if len(received) > ANSWER_BYTES_MAX:
                    raise Unavailable(
                        f"{self.redacted_url}: the answer is too long: expected at most "
                        f"{ANSWER_BYTES_MAX} bytes"
                    )
            return Posted(
                status=answer.status_code,
                kind=answer.headers.get("Content-Type", ""),
                body=bytes(received),
            )
