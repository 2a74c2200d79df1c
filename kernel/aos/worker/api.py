"""The API of effect functions: ``@effect`` and ``EffectContext`` (X-40 to X-46)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from aos.errors import BadUsage
from aos.manifest.limits import WorldLimits
from aos.manifest.names import is_name, is_run_by_node
from aos.sealing.keyring import ROOT, Keyring, SealedValue
from aos.values.cbor import Value
from aos.worker.failure import NotConfigured

CONCURRENCY_DEFAULT: Final = 16
CONCURRENCY_MAX: Final = 1024
ATTEMPTS_MAX: Final = 100
TIMEOUT_S_MAX: Final = 24 * 3600.0
BACKOFF_MS_MAX: Final = 3_600_000

R = TypeVar("R")

OnProgress: TypeAlias = Callable[[Any, Any, Any], None]
"""Takes kind, payload and blob of ``EffectContext.progress``."""

OnRead: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Takes the hash of ``EffectContext.read_blob``."""


class ProgressResult:
    """The result of ``progress``: empty, but awaitable, so that ``await ctx.progress(…)`` works."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_TOLD: Final = ProgressResult()


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
        is_over: Whether the attempt has timed out or was canceled meanwhile. A thread that changes
            something looks at it first: another attempt may begin once the thread has ended.
        traceparent: The W3C trace context of this effect, for a node that exports spans; else None.
            Send it on as a header, so that the spans of the service that you call are below it.
        on_progress: Called with the arguments of ``progress``. Replace it in your own tests to
            observe them.
        secrets: The values that ``secret`` returns, by alias and version.
        blobs: The bytes that ``blob`` returns, by hash.
        on_read: Called by ``read_blob``; None in a worker that has no store.
        keyring: The keyring of the Executors, for ``seal`` and ``unseal``.
        result_bytes_max: Maximum size of the result in canonical CBOR, ``limits.world.event_bytes``
            of the manifest. A longer result parks the task (X-46).
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
    is_over: bool = False
    traceparent: str | None = None
    on_progress: OnProgress | None = field(default=None, repr=False)
    secrets: Mapping[tuple[str, int], str] = field(default_factory=dict, repr=False)
    blobs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    on_read: OnRead | None = field(default=None, repr=False)
    keyring: Keyring | None = field(default=None, repr=False)
    result_bytes_max: int = WorldLimits().event_bytes

    def secret(self, ref: Mapping[str, Any]) -> str:
        """Return the value of a secret that the params name (X-75).

        It is here for this task alone. AOS removes it from the text of errors and from printed
        lines, and refuses a result that holds it (X-77, X-78); do not store it anywhere.

        Args:
            ref: The ``sys/SecretRef@1`` of the params, ``{"alias": …, "version": …}``.

        Raises:
            BadUsage: The params do not name it, or the manifest has no secrets.
        """
        try:
            return self.secrets[ref["alias"], ref["version"]]
        except (KeyError, TypeError):
            # The value of something else must not come up in a message.
            raise BadUsage(
                f"ctx.secret of {self.effect}: expected a sys/SecretRef@1 of the params of this "
                f"task, whose defsecret is in the manifest, found {_shown_ref(ref)}"
            ) from None

    def blob(self, hash: str) -> bytes:
        """Return the bytes of a blob that the params name, below a field that the decorator lists
        in ``blobs`` (X-79).

        Args:
            hash: A ``hash`` of the params, ``blake3:…``.

        Raises:
            BadUsage: The blob did not come with this task.
        """
        content = self.blobs.get(hash)
        if content is None:
            raise BadUsage(
                f"ctx.blob of {self.effect}: {hash!r:.80} did not come with this task: expected a "
                'hash of the params, below a field that @effect lists in blobs=("FIELD", …)'
            )
        return content

    async def read_blob(self, hash: str) -> bytes:
        """Read a blob of the world, one that the params do not name directly, such as a node of a
        tree (X-79a). Only for ``async`` functions that run with the world (``--executors``).

        Args:
            hash: ``blake3:…``, or the ``sha256:…`` name of a blob (AG-32).

        Raises:
            EffectFailed: The world does not have it (``blob_missing``), or it has more than 16 MiB
                (``blob_too_large``).
            NotConfigured: This worker runs elsewhere and has no store.
        """
        if hash in self.blobs:
            return self.blobs[hash]
        if self.on_read is None:
            raise NotConfigured(
                "no_store",
                f"{self.effect} reads blobs of the world, which this worker cannot",
                "run it in the process of the world (aos run --executors MODULE:ATTR)",
            )
        return await self.on_read(hash)

    def seal(self, value: Any, *, path: str = ROOT) -> SealedValue:
        """Seal a plain value under the current key: for progress, blobs and the world outside
        (SL-45). At the sealed places of the result, AOS seals by itself.

        The same value at the same ``path`` has the same bytes in each attempt.

        Raises:
            BadUsage: The value has no plain form, or the Executors have no keyring.
        """
        sealed = self._sealing("seal").seal(value, intent=self.intent, path=path)
        return SealedValue(sealed)

    def unseal(self, sealed: bytes) -> Value:
        """Return the plain value of sealed bytes that came another way than by the params. It is
        not looked for in errors and results.

        Raises:
            CannotOpen: The bytes are altered, or their key is not in the keyring.
            BadUsage: The Executors have no keyring.
        """
        return self._sealing("unseal").open(sealed)

    def _sealing(self, method: str) -> Keyring:
        if self.keyring is None:
            raise BadUsage(
                f"ctx.{method} of {self.effect}: expected Executors(…, keyring=FILE), found none"
            )
        return self.keyring

    def progress(
        self, kind: str, payload: Any = None, *, blob: bytes | None = None
    ) -> ProgressResult:
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


def _shown_ref(ref: object) -> str:
    if isinstance(ref, Mapping) and ref.keys() == {"alias", "version"}:
        return f"{ref['alias']!s:.256}@{ref['version']!s:.20}"
    return type(ref).__name__


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
    blobs: tuple[str, ...] = ()

    def __call__(self, params: Any, ctx: EffectContext) -> R:
        return self.function(params, ctx)

    @property
    def timeout_ns(self) -> int | None:
        return None if self.timeout_s is None else int(self.timeout_s * 1e9)


def effect(
    name: str,
    *,
    concurrency: int = CONCURRENCY_DEFAULT,
    attempts: int | None = None,
    timeout_s: float | None = None,
    backoff_ms: int | None = None,
    backoff_cap_ms: int | None = None,
    blobs: Iterable[str] = (),
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
        blobs: Fields of the params, ``("data", "pages.image")``. The blobs that ``hash`` values at
            or below them name come with each task, for ``ctx.blob``; together at most 16 MiB.

    Raises:
        BadUsage: The name, a number or the function's parameters are invalid.
    """
    _check_name(name)
    if is_run_by_node(name):
        raise BadUsage(
            f"effect {name!r}: expected an effect of your own, or a built-in one that AOS leaves "
            "to executors (sys/workspace.…, sys/host.…, sys/llm.…, sys/vault.…, "
            "sys/portal.send@1); other sys/… effects are run by the node itself"
        )
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

    paths = _paths(name, blobs)

    def wrap(function: Function[R]) -> EffectFunction[R]:
        return EffectFunction(
            name=name,
            blobs=paths,
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


def _check_whole(name: str, option: str, number: object, low: int, high: int) -> None:
    if type(number) is not int or not low <= number <= high:
        raise BadUsage(
            f"effect {name!r}: {option}: expected a whole number from {low} to {high}, "
            f"found {number!r}"
        )


def _paths(name: str, blobs: object) -> tuple[str, ...]:
    is_list = isinstance(blobs, Iterable) and not isinstance(blobs, str | bytes)
    paths = tuple(blobs) if is_list and isinstance(blobs, Iterable) else ()
    if not is_list or not all(map(_is_path, paths)):
        raise BadUsage(
            f"effect {name!r}: blobs: expected names of fields of the params, such as "
            f'("data", "pages.image"), found {blobs!r:.80}'
        )
    return paths


def _is_path(path: object) -> bool:
    return isinstance(path, str) and all(path.split("."))


def _no_effect(name: str, function: Function[Any]) -> Function[Any]:
    if isinstance(function, EffectFunction):
        raise BadUsage(
            f"effect {name!r}: {function.name} is on this function already: expected one @effect "
            "on a function (write a second function that calls the first)"
        )
    return function


def check_function(subject: str, function: object, first: str) -> bool:
    """Return whether a function is ``async``. ``first`` is the name of its first argument.

    Raises:
        BadUsage: It is no function, yields, or cannot be called with two arguments.
    """
    is_routine = inspect.isroutine(function)
    if not callable(function):
        raise BadUsage(f"{subject}: expected a function, found {function!r:.80}")
    routine: object = function if is_routine else type(function).__call__
    if inspect.isgeneratorfunction(routine) or inspect.isasyncgenfunction(routine):
        raise BadUsage(
            f"{subject}: {function_name(function)} yields: expected a function that returns its "
            "result"
        )
    try:
        inspect.signature(function).bind(first, "ctx")
    except TypeError as error:
        raise BadUsage(
            f"{subject}: {function_name(function)} cannot be called with ({first}, ctx): {error}"
        ) from error
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(routine)


def function_name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
