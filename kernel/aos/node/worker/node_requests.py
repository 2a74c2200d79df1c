"""Requests of a worker to its node: JSON over HTTP, with base64 for bytes (spec/worker.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from aos.client.bounded_answer import AnswerParts
from aos.client.node_address import NodeAddress
from aos.client.node_client import token_headers, unreachable
from aos.client.node_errors import error_of, read_json
from aos.client.node_tls import tls_context
from aos.errors import BadUsage

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""Seconds within which a node answers, in addition to the time that a claim waits."""


class NodeRequests:
    """The connections of a worker to its node."""

    def __init__(
        self,
        address: NodeAddress,
        *,
        token: str | None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = address
        if transport is None and address.socket is not None:
            transport = httpx.AsyncHTTPTransport(uds=str(address.socket))
        self._client = httpx.AsyncClient(
            headers=token_headers(token),
            transport=transport,
            verify=tls_context(),
            trust_env=False,
        )

    async def post(self, path: str, body: Mapping[str, Any], *, wait_s: float = 0.0) -> Any:
        """Send a request and return the body of its answer; the node may take ``wait_s`` longer.

        Raises:
            NodeUnavailable: The same request may succeed later.
            Refused: The node does not allow it: a token is missing, invalid or has other scopes.
            BadUsage: The node did not understand it.
        """
        content = json.dumps(plain(body), separators=(",", ":")).encode()
        return await self._ask("POST", path, content, wait_s)

    async def get(self, path: str) -> Any:
        """Return the body of the answer to a request without a body. Raises as ``post``."""
        return await self._ask("GET", path, None, 0.0)

    async def _ask(self, method: str, path: str, content: bytes | None, wait_s: float) -> Any:
        timeout = httpx.Timeout(ANSWER_S + wait_s, connect=CONNECT_S)
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        parts = AnswerParts(ANSWER_S + wait_s)
        try:
            async with self._client.stream(
                method, self._address.base + path, content=content, headers=headers, timeout=timeout
            ) as answer:
                async for part in answer.aiter_bytes():
                    parts.take(part)
        except httpx.HTTPError as error:
            raise unreachable(self._address, error) from error
        document = read_json(parts.body())
        if answer.status_code == httpx.codes.OK:
            return document
        retry_after = answer.headers.get("Retry-After", "")
        raise error_of(answer.status_code, document, retry_after=retry_after)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def plain(value: Any) -> Any:
    """A body as JSON has it: bytes as base64 text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def bytes_of(text: str) -> bytes:
    """The bytes of a base64 text of the node.

    Raises:
        BadUsage: It is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadUsage("the node answered bytes that are not base64") from error
