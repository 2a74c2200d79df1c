"""Requests of a worker to its node: JSON over HTTP, with base64 for bytes (spec/worker.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from aos.client.node_address import NodeAddress
from aos.errors import AosError, BadUsage, Refused, Unavailable

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""Seconds within which a node answers, in addition to the time that a claim waits."""


class NodeAway(Unavailable):
    """The node did not answer, or cannot answer now. ``pause_s`` is how long it asks to wait."""

    def __init__(self, text: str, pause_s: float = 0.0) -> None:
        super().__init__(text)
        self.pause_s = pause_s


class NodeRequests:
    """The connections of a worker to its node."""

    def __init__(
        self,
        address: NodeAddress,
        *,
        token: str | None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if transport is None and address.socket is not None:
            transport = httpx.AsyncHTTPTransport(uds=str(address.socket))
        self._base = address.base
        self._where = address.base if address.socket is None else str(address.socket)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = httpx.AsyncClient(headers=headers, transport=transport, trust_env=False)

    async def post(self, path: str, body: Mapping[str, Any], *, wait_s: float = 0.0) -> Any:
        """Send a request and return the body of its answer; the node may take ``wait_s`` longer.

        Raises:
            NodeAway: The same request may succeed later.
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
        try:
            answer = await self._client.request(
                method, self._base + path, content=content, headers=headers, timeout=timeout
            )
            document = _document(answer)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise NodeAway(f"the node at {self._where} does not answer: {reason}") from error
        if answer.status_code == httpx.codes.OK:
            return document
        raise _problem(answer, document)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def _document(answer: httpx.Response) -> Any:
    try:
        return json.loads(answer.content)
    except ValueError:
        return None


def _problem(answer: httpx.Response, document: Any) -> AosError:
    detail = document.get("detail") if isinstance(document, dict) else None
    text = f"the node answered {answer.status_code}: {detail or answer.reason_phrase}"
    match answer.status_code:
        case 401 | 403:
            return Refused(f"{text} (set AOS_TOKEN to a token that may do this: aos token create)")
        case 429 | 500 | 502 | 503 | 504:
            after = answer.headers.get("Retry-After", "")
            return NodeAway(text, float(after) if after.isdecimal() else 1.0)
        case _:
            return BadUsage(text)


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
