"""The outcomes, attempts and stream frames of one executor on their way into the journal (X-5, X-12
to X-14, X-70 to X-74).

While the world is unavailable, outcomes and attempts wait and are submitted again together, once a
second. A stream frame is never submitted again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.inputs import BEGUN, LOST, AttemptInput
from aos.core.state.cell import OpenIntent
from aos.errors import AosError, Unavailable
from aos.host.executors.task import Halted, Loss, Lost, Report, Task, WorkJournal
from aos.values.digests import hash_text
from aos.worker.outcome import Outcome, StreamFrame

RETRY_S: Final = 1.0

OnEnd: TypeAlias = Callable[[Outcome, Answer | None], None]
"""Called with the answer, or None if there is none and the outcome may be needed again."""


@dataclass(slots=True, eq=False)
class _Pending:
    """An outcome or an attempt without an answer. ``on_end`` gets the answer, or None if the world
    ended without one; ``subject`` names the item in reports."""

    item: Outcome | AttemptInput
    effect: str
    subject: str
    on_end: Callable[[Answer | None], None]


class JournalOutbox:
    """The items of one executor without an answer; ``len`` counts outcomes and attempts.

    ``settled`` counts outcomes that were settled, ``dropped`` stream frames that were dropped. Used
    from one event loop only.
    """

    def __init__(self, name: str, journal: WorkJournal, report: Report) -> None:
        self._name = name
        self._journal = journal
        self._report = report
        self._pending: set[_Pending] = set()
        self._unavailable: list[_Pending] = []
        self._is_empty = asyncio.Event()
        self._trouble: str | None = None
        self._reported_reasons: set[tuple[str, Rule | Loss]] = set()
        self.settled = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._pending)

    # Outcomes

    def settle(self, outcome: Outcome, on_end: OnEnd) -> None:
        """Submit an outcome. ``on_end`` is called once, unless ``drain`` gives up first."""

        def end(answer: Answer | None) -> None:
            self.settled += answer is not None and not isinstance(answer, Refusal)
            on_end(outcome, answer)

        self._begin(_Pending(outcome, outcome.effect, "its receipt", end))

    def refused(self, outcome: Outcome, answer: Refusal) -> None:
        """Report that the journal refused a receipt."""
        text = f"its receipt was refused: {answer.text} (the intent stays open)"
        self._say(outcome, outcome.effect, text)

    def tell_answer(self, outcome: Outcome, answer: Answer) -> None:
        """Report how the journal answered an outcome of a task that was not canceled, unless it
        took the receipt.

        A late receipt is not reported as refused: another receipt settled the intent.
        """
        match answer:
            case Admitted() | Duplicate():
                pass
            case Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED):
                text = "its receipt came late: the intent was settled without it"
                self._say(outcome, outcome.effect, text)
            case Refusal():
                self.refused(outcome, answer)
            case _:
                assert_never(answer)

    # Attempts

    def begin(
        self,
        task: Task,
        attempt: int,
        problem: str | None,
        on_answer: Callable[[bool], None],
    ) -> None:
        """Journal that ``attempt`` begins; ``problem`` is why the one before it failed.

        ``on_answer`` is called with whether it may begin; not if the world stops first.
        """

        def end(answer: Answer | None) -> None:
            if answer is not None:
                on_answer(not isinstance(answer, Refusal))

        item = AttemptInput(intent=task.intent, attempt=attempt, problem=problem)
        self._attempt(item, task, f"attempt {attempt}", end)

    def lose(self, of: Task | OpenIntent, attempt: int, problem: str) -> None:
        """Journal that the only attempt ended in an unknown way; the core settles the intent."""
        item = AttemptInput(intent=of.intent, attempt=attempt, phase=LOST, problem=problem)
        self._attempt(item, of, "its loss", lambda _: None)

    def halt(self, task: Task, attempt: int, halted: Halted, on_end: Callable[[], None]) -> None:
        """Journal that a task does not run now, after ``attempt``. ``on_end`` is called when the
        journal has answered."""
        item, subject = halted.of(task.intent, attempt), f"that it is {halted.phase}"
        self._attempt(item, task, subject, lambda _: on_end())

    def _attempt(
        self,
        item: AttemptInput,
        of: Task | OpenIntent,
        subject: str,
        on_end: Callable[[Answer | None], None],
    ) -> None:
        def end(answer: Answer | None) -> None:
            # An intent that is not open was canceled in the meantime.
            if isinstance(answer, Refusal) and answer.rule is not Rule.RECEIPT_INTENT_IS_UNKNOWN:
                self._say(item, of.effect.name, f"{subject} was refused: {answer.text}")
            on_end(answer)

        self._begin(_Pending(item, of.effect.name, "its attempt", end))

    # Both

    def _begin(self, pending: _Pending) -> None:
        self._pending.add(pending)
        self._is_empty.clear()
        self._submit(pending)

    def _submit(self, pending: _Pending) -> None:
        self._journal.submit(pending.item, partial(self._answered, pending))

    def _answered(self, pending: _Pending, answer: Answer | Lost | AosError) -> None:
        if pending not in self._pending:
            return  # drain has given it up
        assert not isinstance(answer, Lost), "only a stream frame is lost"
        if isinstance(answer, Unavailable):
            self._say_once(pending, f"{pending.subject} waits: {answer}")
            if not self._unavailable:
                asyncio.get_running_loop().call_later(RETRY_S, self._submit_again)
            self._unavailable.append(pending)
            return
        self._pending.discard(pending)
        if not self._pending:
            self._is_empty.set()
        if isinstance(answer, AosError):
            # The world ends: the intent stays open and a person is told.
            text = f"{pending.subject} was not taken: {answer!r} (it stays open)"
            self._say_once(pending, text)
            pending.on_end(None)
        else:
            self._trouble = None
            pending.on_end(answer)

    def _submit_again(self) -> None:
        unavailable, self._unavailable = self._unavailable, []
        for pending in unavailable:
            if pending in self._pending:
                self._submit(pending)

    async def all_answered(self) -> None:
        """Wait until every outcome and attempt is answered."""
        if self._pending:
            await self._is_empty.wait()

    async def drain(self, seconds: float) -> None:
        """Wait for the answers, for at most ``seconds``, except those to attempts that are about to
        begin: none begins after this."""
        begins = [
            pending
            for pending in self._pending
            if isinstance(pending.item, AttemptInput) and pending.item.phase == BEGUN
        ]
        self._pending.difference_update(begins)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.all_answered(), seconds)
        self._pending.clear()

    # Stream frames

    def tell(self, frame: StreamFrame) -> None:
        """Submit a stream frame. One that is refused or lost is dropped (X-74)."""

        def answered(answer: Answer | Lost | AosError) -> None:
            match answer:
                case Refusal() | Lost():
                    self.drop(frame.effect, 1, answer)
                case Admitted() | Duplicate() | AosError():
                    pass
                case _:
                    assert_never(answer)

        self._journal.submit(frame, answered)

    def drop(self, effect: str, count: int, cause: Refusal | Lost) -> None:
        """Count dropped frames of an effect. Nothing else comes of it, so it is reported once
        (X-74)."""
        self.dropped += count
        reason = (effect, cause.rule if isinstance(cause, Refusal) else cause.loss)
        if count and reason not in self._reported_reasons:
            self._reported_reasons.add(reason)
            self._report(
                f"executor {self._name}: {effect}: progress is dropped: {cause.text} "
                "(only progress; this is reported once)"
            )

    def _say_once(self, pending: _Pending, text: str) -> None:
        """Report a problem once: it usually concerns all items of the moment."""
        if text != self._trouble:
            self._trouble = text
            self._say(pending.item, pending.effect, text)

    def _say(self, item: Outcome | AttemptInput, effect: str, text: str) -> None:
        self._report(f"executor {self._name}: {effect} {hash_text(item.intent)}: {text}")
