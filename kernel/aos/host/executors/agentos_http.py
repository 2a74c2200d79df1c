"""The outcome of an HTTP request in the form that modules of the AgentOS SDK read (AG-15, AG-26).

They decode the receipt's schema whatever its status, so a failure is such a receipt too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from aos.host.executors.blob import BLOB_MISSING, BLOB_TOO_LARGE
from aos.host.executors.naming import documents
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash
from aos.values.sha256 import sha256_text
from aos.worker.http_settings import BAD_REQUEST, METHODS
from aos.worker.outcome import Outcome
from aos.worker.worker_secrets import HOST_DENIED, WORKFLOW_DENIED

TIMED_OUT: Final = 598
NO_ANSWER: Final = 599

_NOT_SENT: Final = frozenset({BAD_REQUEST, HOST_DENIED, WORKFLOW_DENIED})
_OTHER_FORM: Final = frozenset({BLOB_MISSING, BLOB_TOO_LARGE})
"""Codes that are no answer of an HTTP request in AgentOS: such a payload is rejected (AG-16)."""


def in_their_form(params: bytes, outcome: Outcome) -> Outcome:
    """Return the outcome of a request with ``params`` as such a module reads it: a body is a blob
    with its SHA-256 name, and a failure is a receipt with a status of its own."""
    if outcome.status == "ok":
        return _with_named_body(outcome)
    error: Any = decode_record(outcome.payload)
    if outcome.status == "canceled" or error["code"] in _OTHER_FORM:
        return outcome
    message = f"{error['code']}: {error['message']}".encode()
    receipt: Value = {
        "status": _status(params, outcome, error["code"]),
        "headers": {},
        "body": None,
        "body_ref": sha256_text(message),
        "timings": {"start_ns": outcome.started_ns, "end_ns": outcome.finished_ns},
    }
    return replace(outcome, payload=encode(receipt), blobs=_named_blobs(message))


def _status(params: bytes, outcome: Outcome, code: str) -> int:
    if outcome.status == "timeout":
        return TIMED_OUT
    if code not in _NOT_SENT:
        return NO_ANSWER
    request: Any = decode_record(params)
    is_method = code == BAD_REQUEST and request["method"] not in METHODS
    return int(HTTPStatus.METHOD_NOT_ALLOWED if is_method else HTTPStatus.BAD_REQUEST)


def _with_named_body(outcome: Outcome) -> Outcome:
    receipt: Any = decode_record(outcome.payload)
    body = receipt["body"]
    if body is None:
        body = next(iter(outcome.blobs.values()), None)
    if body is None:
        return outcome
    receipt |= {"body": None, "body_ref": sha256_text(body)}
    return replace(outcome, payload=encode(receipt), blobs=_named_blobs(body))


def _named_blobs(body: bytes) -> Mapping[Any, bytes]:
    return {content_hash(body): body} | documents(body)
