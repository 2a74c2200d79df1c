"""Build the value that the origin cell receives for a settled receipt (spec/kernel.md).

The origin cell is recorded in the intent; ``routing.subscriptions`` does not affect it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import RECORD_BYTES_MAX
from aos.core.journal.records import KernelReceipt, Receipt, Stream, slot_bytes
from aos.core.state.cell import OpenIntent
from aos.manifest.builtin_definitions import SCHEMAS
from aos.manifest.effective import Effect, Effective, Workflow
from aos.manifest.forms import AGENTOS
from aos.manifest.names import ENVELOPE, ERROR, LEGACY_ARMS, REJECTED, STREAM
from aos.values.cbor import Value
from aos.values.digests import content_hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas

PAYLOAD_INVALID: Final = "receipt_payload_invalid"
NO_ARM: Final = "receipt_status_has_no_arm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A receipt's payload in normal form, and the schema that it fits."""

    schema: str
    value: Value
    data: bytes


def payload_schemas(effect: Effect, status: str) -> tuple[Schema, ...]:
    """The schemas that a receipt's payload may fit, in the order in which they are tried (K-54)."""
    return (effect.receipt,) if status == "ok" else (EFFECT_ERROR, effect.receipt)


def read_payload(
    effective: Effective, workflow: Workflow, intent: OpenIntent, status: str, payload: bytes
) -> Payload | str:
    """Normalise a payload by the first schema that it fits. A module of the AgentOS SDK decodes the
    receipt's schema only, so no other is tried for it (AG-16).

    Returns:
        The payload; or a text with the problem, if it fits no schema.
    """
    schemas = payload_schemas(intent.effect, status)
    is_theirs = workflow.module.abi == AGENTOS and status != "ok"
    if is_theirs:
        schemas = (intent.effect.receipt,)
    problems = []
    for schema in schemas:
        try:
            data, value = schema.from_ingress_value(payload, max_bytes=effective.limits.event_bytes)
        except ValueProblem as problem:
            problems.append(f"{schema.name}: {problem}")
        else:
            return Payload(schema=schema.name, value=value, data=data)
    return (_error_text(payload) if is_theirs else None) or "; ".join(problems)


def _error_text(payload: bytes) -> str | None:
    """The code and message of a ``sys/EffectError@1``; None of another payload."""
    try:
        error: Any = EFFECT_ERROR.from_ingress_value(payload, max_bytes=RECORD_BYTES_MAX)[1]
    except ValueProblem:
        return None
    return f"{error['code']}: {error['message']}"


def takes(workflow: Workflow, schema: str) -> bool:
    """Whether the workflow accepts events of ``schema``."""
    return schema == workflow.event.name or schema in workflow.arms


def settled_arm(workflow: Workflow, intent: OpenIntent, status: str) -> str | None:
    """The continuation schema that ``workflow`` accepts for this effect, or None."""
    if takes(workflow, ENVELOPE):
        return ENVELOPE
    legacy = LEGACY_ARMS.get(intent.effect.name)
    return legacy if legacy and status == "ok" and takes(workflow, legacy) else None


_Settled: TypeAlias = Receipt | KernelReceipt

EFFECT_ERROR: Final = compile_schemas({ERROR: SCHEMAS[ERROR]["type"]})[ERROR]
"""``sys/EffectError@1``, which every manifest has."""


def _settled_payload(intent: OpenIntent, receipt: _Settled, payload: bytes) -> Payload:
    """The payload as it was read when the receipt was admitted. The manifest in force may have
    changed since, to another bound and without ``sys/EffectError@1`` (K-101)."""
    of_effect = intent.effect.receipt
    schema = of_effect if receipt.payload_schema == of_effect.name else EFFECT_ERROR
    data, value = schema.from_ingress_value(payload, max_bytes=RECORD_BYTES_MAX)
    return Payload(schema=schema.name, value=value, data=data)


