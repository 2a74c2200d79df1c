"""The engine of a local run: turns, bodies and operations in the order of spec/flow.md.

As in a world, the function runs from its start in each turn, and operations that have ended return
their recorded results. A turn follows each thing that happens: an answer, a timer, a message.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aos.flow.captured_values import isolated
from aos.flow.declaring import Break, Continue
from aos.flow.flow_context import Cx, OperationRequest
from aos.flow.flow_error import Critical, FlowError, JoinFailed, RaceFailed, Rollback
from aos.flow.local_answers import RequestedEffect
from aos.flow.local_clock import LocalClock, LocalValues, as_datetime
from aos.flow.local_history import (
    LocalBody,
    LocalFault,
    LocalOperation,
    LocalOutcome,
    Message,
    path_of,
)
from aos.flow.local_steps import LocalSteps

NAME_BYTES_MAX: Final = 128
PATH_BYTES_MAX: Final = 200

Chain = tuple[LocalBody, ...]
"""A body, after those around it."""


class LocalOutput:
    """The views, lines and annotations of one body; they take effect only in the turn in which the
    operation before them ended (FL-31)."""

    def __init__(self, engine: LocalEngine, *, is_fresh: bool) -> None:
        self._engine = engine
        self.is_fresh = is_fresh

    def publish(self, view: object) -> None:
        """Set the view of the flow."""
        if self.is_fresh:
            self._engine.view = copy.deepcopy(view)

    def log(self, text: str) -> None:
        """Write a line."""
        if self.is_fresh:
            self._engine.lines.append(text)

    def annotate(self, annotation: object) -> None:
        """Set the annotation of the turn."""
        if self.is_fresh:
            self._engine.annotations[self._engine.turn_number] = copy.deepcopy(annotation)


class LocalEngine:
    """One flow. ``steps`` has its effects and compensations, ``calls`` the flows that it may call,
    ``annotations`` those of its turns by their numbers."""

    def __init__(
        self, clock: LocalClock, answers: Mapping[Any, Any], calls: tuple[Any, ...]
    ) -> None:
        self.clock = clock
        self.calls = calls
        self.steps = LocalSteps(clock, answers)
        self.root = LocalBody("")
        self.inbox: list[Message] = []
        self.emitted: list[Any] = []
        self.view: Any = None
        self.lines: list[str] = []
        self.annotations: dict[int, Any] = {}
        self.turn_number = 0

    @property
    def requests(self) -> list[RequestedEffect]:
        """Every attempt of an effect, in order."""
        return self.steps.requests

    def turn(self, function: Callable[[Cx], Awaitable[Any]]) -> LocalOutcome | None:
        """Run the function from its start: its outcome, or None if it waits."""
        self.turn_number += 1
        for step in self.steps.settled:
            step.ended_turn = self.turn_number
        self.steps.settled = []
        return self._run(function, self.root, ())

    # Bodies

    def _run(
        self, function: Callable[[Cx], Awaitable[Any]], body: LocalBody, around: Chain
    ) -> LocalOutcome | None:
        if body.outcome is not None:
            return body.outcome
        output = LocalOutput(self, is_fresh=not body.has_begun)
        body.has_begun = True
        generator = function(Cx(output)).__await__()
        resume: Callable[[], Any] = lambda: next(generator)  # noqa: E731  # replaced in the loop
        chain, position = (*around, body), 0
        while True:
            try:
                request = resume()
            except StopIteration as end:
                outcome = LocalOutcome(copy.deepcopy(end.value))
                break
            except FlowError as error:
                outcome = LocalOutcome(error=error.at(body.path))
                break
            if isinstance(request, OperationRequest) and request.kind == "removed":
                # A run of the code of today has no operation of earlier code (FL-68).
                resume = lambda: generator.send(None)  # noqa: E731
                continue
            operation = self._operation(request, body, position, chain)
            position += 1
            if operation.outcome is None:
                with contextlib.suppress(RuntimeError):  # a `finally` that awaits
                    generator.close()
                return None
            output.is_fresh = operation.ended_turn == self.turn_number
            resume = self._resumption(generator, operation)
        if position < len(body.operations):
            later = body.operations[position]
            raise LocalFault("diverged", f"{later.path}: expected {later.kind}, found the end")
        body.outcome = outcome
        return outcome

    @staticmethod
    def _resumption(generator: Any, operation: LocalOperation) -> Callable[[], Any]:
        assert operation.outcome is not None
        try:
            value = operation.outcome.result()
        except FlowError as error:
            failure = error.at(operation.path)
            return lambda: generator.throw(failure)
        return lambda: generator.send(value)

    def _operation(
        self, request: object, body: LocalBody, position: int, chain: Chain
    ) -> LocalOperation:
        """The recorded operation of a request, or a new one; advanced as far as it can be."""
        if not isinstance(request, OperationRequest):
            raise LocalFault("flow_pending", f"{body.path or 'the flow'} awaits no operation of cx")
        if position < len(body.operations):
            operation = body.operations[position]
            if (operation.kind, operation.name) != (request.kind, request.name):
                raise LocalFault(
                    "diverged",
                    f"{operation.path}: expected {operation.kind}, found {request.kind} "
                    f"{request.name!r}",
                )
            is_new = False
        else:
            operation, is_new = self._new(request, body), True
            body.operations.append(operation)
        operation.arguments = dict(request.arguments)
        if operation.outcome is None:
            try:
                outcome = self._advance(operation, chain, is_new=is_new)
            except FlowError as error:
                outcome = LocalOutcome(error=error.at(operation.path))
            if outcome is not None:
                self._end(operation, outcome)
        if operation.kind in ("step", "call"):
            self.steps.register(operation)
        return operation

    def _new(self, request: OperationRequest, body: LocalBody) -> LocalOperation:
        size = len(request.name.encode())
        if not 1 <= size <= NAME_BYTES_MAX:
            raise LocalFault("flow_name", f"{request.name!r}: expected 1 to {NAME_BYTES_MAX} bytes")
        path = path_of(body.path, request.name)
        if len(path.encode()) > PATH_BYTES_MAX:
            raise LocalFault("flow_name", f"{path}: expected at most {PATH_BYTES_MAX} bytes")
        if any(operation.name == request.name for operation in body.operations):
            raise LocalFault("flow_name", f"{path}: the name is used twice")
        return LocalOperation(kind=request.kind, name=request.name, path=path)

    def _end(self, operation: LocalOperation, outcome: LocalOutcome) -> None:
        """Record the end of an operation; its bodies collapse (FL-53)."""
        operation.outcome = outcome
        for body in operation.bodies.values():
            operation.messages.extend(body.consumed())
        operation.bodies = {}
        operation.ended_turn = self.turn_number

    # Operations

    def _advance(
        self, operation: LocalOperation, chain: Chain, *, is_new: bool
    ) -> LocalOutcome | None:
        arguments = operation.arguments
        match operation.kind:
            case "step":
                return self.steps.advance(operation, is_new=is_new)
            case "call":
                if is_new and arguments["flow"] not in self.calls:
                    name = arguments["flow"].name
                    raise LocalFault(
                        "flow_listen",
                        f"{operation.path} calls {name}, and calls=[…] of @flow does not have it: "
                        "its result would not come back",
                    )
                return self.steps.advance_call(operation, is_new=is_new)
            case "spawn":
                self.steps.start_flow(operation, is_called=False)
                return LocalOutcome()
            case "local":
                now = as_datetime(self.clock.now_ns)
                values = LocalValues(operation.path, now)
                return LocalOutcome(copy.deepcopy(isolated(arguments["function"])(values)))
            case "emit":
                self.emitted.append(copy.deepcopy(arguments["event"]))
                return LocalOutcome()
            case "sleep":
                return self._sleep(operation, is_new=is_new)
            case "listen":
                return self._listen(operation, is_new=is_new)
            case "join" | "race":
                return self._branches(operation, chain)
            case "scope":
                body = operation.bodies.setdefault("", LocalBody(operation.path))
                return self._run(isolated(arguments["function"]), body, chain)
            case "loop":
                return self._loop(operation, chain, is_new=is_new)
            case "version":
                return LocalOutcome(arguments["latest"])
            case "checkpoint":
                operation.state = list(self.steps.compensations)
                return LocalOutcome()
            case "rollback_to":
                return self._rollback_to(operation, chain)
            case "commit":
                self._commit(chain)
                return LocalOutcome()
        raise LocalFault("flow_pending", f"{operation.path}: unknown kind {operation.kind!r}")

    def _sleep(self, operation: LocalOperation, *, is_new: bool) -> LocalOutcome | None:
        if is_new:
            self._set_deadline(operation, operation.arguments["time"])
        return LocalOutcome() if self._is_over(operation) else None

    def _set_deadline(self, operation: LocalOperation, time: Any) -> None:
        operation.deadline_ns = self.clock.deadline_ns(time)
        self.clock.after(operation.deadline_ns - self.clock.now_ns, lambda: None)

    def _is_over(self, operation: LocalOperation) -> bool:
        return operation.deadline_ns is not None and operation.deadline_ns <= self.clock.now_ns

    def _listen(self, operation: LocalOperation, *, is_new: bool) -> LocalOutcome | None:
        arguments = operation.arguments
        most: int | None = arguments["most"]
        if most is not None and most < 1:
            raise Critical("count", "a listen for at most 0 messages")
        if is_new and arguments["timeout"] is not None:
            self._set_deadline(operation, arguments["timeout"])
        classes = arguments["classes"]
        matching = [message for message in self.inbox if isinstance(message[1], classes)]
        operation.messages = matching[: most or 1]
        if not operation.messages:
            if not self._is_over(operation):
                return None
            return LocalOutcome([] if most is not None else None)
        for message in operation.messages:
            self.inbox.remove(message)
        values = [value for _, value in operation.messages]
        return LocalOutcome(values if most is not None else values[0])

    def _branches(self, operation: LocalOperation, chain: Chain) -> LocalOutcome | None:
        branches: dict[str, Callable[[Cx], Awaitable[Any]]] = operation.arguments["branches"]
        is_race = operation.kind == "race"
        at_most = operation.arguments.get("at_most")
        if at_most is not None and at_most < 1:
            raise Critical("at_most", "a join of at most 0 branches")
        if isinstance(operation.state, LocalOutcome):  # its losers are being undone
            return operation.state if not self.steps.is_unwinding else None
        open_count = 0
        for name, function in branches.items():
            path = path_of(operation.path, name)
            body = operation.bodies.setdefault(name, LocalBody(path))
            if body.outcome is None and at_most is not None and open_count >= at_most:
                return None
            outcome = self._run(isolated(function), body, chain)
            if outcome is None:
                open_count += 1
            elif isinstance(outcome.error, Rollback):
                return self._won(operation, outcome)
            elif is_race and outcome.error is None:
                return self._won(operation, LocalOutcome((name, outcome.value)))
        return None if open_count else self._all_ended(operation)

    @staticmethod
    def _all_ended(operation: LocalOperation) -> LocalOutcome:
        """The outcome of a join, or of a race without a winner."""
        outcomes = {name: body.outcome or LocalOutcome() for name, body in operation.bodies.items()}
        causes = tuple(ended.error for ended in outcomes.values() if ended.error is not None)
        if operation.kind == "race":
            return LocalOutcome(error=RaceFailed("race", "all branches failed", causes=causes))
        if causes:
            return LocalOutcome(error=JoinFailed("join", "branches failed", causes=causes))
        return LocalOutcome({name: outcome.value for name, outcome in outcomes.items()})

    def _won(self, operation: LocalOperation, outcome: LocalOutcome) -> LocalOutcome | None:
        """Cancel the losers, and give their messages back (FL-50, FL-51, FL-54)."""
        losers = [body for body in operation.bodies.values() if body.outcome is None]
        for body in losers:
            self.cancel(body)
            self.inbox.extend(body.consumed())
            body.operations, body.messages = [], []
        self.inbox.sort(key=lambda message: message[0])
        if operation.arguments.get("rollback_losers"):
            paths = tuple(f"{body.path}/" for body in losers)
            lost = [undo for undo in self.steps.compensations if undo.path.startswith(paths)]
            if lost:
                operation.state = outcome
                self.steps.unwind(lost)
                return None
        return outcome

    def _loop(
        self, operation: LocalOperation, chain: Chain, *, is_new: bool
    ) -> LocalOutcome | None:
        arguments = operation.arguments
        if min(arguments["intervals"]) < 1:
            raise Critical("interval", "an interval of a loop is at least 1")
        if is_new:
            operation.state = copy.deepcopy(arguments["state"])
        while True:
            number = operation.number
            path = f"{operation.path}/~{number}"
            body = operation.bodies.setdefault(f"~{number}", LocalBody(path))
            function, state = isolated(arguments["function"]), copy.deepcopy(operation.state)
            outcome = self._run(lambda cx, f=function, s=state: f(cx, s), body, chain)  # type: ignore[misc]
            if outcome is None or outcome.error is not None:
                return outcome
            if isinstance(outcome.value, Break):
                return LocalOutcome(outcome.value.value)
            if not isinstance(outcome.value, Continue):
                raise LocalFault("exception", f"{path}: expected Continue or Break")
            operation.messages.extend(body.consumed())
            operation.bodies = {}
            operation.state, operation.number = outcome.value.state, number + 1

    def _rollback_to(self, operation: LocalOperation, chain: Chain) -> LocalOutcome | None:
        if operation.state == "unwinding":
            return None if self.steps.is_unwinding else LocalOutcome()
        name = operation.arguments["checkpoint"]
        checkpoints = [
            earlier
            for body in chain
            for earlier in body.operations
            if earlier.kind == "checkpoint" and earlier.name == name and earlier.outcome
        ]
        if not checkpoints:
            raise Critical("checkpoint", f"there is no checkpoint {name!r}")
        before, parallel = checkpoints[-1].state, self._parallel(chain)
        later = [
            undo
            for undo in self.steps.compensations
            if not any(undo is earlier for earlier in before) and not undo.path.startswith(parallel)
        ]
        if not later:
            return LocalOutcome()
        operation.state = "unwinding"
        self.steps.unwind(later)
        return None

    def _commit(self, chain: Chain) -> None:
        parallel = self._parallel(chain)
        self.steps.keep(lambda compensation: compensation.path.startswith(parallel))
        for body in chain:
            body.messages = []
            for operation_before in body.operations:
                if operation_before.outcome is not None:
                    operation_before.messages = []

    def _parallel(self, chain: Chain) -> tuple[str, ...]:
        """The paths of open branches that are not around a body, each with a slash at its end."""
        paths: list[str] = []
        for body in chain:
            for operation in body.operations:
                if operation.kind in ("join", "race"):
                    paths += [
                        f"{branch.path}/"
                        for branch in operation.bodies.values()
                        if branch.outcome is None
                        and not any(branch is body_around for body_around in chain)
                    ]
        return tuple(paths)

    def cancel(self, body: LocalBody) -> None:
        """Cancel the open operations of a body."""
        for operation in body.open_operations():
            if operation.kind in ("step", "call"):
                self.steps.cancel(operation)
