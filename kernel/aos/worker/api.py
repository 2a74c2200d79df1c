"""The API of effect functions: ``@effect`` and ``EffectContext`` (X-40 to X-46)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from aos.errors import BadUsage
from aos.manifest.names import is_name, is_system
from aos.values.cbor import Value

CONCURRENCY_DEFAULT: Final = 16
CONCURRENCY_MAX: Final = 1024
ATTEMPTS_MAX: Final = 100
TIMEOUT_S_MAX: Final = 24 * 3600.0
BACKOFF_MS_MAX: Final = 3_600_000

R = TypeVar("R")

OnProgress: TypeAlias = Callable[[Any, Any, Any], None]
"""Takes kind, payload and blob of ``EffectContext.progress``."""


class Told:
    """The result of ``progress``: empty, but awaitable, so that ``await ctx.progress(…)`` works."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_TOLD: Final = Told()


@dataclass(slots=True, kw_only=True)
class EffectContext:
    """The attempt that an effect function is running: its identity, deadline and resources.

    Attributes:
        intent: ``blake3:…``; the same for every attempt.
        idempotency_key: Pass it to the service that you call, so that a second attempt does not
            act twice.
        attempt: 1 for the first.
        workflow: Name of the workflow that requested the effect.
        key: The requesting cell's key as a plain value; None for an unkeyed workflow.
        issuer_ref: The workflow's own reference to this effect; None without one.
        world: ``blake3:…``, the world's id.
        deadline_ns: Wall clock in ns at which this attempt times out.
        resource: The value that the ``setup`` of the Executors yielded; None without one.
        cost_cents: Set it to record a cost in the receipt.
        traceparent: The W3C trace context of this effect, for a node that exports spans; else None.
            Send it on as a header, so that the spans of the service that you call are below it.
        on_progress: Called with the arguments of ``progress``. Replace it in your own tests to
            observe them.
    """

    intent: str
    effect: str
    idempotency_key: str
    attempt: int
    workflow: str
    key: Value
    issuer_ref: str | None
    world: str
    deadline_ns: int
    resource: Any = None
    cost_cents: int | None = None
    traceparent: str | None = None
    on_progress: OnProgress | None = field(default=None, repr=False)

    def progress(self, kind: str, payload: Any = None, *, blob: bytes | None = None) -> Told:
        """Report progress to the requesting workflow, from ``async`` and plain functions alike
        (X-70).

        Returns immediately and never fails the effect: a report that cannot be sent is dropped.
        It does not settle the effect. Only a workflow with an arm for ``sys/EffectStreamFrame@1``
        receives it.

        Args:
            kind: A word that the workflow knows, 1 to 128 bytes.
            payload: A plain value, which arrives in canonical CBOR, or bytes, which arrive
                unchanged; at most ``limits.world.stream_bytes`` of the manifest.
            blob: Bytes to store in the world; the workflow receives their hash.
        """
        if self.on_progress is not None:
            self.on_progress(kind, payload, blob)
        return _TOLD


