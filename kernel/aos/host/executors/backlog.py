"""The tasks of one worker process: waiting, running, or suspected (X-54 to X-58).

Nothing here does I/O. A task that was running when its process died runs again, with the next
attempt number, unless it may run only once: then it is lost. A task that was running in two deaths
is suspected of causing them and runs alone. If the process dies again, the task is parked (X-57).
A task that is held or parked waits until someone asks to retry it (X-16).

An attempt whose number the journal does not have is journaled before it begins (X-12): the first of
a task that may run once, and every one after the first.

Of the tasks of a lane, only the first is in a queue (M-5a). A limited effect has a queue for each
group of its limit (N-65).
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aos.host.executors.lanes import Lane, Lanes, lane_of, values_at
from aos.host.executors.limiter import Group, Limit, Limiter
from aos.host.executors.task import Halted, Task
from aos.values.digests import Hash

NO_LIMITS: Final[Mapping[str, Limit]] = MappingProxyType({})

SUSPECT_DEATHS: Final = 2
PARKED_DEATHS: Final = 3


class WorkStage(enum.Enum):
    """Where a task is on its way from the queue to its receipt."""

    QUEUED = "queued"
    BEGINNING = "beginning"
    """It has its slot, and its attempt waits for the journal."""
    RUNNING = "running"
    ASKING = "asking"
    """As BEGINNING, but without a slot: its process died meanwhile."""
    CANCELING = "canceling"
    """Canceled before it ran. The process must know, because only it can sign that outcome."""
    SETTLING = "settling"
    PARKED = "parked"
    LOST = "lost"
    """Its only run ended with the process. The core settles the intent."""


@dataclass(slots=True, eq=False)
class Work:
    """A task and its progress.

    ``attempt`` is the number of the current or next attempt, ``journaled`` the last number that the
    journal has, ``pending_attempt`` a number that waits for the journal. ``problem`` is why the
    last attempt failed. ``since_ns`` is when the process got the attempt, or may begin it after a
    pause, or when the task was held or parked here; 0 before that. ``spent`` attempts do not count
    against the policy. ``halted`` is why it was held or parked last, ``None`` once it has begun to
    run again. ``lane`` is its lane, if its effect has lanes, and ``group`` its group, if its effect
    has a limit.
    """

    task: Task
    attempt: int
    journaled: int
    pending_attempt: int | None = None
    problem: str | None = None
    since_ns: int = 0
    spent: int = 0
    halted: Halted | None = None
    stage: WorkStage = WorkStage.QUEUED
    has_slot: bool = False
    is_canceled: bool = False
    deaths: int = 0
    lane: Lane | None = None
    group: Group | None = None

    @property
    def begun(self) -> int:
        """The last attempt that may have run: a receipt of a task that never ran has this number
        (X-6a)."""
        return max(1, self.journaled)


@dataclass(slots=True)
class Death:
    """The end of a process: the tasks that may not run again, and the task that caused it."""

    lost: list[Work] = field(default_factory=list)
    cause: Work | None = None


class Backlog:
    """Decides which tasks run (X-54). ``slots`` is how many calls of each effect may run at once;
    ``limits`` of effects (N-65) hold too.

    ``due_ns`` is when a rate lets the next task begin; None if none waits for that alone.
    """

    def __init__(self, limits: Mapping[str, Limit] = NO_LIMITS) -> None:
        self.slots: Mapping[str, int] = {}
        self.due_ns: int | None = None
        self._limiter = Limiter(limits)
        self._work: dict[Hash, Work] = {}
        self._lanes = Lanes()
        self._queues: dict[Group, deque[Work]] = {}
        self._suspects: deque[Work] = deque()
        self._cancels: deque[Work] = deque()
        self._running: dict[Hash, Work] = {}
        self._slots_in_use: Counter[str] = Counter()
        self._settling = 0
        self.parked: dict[Hash, Task] = {}
        """Tasks that are not run again in this process, unless someone asks for it."""

    def __len__(self) -> int:
        return len(self._work)

    def works(self) -> Iterator[Work]:
        """All tasks that have no outcome yet, with their progress."""
        for work in self._work.values():
            if work.stage not in (WorkStage.SETTLING, WorkStage.LOST):
                yield work

    def tasks(self) -> Mapping[Hash, Task]:
        """All tasks that have no outcome yet."""
        return {work.task.intent: work.task for work in self.works()}

    @property
    def running(self) -> int:
        """How many tasks are running or about to run."""
        return len(self._running)

    @property
    def busy(self) -> int:
        """How many tasks are running or have an outcome that waits for the journal."""
        return len(self._running) + self._settling

    def add(self, task: Task) -> None:
        """Queue a task, unless it is here already."""
        if task.intent not in self._work:
            journaled = task.attempt - 1 if task.begins else task.attempt
            work = Work(task, task.attempt, journaled, spent=task.spent, halted=task.halted)
            work.problem = task.problem
            work.lane = lane_of(task.effect, task.params, task.workflow, task.cell_key)
            work.group = self._group_of(task)
            self._work[task.intent] = work
            self._lanes.add(work.lane, task.intent)
            if self._lanes.is_first(work.lane, task.intent):
                self._queue(work).append(work)

    def _group_of(self, task: Task) -> Group | None:
        limit = self._limiter.limits.get(task.effect.name)
        if limit is None:
            return None
        by = values_at(task.effect, task.params, limit.by) if limit.by else b""
        return task.effect.name, by

    def halt(self, work: Work, halted: Halted) -> None:
        """Hold or park a task that the process has, or that was about to run."""
        self._stop_running(work)
        work.halted = halted
        if work.is_canceled:
            self._give_up(work)
        else:
            self._park(work)

    def halted(self) -> Mapping[Hash, Halted]:
        """Why each of ``parked`` was held or parked. A task whose attempt the journal has refused
        is neither."""
        works = [self._work[intent] for intent in self.parked]
        return {work.task.intent: work.halted for work in works if work.halted is not None}

    def retry(self, intent: Hash) -> bool:
        """Queue a task of ``parked`` again, with all attempts of its policy (X-16). Returns False
        if there is none, or if it has run and may run only once."""
        work = self._work.get(intent)
        if work is None or work.stage is not WorkStage.PARKED:
            return False
        was_held = work.halted is not None and work.halted.phase == "held"
        if work.task.is_once and work.journaled and not was_held:
            return False
        del self.parked[intent]
        work.spent, work.deaths = work.journaled, 0
        work.attempt = work.journaled + 1
        work.problem = None if work.halted is None else work.halted.problem
        work.stage = WorkStage.QUEUED
        self._queue(work).append(work)
        return True

    def _queue(self, work: Work) -> deque[Work]:
        if work.deaths >= SUSPECT_DEATHS:
            return self._suspects
        return self._queues.setdefault(work.group or (work.task.effect.name, b""), deque())

    def cancel(self, intent: Hash) -> Work | None:
        """Cancel a task. Returns it if it is running, so that the process must be told."""
        work = self._work.get(intent)
        if work is None:
            return None
        work.is_canceled = True
        match work.stage:
            case WorkStage.RUNNING:
                return work
            case WorkStage.QUEUED | WorkStage.PARKED:
                self.parked.pop(intent, None)
                self._give_up(work)  # its place in a queue is passed over
            case WorkStage.LOST:
                self._remove(work)
        return None

    def canceling(self) -> Iterator[Work]:
        """Take the tasks that were canceled before they ran."""
        while self._cancels:
            work = self._cancels.popleft()
            work.stage = WorkStage.RUNNING
            self._running[work.task.intent] = work
            yield work

    def ready(self, now_ns: int = 0) -> Iterator[Work]:
        """Take the tasks that may run now: a suspect alone, else as many as each effect has slots
        and its limit allows. ``now_ns`` is a time of the clock of ``due_ns``.

        A task that is BEGINNING must be journaled first: see ``ask`` and ``answered``.
        """
        self.due_ns = None
        suspect = self._head(self._suspects)
        if suspect is not None:
            if not self._running:
                yield self._call(self._suspects, now_ns)
            return
        for key in list(self._queues):
            yield from self._ready_of(key, now_ns)

    def _ready_of(self, key: Group, now_ns: int) -> Iterator[Work]:
        queue, effect = self._queues[key], key[0]
        slots = self.slots.get(effect, 0)
        has_taken = False
        while (work := self._head(queue)) is not None and self._slots_in_use[effect] < slots:
            at_ns = now_ns if work.group is None else self._limiter.ready_at(work.group, now_ns)
            if at_ns is None:
                break
            if at_ns > now_ns:
                self.due_ns = at_ns if self.due_ns is None else min(self.due_ns, at_ns)
                break
            has_taken = True
            yield self._call(queue, now_ns)
        if key[1]:
            # The groups of an effect take turns at its slots.
            if not queue:
                del self._queues[key]
            elif has_taken:
                self._queues[key] = self._queues.pop(key)

    @staticmethod
    def _head(queue: deque[Work]) -> Work | None:
        while queue and queue[0].stage is not WorkStage.QUEUED:
            queue.popleft()
        return queue[0] if queue else None

    def _call(self, queue: deque[Work], now_ns: int) -> Work:
        work = queue.popleft()
        work.has_slot = True
        if work.group is not None:
            self._limiter.begin(work.group, now_ns)
        self._slots_in_use[work.task.effect.name] += 1
        self._running[work.task.intent] = work
        work.stage = WorkStage.RUNNING
        if work.attempt > work.journaled:
            work.stage = WorkStage.BEGINNING
            work.pending_attempt = work.attempt
        return work

    def ask(self, work: Work, attempt: int, problem: str) -> bool:
        """The process asks for another attempt of a task that it has. False if the request makes no
        sense, for example because its number is not the next."""
        if work.pending_attempt is not None or not work.has_slot or attempt != work.attempt + 1:
            return False
        work.pending_attempt = attempt
        work.problem = problem
        return True

    def answered(self, work: Work, *, is_granted: bool, is_ready: bool) -> bool:
        """The journal has the attempt, or has refused it. Returns whether to tell the process.

        ``is_ready`` is whether there is a process that takes tasks.
        """
        assert work.pending_attempt is not None, "answered without a question"
        attempt, work.pending_attempt = work.pending_attempt, None
        if is_granted:
            work.journaled = work.attempt = attempt
            work.halted = None
        if work.stage is WorkStage.RUNNING or (
            work.stage is WorkStage.BEGINNING and is_granted and is_ready and not work.is_canceled
        ):
            work.stage = WorkStage.RUNNING
            return True
        if work.stage in (WorkStage.BEGINNING, WorkStage.ASKING):
            self._put_back(work, is_granted=is_granted)
        return False  # the process gave an outcome without another attempt

    def _put_back(self, work: Work, *, is_granted: bool) -> None:
        if work.stage is WorkStage.BEGINNING:
            self._stop_running(work)
        if work.is_canceled:
            self._give_up(work)
        elif is_granted:
            self._wait_again(work)
        else:
            self._park(work)

    def _give_up(self, work: Work) -> None:
        work.stage = WorkStage.CANCELING
        self._cancels.append(work)

    def _park(self, work: Work) -> None:
        work.stage = WorkStage.PARKED
        self.parked[work.task.intent] = work.task

    def _wait_again(self, work: Work) -> None:
        work.stage = WorkStage.QUEUED
        self._queue(work).appendleft(work)

    def at_work(self, intent: Hash) -> Work | None:
        """Return the task if the process has it, else None."""
        work = self._running.get(intent)
        return work if work is not None and work.stage is WorkStage.RUNNING else None

    def end(self, intent: Hash) -> Work | None:
        """A task has its outcome. Returns it, or None if the process does not have it."""
        work = self.at_work(intent)
        if work is not None:
            self._stop_running(work)
            work.stage = WorkStage.SETTLING
            self._settling += 1
        return work

    def _stop_running(self, work: Work) -> None:
        del self._running[work.task.intent]
        if work.has_slot:
            work.has_slot = False
            self._slots_in_use[work.task.effect.name] -= 1
            if work.group is not None:
                self._limiter.end(work.group, has_begun=work.stage is not WorkStage.BEGINNING)

    def forget(self, intent: Hash) -> Work | None:
        """Remove an ended task: it is settled, or will be published again."""
        work = self._work.get(intent)
        if work is not None:
            self._settling -= 1
            self._remove(work)
        return work

    def _remove(self, work: Work) -> None:
        """Remove a task from its lane too: the next one of the lane may run."""
        del self._work[work.task.intent]
        first = self._lanes.remove(work.lane, work.task.intent)
        if first is not None and self._work[first].stage is WorkStage.QUEUED:
            self._queue(self._work[first]).append(self._work[first])

    def take_back(self, ending: str, *, is_death: bool) -> Death:
        """The process is gone: queue its tasks again, except those that may run only once.

        ``is_death`` is False if we ended the process, so that no task is to blame. A task that is
        BEGINNING was not sent yet, and stays so.
        """
        sent = [work for work in self._running.values() if work.stage is WorkStage.RUNNING]
        is_alone = is_death and sum(work.has_slot for work in sent) == 1
        death = Death()
        for work in reversed(sent):
            had_run = work.has_slot
            self._stop_running(work)
            if not had_run or work.is_canceled:
                work.stage = WorkStage.CANCELING
                self._cancels.appendleft(work)
            elif work.task.is_once:
                work.stage = WorkStage.LOST
                death.lost.append(work)
            else:
                work.deaths += is_death
                self._repeat(work, ending)
                if is_alone and work.deaths >= PARKED_DEATHS:
                    self._park(work)
                    death.cause = work
        return death

    def _repeat(self, work: Work, ending: str) -> None:
        """Queue another attempt, or wait for the one that the process has asked for already."""
        if work.pending_attempt is not None:
            work.attempt = work.pending_attempt
            work.stage = WorkStage.ASKING
        else:
            work.attempt += 1
            work.problem = ending
            self._wait_again(work)
