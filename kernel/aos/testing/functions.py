"""Run the author's ``@effect`` and ``@step`` functions in the process of the test, async ones on an
event loop of its own (spec/testing.md, T-25, T-25a).

As in a worker process, attempts, backoff (on the test's clock), exceptions and the check of results
apply. Timeouts are not measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from aos.core.journal.inputs import EventInput
from aos.core.journal.records import CellId, slot_bytes
from aos.core.journal.vocabulary import HaltPhase
from aos.core.kernel_protocol import CellView
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage
from aos.host.executors.enclosures import Enclosed
from aos.linear import (
    LinearState,
    OutcomeInvalid,
    claimable,
    current_row,
    matches,
    outbound_values,
    outcome_value,
    step_document,
)
from aos.manifest.effective import Effective
from aos.manifest.names import CLAIM, LINEAR, RESULT
from aos.testing.desk import Desk
from aos.testing.scripts import Reply
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem
from aos.worker.api import EffectContext, EffectFunction, OnProgress
from aos.worker.calls import Callee
from aos.worker.executors import Executors, Setup
from aos.worker.failure import AttemptFailure, EffectFailed, failure_of
from aos.worker.load_executors import load
from aos.worker.policy import policy_of
from aos.worker.progress import check_secrets
from aos.worker.redacted_output import show
from aos.worker.redaction import Redactor
from aos.worker.results import cost_problem, payload_of
from aos.worker.sealed_calls import open_params, sealed_result
from aos.worker.secret_leaks import leak_in, without_secrets
from aos.worker.step_api import (
    StepContext,
    StepFunction,
    failed_outcome,
    outcome_document,
    refused_outcome,
    step_context,
)
from aos.worker.worker_secrets import texts_of

Given: TypeAlias = Executors | EffectFunction[Any] | StepFunction[Any] | str
T = TypeVar("T")

STOP_S = 5.0
WORKER: Final = "test"

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


class Loop:
    """The event loop of async effect functions (T-25), which starts when it is first needed.

    It has its own thread because the test itself may run on an event loop, which cannot wait for
    another one.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._leave: list[asyncio.Event] = []
        self._lives: list[Future[None]] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started()).result()

    def enter(self, setup: Setup) -> Any:
        """Enter a context manager; ``close`` leaves it. One task does both, which some require."""
        entered: Future[Any] = Future()
        life = asyncio.run_coroutine_threadsafe(self._live(setup, entered), self._started())
        self._lives.append(life)
        return entered.result()

    async def _live(self, setup: Setup, entered: Future[Any]) -> None:
        leave = asyncio.Event()
        try:
            async with setup() as resource:
                self._leave.append(leave)
                entered.set_result(resource)
                await leave.wait()
        except BaseException as problem:
            if entered.done():
                raise
            entered.set_exception(problem)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="aos-testing-effects", daemon=True
            )
            self._thread.start()
        return self._loop

    def close(self) -> None:
        """Leave the context managers, last one first, and stop the loop. Raises their errors."""
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        try:
            for leave, life in zip(reversed(self._leave), reversed(self._lives), strict=False):
                loop.call_soon_threadsafe(leave.set)
                life.result(STOP_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(STOP_S)
            if not thread.is_alive():
                loop.close()


class StepHandlers:
    """The ``@step`` handlers of a test world, run by its clock (T-25a). They claim plan steps one
    at a time, in the order in which workers of a node get them."""

    def __init__(self) -> None:
        self._functions: dict[str, Functions] = {}
        self._claims = 0
        self._claimed: CellId | None = None

    def use(self, functions: Functions) -> None:
        """Run the handlers of one Executors."""
        self._functions.update(dict.fromkeys(functions.steps, functions))

    def serve(self, desk: Desk) -> bool:
        """Carry out the plan step that was claimed last, or claim the next one that is due. Return
        whether there was anything to do."""
        if not self._functions:
            return False
        if self._claimed is not None:
            cell, self._claimed = self._claimed, None
            state = _linear_state(desk, desk.cell(cell))
            if state is not None and current_row(state)["claim"] == self._claim:
                self._carry_out(desk, state)
                return True
        due = [
            ready_step
            for state in _linear_states(desk)
            if (ready_step := claimable(state)) is not None
            and ready_step.due_ns <= desk.now_ns
            and self._handler(ready_step.plan, ready_step.step) is not None
        ]
        if not due:
            return False
        first = min(due)
        self._claims += 1
        self._claimed = LINEAR, encode(first.instance)
        claim = {
            "instance": first.instance, "worker": WORKER, "claim": self._claim, "lease": None,
        }  # fmt: skip
        _send_event(desk, CLAIM, claim)
        return True

    def next_due(self, desk: Desk) -> int | None:
        """When the next plan step that has a handler here can be claimed; None if none can."""
        if not self._functions:
            return None
        return min(
            (
                ready_step.due_ns
                for state in _linear_states(desk)
                if (ready_step := claimable(state)) is not None
                and self._handler(ready_step.plan, ready_step.step) is not None
            ),
            default=None,
        )

    @property
    def _claim(self) -> str:
        return f"{WORKER}-{self._claims}"

    def _handler(self, plan: str, step: str) -> str | None:
        for name in (f"{plan}/{step}", f"{plan}/*", f"*/{step}", "*/*"):
            if name in self._functions and matches(name, plan, step):
                return name
        return None

    def _carry_out(self, desk: Desk, state: LinearState) -> None:
        task = step_document(state)
        name = self._handler(task["plan"], task["step"])
        assert name is not None
        ctx = step_context(task, task["woken_by"], world=hash_text(desk.world))
        report = self._functions[name].call_step(name, task["context"], ctx)
        lease_fields = {
            "instance": ctx.instance, "worker": WORKER, "epoch": ctx.epoch, "seq": ctx.seq,
        }  # fmt: skip
        try:
            result = {
                "outcome": outcome_value(report["outcome"]),
                "outbound": outbound_values(report["outbound"], desk.effective),
            }
        except OutcomeInvalid as problem:
            # As in a worker: what the node refuses becomes a retry.
            report = refused_outcome(str(problem))
            result = {"outcome": outcome_value(report["outcome"]), "outbound": []}
        _send_event(desk, RESULT, {**lease_fields, **result})


def _linear_states(desk: Desk) -> Iterator[LinearState]:
    for cell in desk.cells_of(LINEAR):
        state = None if cell.fault is not None else _linear_state(desk, cell)
        if state is not None:
            yield state


def _linear_state(desk: Desk, cell: CellView | None) -> LinearState | None:
    if cell is None or cell.state is None:
        return None
    value: Any = decode_record(slot_bytes(cell.state, desk.read))
    return value if value.get("steps") else None


def _send_event(desk: Desk, schema: str, value: Any) -> None:
    data = desk.effective.schemas[schema].from_ingress(encode(value))
    desk.admit(EventInput(schema=schema, value=data))
