"""One cell of the gateway, driven a transition at a time with ``aos.testing.step``.

    cell = Cell("gw/work@1", WORK_KEY)
    cell.send(work_requested())
    cell.answer({"blob_ref": EVIDENCE_HASH, ...})     the open effect
    cell.fail("unavailable")
    cell.fire()                                       the open timer

``step`` runs each transition in a world of its own, so its references repeat. The cell gives each
effect a reference that no other one has, in the state, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aos.manifest.load import Loaded
from aos.testing import (
    Asked,
    Transition,
    answered,
    canceled,
    failed,
    rejected,
    step,
    timed_out,
)

START_NS: Final = 1_700_000_000 * 10**9
CANCEL: Final = "sys/effect.cancel@1"
TIMER: Final = "sys/timer.set@1"

Law = Callable[["Cell", dict[str, Any] | None, Transition], None]
"""Checks a transition: the cell after it, the state before it, and the transition itself."""


@dataclass
class Cell:
    """A cell with its state, and the effects that are open.

    Attributes:
        asked: Every effect that was ever requested, by reference.
        open: Those that are neither answered nor canceled.
        events: Every event that was ever emitted, in order.
    """

    source: Loaded
    workflow: str
    key: str
    law: Law | None = None
    now_ns: int = START_NS
    state: Any = None
    asked: dict[str, Asked] = field(default_factory=dict)
    open: dict[str, Asked] = field(default_factory=dict)
    events: list[tuple[str, Any]] = field(default_factory=list)
    steps: int = 0

    def copy(self) -> Cell:
        """A cell that goes its own way from here. States and effects are never changed in place."""
        return replace(self, asked=dict(self.asked), open=dict(self.open), events=list(self.events))

    # Inputs

    def send(self, schema: str, value: object) -> Transition:
        return self._step((schema, value))

    def answer(self, value: object = None, *, ref: str | None = None) -> Transition:
        """The receipt ``ok`` of an effect: of the open one by default, as below."""
        ref = ref or self.ref
        return self._step(answered(self.asked[ref].effect, value, issuer_ref=ref), ref)

    def fail(self, code: str, *, ref: str | None = None) -> Transition:
        ref = ref or self.ref
        effect = self.asked[ref].effect
        return self._step(
            failed(effect, code, f"it is {code}", retryable=True, issuer_ref=ref), ref
        )

    def timeout(self, *, ref: str | None = None) -> Transition:
        ref = ref or self.ref
        return self._step(timed_out(self.asked[ref].effect, issuer_ref=ref), ref)

    def cancel(self, *, ref: str | None = None) -> Transition:
        """An operator cancels the effect."""
        ref = ref or self.ref
        return self._step(canceled(self.asked[ref].effect, issuer_ref=ref), ref)

    def reject(self, *, ref: str | None = None) -> Transition:
        """A receipt whose payload does not fit."""
        ref = ref or self.ref
        return self._step(rejected(self.asked[ref].effect, issuer_ref=ref), ref)

    def fire(self) -> Transition:
        """Let the time pass until the open timer is due."""
        assert self.effect == TIMER, f"{self.effect} is open, and no timer"
        self.now_ns = max(self.now_ns, self.params["deliver_at_ns"])
        return self.answer()

    # Views

    @property
    def ref(self) -> str:
        """The reference of the only open effect."""
        [ref] = self.open
        return ref

    @property
    def effect(self) -> str | None:
        """The name of the only open effect; None where nothing is open."""
        return self.open[self.ref].effect if self.open else None

    @property
    def params(self) -> Any:
        return self.open[self.ref].params

    @property
    def wait_ns(self) -> int:
        """Until the open timer is due."""
        assert self.effect == TIMER
        return int(self.params["deliver_at_ns"]) - self.now_ns

    def emitted(self, name: str) -> list[Any]:
        """The values of all events of a schema, such as ``TxRequested``."""
        return [value for schema, value in self.events if schema == f"gw/{name}@1"]

    # Internal

    def _step(self, event: Any, ref: str | None = None) -> Transition:
        entropy = self.steps.to_bytes(8) * 8
        stepped = step(
            self.source,
            self.workflow,
            event=event,
            state=self.state,
            key=self.key,
            now=self.now_ns,
            entropy=entropy,
        )
        self.steps += 1
        stepped = self._named(stepped)
        before = self.state
        self.state = stepped.state
        self.open.pop(ref or "", None)
        self.events += stepped.events
        for asked in stepped.effects:
            if asked.effect == CANCEL:
                self.open.pop(asked.params["issuer_ref"], None)
            else:
                assert asked.issuer_ref is not None
                self.asked[asked.issuer_ref] = self.open[asked.issuer_ref] = asked
        if self.law is not None:
            self.law(self, before, stepped)
        return stepped

    def _named(self, stepped: Transition) -> Transition:
        """The transition with references that no other step has."""

        def name(ref: str | None) -> str | None:
            is_new = ref is not None and ref.startswith("aos:")
            return f"step {self.steps}, {ref}"[:40].replace("aos:", "") if is_new else ref

        effects = tuple(replace(each, issuer_ref=name(each.issuer_ref)) for each in stepped.effects)
        state = stepped.state
        if state is not None:
            state = {**state, "open": name(state["open"])}
        return replace(stepped, effects=effects, state=state)
