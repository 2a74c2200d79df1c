"""JSON-RPC to the local node: one call on one connection, so that a restart of the node is no
matter.
"""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 60.0

_numbers = itertools.count(1)


class NodeUnreachable(Exception):
    """The node did not answer, or its answer is not one of JSON-RPC."""


class RpcError(Exception):
    """The node answered with an error. ``data`` is a revert's data, where the node gives it."""

    def __init__(self, method: str, code: int, message: str, data: Any) -> None:
        super().__init__(f"{method}: {message} ({code})")
        self.code = code
        self.message = message
        self.data = data


def call(url: str, method: str, params: Sequence[Any], *, timeout_s: float = TIMEOUT_S) -> Any:
    """Return the result of one call.

    Raises:
        RpcError: The node refused.
        NodeUnreachable: It did not answer. A transaction may have been sent all the same.
    """
    number = next(_numbers)
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}
    status, body = _post(url, json.dumps(request).encode(), timeout_s)
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("id") != number:
        raise NodeUnreachable(
            f"{url}: {method}: expected an answer of JSON-RPC, found status {status}"
        )
    if error := answer.get("error"):
        raise RpcError(method, error["code"], error["message"], error.get("data"))
    return answer["result"]


def _post(url: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=timeout_s)
    try:
        connection.request("POST", address.path or "/", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as problem:
        raise NodeUnreachable(f"{url}: no answer: {problem}") from problem
    finally:
        connection.close()
