"""The steps, calls and compensations of a local run (spec/flow.md, FL-33 to FL-39, FL-60 to FL-64
and FL-70 to FL-74)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aos.flow.flow_error import (
    Canceled,
    Critical,
    Exhausted,
    FlowError,
    JoinFailed,
    RaceFailed,
    Rollback,
    Timeout,
)
from aos.flow.local_answers import (
    ErrorAnswer,
    LateAnswer,
    LocalCompensation,
    RequestedEffect,
    StartedFlow,
    TimeoutAnswer,
)
from aos.flow.local_clock import LocalClock, LocalValues, as_datetime, span_ns
from aos.flow.local_history import LocalOperation, LocalOutcome

UNDO_ATTEMPTS: Final = 5
_UNDO_FIRST_NS: Final = 1_000_000_000
_UNDO_MOST_NS: Final = 60_000_000_000
_UNSURE_CODES: Final = ("unknown_outcome", "exception")


class LocalSteps:
    """Requests effects and calls flows, and decides about their answers.

    Attributes:
        requests: Every attempt, in order.
        flows: The other flows that were called or spawned, in order.
        settled: Steps and calls that have ended since the last turn.
        compensations: Those that are registered, the newest last.
    """

    def __init__(self, clock: LocalClock, answers: Mapping[Any, Any]) -> None:
        self._clock = clock
        self._answers = answers
        self._open: dict[str, tuple[int, Callable[[Any], None]]] = {}
        self.requests: list[RequestedEffect] = []
        self.flows: list[StartedFlow] = []
        self.settled: list[LocalOperation] = []
        self.compensations: list[LocalCompensation] = []
        self._unwinding: list[LocalCompensation] = []

    @property
    def open_paths(self) -> list[str]:
        """The paths of attempts that wait for an answer."""
        return list(self._open)

    def answer(self, path: str, answer: Any) -> bool:
        """Answer the attempt in flight at a path. Returns whether there is one."""
        if path not in self._open:
            return False
        _, settle = self._open.pop(path)
        settle(copy.deepcopy(answer))
        return True

    def _request(self, path: str, attempt: int, effect: Any, settle: Callable[[Any], None]) -> None:
        self.requests.append(
            RequestedEffect(path=path, attempt=attempt, effect=effect, at_ns=self._clock.now_ns)
        )
        self._expect(path, attempt, type(effect), effect, settle)

    def _expect(
        self, path: str, attempt: int, answer_key: Any, params: Any, settle: Callable[[Any], None]
    ) -> None:
        """Wait for an answer; the one that the test has under ``answer_key`` arrives by itself."""
        self._open[path] = (attempt, settle)
        if answer_key not in self._answers:
            return
        script = self._answers[answer_key]
        answer = script(copy.deepcopy(params)) if callable(script) else script
        delay_ns = 0
        while isinstance(answer, LateAnswer):
            delay_ns, answer = delay_ns + span_ns(answer.after), answer.answer

        def arrive() -> None:
            if self._open.get(path, (0,))[0] == attempt:
                self.answer(path, answer)

        self._clock.after(delay_ns, arrive)

    # Steps

    def advance(self, step: LocalOperation, *, is_new: bool) -> LocalOutcome | None:
        """Begin a step; None while it is open. Raises Critical for a policy without sense."""
        if not is_new:
            return None
        retry, timeout = step.arguments["retry"], step.arguments["timeout"]
        if retry.attempts < 1:
            raise Critical("retry", "a step needs at least one attempt")
        if min(span_ns(retry.first), span_ns(retry.most)) < 0:
            raise Critical("duration", "the pause between attempts is negative")
        step.effect = copy.deepcopy(step.arguments["effect"])
        if timeout is not None:
            delay_ns = self._clock.deadline_ns(timeout) - self._clock.now_ns
            self._clock.after(delay_ns, lambda: self._time_is_over(step))
        self._attempt(step)
        return None

    def _attempt(self, step: LocalOperation) -> None:
        if step.outcome is not None:
            return
        step.attempts, step.is_in_flight = step.attempts + 1, True
        self._request(
            step.path, step.attempts, step.effect, lambda answer: self._settle(step, answer)
        )

    def _time_is_over(self, step: LocalOperation) -> None:
        if step.outcome is None:
            self._abandon(step)
            error = Timeout("timeout", "the step took longer than its timeout")
            self._fail(step, error)

    # Calls

    def advance_call(self, call: LocalOperation, *, is_new: bool) -> LocalOutcome | None:
        """Call another flow; None while it runs."""
        if is_new:
            other = call.arguments["flow"]
            call.effect = copy.deepcopy(call.arguments["input"])
            self.start_flow(call, is_called=True)
            self._expect(
                call.path, 1, other, call.effect, lambda answer: self._settle_call(call, answer)
            )
        return None

    def start_flow(self, operation: LocalOperation, *, is_called: bool) -> None:
        """Record that the operation starts another flow."""
        arguments = operation.arguments
        self.flows.append(
            StartedFlow(
                path=operation.path,
                name=arguments["flow"].name,
                input=copy.deepcopy(arguments["input"]),
                is_called=is_called,
            )
        )

    def _settle_call(self, call: LocalOperation, answer: Any) -> None:
        """A failed call has the failure of the other flow as its cause (FL-71)."""
        if isinstance(answer, (ErrorAnswer, TimeoutAnswer)):
            answer = Critical(getattr(answer, "code", "timeout"), answer.message)
        if not isinstance(answer, FlowError):
            call.outcome = LocalOutcome(answer)
            self.settled.append(call)
            return
        kind = Critical if isinstance(answer, (JoinFailed, RaceFailed)) else type(answer)
        self._fail(call, kind(answer.code, answer.message, causes=(answer,)))

    def cancel(self, step: LocalOperation) -> None:
        """End an open step or call as canceled, and its attempt or pause."""
        self._abandon(step)
        self._fail(step, Canceled("canceled", "the branch was canceled"))

    def _abandon(self, step: LocalOperation) -> None:
        if self._open.pop(step.path, None) is not None:
            step.is_unsure = True  # its attempt may have happened

    def _settle(self, step: LocalOperation, answer: Any) -> None:
        step.is_in_flight = False
        if not isinstance(answer, (ErrorAnswer, TimeoutAnswer)):
            step.outcome = LocalOutcome(answer)
            self.settled.append(step)
            return
        error, is_retryable = self._failure(step, answer)
        retry = step.arguments["retry"]
        if not is_retryable:
            self._fail(step, error)
        elif step.attempts >= retry.attempts:
            self._fail(step, Exhausted(error.code, error.message))
        else:
            most_ns = span_ns(retry.most)
            pause_ns = min(span_ns(retry.first) << min(step.attempts - 1, 64), most_ns)
            if retry.jitter:
                values = LocalValues(f"{step.path}#{step.attempts}", as_datetime(0))
                pause_ns -= values.random(pause_ns // 2 + 1)
            self._clock.after(pause_ns, lambda: self._attempt(step))

    @staticmethod
    def _failure(
        step: LocalOperation, answer: ErrorAnswer | TimeoutAnswer
    ) -> tuple[FlowError, bool]:
        """The failure that an answer means, and whether another attempt may follow (FL-35)."""
        if isinstance(answer, TimeoutAnswer):
            step.is_unsure = True
            retries = bool(step.arguments["retry_timeouts"])
            return Timeout("timeout", answer.message), retries
        if answer.code == "rollback":
            return Rollback("rollback", answer.message), False
        step.is_unsure |= answer.code in _UNSURE_CODES
        is_retryable = answer.retryable or answer.code == "exception"
        return Critical(answer.code, answer.message), is_retryable

    def _fail(self, step: LocalOperation, error: FlowError) -> None:
        step.outcome, step.is_in_flight = LocalOutcome(error=error.at(step.path)), False
        self.settled.append(step)
        unknown = step.arguments.get("rollback_unknown")
        if step.is_unsure and unknown is not None:
            self._add(step.path, unknown)

    def register(self, step: LocalOperation) -> None:
        """Register the compensation of a step or call when the code first gets its result
        (FL-60)."""
        rollback = step.arguments["rollback"]
        is_done = step.outcome is not None and step.outcome.error is None
        if rollback is not None and is_done and step.state is None and step.outcome is not None:
            step.state = "registered"
            self._add(step.path, rollback(copy.deepcopy(step.outcome.value)))

    def _add(self, path: str, effect: Any) -> None:
        self.compensations.append(LocalCompensation(path=path, effect=copy.deepcopy(effect)))

    # Compensations

    @property
    def is_unwinding(self) -> bool:
        """Whether compensations run, or one is stuck."""
        return bool(self._unwinding)

    @property
    def stuck(self) -> LocalCompensation | None:
        """The compensation that failed in all its attempts."""
        current = self._unwinding[-1] if self._unwinding else None
        return current if current is not None and current.state == "stuck" else None

    def keep(self, is_kept: Callable[[LocalCompensation], bool]) -> None:
        """Drop all other compensations."""
        self.compensations = [undo for undo in self.compensations if is_kept(undo)]

    def unwind(self, compensations: Sequence[LocalCompensation]) -> None:
        """Run compensations, the newest first and one at a time (FL-61)."""
        running = self._unwinding[-1:]
        added = [undo for undo in compensations if not any(undo is old for old in self._unwinding)]
        self._unwinding = [*added, *self._unwinding]
        if not running:
            self._undo()

    def skip_all(self) -> None:
        """Skip all compensations that have not run, also the one that runs."""
        for compensation in self.compensations:
            if compensation.state in ("registered", "running", "stuck"):
                self._open.pop(f"{compensation.path}/~undo", None)
                compensation.state = "skipped"
        self._unwinding = []

    def resume(self, *, skip: bool) -> None:
        """Try the stuck compensation again, or skip it (FL-62)."""
        stuck = self.stuck
        if stuck is not None and skip:
            stuck.state = "skipped"
            self._finish(stuck)
        elif stuck is not None:
            self._undo()

    def _undo(self) -> None:
        if not self._unwinding:
            return
        current = self._unwinding[-1]
        if current.state in ("done", "skipped"):
            return
        current.state, current.attempts = "running", current.attempts + 1
        self._request(
            f"{current.path}/~undo",
            current.attempts,
            current.effect,
            lambda answer: self._settle_undo(current, answer),
        )

    def _settle_undo(self, current: LocalCompensation, answer: Any) -> None:
        if not isinstance(answer, (ErrorAnswer, TimeoutAnswer)):
            current.state = "done"
            self._finish(current)
            return
        is_error = isinstance(answer, ErrorAnswer)
        code = answer.code if isinstance(answer, ErrorAnswer) else "timeout"
        kind = Critical if is_error else Timeout
        current.error = kind(code, answer.message, path=current.path)
        tries = current.attempts % UNDO_ATTEMPTS
        if tries == 0:
            current.state = "stuck"
            return
        pause_ns = min(_UNDO_FIRST_NS << (tries - 1), _UNDO_MOST_NS)
        self._clock.after(pause_ns, self._undo)

    def _finish(self, current: LocalCompensation) -> None:
        self._unwinding = [undo for undo in self._unwinding if undo is not current]
        self.compensations = [undo for undo in self.compensations if undo is not current]
        self._undo()
