"""The API of handlers of plan steps: ``@step``, ``StepContext``, ``Waiting``, ``Retry``, ``Dead``
(spec/linear.md, L-40 to L-45)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from aos.errors import BadUsage, excerpt
from aos.values.cbor import Value, encode
from aos.values.errors import ValueProblem
from aos.worker.api import CONCURRENCY_DEFAULT, CONCURRENCY_MAX, TIMEOUT_S_MAX, check_function
from aos.worker.failure import EffectFailed, bounded, failure_of
from aos.worker.results import to_value, unicode_text

TIMEOUT_S_DEFAULT: Final = 300.0
ERROR_BYTES_MAX: Final = 4_096
EVENT_TYPE_BYTES_MAX: Final = 256
_PAUSE_MAX: Final = timedelta(days=36_600)

R = TypeVar("R")

TaskType: TypeAlias = Literal["READY_STEP", "WAITING_TIMEOUT"]


def _milliseconds(subject: str, duration: object) -> int | None:
    if duration is None:
        return None
    if isinstance(duration, bool) or not isinstance(duration, (timedelta, int, float)):
        raise BadUsage(f"{subject}: expected a timedelta or seconds, found {duration!r:.80}")
    try:
        pause = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
    except (OverflowError, ValueError):
        pause = _PAUSE_MAX * 2
    if not timedelta() <= pause <= _PAUSE_MAX:
        raise BadUsage(f"{subject}: expected 0 to {_PAUSE_MAX.days} days, found {duration}")
    return pause // timedelta(milliseconds=1)


class Waiting:
    """Return it to wait for a signal of ``event_type``; the handler runs again when one comes.

    Args:
        event_type: The type of the signal, 1 to 256 bytes.
        timeout: A ``timedelta`` or seconds, after which the handler runs with the task type
            ``WAITING_TIMEOUT``; without it there is no deadline.
    """

    def __init__(self, event_type: str, timeout: timedelta | float | None = None) -> None:
        try:
            size = len(unicode_text(str(event_type)).encode())
        except ValueProblem as problem:
            raise BadUsage(f"Waiting: {problem}") from problem
        if not 1 <= size <= EVENT_TYPE_BYTES_MAX:
            raise BadUsage(f"Waiting: expected a type of 1 to 256 bytes, found {event_type!r:.80}")
        self.event_type = str(event_type)
        self.timeout_ms = _milliseconds("timeout", timeout)


class Retry:
    """Return it to run the handler again after a pause, while attempts are left. The pause is
    ``backoff`` (a ``timedelta`` or seconds), or else the plan's."""

    def __init__(self, error: str, backoff: timedelta | float | None = None) -> None:
        self.error = str(error)
        self.backoff_ms = _milliseconds("backoff", backoff)


class Dead:
    """Return it to fail the instance."""

    def __init__(self, error: str) -> None:
        self.error = str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class WokenBy:
    """The signal that woke the plan step. ``payload`` is a plain value."""

    event_id: str
    type: str
    payload: Value


@dataclass(slots=True, kw_only=True)
class StepContext:
    """The run of a handler: its instance, plan step and attempt.

    Attributes:
        plan: The type of the plan, ``order.process``; ``version`` is the one that the instance
            began with.
        step: The type of the plan step, ``SHIP``; ``seq`` is its number, from 0.
        task_type: ``WAITING_TIMEOUT`` if its wait has passed its deadline, else ``READY_STEP``.
        attempt: 1 for the first; failures that were recorded, and this run.
        woken_by: The signal that ended the last wait of this plan step; None without one.
        idempotency_key: The same for every run of this plan step. Pass it to the service that you
            call, so that a second run does not act twice.
        lease_until_ns: Wall clock in ns; the worker extends the lease while the handler runs.
        resource: The value that the ``setup`` of the Executors yielded; None without one.
    """

    instance: str
    biz_key: str | None
    plan: str
    version: int
    step: str
    seq: int
    task_type: TaskType
    attempt: int
    max_attempts: int
    epoch: int
    woken_by: WokenBy | None
    lease_until_ns: int
    world: str
    resource: Any = None
    outbound: list[tuple[str, Value]] = field(default_factory=list, repr=False)

    @property
    def idempotency_key(self) -> str:
        """See the class."""
        return f"{self.instance}/{self.seq}"

    def emit(self, schema: str, value: Any) -> None:
        """Emit an event together with the result of this run: with all of it, or not at all.

        With a ``Retry`` and with an exception nothing is emitted. ``value`` is a plain value of
        the schema, which the manifest in force must have.

        Raises:
            BadUsage: The name is no Unicode text, or the value has no plain form.
        """
        try:
            self.outbound.append((unicode_text(schema), to_value(value)))
        except ValueProblem as problem:
            raise BadUsage(f"emit {schema}: {problem}") from problem


def step_context(
    task: Mapping[str, Any],
    woken_by: Mapping[str, Any] | None,
    *,
    world: str,
    resource: Any = None,
) -> StepContext:
    """Make the context of a run from the document of a claimed plan step (spec/linear.md, L-33).
    ``woken_by`` is the signal in it, decoded."""
    return StepContext(
        instance=task["instance"],
        biz_key=task["biz_key"],
        plan=task["plan"],
        version=task["version"],
        step=task["step"],
        seq=task["step_seq"],
        task_type=task["task_type"],
        attempt=task["attempt"],
        max_attempts=task["max_attempts"],
        epoch=task["epoch"],
        woken_by=None if woken_by is None else WokenBy(**woken_by),
        lease_until_ns=task["lease_until_ns"],
        world=world,
        resource=resource,
    )


