"""Journal the attempt of a task before an executor gets it that does not do so (X-12, X-14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from aos.host.executors.attempts import Attempts
from aos.host.executors.task import Task, TaskExecutor
from aos.values.digests import Hash


class Gate:
    """Holds such tasks. ``hand_over`` gets a task once its attempt is durable, ``keep`` gets a task
    whose attempt the journal refuses."""

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
