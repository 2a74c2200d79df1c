"""The tasks of one worker process: which wait, which run, which is suspected (X-54 to X-58).

Nothing here does I/O. A task that was running when its process died runs again, with the next
attempt number. One that did so twice is suspected of being the cause and runs alone; when the
process dies under it once more, it is parked.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aos.host.executors.task import Task
from aos.values.digests import Hash

SUSPECT_DEATHS: Final = 2
PARKED_DEATHS: Final = 3


class Where(enum.Enum):
    QUEUED = "queued"
    CANCELING = "canceling"
    """Canceled before it ran. The process is told, since only it can sign for that."""
    RUNNING = "running"
    SETTLING = "settling"
    PARKED = "parked"


@dataclass(slots=True, eq=False)
class Work:
    """A task and how far it is. ``attempt`` is the number that runs, or that is next."""

    task: Task
    attempt: int
    where: Where = Where.QUEUED
    has_slot: bool = False
    deaths: int = 0


class Backlog:
    """``slots`` of an effect is how many of its calls may run at the same time."""

    def __init__(self) -> None:
        self.slots: Mapping[str, int] = {}
        self._work: dict[Hash, Work] = {}
        self._queues: dict[str, deque[Work]] = {}
        self._suspects: deque[Work] = deque()
        self._cancels: deque[Work] = deque()
        self._running: dict[Hash, Work] = {}
        self._taken: Counter[str] = Counter()
        self._settling = 0
        self.parked: dict[Hash, Task] = {}
        """What was found to end the process."""

    def __len__(self) -> int:
        return len(self._work)

    def tasks(self) -> Mapping[Hash, Task]:
        """All that are not settled and not on the way to it."""
        return {
            intent: work.task
            for intent, work in self._work.items()
            if work.where is not Where.SETTLING
        }

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def busy(self) -> int:
        """Running, or on the way into the journal."""
        return len(self._running) + self._settling

    def add(self, task: Task) -> None:
        """Queue a task; one that is here already is left as it is."""
        if task.intent not in self._work:
            work = self._work[task.intent] = Work(task, task.attempt)
            self._queues.setdefault(task.effect.name, deque()).append(work)

    def cancel(self, intent: Hash) -> Work | None:
        """Cancel a task. The one that is returned is running: tell the process."""
        work = self._work.get(intent)
        if work is None or work.where in (Where.SETTLING, Where.CANCELING):
            return None
        if work.where is Where.RUNNING:
            return work
        self.parked.pop(intent, None)
        work.where = Where.CANCELING  # its place in a queue is passed over
        self._cancels.append(work)
        return None

    def canceling(self) -> Iterator[Work]:
        """Take those that were canceled before they ran."""
        while self._cancels:
            yield self._start(self._cancels.popleft())

    def ready(self) -> Iterator[Work]:
        """Take those that may run now: a suspect alone, else as many as each effect has slots."""
        suspect = self._head(self._suspects)
        if suspect is not None:
            if not self._running:
                yield self._call(self._suspects)
            return
        for effect, queue in self._queues.items():
            slots = self.slots.get(effect, 0)
            while self._taken[effect] < slots and self._head(queue) is not None:
                yield self._call(queue)

    @staticmethod
    def _head(queue: deque[Work]) -> Work | None:
        while queue and queue[0].where is not Where.QUEUED:
            queue.popleft()
        return queue[0] if queue else None

    def _call(self, queue: deque[Work]) -> Work:
        work = queue.popleft()
        work.has_slot = True
        self._taken[work.task.effect.name] += 1
        return self._start(work)

    def _start(self, work: Work) -> Work:
        work.where = Where.RUNNING
        self._running[work.task.intent] = work
        return work

    def attempt(self, intent: Hash, number: int) -> None:
        """The process has begun attempt ``number`` of a running task."""
        work = self._running.get(intent)
        if work is not None:
            work.attempt = max(work.attempt, number)

    def running_task(self, intent: Hash) -> Task | None:
        work = self._running.get(intent)
        return None if work is None else work.task

    def end(self, intent: Hash) -> Work | None:
        """A running task has its outcome; None when it is not one."""
        work = self._running.pop(intent, None)
        if work is not None:
            self._free(work)
            work.where = Where.SETTLING
            self._settling += 1
        return work

    def _free(self, work: Work) -> None:
        if work.has_slot:
            work.has_slot = False
            self._taken[work.task.effect.name] -= 1

    def forget(self, intent: Hash) -> None:
        """An ended task is settled, or will be published again."""
        if self._work.pop(intent, None) is not None:
            self._settling -= 1

    def take_back(self, *, is_death: bool) -> Work | None:
        """The process is gone: queue again what was running. Returns the task that is the cause.

        ``is_death`` is False when we ended the process: nothing that ran is to blame then.
        """
        calls = [work for work in self._running.values() if work.has_slot]
        cause: Work | None = None
        for work in reversed(self._running.values()):
            if not work.has_slot:
                work.where = Where.CANCELING
                self._cancels.appendleft(work)
                continue
            self._free(work)
            work.where = Where.QUEUED
            work.attempt += 1
            work.deaths += is_death
            if is_death and len(calls) == 1 and work.deaths >= PARKED_DEATHS:
                work.where = Where.PARKED
                self.parked[work.task.intent] = work.task
                cause = work
            elif work.deaths >= SUSPECT_DEATHS:
                self._suspects.appendleft(work)
            else:
                self._queues[work.task.effect.name].appendleft(work)
        self._running.clear()
        return cause