def continuation(
    workflow: Workflow,
    intent: OpenIntent,
    receipt: _Settled,
    read: BlobReader,
) -> Value:
    """Build the event for the workflow, wrapped in its arm. The receipt must have been admitted as
    ``delivered`` or ``rejected``, so that its arm exists."""
    return _wrapped(workflow, *unwrapped(workflow, intent, receipt, read))


def unwrapped(
    workflow: Workflow,
    intent: OpenIntent,
    receipt: _Settled,
    read: BlobReader,
) -> tuple[str, dict[str | int, Value]]:
    """(schema, value) of a continuation, before it is wrapped."""
    payload = slot_bytes(receipt.payload, read)
    if receipt.outcome == "rejected":
        return REJECTED, _rejected(intent, receipt, payload)
    arm = settled_arm(workflow, intent, receipt.status)
    assert arm is not None
    settled = _settled_payload(intent, receipt, payload)
    if arm == ENVELOPE:
        return arm, _envelope(intent, receipt, settled)
    return arm, _legacy(intent, receipt, settled, read)


def _wrapped(workflow: Workflow, schema: str, value: Value) -> Value:
    wrapped = workflow.wrap(schema, value)
    assert wrapped is not None
    return wrapped


def stream_frame(workflow: Workflow, intent: OpenIntent, frame: Stream, read: BlobReader) -> Value:
    """Build the event for a stream frame, wrapped in the workflow's arm."""
    return _wrapped(workflow, STREAM, unwrapped_frame(intent, frame, read))


def unwrapped_frame(intent: OpenIntent, frame: Stream, read: BlobReader) -> dict[str | int, Value]:
    return {
        **_identity(intent),
        "emitted_at_seq": intent.seq,
        "seq": frame.frame_seq,
        "kind": frame.frame_kind,
        "payload": slot_bytes(frame.payload, read),
        "payload_ref": None if frame.payload_ref is None else hash_text(frame.payload_ref),
        "signature": frame.signature,
    }


def _identity(intent: OpenIntent) -> dict[str | int, Value]:
    effect = intent.effect
    workflow, key = intent.cell
    module_hash = effect.executor_module_hash
    return {
        "origin_module_id": workflow,
        "origin_workflow_hash": hash_text(intent.workflow_hash),
        "origin_instance_key": key or None,
        "intent_id": hash_text(intent.intent),
        "effect": effect.name,
        "effect_hash": hash_text(effect.hash),
        "executor_module": effect.executor_module,
        "executor_module_hash": None if module_hash is None else hash_text(module_hash),
        "executor_entrypoint": effect.executor_entrypoint,
        "params_hash": hash_text(intent.params_hash),
        "issuer_ref": intent.issuer_ref,
    }


def _envelope(intent: OpenIntent, receipt: _Settled, payload: Payload) -> dict[str | int, Value]:
    return {
        **_identity(intent),
        "receipt_payload": payload.data,
        "status": receipt.status,
        "emitted_at_seq": intent.seq,
        "cost_cents": receipt.cost_cents,
        "signature": receipt.signature,
        "payload_schema": payload.schema,
    }


def _rejected(intent: OpenIntent, receipt: _Settled, payload: bytes) -> dict[str | int, Value]:
    return {
        **_identity(intent),
        "status": receipt.status,
        "error_code": NO_ARM if receipt.payload_schema is not None else PAYLOAD_INVALID,
        "error_message": receipt.problem or "",
        "payload_hash": hash_text(content_hash(payload)),
        "payload_size": len(payload),
        "emitted_at_seq": intent.seq,
    }


def _legacy(
    intent: OpenIntent, receipt: _Settled, payload: Payload, read: BlobReader
) -> dict[str | int, Value]:
    requested = intent.effect.params
    return {
        "intent_hash": hash_text(intent.intent),
        "workflow": intent.cell[0],
        "effect": intent.effect.name,
        "status": receipt.status,
        "requested": requested.from_record(slot_bytes(intent.params, read)),
        "receipt": payload.value,
        "cost_cents": receipt.cost_cents,
        "signature": receipt.signature,
    }
