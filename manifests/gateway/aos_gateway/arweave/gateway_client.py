"""The gateways of ``AOS_ARWEAVE`` (AW-1), and a client of one of them over HTTP: it makes the
requests of AW-5, and refuses every answer that it does not understand."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Final

import httpx

from aos.effects.named_addresses import NamedUrl, read_urls
from aos.worker import EffectFailed, NotConfigured
from aos_gateway.arweave.base64url import decode_base64url, is_anchor

VARIABLE: Final = "AOS_ARWEAVE"

UNAVAILABLE: Final = "unavailable"
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
QUOTED_CHARACTERS_MAX: Final = 200
DIGITS_MAX: Final = 34
"""As many as a dec128 can have before its point."""

_EXAMPLE: Final = f'{VARIABLE}="main=https://gateway.example.com"'
_WHOLE: Final = re.compile(rb"0|[1-9][0-9]{0,%d}" % (DIGITS_MAX - 1))
_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "aos"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimeouts:
    """Seconds that a request may take from its first byte to the last of its answer (AW-5)."""

    get_s: float = 10.0
    data_s: float = 15.0
    post_s: float = 60.0


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """A complete response: its status and its body of at most ``BODY_BYTES_MAX``."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class InChain:
    """The transaction is in a block: ``depth`` counts that block and those after it."""

    depth: int


class NotInChain(Enum):
    """State of a transaction that is in no block."""

    PENDING = auto()
    """The gateway has it, and a block may take it."""
    ABSENT = auto()
    """The gateway does not have it: it never came, or was forgotten."""
    DROPPED = auto()
    """The gateway has given it up as invalid."""


