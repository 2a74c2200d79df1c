"""Messages between node and worker process, as the node writes and reads them (X-50)."""

from __future__ import annotations

from typing import Any

from aos.core.journal.records import Batch
from aos.core.journal.vocabulary import HALTS, STATUSES, word_of
from aos.host.executors.backlog import Work
from aos.host.executors.enclosures import Enclosed
from aos.host.executors.task import Halted, Outcome, StreamFrame, Task
from aos.host.fields import blobs_by_hash
from aos.manifest.names import NODE
from aos.values.digests import Hash, is_hash
from aos.worker.failure import AttemptFailure
from aos.worker.wire import Message, WireProblem
from aos.worker.worker_secrets import to_wire


def run(work: Work, enclosed: Enclosed, *, has_taker: bool) -> Message:
    """A task to run, with the blobs and the secrets that its params name."""
    task = work.task
    message: Message = {
        "op": "run",
        "intent": task.intent,
        "effect": task.effect.name,
        "attempt": work.attempt,
        "spent": work.spent,
        "params": task.params,
        "idempotency_key": task.idempotency_key,
        "workflow": task.workflow,
        "cell_key": task.cell_key,
        "issuer_ref": task.issuer_ref,
        "blobs": dict(enclosed.blobs),
        "next_frame": task.next_frame,
        "has_taker": has_taker,
    }
    if enclosed.secrets:
        message["secrets"] = to_wire(enclosed.secrets)
    return message


def begin(work: Work, *, is_granted: bool) -> Message:
    """The answer to a request for another attempt."""
    return {"op": "begin", "intent": work.task.intent, "is_granted": is_granted}


def cancel(work: Work) -> Message:
    """Cancel a task, whether or not the process runs it."""
    return {
        "op": "cancel",
        "intent": work.task.intent,
        "effect": work.task.effect.name,
        "attempt": work.begun,
    }


def blob(request: Message, blob_or_failure: bytes | AttemptFailure) -> Message:
    """The answer to a request for a blob."""
    number = whole_number(request, "read")
    if isinstance(blob_or_failure, bytes):
        return {"op": "blob", "read": number, "data": blob_or_failure}
    return {
        "op": "blob",
        "read": number,
        "data": None,
        "code": blob_or_failure.code,
        "problem": blob_or_failure.message,
    }


# Reading: a message that does not fit raises WireProblem, and the process is ended.


def intent(message: Message) -> Hash:
    """The intent that a message is about."""
    value = message.get("intent")
    if not isinstance(value, bytes):
        raise WireProblem(f"message {message['op']} has no intent")
    return Hash(value)


def blob_name(message: Message) -> str:
    """The hash of the blob that a process asks for. Any text: it may come from the params."""
    value = message.get("hash")
    if not isinstance(value, str):
        raise WireProblem(f"message {message['op']} has no hash")
    return value


def whole_number(message: Message, name: str) -> int:
    """A field that is a whole number of at least zero."""
    number = message.get(name)
    if type(number) is not int or number < 0:
        raise WireProblem(f"message {message['op']} has no {name}")
    return number


def pause_ns(message: Message) -> int:
    """How long a process pauses before the attempt that it asks for; 0 if it does not say."""
    return whole_number(message, "pause_ns") if "pause_ns" in message else 0


def outcome(task: Task, message: Message, *, name: str, key: bytes | None) -> Outcome:
    """Read the outcome of ``task``. ``name`` has signed it if the process has a ``key``."""
    status, payload, cost = (message.get(field) for field in ("status", "payload", "cost_cents"))
    signature, blobs = message.get("signature"), blobs_by_hash(message.get("blobs"))
    if not (
        status in STATUSES
        and message.get("effect") == task.effect.name
        and isinstance(payload, bytes)
        and (cost is None or type(cost) is int)
        and isinstance(signature, bytes | None)
        and (signature is None) == (key is None)
        and blobs is not None
    ):
        raise WireProblem("message done does not say how its task ended")
    return Outcome(
        intent=task.intent,
        effect=task.effect.name,
        attempt=whole_number(message, "attempt"),
        status=status,
        payload=payload,
        started_ns=whole_number(message, "started_ns"),
        finished_ns=whole_number(message, "finished_ns"),
        cost_cents=cost,
        executor=NODE if key is None else name,
        key_id=key,
        signature=signature,
        batch=None if key is None else _batch(message.get("batch")),
        blobs=blobs,
    )


def halted(message: Message) -> Halted:
    """Read why the process does not run a task that stays open (X-15, X-17)."""
    phase = word_of(HALTS, message.get("phase"))
    code, problem = message.get("code"), message.get("problem")
    if phase is None or not isinstance(code, str) or not isinstance(problem, str):
        raise WireProblem("message halt does not say why its task stays open")
    return Halted(phase, code, problem)


def _batch(value: Any) -> Batch | None:
    match value:
        case None:
            return None
        case [index, size, list(path)] if (
            type(index) is int and type(size) is int and all(is_hash(digest) for digest in path)
        ):
            return Batch(index=index, size=size, path=tuple(path))
    raise WireProblem("message done has a batch that is none")


def frame(task: Task, message: Message, *, name: str, key: bytes | None) -> StreamFrame:
    """Read a stream frame of ``task`` from a progress message."""
    kind, payload, blob = (message.get(field) for field in ("kind", "payload", "blob"))
    signature = message.get("signature")
    if not (
        isinstance(kind, str)
        and isinstance(payload, bytes)
        and isinstance(blob, bytes | None)
        and isinstance(signature, bytes | None)
        and (signature is None) == (key is None)
    ):
        raise WireProblem("message progress does not say how far its task is")
    return StreamFrame(
        intent=task.intent,
        effect=task.effect.name,
        attempt=whole_number(message, "attempt"),
        frame_seq=whole_number(message, "number"),
        frame_kind=kind,
        payload=payload,
        blob=blob,
        executor=NODE if key is None else name,
        key_id=key,
        signature=signature,
    )
