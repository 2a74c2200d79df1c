"""The answers that a test gives to effects, by scripted executors, and the signed receipts made of
them (spec/testing.md, T-22, T-23, T-24, T-26)."""

from __future__ import annotations

import inspect
import json as json_module
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from nacl.signing import SigningKey

from aos.core.journal.inputs import ReceiptInput, StreamInput
from aos.core.journal.records import slot_bytes
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage
from aos.host.executors.agentos_http import in_their_form
from aos.manifest.forms import AGENTOS
from aos.manifest.names import HTTP, NODE
from aos.testing.desk import Desk
from aos.testing.plain import Span, canonical, read_span
from aos.testing.problems import WorldProblem
from aos.testing.sources import WORLD_KEY, signing_key
from aos.values.digests import Hash, content_hash
from aos.worker.failure import CODE_CHARS_MAX, AttemptFailure
from aos.worker.outcome import Outcome

STRANGER = "stranger"
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Fail:
    """The effect ends as ``error`` with this code."""

    code: str
    message: str = ""
    retryable: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.code) <= CODE_CHARS_MAX:
            raise BadUsage(f"Fail: expected a code of 1 to {CODE_CHARS_MAX} characters")


@dataclass(frozen=True, slots=True)
class Timeout:
    """The effect ends as ``timeout``."""

    message: str = ""


class _Never:
    def __repr__(self) -> str:
        return "NEVER"


NEVER: Final = _Never()
"""The effect stays open."""


@dataclass(frozen=True, slots=True)
class After:
    """Answer as ``script``, but later by this span. A function is called immediately; its answer
    is delayed."""

    span: Span
    script: object = None


class InTurn:
    """Scripts used one after the other; made by ``in_turn``."""

    def __init__(self, scripts: tuple[object, ...], then: object) -> None:
        self._scripts = scripts
        self._then = then
        self._request_count = 0

    def next(self) -> object:
        """The next script. Raises: WorldProblem: All scripts are used, and there is no ``then``."""
        self._request_count += 1
        if self._request_count <= len(self._scripts):
            return self._scripts[self._request_count - 1]
        if self._then is _NOTHING:
            raise WorldProblem(
                f"requested {self._request_count} times, but in_turn(…) has {len(self._scripts)} "
                "answers (then=… answers all further requests)"
            )
        return self._then


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The outcome of an effect, from which a receipt is made. ``blobs`` are stored with it."""

    status: str
    payload: bytes
    cost_cents: int | None = None
    blobs: Mapping[Hash, bytes] = field(default_factory=dict)


def in_turn(*scripts: object, then: object = _NOTHING) -> InTurn:
    """Answer with one script after the other, then with ``then`` for ever, if it is given."""
    return InTurn(scripts, then)


def response(
    status: int = 200,
    *,
    json: object = None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A receipt of ``sys/http.request@1``; ``json`` is encoded and used as the body."""
    header_fields = dict(headers or {})
    if json is not None:
        body = json_module.dumps(json, separators=(",", ":")).encode()
        header_fields.setdefault("content-type", "application/json")
    return {
        "status": status,
        "headers": header_fields,
        "body_ref": None,
        "body": body,
        "timings": {"start_ns": 0, "end_ns": 0},
    }


Ask: TypeAlias = Callable[[Callable[..., object], int], object]
"""Calls a function of a script with this number of parameters: 1 or 2."""


def resolved(script: object, ask: Ask) -> tuple[int, object]:
    """Return (delay in ns, answer). The answer is a value, ``Fail``, ``Timeout`` or ``NEVER``."""
    wait_ns = 0
    while True:
        match script:
            case After():
                wait_ns += read_span(script.span)
                script = script.script
            case InTurn():
                script = script.next()
            case function if callable(function):
                script = ask(function, _parameter_count(function))
            case _:
                return wait_ns, script


def _parameter_count(function: Callable[..., object]) -> int:
    try:
        inspect.signature(function).bind("params", "ctx")
    except TypeError:
        return 1
    return 2


