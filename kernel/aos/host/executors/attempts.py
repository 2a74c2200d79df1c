"""Journal an attempt before it begins (X-12 to X-14).

While the world is unavailable, the request is retried, as for outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.state.cell import OpenIntent
from aos.errors import Unavailable
from aos.host.executors import settling
from aos.host.executors.task import AttemptJournal, Halted, Report, Task, TaskExecutor
from aos.values.digests import Hash, hash_text

OnAnswer = Callable[[bool], None]
"""Called with whether the attempt may begin. Not called if the world stops first."""


class Attempts:
    """The attempts of one executor's tasks that wait for the journal."""

    def __init__(self, name: str, journal: AttemptJournal, report: Report) -> None:
        self._name = name
        self._journal = journal
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble: str | None = None

    def begin(
        self, of: Task | OpenIntent, attempt: int, problem: str | None, on_answer: OnAnswer
    ) -> None:
        """Journal that ``attempt`` begins; ``problem`` is why the one before it failed."""

        async def run() -> None:
            ask = partial(self._journal.begin, of.intent, attempt, problem)
            answer = await self._answer(of, f"attempt {attempt}", ask)
            if answer is not None:
                on_answer(not isinstance(answer, Refusal))

        self._run(run())

    def lose(self, of: Task | OpenIntent, attempt: int, problem: str) -> None:
        """Journal that the only attempt ended in an unknown way; the core settles the intent."""

        async def run() -> None:
            ask = partial(self._journal.lose, of.intent, attempt, problem)
            await self._answer(of, "its loss", ask)

        self._run(run())

    def halt(self, of: Task, attempt: int, halted: Halted, on_end: Callable[[], None]) -> None:
        """Journal that a task does not run now, after ``attempt``. ``on_end`` is called when the
        journal has answered."""

        async def run() -> None:
            ask = partial(self._journal.halt, of.intent, attempt, halted)
            await self._answer(of, f"that it is {halted.phase}", ask)
            on_end()

        self._run(run())

    async def drain(self, seconds: float | None) -> None:
        """Wait for pending requests, for at most ``seconds`` (None: without a limit)."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _run(self, body: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, of: Task | OpenIntent, subject: str, ask: Callable[[], Awaitable[Answer]]
    ) -> Answer | None:
        while True:
            try:
                answer = await ask()
            except Unavailable as error:
                self._say_once(of, f"its attempt waits: {error}")
                await asyncio.sleep(settling.RETRY_S)
            except Exception as error:  # noqa: BLE001  # the world ends: the intent stays open and a person is told
                self._say_once(of, f"its attempt was not journaled: {error!r} (it stays open)")
                return None
            else:
                self._trouble = None
                match answer:
                    case Refusal(rule=Rule.RECEIPT_INTENT_IS_UNKNOWN):
                        pass  # the intent was canceled in the meantime
                    case Refusal():
                        self._say(of, f"{subject} was refused: {answer.text}")
                return answer

    def _say_once(self, of: Task | OpenIntent, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            self._say(of, text)

    def _say(self, of: Task | OpenIntent, text: str) -> None:
        self._report(f"executor {self._name}: {of.effect.name} {hash_text(of.intent)}: {text}")


class Gate:
    """Journals the attempt of a task for an executor that does not do so itself, before the
    executor gets the task (X-12, X-14).

    ``hand_over`` gets a task once its attempt is durable, ``keep`` gets a task whose attempt the
    journal refuses.
    """

    def __init__(
        self,
        attempts: Attempts,
        *,
        hand_over: Callable[[TaskExecutor, Task], None],
        keep: Callable[[Task], None],
    ) -> None:
        self._attempts = attempts
        self._hand_over = hand_over
        self._keep = keep
        self._held_intents: set[Hash] = set()

    def hold(self, executor: TaskExecutor, task: Task) -> None:
        """Journal the attempt of ``task``, then pass it to ``executor``."""
        if task.intent not in self._held_intents:
            self._held_intents.add(task.intent)
            begun = partial(self._begun, executor, task)
            self._attempts.begin(task, task.attempt, task.problem, begun)

    def _begun(self, executor: TaskExecutor, task: Task, is_granted: bool) -> None:
        if task.intent not in self._held_intents:
            return  # it was canceled meanwhile
        self._held_intents.discard(task.intent)
        if is_granted:
            self._hand_over(executor, task)
        else:
            self._keep(task)

    def cancel(self, intents: Iterable[Hash]) -> None:
        """Do not pass on these tasks, even if the journal grants their attempts later."""
        self._held_intents.difference_update(intents)

    async def close(self) -> None:
        """Pass on no more tasks. An attempt that is being journaled may still become durable;
        then the next start journals it as lost (X-14)."""
        self._held_intents.clear()
        await self._attempts.drain(0)
