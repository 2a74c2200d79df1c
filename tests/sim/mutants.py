"""Bugs planted in the core and the host: the simulator must find each within a few seeds.

        python -m tests.sim.mutants [WORD...]   print which check finds which bug, and at which seed

A bug is a patch of one function. The checker alone must also find those marked ``alone``: it reads
only the frames and the reports to the outside, and runs without the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from aos.core import kernel
from aos.core.decide import admit, control, owed, routing, settle, step
from aos.core.decide.answers import Decided, Refusal, Rule
from aos.core.journal import frame, identity, signing
from aos.core.journal.records import Attempt, CellId, Receipt
from aos.core.kernel import Kernel
from aos.core.pending import Sealed
from aos.core.state import fold
from aos.core.state.cell import Cell, Mail, OpenIntent, ReceiptMail
from aos.core.state.state import State
from aos.host.world.pipeline import Pipeline
from aos.manifest.effective import Effective, Route
from aos.manifest.names import KERNEL_EFFECTS
from aos.values.digests import Hash, parse_hash
from tests.sim import ends, mutants_governance, mutants_pins, mutants_snapshot, threads
from tests.sim.failure import SimFailure
from tests.sim.trace import say

SEEDS_MOST: Final = 1500
"""A bug that takes more is one that the simulator cannot see."""

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    name: str
    put: Callable[[Patch], None]
    alone: bool = False
    threaded: bool = False


def _another_cell(patch: Patch) -> None:
    real = fold._deliver

    def deliver(state: State, cell: Cell, mail: Mail) -> None:
        if isinstance(mail, ReceiptMail):
            *_, cell = state.cells.values()
        real(state, cell, mail)

    patch.setattr(fold, "_deliver", deliver)


def _no_dedup(patch: Patch) -> None:
    patch.setattr(admit, "_is_forgotten", lambda *_: True)


def _last_first(patch: Patch) -> None:
    def make_ready(state: State, cell: Cell) -> None:
        if not cell.in_ring and not cell.runs and cell.fault is None:
            cell.in_ring = True
            state.ring.appendleft(cell.id)

    patch.setattr(fold, "_make_ready", make_ready)


def _newest_mail_first(patch: Patch) -> None:
    real = fold._deliver

    def deliver(state: State, cell: Cell, mail: Mail) -> None:
        real(state, cell, mail)
        if len(cell.mailbox) > 2 and cell.fault is None:
            cell.mailbox.insert(1, cell.mailbox.pop())

    patch.setattr(fold, "_deliver", deliver)


def _settled_stays_open(patch: Patch) -> None:
    real = fold._settle

    def twice(state: State, record: Any, *more: Any, **named: Any) -> None:
        intent = state.intents[record.intent]
        real(state, record, *more, **named)
        state.intents[record.intent] = intent
        state.cells[intent.cell].inflight[record.intent] = None

    patch.setattr(fold, "_settle", twice)


def _published_early(patch: Patch) -> None:
    commit, release = Pipeline._commit, Pipeline._release
    patch.setattr(Pipeline, "_commit", lambda _, __: None)

    def late(self: Pipeline, group: Any) -> Any:
        commit(self, group)
        return release(self, group)

    patch.setattr(Pipeline, "_release", late)


def _settled_published(patch: Patch) -> None:
    patch.setattr(Sealed, "to_publish", property(lambda self: self.opened_intents))


def _failed_mail_dropped(patch: Patch) -> None:
    real = fold._deliver

    def deliver(state: State, cell: Cell, mail: Mail) -> None:
        if cell.fault is None:
            real(state, cell, mail)

    patch.setattr(fold, "_deliver", deliver)


def _faulting_entry_dropped(patch: Patch) -> None:
    real = fold._fold_fault

    def drop(state: State, record: Any) -> None:
        real(state, record)
        state.cells[record.cell].mailbox.popleft()

    patch.setattr(fold, "_fold_fault", drop)


def _revoked_may_sign(patch: Patch) -> None:
    real = signing.may_sign
    patch.setattr(settle, "may_sign", lambda under, _, **who: real(under, frozenset(), **who))


def _any_executor_may_sign(patch: Patch) -> None:
    patch.setattr(settle, "may_sign", lambda *_, **__: True)


def _no_signature_checked(patch: Patch) -> None:
    real = Kernel.__init__

    def init(self: Kernel, *given: Any, **named: Any) -> None:
        real(self, *given, **named)
        self._verify = lambda *_: True

    patch.setattr(Kernel, "__init__", init)


def _foreign_canceled(patch: Patch) -> None:
    real = owed._targets

    def targets(state: State, intent: OpenIntent, params: Any) -> Any:
        if params["issuer_ref"] is None and str(params["intent"]).startswith("blake3:"):
            found = state.intents.get(parse_hash(params["intent"]))
            if found is not None and found.effect.name not in KERNEL_EFFECTS:
                return found
        return real(state, intent, params)

    patch.setattr(owed, "_targets", targets)


def _at_most_once_again(patch: Patch) -> None:
    real = settle.admit_attempt

    def attempt(state: State, given: Any, stamp: Any) -> Any:
        answer = real(state, given, stamp)
        if not isinstance(answer, Refusal) or answer.rule is not Rule.ATTEMPT_IS_OLD:
            return answer
        intent = state.intents[given.intent]
        number = state.attempt(intent) + 1
        record = Attempt(
            seq=state.next_seq, stamp=stamp, intent=given.intent, cell=intent.cell, attempt=number,
            phase="begun", problem=None,
        )  # fmt: skip
        return Decided(record=record, blobs={})

    patch.setattr(kernel, "admit_attempt", attempt)


def _clock_goes_back(patch: Patch) -> None:
    def advance(state: State, stamp: Any) -> None:
        state.clock_ns = stamp.ns

    patch.setattr(fold, "advance_clock", advance)


def _window_leaps(patch: Patch) -> None:
    def window_at(state: State, stamp_ns: int) -> int:
        return max(state.clock_ns, stamp_ns)

    patch.setattr(State, "window_at", window_at)


def _timers_early(patch: Patch) -> None:
    patch.setattr(settle, "_not_due", lambda *_: None)


def _keys_forgotten(patch: Patch) -> None:
    patch.setattr(fold, "_keep", lambda *_: None)


def _cascade_without_depth(patch: Patch) -> None:
    real = fold._emit

    def emit(state: State, event: Any, cause: Mail, seq: int, index: int) -> None:
        real(state, event, replace(cause, depth=cause.depth - 1), seq, index)

    patch.setattr(fold, "_emit", emit)


def _mailbox_unbounded(patch: Patch) -> None:
    def place(state: State, routes: tuple[Route, ...], *more: Any) -> routing.Placed:
        placed = routing.place_event(state, routes, *more)
        return placed._replace(to=placed.to + placed.overloaded, overloaded=())

    patch.setattr(admit, "place_event", place)


def _owed_last(patch: Patch) -> None:
    real = Kernel.next

    def later(self: Kernel, *, steps: bool = True) -> Any:
        debts, ring = self.state.owed, self.state.ring
        if debts and ring and steps:
            self.state.owed = type(debts)()
            try:
                return real(self)
            finally:
                self.state.owed = debts
        return real(self, steps=steps)

    patch.setattr(Kernel, "next", later)


def _command_admitted_twice(patch: Patch) -> None:
    real = fold._fold_control

    def again(state: State, record: Any) -> None:
        real(state, record)
        state.controls -= 1

    patch.setattr(fold, "_fold_control", again)


def _old_frames_taken(patch: Patch) -> None:
    patch.setattr(settle, "_too_fast", lambda *_: None)


def _erased_in_use(patch: Patch) -> None:
    patch.setattr(control, "_uses", lambda *_: iter(()))


def _same_entropy(patch: Patch) -> None:
    real = identity.step_entropy
    patch.setattr(step, "step_entropy", lambda stamp, cell, _: real(stamp, cell, 0))


def _intent_without_place(patch: Patch) -> None:
    real = identity.intent_hash
    patch.setattr(step, "intent_hash", lambda **named: real(**{**named, "seq": 0, "index": 0}))


def _runs_until_empty(patch: Patch) -> None:
    real = fold._fold_step

    def again(state: State, record: Any) -> None:
        real(state, record)
        if record.cell in state.ring:
            state.ring.remove(record.cell)
            state.ring.appendleft(record.cell)

    patch.setattr(fold, "_fold_step", again)


def _log_without_past(patch: Patch) -> None:
    real = frame.log_leaf
    patch.setattr(frame, "log_leaf", lambda _: real(Hash(bytes(32))))


def _abandoned_delivered(patch: Patch) -> None:
    real = fold._abandon

    def keep(state: State, cell: Cell, intents: tuple[Hash, ...], seq: int) -> None:
        kept = {each: state.intents[each] for each in intents}
        real(state, cell, intents, seq)
        if cell.fault is not None:
            state.intents.update(kept)
            cell.inflight.update(dict.fromkeys(kept))
            for each in kept:
                state.abandoned.pop(each, None)

    patch.setattr(fold, "_abandon", keep)


def _retry_drops_the_rest(patch: Patch) -> None:
    real = fold._go_on

    def drop(state: State, id: CellId, record: Any) -> None:
        cell = state.cells[id]
        while len(cell.mailbox) > 2:
            cell.mailbox.pop()
        real(state, id, record)

    patch.setattr(fold, "_go_on", drop)


def _retry_restamps_nothing(patch: Patch) -> None:
    real = fold._go_on

    def resume(state: State, id: CellId, record: Any) -> None:
        real(state, id, replace(record, restamp=None))

    patch.setattr(fold, "_go_on", resume)


def _any_manifest_time(patch: Patch) -> None:
    patch.setattr(admit, "blockers", lambda *_, **__: ())


def _lost_forgotten(patch: Patch) -> None:
    """The store is not told of the settlement by a delivered receipt, so a restart loses it."""
    real = Kernel.enter

    def skip(self: Kernel, decided: Decided) -> None:
        real(self, decided)
        record = decided.record
        if isinstance(record, Receipt) and record.outcome == "delivered" and self._pending.settled:
            self._pending.settled.pop()

    patch.setattr(Kernel, "enter", skip)


def _any_settlement_fits(patch: Patch) -> None:
    real = control._settleable

    def settleable(state: State, given: Any) -> Any:
        answer = real(state, given)
        if answer is None or answer.rule is not Rule.SETTLEMENT_DOES_NOT_FIT:
            return answer
        return None

    patch.setattr(control, "_settleable", settleable)


def _settled_otherwise(patch: Patch) -> None:
    real = owed._receipt

    def receipt(run: Any, intent: OpenIntent, status: Any, payload: bytes, **more: Any) -> Any:
        if run.owed.settlement is not None:
            status = "error" if status == "ok" else "ok"
        return real(run, intent, status, payload, **more)

    patch.setattr(owed, "_receipt", receipt)


def _ended_stays_in_the_ring(patch: Patch) -> None:
    real = fold._emptied

    def emptied(state: State, id: CellId, record: Any) -> Cell:
        at = list(state.ring)
        cell = real(state, id, record)
        state.ring.clear()
        state.ring.extend(at)
        return cell

    patch.setattr(fold, "_emptied", emptied)


def _end_keeps_fault(patch: Patch) -> None:
    real = fold._emptied

    def emptied(state: State, id: CellId, record: Any) -> Cell:
        before = state.cells[id]
        fault, seq = before.fault, before.fault_seq
        cell = real(state, id, record)
        cell.fault, cell.fault_seq = fault, seq
        return cell

    patch.setattr(fold, "_emptied", emptied)


def _everything_creates(patch: Patch) -> None:
    real = routing.place_event

    def place(state: State, routes: tuple[Route, ...], *more: Any) -> routing.Placed:
        return real(state, tuple(replace(each, creates=True) for each in routes), *more)

    for module in (admit, step):
        patch.setattr(module, "place_event", place)


def _every_key_is_near(patch: Patch) -> None:
    for module in (admit, step):
        patch.setattr(module, "shard_problem", lambda *_: None)


def _everything_is_open(patch: Patch) -> None:
    patch.setattr(Effective, "is_open", lambda *_: True)


MUTANTS: Final[Sequence[Mutant]] = (
    Mutant("a receipt goes to another cell", _another_cell, alone=True),
    Mutant("submissions are not remembered", _no_dedup),
    Mutant("the ring runs the newest first", _last_first, alone=True),
    Mutant("a mailbox gives the newest first", _newest_mail_first, alone=True),
    Mutant("a settled intent stays open", _settled_stays_open, alone=True),
    Mutant("effects are published before the commit", _published_early, threaded=True),
    Mutant("settled effects are published", _settled_published, alone=True),
    Mutant("mail to a failed instance is dropped", _failed_mail_dropped, alone=True),
    Mutant("the entry that failed is dropped", _faulting_entry_dropped, alone=True),
    Mutant("a revoked key may still sign", _revoked_may_sign, alone=True),
    Mutant("any executor may sign", _any_executor_may_sign, alone=True),
    Mutant("no signature is checked", _no_signature_checked, alone=True),
    Mutant("a cell cancels another's effect", _foreign_canceled, alone=True),
    Mutant("an at-most-once effect runs again", _at_most_once_again, alone=True),
    Mutant("the journal clock goes back", _clock_goes_back),
    Mutant("a leap of the clock forgets submissions", _window_leaps),
    Mutant("timers fire early", _timers_early, alone=True),
    Mutant("requested keys are forgotten", _keys_forgotten, alone=True),
    Mutant("a cascade does not get deeper", _cascade_without_depth),
    Mutant("mailboxes have no bound", _mailbox_unbounded, alone=True),
    Mutant("steps run before due receipts", _owed_last, alone=True),
    Mutant("a command is admitted twice", _command_admitted_twice, alone=True),
    Mutant("stream frames come in any order", _old_frames_taken, alone=True),
    Mutant("a value in use is erased", _erased_in_use),
    Mutant("every delivery has the same entropy", _same_entropy),
    Mutant("two requests share one intent", _intent_without_place, alone=True),
    Mutant("a busy cell runs until it is empty", _runs_until_empty, alone=True),
    Mutant("the log holds no past", _log_without_past, alone=True),
    Mutant("an abandoned intent stays open", _abandoned_delivered, alone=True),
    Mutant("a retry drops the mail after the entry", _retry_drops_the_rest, alone=True),
    Mutant("a retry restamps nothing", _retry_restamps_nothing),
    Mutant("a manifest comes in at any time", _any_manifest_time, alone=True),
    Mutant("the store misses a settlement", _lost_forgotten),
    Mutant("any settlement fits its effect", _any_settlement_fits),
    Mutant("a settlement has the other status", _settled_otherwise, alone=True),
    Mutant("an ended instance keeps its turn", _ended_stays_in_the_ring, alone=True),
    Mutant("an ended instance keeps its fault", _end_keeps_fault, alone=True),
    Mutant("every event creates its instance", _everything_creates),
    Mutant("every event is accepted from outside", _everything_is_open, alone=True),
    Mutant("a shard takes the keys of another", _every_key_is_near, alone=True),
    *(Mutant(name, put) for name, put in mutants_snapshot.MUTANTS),
    *(Mutant(name, put) for name, put in mutants_pins.MUTANTS),
    *(Mutant(name, put, alone) for name, put, alone in mutants_governance.MUTANTS),
)


def found(
    mutant: Mutant, *, foretold: bool = True, most: int = SEEDS_MOST, first: Sequence[int] = ()
) -> tuple[int, SimFailure] | None:
    """The first seed that finds a bug, and how. ``first`` are tried before all others.

    Raises:
        SimFailure: The bug calls or replaces a function whose parameters have changed.
    """
    with pytest.MonkeyPatch.context() as patch:
        mutant.put(patch)
        for seed in [*first, *range(most)]:
            try:
                if mutant.threaded:
                    threads.simulate(seed)
                else:
                    ends.simulate(seed, foretold=foretold)
            except SimFailure as failure:
                if failure.check == "crash: TypeError":
                    raise
                return seed, failure
    return None


def main() -> None:
    with ends.manifests_read_once():
        for mutant in MUTANTS:
            if not all(word in mutant.name for word in sys.argv[1:]):
                continue
            for foretold in (True, False):
                if not foretold and not mutant.alone:
                    continue
                came = found(mutant, foretold=foretold)
                how = "NOT FOUND" if came is None else f"seed {came[0]}: {str(came[1])[:110]!r}"
                say(f"{mutant.name:42} {'' if foretold else 'alone '}{how}")


if __name__ == "__main__":
    main()