StepHandler: TypeAlias = Callable[[Any, StepContext], R]
"""``async def`` or plain ``def``; takes (context, ctx)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFunction(Generic[R]):
    """A handler and the plan step that it carries out. Calling it calls the function directly."""

    name: str
    function: StepHandler[R] = field(repr=False)
    is_async: bool
    concurrency: int
    timeout_s: float

    def __call__(self, context: Any, ctx: StepContext) -> R:
        return self.function(context, ctx)


_TYPE: Final = r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,127}|\*)"
_NAME: Final = re.compile(rf"{_TYPE}/{_TYPE}", re.ASCII)


def _is_step_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def step(
    name: str, *, concurrency: int = CONCURRENCY_DEFAULT, timeout_s: float = TIMEOUT_S_DEFAULT
) -> Callable[[StepHandler[R]], StepFunction[R]]:
    """Make a function the handler of a plan step of linear workflows (L-40).

    It takes (context, ctx) and returns None or a dict (done; the dict changes keys of the
    context, and None as a value removes one), ``Waiting``, ``Retry`` or ``Dead``. An exception
    counts as a ``Retry`` with its text; ``EffectFailed(retryable=False)`` as ``Dead``.

    Args:
        name: ``order.process/SHIP``; ``*`` for any plan or any plan step.
        concurrency: Calls that may run at the same time.
        timeout_s: Maximum run time, in seconds; then the result is a ``Retry``.

    Raises:
        BadUsage: The name, a number or the function's parameters are invalid.
    """
    if not _is_step_name(name):
        raise BadUsage(
            f"step {name!r:.80}: expected PLAN/STEP such as order.process/SHIP, with * for any"
        )
    if type(concurrency) is not int or not 1 <= concurrency <= CONCURRENCY_MAX:
        raise BadUsage(
            f"step {name}: concurrency: expected 1 to {CONCURRENCY_MAX}, found {concurrency!r:.80}"
        )
    if type(timeout_s) not in (int, float) or not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise BadUsage(
            f"step {name}: timeout_s: expected more than 0 and at most {TIMEOUT_S_MAX:.0f} seconds,"
            f" found {timeout_s!r:.80}"
        )

    def wrap(function: StepHandler[R]) -> StepFunction[R]:
        if isinstance(function, StepFunction):
            raise BadUsage(f"step {name}: {function.name} is on this function already")
        return StepFunction(
            name=name,
            function=function,
            is_async=check_function(f"step {name}", function, "context"),
            concurrency=concurrency,
            timeout_s=timeout_s,
        )

    return wrap


def outcome_document(returned: object, ctx: StepContext) -> dict[str, Any]:
    """The outcome and the outbound events of a run, as ``/v1/work/results`` takes them.

    Anything that a handler cannot return is a ``retry`` that says so, also an object that raises
    when it is read.
    """
    try:
        return _document_of(returned, ctx)
    except Exception as error:  # noqa: BLE001  # of any type
        return refused_outcome(f"the result raised {type(error).__name__} when it was read")


def _document_of(returned: object, ctx: StepContext) -> dict[str, Any]:
    outbound = [{"schema": schema, "value_cbor": encode(value)} for schema, value in ctx.outbound]
    match returned:
        case None:
            outcome: dict[str, Any] = {"status": "completed"}
        case Waiting():
            outcome = {"status": "waiting", "event_type": returned.event_type}
            if returned.timeout_ms is not None:
                outcome["timeout_ms"] = returned.timeout_ms
        case Retry():
            return {"outcome": _retry(returned.error, returned.backoff_ms), "outbound": []}
        case Dead():
            outcome = {"status": "dead", "error": bounded(returned.error, ERROR_BYTES_MAX)}
        case Mapping():
            try:
                outcome = {"status": "completed", "patch_cbor": _patch(returned)}
            except ValueProblem as problem:
                return refused_outcome(f"the result is no change of the context: {problem}")
        case _:
            name = type(returned).__name__
            return refused_outcome(
                f"expected None, a dict, Waiting, Retry or Dead from the handler, found {name}"
            )
    return {"outcome": outcome, "outbound": outbound}


def failed_outcome(error: BaseException) -> dict[str, Any]:
    """The outcome of a run that raised."""
    failure = failure_of(error)
    if isinstance(error, EffectFailed) and not failure.retryable:
        text = f"{failure.code}: {failure.message}" if failure.message else failure.code
        outcome = {"status": "dead", "error": bounded(text, ERROR_BYTES_MAX)}
        return {"outcome": outcome, "outbound": []}
    return refused_outcome(failure.message)


def refused_outcome(text: str) -> dict[str, Any]:
    """The outcome of a run whose result counts for nothing."""
    return {"outcome": _retry(text, None), "outbound": []}


def _retry(error: str, backoff_ms: int | None) -> dict[str, Any]:
    outcome: dict[str, Any] = {"status": "retry", "error": bounded(error, ERROR_BYTES_MAX)}
    return outcome if backoff_ms is None else {**outcome, "backoff_ms": backoff_ms}


def _patch(returned: Mapping[Any, Any]) -> bytes:
    for key in returned:
        if not isinstance(key, str):
            raise ValueProblem(f"expected text as keys, found {excerpt(repr(key))}")
    return encode(to_value(returned))
