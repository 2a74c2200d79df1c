"""Messages between node and worker process, as the node writes and reads them (X-50)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aos.core.journal.vocabulary import HALTS, STATUSES, word_of
from aos.errors import BadUsage
from aos.host.executors.backlog import Work
from aos.host.executors.enclosures import Enclosed
from aos.host.executors.task import Halted
from aos.manifest.names import NODE
from aos.values.digests import Hash
from aos.worker.failure import AttemptFailure
from aos.worker.outcome import Outcome, StreamFrame, read_frame, read_outcome
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
        "params": task.params,
        "idempotency_key": task.idempotency_key,
        "workflow": task.workflow,
        "cell_key": task.cell_key,
        "issuer_ref": task.issuer_ref,
        "has_taker": has_taker,
    }
    if work.spent:
        message["spent"] = work.spent
    if task.next_frame:
        message["next_frame"] = task.next_frame
    if enclosed.blobs:
        message["blobs"] = dict(enclosed.blobs)
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


def number_or_0(message: Message, name: str) -> int:
    """A field that is a whole number of at least zero; 0 if it is left out."""
    return whole_number(message, name) if name in message else 0


def outcome(message: Message, *, name: str, key: bytes | None) -> Outcome:
    """Read the outcome of a task. ``name`` has signed it if the process has a ``key``."""
    try:
        task_outcome = read_outcome(_without(message, _NOT_OF_OUTCOME))
    except BadUsage as problem:
        raise WireProblem(f"message done does not say how its task ended: {problem}") from problem
    if task_outcome.status not in STATUSES:
        raise WireProblem(f"message done has the status {task_outcome.status!r:.40}")
    if min(task_outcome.attempt, task_outcome.started_ns, task_outcome.finished_ns) < 0:
        raise WireProblem("message done has a number below 0")
    _check_signer(task_outcome, name=name, key=key)
    return task_outcome


def frame(message: Message, *, name: str, key: bytes | None) -> StreamFrame:
    """Read a stream frame. ``name`` has signed it if the process has a ``key``."""
    try:
        stream_frame = read_frame(_without(message, _NOT_OF_FRAME))
    except BadUsage as problem:
        text = f"message progress does not say how far its task is: {problem}"
        raise WireProblem(text) from problem
    if min(stream_frame.attempt, stream_frame.frame_seq) < 0:
        raise WireProblem("message progress has a number below 0")
    _check_signer(stream_frame, name=name, key=key)
    return stream_frame


_NOT_OF_OUTCOME: Final = ("op", "dropped", "is_final")
_NOT_OF_FRAME: Final = ("op",)


def _without(message: Message, names: Sequence[str]) -> Message:
    fields = dict(message)
    for name in names:
        fields.pop(name, None)
    return fields


def _check_signer(statement: Outcome | StreamFrame, *, name: str, key: bytes | None) -> None:
    signer = (NODE, None) if key is None else (name, key)
    if (statement.executor, statement.key_id) != signer:
        raise WireProblem("a result or a stream frame is signed by another key than its process's")


def halted(message: Message) -> Halted:
    """Read why the process does not run a task that stays open (X-15, X-17)."""
    phase = word_of(HALTS, message.get("phase"))
    code, problem = message.get("code"), message.get("problem")
    if phase is None or not isinstance(code, str) or not isinstance(problem, str):
        raise WireProblem("message halt does not say why its task stays open")
    return Halted(phase, code, problem)
