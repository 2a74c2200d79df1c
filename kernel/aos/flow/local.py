"""Run a flow in Python under CPython, with virtual time: for unit tests and debuggers
(spec/python-flows.md, PF-40 to PF-47).

    run = LocalFlow(order, Order("o-1", 100), {Charge: Receipt("r-1")})
    run.send(Canceled("o-1"))
    run.advance("3d")
    assert run.status == "completed"
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

from aos.flow.declaring import CALLS, FLOW_NAME, LISTENS, Span
from aos.flow.flow_context import Cx
from aos.flow.flow_error import Canceled, FlowError
from aos.flow.local_answers import (
    ErrorAnswer,
    LateAnswer,
    LocalCompensation,
    RequestedEffect,
    StartedFlow,
    TimeoutAnswer,
)
from aos.flow.local_clock import LocalClock, span_ns
from aos.flow.local_engine import LocalEngine
from aos.flow.local_history import LocalFault, LocalOutcome

__all__ = [
    "ErrorAnswer", "LateAnswer", "LocalCompensation", "LocalFault", "LocalFlow", "RequestedEffect",
    "StartedFlow", "TimeoutAnswer",
]  # fmt: skip

START_NS: Final = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""
TURNS_MAX: Final = 100_000

Status = Literal["running", "rolling_back", "completed", "failed", "canceled", "stuck"]


class LocalFlow:
    """One flow that runs in this process.

    It starts immediately, and runs until it waits for time, a message or an answer.

    Args:
        function: The function with ``@flow``.
        input: Its input.
        answers: Class of an effect -> its answer: a receipt, an ``ErrorAnswer``, ``TimeoutAnswer``
            or ``LateAnswer``, or a function from the effect to one of these; and ``OtherFlow`` of a
            call -> its result, a ``FlowError``, or a function from its input to one of these. Other
            effects and calls wait for ``answer``.
        start_ns: The time at which it begins.

    Raises:
        LocalFault: The turn ends with a fault, as it does in a world.
    """

    def __init__(
        self,
        function: Callable[[Cx, Any], Awaitable[Any]],
        input: object,
        answers: Mapping[Any, Any] | None = None,
        *,
        start_ns: int = START_NS,
    ) -> None:
        if not hasattr(function, FLOW_NAME):
            raise TypeError(f"LocalFlow: expected a function with @flow, found {function!r}")
        self._function = function
        self._input = copy.deepcopy(input)
        self._clock = LocalClock(start_ns)
        self._engine = LocalEngine(self._clock, answers or {}, getattr(function, CALLS))
        self._outcome: LocalOutcome | None = None
        self._received = 0
        self._turn()
        self.advance("0s")

    @property
    def status(self) -> Status:
        """As ``aos flow show`` has it; ``running`` also while the flow only waits."""
        if self._outcome is None:
            return "stuck" if self._engine.steps.stuck else "running"
        if self._engine.steps.stuck:
            return "stuck"
        if self._engine.steps.is_unwinding:
            return "rolling_back"
        error = self._outcome.error
        if error is None:
            return "completed"
        is_canceled = error.kind == "canceled" and error.code == "cancel" and not error.path
        return "canceled" if is_canceled else "failed"

    @property
    def _has_ended(self) -> bool:
        return self.status in ("completed", "failed", "canceled")

    @property
    def output(self) -> Any:
        """The result. Raises the failure of a flow that failed or was canceled."""
        if self._outcome is None:
            raise RuntimeError(f"the flow has no result: it is {self.status}")
        return self._outcome.result()

    @property
    def error(self) -> FlowError | None:
        """The failure, as soon as the function is over."""
        return self._outcome.error if self._outcome is not None else None

    @property
    def now_ns(self) -> int:
        """The virtual time."""
        return self._clock.now_ns

    @property
    def requests(self) -> Sequence[RequestedEffect]:
        """Every attempt of an effect, in order."""
        return self._engine.requests

    @property
    def flows(self) -> Sequence[StartedFlow]:
        """The other flows that it has called or spawned, in order."""
        return self._engine.steps.flows

    @property
    def open_paths(self) -> Sequence[str]:
        """The paths of attempts and calls that wait for an answer."""
        return self._engine.steps.open_paths

    @property
    def compensations(self) -> Sequence[LocalCompensation]:
        """Those that are registered and not done, the newest last."""
        return self._engine.steps.compensations

    @property
    def emitted(self) -> Sequence[Any]:
        """The domain events."""
        return self._engine.emitted

    @property
    def view(self) -> Any:
        """The view that was published last."""
        return self._engine.view

    @property
    def annotations(self) -> Sequence[Any]:
        """The annotations of the turns that have one, in order."""
        return list(self._engine.annotations.values())

    @property
    def lines(self) -> Sequence[str]:
        """The lines of ``cx.log``."""
        return self._engine.lines

    def send(self, message: object) -> None:
        """Send a message; after the end it changes nothing. Raises TypeError for a class that is
        not in ``listens``."""
        if not isinstance(message, getattr(self._function, LISTENS)):
            raise TypeError(
                f"send: expected a class of listens=[…] of @flow, found {type(message).__name__}"
            )
        if self._outcome is None:
            self._engine.inbox.append((self._received, copy.deepcopy(message)))
            self._received += 1
            self._turn()
            self.advance("0s")

    def answer(self, path: str, answer: object) -> None:
        """Answer the open attempt or call at a path. Raises KeyError if there is none."""
        if not self._engine.steps.answer(path, answer):
            raise KeyError(f"answer: no attempt is open at {path!r}; open: {self.open_paths}")
        self._turn()
        self.advance("0s")

    def advance(self, span: Span) -> None:
        """Move the time on by a span, and do everything that is due until then."""
        end_ns = self._clock.now_ns + span_ns(span)
        self._work(end_ns)
        self._clock.now_ns = max(self._clock.now_ns, end_ns)

    def finish(self) -> None:
        """Move the time on until nothing is due: the flow has ended, or waits for a message or an
        answer."""
        self._work(None)

    def cancel(self, *, rollback: bool = True) -> None:
        """Cancel the flow, as ``aos flow cancel`` does (FL-65)."""
        if self._has_ended:
            return
        if self._outcome is None:
            self._engine.cancel(self._engine.root)
            self._outcome = LocalOutcome(error=Canceled("cancel", "the flow was canceled"))
        if rollback:
            self._engine.steps.unwind(self._engine.steps.compensations)
        else:
            self._engine.steps.skip_all()
        self.advance("0s")

    def resume(self, *, skip: bool = False) -> None:
        """Try the stuck compensation again, or skip it (FL-62)."""
        self._engine.steps.resume(skip=skip)
        self._turn()
        self.advance("0s")

    def _work(self, end_ns: int | None) -> None:
        for _ in range(TURNS_MAX):
            due_ns = self._clock.due_ns()
            if due_ns is None or self._has_ended:
                return
            if end_ns is not None and due_ns > end_ns:
                return
            self._clock.work()()
            self._turn()
        raise RuntimeError(f"the flow did not come to rest in {TURNS_MAX:,} turns")

    def _turn(self) -> None:
        if self._outcome is not None:
            return
        self._outcome = self._engine.turn(lambda cx: self._function(cx, copy.deepcopy(self._input)))
        if self._outcome is None:
            return
        steps = self._engine.steps
        if self._outcome.error is not None:
            steps.unwind(steps.compensations)
        else:
            steps.keep(lambda _: False)