Function: TypeAlias = Callable[[Any, EffectContext], R]
"""``async def`` or plain ``def``; takes (params, ctx)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFunction(Generic[R]):
    """A function and the effect that it runs. Calling it calls the function directly."""

    name: str
    function: Function[R] = field(repr=False)
    is_async: bool
    concurrency: int
    attempts: int | None
    timeout_s: float | None
    backoff_ms: int | None
    backoff_cap_ms: int | None

    def __call__(self, params: Any, ctx: EffectContext) -> R:
        return self.function(params, ctx)


def effect(
    name: str,
    *,
    concurrency: int = CONCURRENCY_DEFAULT,
    attempts: int | None = None,
    timeout_s: float | None = None,
    backoff_ms: int | None = None,
    backoff_cap_ms: int | None = None,
) -> Callable[[Function[R]], EffectFunction[R]]:
    """Make a function the executor of one effect of the manifest (X-40).

    If the effect's definition has ``retry`` or ``timeout_ms``, those win. Attempts are for
    transport problems (a failure marked retryable, or a timeout) and for exceptions that the
    function does not expect. After the last attempt, a transport problem settles the effect as
    ``error`` or ``timeout``; an unexpected exception parks it, so that it stays open until someone
    has mended the function. All attempts have the same intent and idempotency key; whether to
    repeat an action is the workflow's decision.

    Args:
        name: The effect, ``com.acme/payment.charge@1``.
        concurrency: Calls that may run at the same time.
        attempts: 1 to 100, the first included. Without it, 1 for a transport problem, and 5 for an
            unexpected exception.
        timeout_s: Maximum run time of one attempt, in seconds (default 30).
        backoff_ms: Pause before the second attempt, doubled for each further one (default 1,000).
        backoff_cap_ms: Longest pause (default 60,000).

    Raises:
        BadUsage: The name, a number or the function's parameters are invalid.
    """
    _check_name(name)
    if is_system(name):
        raise BadUsage(f"effect {name!r}: sys/… effects are run by the node itself")
    _check_whole(name, "concurrency", concurrency, 1, CONCURRENCY_MAX)
    _check_whole(name, "attempts", 1 if attempts is None else attempts, 1, ATTEMPTS_MAX)
    _check_whole(name, "backoff_ms", 0 if backoff_ms is None else backoff_ms, 0, BACKOFF_MS_MAX)
    cap = 0 if backoff_cap_ms is None else backoff_cap_ms
    _check_whole(name, "backoff_cap_ms", cap, 0, BACKOFF_MS_MAX)
    if timeout_s is not None and (
        type(timeout_s) not in (int, float) or not 0 < timeout_s <= TIMEOUT_S_MAX
    ):
        raise BadUsage(
            f"effect {name!r}: timeout_s: expected more than 0 and at most {TIMEOUT_S_MAX:.0f} "
            f"seconds, found {timeout_s!r}"
        )

    def wrap(function: Function[R]) -> EffectFunction[R]:
        return EffectFunction(
            name=name,
            function=function,
            is_async=check_function(f"effect {name!r}", _no_effect(name, function), "params"),
            concurrency=concurrency,
            attempts=attempts,
            timeout_s=timeout_s,
            backoff_ms=backoff_ms,
            backoff_cap_ms=backoff_cap_ms,
        )

    return wrap


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not is_name(name):
        raise BadUsage(
            f"effect {name!r}: expected a name such as com.acme/payment.charge@1 "
            "(namespace, slash, name, @version)"
        )


def _check_whole(name: str, what: str, number: object, low: int, high: int) -> None:
    if type(number) is not int or not low <= number <= high:
        raise BadUsage(
            f"effect {name!r}: {what}: expected a whole number from {low} to {high}, "
            f"found {number!r}"
        )


def _no_effect(name: str, function: Function[Any]) -> Function[Any]:
    if isinstance(function, EffectFunction):
        raise BadUsage(
            f"effect {name!r}: {function.name} is on this function already: expected one @effect "
            "on a function (write a second function that calls the first)"
        )
    return function


def check_function(what: str, function: object, first: str) -> bool:
    """Return whether a function is ``async``. ``first`` is the name of its first argument.

    Raises:
        BadUsage: It is no function, yields, or cannot be called with two arguments.
    """
    is_routine = inspect.isroutine(function)
    if not callable(function):
        raise BadUsage(f"{what}: expected a function, found {function!r:.80}")
    called: object = function if is_routine else type(function).__call__
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise BadUsage(
            f"{what}: {named(function)} yields: expected a function that returns its result"
        )
    try:
        inspect.signature(function).bind(first, "ctx")
    except TypeError as error:
        raise BadUsage(
            f"{what}: {named(function)} cannot be called with ({first}, ctx): {error}"
        ) from error
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def named(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