class GatewayClient:
    """The requests of AW-5. Each method but ``post`` raises ``EffectFailed``, code ``unavailable``
    and retryable, for any answer that it does not understand, and if none comes (AW-6).

    Its messages have the host of the gateway, and never the rest of its URL (AW-7).
    """

    def __init__(
        self, http: httpx.AsyncClient, address: NamedUrl, timeouts: RequestTimeouts
    ) -> None:
        self._http = http
        self._address = address
        self._timeouts = timeouts

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return self._address.host

    async def anchor(self) -> str:
        """The value of ``last_tx`` for a transaction that is posted now."""
        anchor = (await self._get_ok("/tx_anchor")).strip().decode("utf-8", "replace")
        if not is_anchor(anchor):
            raise self._nonsense("/tx_anchor", "32 or 48 bytes in base64url")
        return anchor

    async def price(self, size: int) -> int:
        """Winston for a transaction with ``size`` bytes of content."""
        return await self._get_number(f"/price/{size}")

    async def balance(self, address: str) -> int:
        """Winston that a wallet has."""
        return await self._get_number(f"/wallet/{address}/balance")

    async def height(self) -> int:
        """Height of the chain."""
        height = _natural_field(_parsed_json(await self._get_ok("/info")), "height")
        if height is None:
            raise self._nonsense("/info", "an object with a whole number in height")
        return height

    async def chain_status(self, bundle: str) -> InChain | NotInChain:
        """Whether the gateway has a transaction, and how deep it is in the chain (AW-24)."""
        path = f"/tx/{bundle}/status"
        answer = await self._get(path)
        if answer.status == HTTPStatus.NOT_FOUND:
            return NotInChain.ABSENT
        if answer.status == HTTPStatus.GONE:
            return NotInChain.DROPPED
        if answer.status == HTTPStatus.ACCEPTED or (
            answer.status == HTTPStatus.OK and answer.body.strip().lower() == b"pending"
        ):
            return NotInChain.PENDING
        if answer.status != HTTPStatus.OK:
            raise self._unexpected(path, answer)
        depth = _natural_field(_parsed_json(answer.body), "number_of_confirmations")
        if depth is None:
            raise self._nonsense(path, "an object with a whole number in number_of_confirmations")
        return InChain(depth)

    async def content(self, bundle: str) -> bytes | None:
        """The content of a transaction; None if the gateway does not have it, or not yet."""
        path = f"/tx/{bundle}/data"
        answer = await self._get(path, timeout_s=self._timeouts.data_s)
        if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.ACCEPTED):
            return None
        if answer.status != HTTPStatus.OK:
            raise self._unexpected(path, answer)
        content = decode_base64url(answer.body.strip())
        if content is None:
            raise self._nonsense(path, "base64url without padding")
        return content

    async def post(self, body: bytes) -> GatewayAnswer:
        """Post a transaction.

        Raises:
            EffectFailed: No complete answer came. The transaction may have been posted.
        """
        headers = {"Content-Type": "application/json"}
        timeout_s = self._timeouts.post_s
        return await self._send("POST", "/tx", timeout_s, content=body, headers=headers)

    def quoted(self, answer: GatewayAnswer) -> str:
        """A sentence about an answer, with the beginning of its text if that is safe (AW-7)."""
        summary = f"the gateway {self.host} answered {answer.status}"
        begin = answer.body[: 4 * QUOTED_CHARACTERS_MAX].decode("utf-8", "replace").strip()
        if not begin or not begin.isprintable() or begin.startswith("<"):
            return summary
        return (
            f"{summary}: "
            f"{self._address.redactor.line(answer.body, characters_max=QUOTED_CHARACTERS_MAX)}"
        )

    async def _get_number(self, path: str) -> int:
        body = (await self._get_ok(path)).strip()
        if not _WHOLE.fullmatch(body):
            raise self._nonsense(path, f"a whole number of at most {DIGITS_MAX} digits")
        return int(body)

    async def _get_ok(self, path: str) -> bytes:
        answer = await self._get(path)
        if answer.status != HTTPStatus.OK:
            raise self._unexpected(path, answer)
        return answer.body

    async def _get(self, path: str, *, timeout_s: float | None = None) -> GatewayAnswer:
        return await self._send("GET", path, timeout_s or self._timeouts.get_s)

    async def _send(
        self,
        method: str,
        path: str,
        timeout_s: float,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> GatewayAnswer:
        url = self._address.url + path
        sent = {**_HEADERS, **(headers or {})}
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._http.stream(method, url, content=content, headers=sent) as response,
            ):
                return GatewayAnswer(response.status_code, await self._body(path, response))
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            # OSError includes TimeoutError. The text of an error may contain the URL.
            raise self._unavailable(
                path, f"gave no complete answer ({type(error).__name__})"
            ) from None

    async def _body(self, path: str, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self._unavailable(path, "answered in an encoding that was not asked for")
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > BODY_BYTES_MAX:
                raise self._unavailable(path, f"answered more than {BODY_BYTES_MAX:,} bytes")
        return bytes(body)

    def _unexpected(self, path: str, answer: GatewayAnswer) -> EffectFailed:
        return self._unavailable(path, f"answered {answer.status}")

    def _nonsense(self, path: str, expected: str) -> EffectFailed:
        return self._unavailable(path, f"gave an answer of another form: expected {expected}")

    def _unavailable(self, path: str, problem: str) -> EffectFailed:
        message = f"the gateway {self.host} {problem} (request: {path})"
        return EffectFailed(UNAVAILABLE, message, retryable=True)


def _parsed_json(body: bytes) -> object:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document


def _natural_field(document: object, name: str) -> int | None:
    """A whole number of 0 to 2^63 in a field of an object; None if there is none."""
    number = document.get(name) if isinstance(document, dict) else None
    return number if type(number) is int and 0 <= number < 1 << 63 else None


def read_addresses(text: str) -> dict[str, NamedUrl]:
    """Read ``name=URL`` pairs, separated by blanks (AW-1). Raises as ``read_urls``."""
    return read_urls(VARIABLE, text, example=_EXAMPLE)


def address_of(addresses: Mapping[str, NamedUrl], name: str) -> NamedUrl:
    """The address of the gateway that an effect names (AW-1).

    Raises:
        NotConfigured: There is none, so the effect is held.
    """
    if name not in addresses:
        gateway_names = ", ".join(sorted(addresses)) or "none"
        raise NotConfigured(
            "gateway_not_configured",
            f"{VARIABLE} has no Arweave gateway {name!r:.80}: found {gateway_names}",
            f"set {_EXAMPLE.replace('main=', f'{name:.40}=')} and restart the process",
        )
    return addresses[name]
