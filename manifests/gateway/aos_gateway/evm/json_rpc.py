"""JSON-RPC 2.0 requests as bytes, one or a batch, and their answers read strictly (EV-7, EV-14)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aos_gateway.evm.hex_values import found_text

INVALID_PARAMS: Final = -32602
DEPTH_MAX: Final = 64
"""Lists and objects inside of each other. Answers of nodes have about 8."""

_CODE_MAX: Final = 2**31
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class NoAnswer(Exception):
    """The bytes are no answer to the request. Its text completes "the node …"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError:
    """The node's own error. ``code`` is None if the node gives no whole number."""

    code: int | None
    message: str
    data: Any = None


class RpcCall(NamedTuple):
    """A method and its params."""

    method: str
    params: list[Any]


def request_bytes(number: int, method: str, params: list[Any]) -> bytes:
    return _bytes(_request(number, method, params))


def batch_bytes(calls: Mapping[int, RpcCall]) -> bytes:
    """One request with several calls, by their ids."""
    return _bytes([_request(number, *call) for number, call in calls.items()])


def _request(number: int, method: str, params: list[Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _bytes(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def read_answer(body: bytes, number: int) -> Any | RpcError:
    """The result of request ``number``, or the node's error.

    Raises:
        NoAnswer: The body is not JSON, not an answer of JSON-RPC 2.0, or answers another request.
    """
    document = _document(body)
    answer_id = _id(document, body)
    if type(answer_id) is not int or answer_id != number:
        raise NoAnswer(
            f"answered another request: expected id {number}, found {found_text(answer_id)}"
        )
    return _outcome(document)


def read_answers(body: bytes, calls: Mapping[int, RpcCall]) -> dict[int, Any | RpcError]:
    """The result of each call of a batch, or the node's error, by id. They may come in any order.

    Raises:
        NoAnswer: The body is not JSON, or not a list with exactly one answer of JSON-RPC 2.0 for
            each call.
    """
    documents = _document(body)
    if not isinstance(documents, list):
        raise NoAnswer(f"did not answer a batch with a list: {_excerpt(body)}")
    answers: dict[int, Any | RpcError] = {}
    for document in documents:
        answer_id = _id(document, body)
        if type(answer_id) is not int or answer_id not in calls:
            raise NoAnswer(
                f"answered a batch with an id that is not in it: {found_text(answer_id)}"
            )
        if answer_id in answers:
            raise NoAnswer(f"answered request {answer_id} of a batch twice")
        answers[answer_id] = _outcome(document)
    if len(answers) < len(calls):
        raise NoAnswer(f"answered {len(answers)} of the {len(calls)} requests of a batch")
    return answers


def _document(body: bytes) -> Any:
    try:
        document = json.loads(body) if _is_shallow(body) else None
    except ValueError:
        document = None
    if document is None:
        raise NoAnswer(f"did not answer in JSON: {_excerpt(body)}")
    return document


def _id(document: Any, body: bytes) -> Any:
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise NoAnswer(f"did not answer in JSON-RPC 2.0: {_excerpt(body)}")
    return document.get("id")


def _outcome(document: dict[str, Any]) -> Any | RpcError:
    error = document.get("error")
    if error is not None and document.get("result") is None:
        return _error(error)
    if error is not None or "result" not in document:
        raise NoAnswer("answered without exactly one of result and error")
    return document["result"]


def _is_shallow(body: bytes) -> bool:
    """Whether lists and objects nest at most about ``DEPTH_MAX`` levels.

    Python's parser recurses: without this check a node could end the process, because packages
    such as py_ecc raise the recursion limit beyond the stack.
    """
    if body.count(b"[") + body.count(b"{") <= DEPTH_MAX:
        return True
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return True
    return False


def _error(error: object) -> RpcError:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise NoAnswer(f"answered with an error that has no message: {found_text(error)}")
    code = error.get("code")
    is_code = type(code) is int and abs(code) < _CODE_MAX
    return RpcError(
        code=code if is_code else None, message=error["message"], data=error.get("data")
    )


def _excerpt(body: bytes) -> str:
    return body.decode("utf-8", "replace") if body.strip() else "the body is empty"
