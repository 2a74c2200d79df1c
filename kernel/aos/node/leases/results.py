"""A result of a worker -> the outcome of an intent, checked by its schemas (N-57, N-60, N-62)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.records import Batch, KernelReceipt, Receipt, slot_hash
from aos.core.state.cell import OpenIntent
from aos.manifest.builtin_definitions import SCHEMAS
from aos.manifest.effective import Effect, Effective
from aos.manifest.names import ERROR, NODE
from aos.manifest.sealed_places import sealing_problem
from aos.node.problems import Problem, refused
from aos.values.cbor import encode
from aos.values.digests import HASH_BYTES, Hash, content_hash
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas
from aos.worker.failure import AttemptFailure, End
from aos.worker.outcome import Outcome, StreamFrame
from aos.worker.results import to_value

_ERROR: Final[Schema] = compile_schemas({ERROR: SCHEMAS[ERROR]["type"]})[ERROR]

_ENDS: Final[Mapping[str, End]] = {"held": "hold", "parked": "park"}
"""The end of an effect whose result is no outcome, by the status of the result."""


def read_result(
    item: Mapping[str, Any], intent: Hash, effect: Effect, effective: Effective | None
) -> Outcome:
    """Read an item of ``schemas.RESULTS`` about an intent of ``effect``. ``effective`` is the
    manifest in force, by which sealed places are found (SL-12).

    A task that is held or parked has the status ``error``, and a failure with that end.

    Raises:
        Problem: 422: the payload does not fit its schema. The lease is as it was.
    """
    status = item["status"]
    schema = effect.receipt if status == "ok" else _ERROR
    if status == "ok" and effective is not None and schema.name in effective.sealing:
        _check_sealed(item, schema, effective)
    payload = _payload(item, schema)
    if item["finished_ns"] < item["started_ns"]:
        raise _misfit("finished_ns", "expected a time that is not before started_ns")
    signature = item.get("signature")
    blobs = {content_hash(blob): blob for blob in item.get("blobs", ())}
    failure = None
    if status != "ok":
        value: Any = _ERROR.from_record(payload)
        failure = AttemptFailure(
            code=value["code"],
            message=value["message"],
            retryable=value["retryable"] or status == "parked",
            end=_ENDS.get(status, "settle"),
        )
    return Outcome(
        intent=intent,
        effect=effect.name,
        attempt=item["epoch"],
        status="error" if status in _ENDS else status,
        payload=payload,
        started_ns=item["started_ns"],
        finished_ns=item["finished_ns"],
        cost_cents=item.get("cost_cents"),
        executor=NODE if signature is None else signature["executor"],
        key_id=None if signature is None else signature["key"],
        signature=None if signature is None else signature["value"],
        batch=None if signature is None else _batch(signature.get("batch")),
        blobs=blobs,
        failure=failure,
        is_final=item.get("is_final", False),
    )


def _payload(item: Mapping[str, Any], schema: Schema) -> bytes:
    has_json, has_cbor = "payload" in item, "payload_cbor" in item
    if has_json == has_cbor:
        raise _misfit("payload", "expected either payload or payload_cbor")
    try:
        if has_json:
            return schema.encode(schema.from_json_object(item["payload"]))
        payload_cbor: bytes = item["payload_cbor"]
        data = schema.from_ingress(payload_cbor)
    except ValueProblem as problem:
        path = "payload" if has_json else "payload_cbor"
        raise _misfit(path, f"it does not fit {schema.name}: {problem}") from problem
    if "signature" in item and data != payload_cbor:
        raise _misfit("payload_cbor", f"a signed payload must be the normal form of {schema.name}")
    return data


def _check_sealed(item: Mapping[str, Any], schema: Schema, effective: Effective) -> None:
    """Refuse a result with a plaintext at a sealed place. Raises: Problem: 422, without the text of
    the place."""
    path = "payload" if "payload" in item else "payload_cbor"
    problem = sealing_problem(schema, item.get(path), effective.schemas)
    if problem is not None:
        raise _misfit(path, f"it does not fit {schema.name}: {problem}")


def _batch(fields: Mapping[str, Any] | None) -> Batch | None:
    if fields is None:
        return None
    if any(len(digest) != HASH_BYTES for digest in fields["path"]):
        raise _misfit("signature/batch/path", f"expected hashes of {HASH_BYTES} bytes")
    path = tuple(Hash(digest) for digest in fields["path"])
    return Batch(index=fields["index"], size=fields["size"], path=path)


def read_frame(item: Mapping[str, Any], intent: OpenIntent) -> StreamFrame:
    """Read an item of ``schemas.PROGRESS``.

    Raises:
        Problem: 422: the payload is none.
    """
    if "payload" in item and "payload_cbor" in item:
        raise _misfit("payload", "expected at most one of payload and payload_cbor")
    try:
        payload_cbor = item.get("payload_cbor", b"")
        payload = encode(to_value(item["payload"])) if "payload" in item else payload_cbor
    except ValueProblem as problem:
        raise _misfit("payload", str(problem)) from problem
    signature = item.get("signature")
    return StreamFrame(
        intent=intent.intent,
        effect=intent.effect.name,
        attempt=item["epoch"],
        frame_seq=item["number"],
        frame_kind=item["kind"],
        payload=payload,
        blob=item.get("blob"),
        executor=NODE if signature is None else signature["executor"],
        key_id=None if signature is None else signature["key"],
        signature=None if signature is None else signature["value"],
    )


def _misfit(path: str, detail: str) -> Problem:
    return Problem(422, "result_does_not_fit", f"{path}: {detail}", pointer=f"/{path}")


def is_same(record: Receipt | KernelReceipt, outcome: Outcome) -> bool:
    """Whether a receipt record is the one that this outcome would have made (N-57)."""
    return (
        isinstance(record, Receipt)
        and not outcome.halts
        and record.attempt == outcome.attempt
        and record.status == outcome.status
        and slot_hash(record.payload) == content_hash(outcome.payload)
        and (record.started_ns, record.finished_ns) == (outcome.started_ns, outcome.finished_ns)
        and record.cost_cents == outcome.cost_cents
    )


GONE_RULES: Final = (Rule.RECEIPT_INTENT_IS_UNKNOWN, Rule.RECEIPT_INTENT_IS_SETTLED)


def refusal_problem(answer: Refusal) -> Problem:
    """The problem of a result that the journal refused."""
    if answer.rule is Rule.RECEIPT_ATTEMPT_IS_OLD:
        return lease_is_over()
    return refused(answer)


def lease_is_over() -> Problem:
    """The worker does not have the last attempt of the task."""
    return Problem(
        409,
        "lease_is_over",
        "this worker does not have the task under this epoch: another attempt follows or has "
        "begun (drop the task: its result is not accepted)",
    )


def another_result() -> Problem:
    """The task is settled, by another result."""
    return Problem(
        409, Rule.RECEIPT_INTENT_IS_SETTLED.value, "the task is settled, and not by this result"
    )
