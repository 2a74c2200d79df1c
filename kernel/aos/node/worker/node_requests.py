"""Requests of a worker to its node: JSON over HTTP, with base64 for bytes, and results sent so that
none costs another (spec/worker.md, W-4a)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx

from aos.client.node_client import AWAY, token_headers, unreachable
from aos.client.node_connection import (
    AddressList,
    AnswerParts,
    NodeAddress,
    error_of,
    read_json,
    tls_of,
)
from aos.errors import BadUsage

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""Seconds within which a node answers, in addition to the time that a claim waits."""

REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of payloads and blobs in one request; a larger item is sent alone. A node takes 16 MiB of
JSON, in which bytes are a third longer."""

ITEMS_MAX: Final = 256

Item = Mapping[str, Any]


class NodeRequests:
    """The connections of a worker to its nodes: ``nodes`` is one address, or several with commas
    between them. After a failure, the next request goes to the next one: each of them can be sent
    again (CL-213).

    Raises:
        BadUsage: As ``AddressList``.
    """

    def __init__(
        self,
        nodes: str,
        *,
        token: str | None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        def connect(address: NodeAddress) -> httpx.AsyncClient:
            way = transport
            if way is None and address.socket is not None:
                way = httpx.AsyncHTTPTransport(uds=str(address.socket), verify=False)
            return httpx.AsyncClient(
                headers=token_headers(token), transport=way, verify=tls_of(address),
                trust_env=False,
            )  # fmt: skip

        self._nodes = AddressList(nodes, connect)

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
        parts, site = AnswerParts(ANSWER_S + wait_s), self._nodes.current
        try:
            async with site.http.stream(
                method, site.address.base + path, content=content, headers=headers, timeout=timeout
            ) as answer:
                async for part in answer.aiter_bytes():
                    parts.take(part)
        except httpx.HTTPError as error:
            self._nodes.leave(site)
            raise unreachable(site.address, error) from error
        document = read_json(parts.body())
        if answer.status_code == httpx.codes.OK:
            return document
        if answer.status_code == AWAY:
            self._nodes.leave(site)
        retry_after = answer.headers.get("Retry-After", "")
        raise error_of(answer.status_code, document, retry_after=retry_after)

    async def close(self) -> None:
        """Close all connections."""
        for site in self._nodes.sites:
            await site.http.aclose()


async def post_results(node: NodeRequests, worker: str, results: Sequence[Item]) -> Sequence[Item]:
    """Send results, and return one answer or problem for each (W-4a).

    A request that the node refuses as a whole is sent again in halves. So one result that the node
    does not understand has a problem, and the others have their answers.

    Raises:
        NodeUnavailable: The same request may succeed later.
        Refused: The node does not allow it.
        BadUsage: The node does not understand even the report that a result was refused.
    """
    try:
        answer = await node.post("/v1/work/results", {"worker": worker, "results": list(results)})
    except BadUsage as problem:
        if len(results) > 1:
            middle = len(results) // 2
            first = await post_results(node, worker, results[:middle])
            return [*first, *await post_results(node, worker, results[middle:])]
        if _is_refusal_report(results[0]):
            raise
        return [{"problem": {"status": 422, "rule": "result_does_not_fit", "detail": str(problem)}}]
    answers: Sequence[Item] = answer["answers"]
    return answers


def _is_refusal_report(result: Item) -> bool:
    """Whether a result is the worker's own report about a result that does not fit."""
    if "outcome" in result:
        return bool(result["outcome"]["status"] == "retry")
    return result["status"] in ("held", "parked")


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


def first_group(items: Sequence[Item]) -> Sequence[Item]:
    """Return the first items that fit in one request: at least one."""
    size = 0
    for index, item in enumerate(items[:ITEMS_MAX]):
        size += _bytes_in(item)
        if index and size > REQUEST_BYTES_MAX:
            return items[:index]
    return items[:ITEMS_MAX]


def _bytes_in(value: object) -> int:
    match value:
        case bytes() | str():
            return len(value)
        case Mapping():
            return sum(map(_bytes_in, value.values()))
        case list() | tuple():
            return sum(map(_bytes_in, value))
    return 0
