"""An effect that a workflow requested: inspect and answer it (spec/testing.md, T-20 to T-23)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypedDict, Unpack

from aos.core.journal.vocabulary import STATUSES
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage
from aos.read.lens.words import name_cell, short
from aos.testing.desk import Desk
from aos.testing.dispatch import Dispatch
from aos.testing.plain import ERASED, Span, matches, plain_key, read_span
from aos.testing.problems import WorldProblem
from aos.testing.scripts import Fail, Reply, Timeout, receipt, reply
from aos.values.digests import hash_text

OPEN: Final = "open"
ABANDONED: Final = "abandoned"


class Effect:
    """One requested effect. Two objects are equal if they have the same intent."""

    def __init__(
        self,
        intent: OpenIntent,
        desk: Desk,
        dispatch: Dispatch,
        cancel: Callable[[OpenIntent], None],
    ) -> None:
        self._intent = intent
        self._desk = desk
        self._dispatch = dispatch
        self._cancel = cancel

    @property
    def name(self) -> str:
        return self._intent.effect.name

    @property
    def params(self) -> Any:
        return self._dispatch.params(self._intent)

    @property
    def workflow(self) -> str:
        return self._intent.cell[0]

    @property
    def key(self) -> Any:
        """The key of the requesting cell; None for an unkeyed workflow."""
        return plain_key(self._intent.cell[1])

    @property
    def issuer_ref(self) -> str | None:
        return self._intent.issuer_ref

    @property
    def idempotency_key(self) -> str:
        """The idempotency key that executors get: the same for every attempt."""
        return self._intent.idempotency_key

    @property
    def requested_key(self) -> str | bytes | None:
        """The idempotency key that the workflow wrote."""
        return self._intent.key

    @property
    def intent(self) -> str:
        return hash_text(self._intent.intent)

    @property
    def is_open(self) -> bool:
        return self._desk.is_open(self._intent)

    @property
    def status(self) -> str:
        """``open``, then its receipt's status; ``abandoned`` if its cell no longer waits for it."""
        if self.is_open:
            return OPEN
        return self._desk.settled.get(self._intent.intent, ABANDONED)

    @property
    def due_ns(self) -> int | None:
        """When its timer fires or its delayed answer arrives, in ns; None without either."""
        return self._dispatch.due_of(self._intent.intent)

    def answer(
        self, value: object = None, *, after: Span = 0, cost_cents: int | None = None
    ) -> None:
        """Settle it as ``ok``.

        Raises:
            BadUsage: The value does not fit the receipt schema. Nothing has changed.
            InputRefused: The kernel refuses it.
        """
        self._settle(reply(self._intent, value, cost_cents=cost_cents), after)

    def fail(
        self, code: str, message: str = "", *, retryable: bool = False, after: Span = 0
    ) -> None:
        """Settle it as ``error``. Raises as ``answer``."""
        self._settle(reply(self._intent, Fail(code, message, retryable)), after)

    def timeout(self, message: str = "", *, after: Span = 0) -> None:
        """Settle it as ``timeout``. Raises as ``answer``."""
        self._settle(reply(self._intent, Timeout(message)), after)

    def cancel(self) -> None:
        """End it by the operator's command; ``run`` delivers ``canceled``. Raises: InputRefused."""
        self._cancel(self._intent)

    def answer_badly(self, data: bytes = b"\xff", *, status: str = "ok") -> None:
        """Settle it with bytes that do not fit the receipt schema, as the kernel allows (K-54)."""
        if status not in STATUSES:
            raise BadUsage(f"status: expected one of {', '.join(STATUSES)}, found {status!r}")
        self._settle(Reply(status=status, payload=data), 0)

    def frame(self, kind: str, payload: object = None, *, blob: bytes | None = None) -> None:
        """Send a stream frame. Raises: InputRefused: The workflow has no arm for it, or as
        ``answer``."""
        self._dispatch.tell(self._intent, kind, payload, blob)

    def begin(self) -> None:
        """Journal that the next attempt begins. Raises: InputRefused."""
        self._dispatch.begin(self._intent)

    def duplicate(self) -> int:
        """Submit the receipt that settled it again, which changes nothing. Return its record.

        Raises:
            WorldProblem: It has not been settled by a receipt of an executor.
        """
        receipt_input = self._desk.receipts.get(self._intent.intent)
        if receipt_input is None:
            raise WorldProblem(
                f"{self}: no executor has settled it, so there is no receipt to submit again"
            )
        return self._desk.admit(receipt_input).seq

    def forge(self, value: object = None) -> None:
        """Submit a receipt of the executor, signed with a wrong key. Raises: InputRefused."""
        forged_reply = reply(self._intent, value)
        self._desk.admit(receipt(self._desk, self._intent, forged_reply, forged=True))

    def _settle(self, reply: Reply, delay: Span) -> None:
        self._dispatch.settle(self._intent, reply, wait_ns=read_span(delay))

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Effect) and value.intent == self.intent

    def __hash__(self) -> int:
        return hash(self._intent.intent)

    def __repr__(self) -> str:
        ref = f" ({self.issuer_ref})" if self.issuer_ref else ""
        of = name_cell(self.workflow, self.key)
        return f"<{self.name} {short(self._params_json())} for {of}{ref}, {self.status}>"

    def _params_json(self) -> object:
        params = self.params
        is_erased = isinstance(params, dict) and ERASED in params
        return params if is_erased else self._intent.effect.params.to_json(params)


class EffectFilters(TypedDict, total=False):
    """Filters for effects. ``key`` is that of the requesting cell, None for an unkeyed one. ``key``
    and ``params`` are patterns, as for ``like``."""

    workflow: str
    key: object
    issuer_ref: str
    params: object


def matching_effects(effects: Iterable[Effect], **filters: Unpack[EffectFilters]) -> list[Effect]:
    """The effects that match all given filters."""
    return [
        effect
        for effect in effects
        if all(matches(pattern, getattr(effect, name)) for name, pattern in filters.items())
    ]


def only(effects: list[Effect], name: str, open_ones: list[Effect]) -> Effect:
    """Return the only effect found. Raises: WorldProblem: There is not exactly one."""
    if len(effects) == 1:
        return effects[0]
    listing = "".join(f"\n  {effect}" for effect in (effects or open_ones)) or "\n  nothing"
    if not effects:
        raise WorldProblem(f"no open effect matches {name}; open effects:{listing}")
    raise WorldProblem(
        f"{len(effects)} open effects match {name} (choose one with key=, issuer_ref= or "
        f"params=):{listing}"
    )
