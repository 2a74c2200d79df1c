"""Settle each outcome once: retry while the world is unavailable, report a refusal (X-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.errors import Unavailable
from aos.host.executors.task import Outcome, Report, Settle
from aos.values.digests import hash_text

RETRY_S: Final = 1.0

OnEnd = Callable[[Outcome, Answer | None], None]
"""Called with the answer, or None if there is none and the outcome may be needed again."""


class Settling:
    """The outcomes of one executor that wait for the journal. ``settled`` counts those that were
    settled, ``len`` those that wait. Used from one event loop only."""

    def __init__(self, name: str, settle: Settle, report: Report) -> None:
        self._name = name
        self._settle = settle
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble: str | None = None
        self.settled = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, outcome: Outcome, on_end: OnEnd) -> None:
        """Submit an outcome, and again each second while the world is unavailable (X-5).

        ``on_end`` is called once, on the event loop, unless ``drain`` gives up first.
        """
        task = asyncio.get_running_loop().create_task(self._run(outcome, on_end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, outcome: Outcome, on_end: OnEnd) -> None:
        answer: Answer | None = None
        try:
            answer = await self._answer(outcome)
        except Exception as error:  # noqa: BLE001  # in any case the intent stays open, which is reported
            self._say_once(outcome, f"its receipt was not taken: {error!r} (it stays open)")
        else:
            self.settled += not isinstance(answer, Refusal)
        on_end(outcome, answer)

    async def _answer(self, outcome: Outcome) -> Answer:
        while True:
            try:
                answer = await self._settle(outcome)
            except Unavailable as error:
                self._say_once(outcome, f"its receipt waits: {error}")
                await asyncio.sleep(RETRY_S)
            else:
                self._trouble = None
                return answer

    def refused(self, outcome: Outcome, answer: Refusal) -> None:
        """Report that the journal refused a receipt."""
        self._say(outcome, f"its receipt was refused: {answer.text} (the intent stays open)")

    def tell(self, outcome: Outcome, answer: Answer) -> None:
        """Report how the journal answered an outcome of a task that was not canceled, unless it
        took the receipt.

        A late receipt is not reported as refused: another receipt settled the intent.
        """
        match answer:
            case Admitted() | Duplicate():
                pass
            case Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED):
                self._say(outcome, "its receipt came late: the intent was settled without it")
            case Refusal():
                self.refused(outcome, answer)
            case _:
                assert_never(answer)

    def _say_once(self, outcome: Outcome, text: str) -> None:
        """Report a problem once: it usually concerns all outcomes of the moment."""
        if text != self._trouble:
            self._trouble = text
            self._say(outcome, text)

    def _say(self, outcome: Outcome, text: str) -> None:
        self._report(f"executor {self._name}: {outcome.effect} {hash_text(outcome.intent)}: {text}")

    async def drain(self, seconds: float) -> None:
        """Wait for pending outcomes, for at most ``seconds``."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
