"""Pass a request of a standby's client on to the front of the node that owns the world
(spec/cluster.md, CL-210).

Leases of workers and batches are in the folder of the owner, so its front alone answers requests
about them. The front of the standby has checked the token, and names the caller in a header.
"""

from __future__ import annotations

import http.client
import io
import json
import time
from typing import Any, Final

from aos.errors import Unavailable
from aos.host.door.link import Link
from aos.host.door.remote import UNKNOWN
from aos.node import bodies
from aos.node.access import CALLER
from aos.node.calls import ApiCall, ApiReply
from aos.node.routes import GET
from aos.node.services import Services
from aos.node.tokens import Token
from aos.values.cbor import encode

CLAIM: Final = "claim_tasks"
OF_OWNER: Final = frozenset(
    {
        *(CLAIM, "heartbeat_tasks", "settle_tasks", "report_progress", "release_tasks"),
        *("list_tasks", "retry_tasks", "reclaim_tasks"),
        *("begin_batch", "read_batches", "read_batch", "stop_batch"),
    }
)
"""Operations that the front of the owner answers."""

_ONCE: Final = frozenset({"begin_batch", "stop_batch", "retry_tasks", "reclaim_tasks"})
"""Those that are not sent to a second owner."""

CLAIM_MS: Final = 2_000
"""How long a claim waits at the owner at a time. The owner does not see when its client goes away,
and the owner may change."""

_PASSED: Final = (b"retry-after",)
"""Headers of an answer that are its own."""


async def passed_on(services: Services, call: ApiCall) -> ApiReply:
    """Return the answer of the owner's front. A claim waits there in short parts.

    Raises:
        Unavailable: The owner was not reached, or went away before it answered.
    """
    wait_ms = call.body.get("wait_ms", 0) if call.route.operation == CLAIM else 0
    until_s = time.monotonic() + wait_ms / 1000
    while True:
        left_ms = round(max(0.0, until_s - time.monotonic()) * 1000)
        body = _claim_body(call, min(left_ms, CLAIM_MS)) if wait_ms else call.data
        reply = await _asked(services.link, call, body)
        if left_ms <= CLAIM_MS or not services.follows or not _is_without_tasks(reply):
            return reply


def _is_without_tasks(reply: ApiReply) -> bool:
    """Whether an answer to a claim has no task, and is no problem."""
    if reply.status != http.client.OK or reply.data is None:
        return False
    document = bodies.parse(reply.media, reply.data)
    return isinstance(document, dict) and not document["tasks"]


async def _asked(link: Link, call: ApiCall, body: bytes) -> ApiReply:
    headers = {
        name: value
        for name, value in call.headers.items()
        if name in (b"accept", b"content-type", b"traceparent")
    }
    query = f"?{call.raw_query.decode('latin-1')}" if call.raw_query else ""
    request = packed_request(
        call.route.method, f"{call.route.path}{query}", headers, body, call.caller
    )
    reply = await link.ask_owner_front(request, is_repeatable=call.route.operation not in _ONCE)
    return read_reply(reply)


def packed_request(
    method: str, target: str, headers: dict[bytes, bytes], body: bytes, caller: Token
) -> bytes:
    """Write a request in the name of ``caller``, whose headers are valid."""
    document = {"name": caller.name, "scopes": [scope.text for scope in caller.scopes]}
    fields = {
        b"host": b"node",
        b"connection": b"close",
        CALLER: json.dumps(document).encode(),
        **headers,
    }
    if method != GET:
        fields[b"content-length"] = str(len(body)).encode()
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    lines += [name + b": " + value for name, value in fields.items()]
    return b"\r\n".join([*lines, b"", b""]) + body


class _Received:
    """A connection from which everything was read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def read_reply(data: bytes) -> ApiReply:
    """Return the answer of a front.

    Raises:
        Unavailable: It is not complete.
    """
    received: Any = _Received(data)
    answer = http.client.HTTPResponse(received)
    try:
        answer.begin()
        if answer.getheader("content-length") is None:
            raise http.client.IncompleteRead(b"")
        body = answer.read()
    except http.client.HTTPException as error:
        raise Unavailable(f"the answer of the owner's front is not complete; {UNKNOWN}") from error
    headers = {
        name: value for name, value in answer.getheaders() if name.lower().encode() in _PASSED
    }
    return ApiReply(
        data=body,
        media=answer.getheader("content-type", bodies.JSON),
        status=answer.status,
        headers=headers,
    )


def _claim_body(call: ApiCall, wait_ms: int) -> bytes:
    """The body of a claim that waits for another time."""
    value = bodies.parse(bodies.CBOR if call.is_cbor else bodies.JSON, call.data)
    assert isinstance(value, dict), "its schema was checked"
    value["wait_ms"] = wait_ms
    return encode(value) if call.is_cbor else bodies.write_json(value)
