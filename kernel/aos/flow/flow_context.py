"""``Cx``: the operations of a flow in Python, as its author calls them (spec/flow.md).

A flow awaits each operation; its engine answers. A name is unique within its body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from aos.flow.declaring import EffectOf, OtherFlow, Retry, Span

T = TypeVar("T")
InputT = TypeVar("InputT")

Body = Callable[["Cx"], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A request of a body: its kind, its name and its arguments. Awaited, it pauses the body until
    it is answered with its value or failure."""

    kind: str
    name: str
    arguments: Mapping[str, Any]

    def __await__(self) -> Generator[OperationRequest, Any, Any]:
        return (yield self)


class Local(Protocol):
    """The time and the random values of ``cx.local``."""

    @property
    def now(self) -> datetime:
        """The time of the turn, in UTC."""

    def random(self, below: int | None = None) -> int:
        """A random int of 64 bits, or one below a bound."""

    def uuid(self) -> str:
        """A random UUID."""


class BodyOutput(Protocol):
    """The receiver of views, lines and annotations, which no history has."""

    def publish(self, view: object) -> None:
        """Set the view."""

    def log(self, text: str) -> None:
        """Write a line."""

    def annotate(self, annotation: object) -> None:
        """Set the annotation of the turn."""


class Cx:
    """The context of one body. Each branch, scope and iteration gets its own."""

    def __init__(self, output: BodyOutput) -> None:
        self._output = output

    async def step(
        self,
        name: str,
        effect: EffectOf[T],
        *,
        retry: Retry | None = None,
        retry_timeouts: bool = False,
        timeout: Span | None = None,  # noqa: ASYNC109  # a time of the flow
        rollback: Callable[[T], EffectOf[Any]] | None = None,
        rollback_unknown: EffectOf[Any] | None = None,
    ) -> T:
        """Request an effect, and wait for its receipt (FL-33 to FL-39).

        Args:
            name: Its name in the history.
            effect: An instance of a class with ``@effect``.
            retry: Attempts and pauses; the default is ``Retry()``.
            retry_timeouts: Try again after a timeout, too: the effect may then happen twice.
            timeout: The longest time for all attempts.
            rollback: Makes, of the receipt, the effect that undoes it.
            rollback_unknown: The effect that undoes it if it is unknown whether it happened.
        """
        value: T = await OperationRequest(
            "step",
            name,
            {
                "effect": effect,
                "retry": retry or Retry(),
                "retry_timeouts": retry_timeouts,
                "timeout": timeout,
                "rollback": rollback,
                "rollback_unknown": rollback_unknown,
            },
        )
        return value

    async def local(self, name: str, function: Callable[[Local], T]) -> T:
        """Compute a value once, with a time and random values (FL-40)."""
        value: T = await OperationRequest("local", name, {"function": function})
        return value

    async def emit(self, name: str, event: object) -> None:
        """Emit a domain event once (FL-41)."""
        await OperationRequest("emit", name, {"event": event})

    async def sleep(self, name: str, time: Span | datetime) -> None:
        """Wait for a time span, or until a time (FL-42)."""
        await OperationRequest("sleep", name, {"time": time})

    async def listen(
        self,
        name: str,
        messages: type[T] | Sequence[type[T]],
        *,
        timeout: Span | datetime | None = None,  # noqa: ASYNC109  # a time of the flow
        most: int | None = None,
    ) -> Any:
        """Wait for a message (FL-43 to FL-45): the message, None after the timeout, or a list of at
        most ``most`` messages."""
        classes = (messages,) if isinstance(messages, type) else tuple(messages)
        arguments = {"classes": classes, "timeout": timeout, "most": most}
        return await OperationRequest("listen", name, arguments)

    async def join(
        self, name: str, *, at_most: int | None = None, **branches: Body
    ) -> dict[str, Any]:
        """Run branches at the same time, and wait for all: branch -> value (FL-46, FL-47)."""
        values: dict[str, Any] = await OperationRequest(
            "join", name, {"branches": branches, "at_most": at_most}
        )
        return values

    async def race(
        self, name: str, *, rollback_losers: bool = False, **branches: Body
    ) -> tuple[str, Any]:
        """Run branches until one succeeds: its name and its value (FL-48 to FL-51)."""
        winner: tuple[str, Any] = await OperationRequest(
            "race", name, {"branches": branches, "rollback_losers": rollback_losers}
        )
        return winner

    async def scope(self, name: str, function: Callable[[Cx], Awaitable[T]]) -> T:
        """Run a body whose operations leave the history when it ends (FL-55)."""
        value: T = await OperationRequest("scope", name, {"function": function})
        return value

    async def loop(
        self,
        name: str,
        state: T,
        function: Callable[[Cx, T], Awaitable[Any]],
        *,
        commit_interval: int = 1,
        history_every: int = 1,
        history_keep: int = 0,
    ) -> Any:
        """Run a body for each state: it returns ``Continue(state)`` or ``Break(value)`` (FL-56)."""
        arguments = {
            "state": state,
            "function": function,
            "intervals": (commit_interval, history_every),
            "history_keep": history_keep,
        }
        return await OperationRequest("loop", name, arguments)

    async def call(
        self,
        name: str,
        flow: OtherFlow[InputT, T],
        input: InputT,
        *,
        rollback: Callable[[T], EffectOf[Any]] | None = None,
    ) -> T:
        """Run another flow, and wait for its result (FL-70 to FL-73). Its key must be new.

        If the call is canceled, so is the other flow, with its compensations.

        Args:
            name: Its name in the history.
            flow: One of ``calls`` of ``@flow``.
            input: The input of the other flow.
            rollback: Makes, of the result, the effect that undoes it.
        """
        arguments = {"flow": flow, "input": input, "rollback": rollback}
        value: T = await OperationRequest("call", name, arguments)
        return value

    async def spawn(self, name: str, flow: OtherFlow[InputT, Any], input: InputT) -> None:
        """Start another flow, and do not wait for it (FL-74)."""
        await OperationRequest("spawn", name, {"flow": flow, "input": input})

    async def version(self, name: str, latest: int) -> int:
        """The version of the code that this flow follows (FL-67)."""
        value: int = await OperationRequest("version", name, {"latest": latest})
        return value

    async def removed(self, name: str, kind: str) -> None:
        """Take the place of an operation that earlier code had (FL-68)."""
        await OperationRequest("removed", name, {"kind": kind})

    async def checkpoint(self, name: str) -> None:
        """Mark a point to which ``rollback_to`` unwinds."""
        await OperationRequest("checkpoint", name, {})

    async def rollback_to(self, name: str, checkpoint: str) -> None:
        """Run the compensations since a checkpoint, and continue (FL-63)."""
        await OperationRequest("rollback_to", name, {"checkpoint": checkpoint})

    async def commit(self, name: str) -> None:
        """Drop the compensations of the operations before this one (FL-64)."""
        await OperationRequest("commit", name, {})

    def publish(self, view: object) -> None:
        """Set the view of the flow (FL-32)."""
        self._output.publish(view)

    def log(self, text: str) -> None:
        """Write a line to the log of the turn."""
        self._output.log(text)

    def annotate(self, annotation: object) -> None:
        """Annotate the turn: the last one of a turn counts (FL-31)."""
        self._output.annotate(annotation)