def reply(intent: OpenIntent, answer: object, *, cost_cents: int | None = None) -> Reply:
    """Convert a value, ``Fail`` or ``Timeout`` to a reply.

    Raises:
        BadUsage: The value does not fit the receipt schema.
    """
    match answer:
        case Fail():
            failure = AttemptFailure(
                code=answer.code, message=answer.message, retryable=answer.retryable
            )
            return Reply(status="error", payload=failure.payload(), cost_cents=cost_cents)
        case Timeout():
            failure = AttemptFailure(code="timeout", message=answer.message, retryable=True)
            return Reply(status="timeout", payload=failure.payload(), cost_cents=cost_cents)
        case _:
            subject = f"the answer to {intent.effect.name}"
            payload = canonical(intent.effect.receipt, answer, subject=subject)
            return Reply(status="ok", payload=payload, cost_cents=cost_cents)


def as_read(desk: Desk, intent: OpenIntent, reply: Reply) -> Reply:
    """The reply in the form of the module that asked: that of the AgentOS SDK reads another one of
    an HTTP request (AG-15, AG-26)."""
    workflow = desk.effective.workflows.get(intent.cell[0])
    if workflow is None or workflow.module.abi != AGENTOS or intent.effect.name != HTTP:
        return reply
    outcome = Outcome(
        intent=intent.intent,
        effect=HTTP,
        attempt=max(1, desk.attempt(intent)),
        status=reply.status,
        payload=reply.payload,
        started_ns=min(intent.opened_ns, desk.now_ns),
        finished_ns=desk.now_ns,
        blobs=reply.blobs,
    )
    converted = in_their_form(slot_bytes(intent.params, desk.read), outcome)
    return replace(reply, payload=converted.payload, blobs=converted.blobs)


def receipt(desk: Desk, intent: OpenIntent, reply: Reply, *, forged: bool = False) -> ReceiptInput:
    """A receipt signed by the effect's executor; with ``forged``, in its name by a wrong key."""
    name, key = _signer(intent)
    unsigned = ReceiptInput(
        intent=intent.intent,
        effect=intent.effect.name,
        attempt=max(1, desk.attempt(intent)),
        status=reply.status,
        payload=reply.payload,
        started_ns=min(intent.opened_ns, desk.now_ns),
        finished_ns=desk.now_ns,
        cost_cents=reply.cost_cents,
        executor=name,
        key_id=bytes(key.verify_key),
        signature=b"",
    )
    signer = signing_key(STRANGER) if forged else key
    signature = signer.sign(unsigned.message(desk.world)).signature
    return replace(unsigned, signature=signature)


def stream_frame(
    desk: Desk, intent: OpenIntent, kind: str, payload: bytes, blob: bytes | None
) -> StreamInput:
    """The next signed frame of an intent's stream."""
    name, key = _signer(intent)
    unsigned = StreamInput(
        intent=intent.intent,
        effect=intent.effect.name,
        attempt=max(1, desk.attempt(intent)),
        frame_seq=desk.next_frame(intent),
        frame_kind=kind,
        payload=payload,
        executor=name,
        key_id=bytes(key.verify_key),
        signature=b"",
        payload_ref=None if blob is None else content_hash(blob),
    )
    signature = key.sign(unsigned.signed_message(desk.world)).signature
    return replace(unsigned, signature=signature)


def _signer(intent: OpenIntent) -> tuple[str, SigningKey]:
    if intent.executors is None:
        return NODE, WORLD_KEY
    for executor in intent.executors.values():
        key = signing_key(executor.name)
        if intent.effect.name in executor.effects and executor.public_key == bytes(key.verify_key):
            return executor.name, key
    raise WorldProblem(
        f"{intent.effect.name}: no executor of the manifest may sign for it with a key of this "
        "test (a manifest that was loaded elsewhere has other keys: give its path or its nodes)"
    )
