"""Run the author's ``@effect`` and ``@step`` functions in the process of the test (T-25, T-25a).

As in a worker process, attempts, backoff (on the test's clock), exceptions and the check of results
apply. Timeouts are not measured.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from aos.core.journal.vocabulary import HaltPhase
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage
from aos.host.executors.enclosures import Enclosed
from aos.manifest.effective import Effective
from aos.testing.loop import Loop
from aos.testing.receipts import Reply
from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.worker.api import EffectContext, EffectFunction, OnProgress
from aos.worker.calls import Callee
from aos.worker.console import show
from aos.worker.executors import Executors
from aos.worker.failure import AttemptFailure, EffectFailed, failure_of
from aos.worker.load_executors import load
from aos.worker.policy import policy_of
from aos.worker.progress import check_secrets
from aos.worker.redaction import Redactor
from aos.worker.results import cost_problem, payload_of
from aos.worker.sealed_calls import open_params, sealed_result
from aos.worker.secret_leaks import leak_in, without_secrets
from aos.worker.step_api import StepContext, StepFunction, failed_outcome, outcome_document
from aos.worker.worker_secrets import texts_of

Given: TypeAlias = Executors | EffectFunction[Any] | StepFunction[Any] | str

_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherAttempt:
    """The attempt failed, and another one follows after a pause."""

    pause_ns: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The effect stays open without a receipt: it is held or parked (X-15, X-17)."""

    phase: HaltPhase
    code: str
    problem: str


class Functions:
    """The functions of one Executors. ``setup`` is entered before the first call."""

    def __init__(self, executors: Executors, loop: Loop) -> None:
        self.effects = executors.effects
        self.steps = executors.steps
        self._executors = executors
        self._setup = executors.setup
        self._loop = loop
        self._resource: Any = None
        self._is_set_up = executors.setup is None

    def call(
        self,
        intent: OpenIntent,
        params: Value,
        ctx: EffectContext,
        effective: Effective,
        enclosed: Enclosed | AttemptFailure,
    ) -> Reply | AnotherAttempt | Stop:
        """Run one attempt, with the blobs and secrets that its params name, and with the plaintexts
        of its sealed params."""
        function = self.effects[intent.effect.name]
        if isinstance(enclosed, AttemptFailure):
            return self._failed(intent, function, ctx, enclosed)
        redactor = Redactor(enclosed.secrets) if enclosed.secrets else None
        if effective.sealing:
            ctx.keyring = self._executors.keyring()
        opened_params = open_params(
            params, intent.effect, effective, ctx.keyring, secrets=enclosed.secrets
        )
        if isinstance(opened_params, AttemptFailure):
            return self._failed(intent, function, ctx, opened_params)
        if opened_params is not None:
            params, redactor = opened_params.params, opened_params.redactor
        ctx.blobs, ctx.secrets = enclosed.blobs, texts_of(enclosed.secrets)
        if redactor is not None:
            ctx.on_progress = _without_secrets(ctx.on_progress, redactor)
        ctx.resource = self._entered()
        try:
            value = self._call_function(function, params, ctx)
        except Exception as problem:  # noqa: BLE001  # as in a worker: it becomes the outcome
            failure = failure_of(problem)
            if failure.end == "park":
                print(f"{function.name} raised:", file=sys.stderr)  # noqa: T201  # as a worker does
                show(problem, redactor)
            if redactor is not None:
                failure = without_secrets(failure, redactor)
            return self._failed(intent, function, ctx, failure)
        if effective.sealing:
            value = sealed_result(value, intent.effect, effective, ctx.keyring, ctx.intent)
            if isinstance(value, AttemptFailure):
                return self._failed(intent, function, ctx, value)
        leak = None if redactor is None else leak_in(value, redactor, cost=ctx.cost_cents)
        payload = (
            leak
            or cost_problem(ctx.cost_cents)
            or payload_of(value, intent.effect.receipt, bytes_max=effective.limits.event_bytes)
        )
        if isinstance(payload, AttemptFailure):
            return self._failed(intent, function, ctx, payload)
        return Reply(status="ok", payload=payload, cost_cents=ctx.cost_cents)

    def call_step(self, name: str, context: object, ctx: StepContext) -> dict[str, Any]:
        """Run a handler; return its outcome and outbound events, as a worker reports them."""
        ctx.resource = self._entered()
        try:
            value = self._call_function(self.steps[name], context, ctx)
        except Exception as problem:  # noqa: BLE001  # as in a worker: it becomes the outcome
            if not isinstance(problem, EffectFailed):
                print(f"{name} of {ctx.instance} raised:", file=sys.stderr)  # noqa: T201
                traceback.print_exception(problem)
            return failed_outcome(problem)
        return outcome_document(value, ctx)

    def _entered(self) -> Any:
        if not self._is_set_up and self._setup is not None:
            self._resource = self._loop.enter(self._setup)
            self._is_set_up = True
        return self._resource

    def _call_function(self, function: Callee, argument: object, ctx: object) -> object:
        value: object = function.function(argument, ctx)
        if function.is_async:
            return self._loop.run(cast("Coroutine[Any, Any, object]", value))
        return value

    def _failed(
        self,
        intent: OpenIntent,
        function: EffectFunction[Any],
        ctx: EffectContext,
        failure: AttemptFailure,
    ) -> Reply | AnotherAttempt | Stop:
        policy = policy_of(intent.effect, function)
        is_once = intent.effect.delivery == "at_most_once"
        attempts_max = policy.attempts_for(failure)
        if failure.retryable and ctx.attempt < attempts_max and not is_once:
            pause_ns = int(policy.pause_s(ctx.attempt) * 1000) * _MS
            return AnotherAttempt(pause_ns=pause_ns, problem=f"{failure.code}: {failure.message}")
        if failure.end != "settle":
            phase: HaltPhase = "held" if failure.end == "hold" else "parked"
            return Stop(phase=phase, code=failure.code, problem=failure.message)
        cost = None if cost_problem(ctx.cost_cents) else ctx.cost_cents
        return Reply(status="error", payload=failure.payload(), cost_cents=cost)


def _without_secrets(tell: OnProgress | None, redactor: Redactor) -> OnProgress:
    """Drop reports that hold a secret, as a worker does (X-77)."""

    def on_progress(kind: Any, payload: Any, blob: Any) -> None:
        with contextlib.suppress(ValueProblem):
            check_secrets(redactor, kind, payload, blob)
            if tell is not None:
                tell(kind, payload, blob)

    return on_progress


def read(executors: Given | Iterable[Given]) -> list[Executors]:
    """Convert the argument of ``use`` to Executors.

    Raises:
        BadUsage: A part of it is not an Executors, an effect function or FILE.py:ATTR.
    """
    if isinstance(executors, str):
        return [load(executors)]
    if isinstance(executors, Executors):
        return [executors]
    if isinstance(executors, EffectFunction | StepFunction):
        return [Executors("test", [executors])]
    if isinstance(executors, Iterable):
        return [group for part in executors for group in read(part)]
    raise BadUsage(
        "executors: expected an Executors, a function made by @effect or @step, or FILE.py:ATTR, "
        f"found {executors!r:.80}"
    )
