"""The tasks of one worker process: waiting, running, or suspected (X-54 to X-58).

Nothing here does I/O. A task that was running when its process died runs again, with the next
attempt number, unless it may run only once: then it is lost. A task that was running in two deaths
is suspected of causing them and runs alone. If the process dies again, the task is parked (X-57).
A task that is held or parked waits until someone asks to retry it (X-16).

An attempt whose number the journal does not have is journaled before it begins (X-12): the first of
a task that may run once, and every one after the first.

Which task is next, within lanes and limits, is decided by the task bank.
"""

from __future__ import annotations

import enum
import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aos.host.executors.lanes import group_of, lane_of
from aos.host.executors.limiter import Limit, Limiter
from aos.host.executors.task import Halted, Task
from aos.host.executors.task_bank import BankTask, TaskBank
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
class Work(BankTask):
    """A task and its progress. It has a place in the bank while it has a slot.

    ``attempt`` is the number of the current or next attempt, ``journaled`` the last number that the
    journal has, ``pending_attempt`` a number that waits for the journal. ``problem`` is why the
    last attempt failed. ``since_ns`` is when the process got the attempt, or may begin it after a
    pause, or when the task was held or parked here; 0 before that. ``spent`` attempts do not count
    against the policy. ``halted`` is why it was held or parked last, ``None`` once it has begun to
    run again.
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
    is_canceled: bool = False
    deaths: int = 0

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
    ``limits`` of effects (N-65) hold too."""

    def __init__(self, limits: Mapping[str, Limit] = NO_LIMITS) -> None:
        self.slots: Mapping[str, int] = {}
        self._limits = limits
        self._bank: TaskBank[Work] = TaskBank(Limiter(limits))
        self._arrivals = itertools.count()
        self._work: dict[Hash, Work] = {}
        self._suspects: dict[Hash, Work] = {}
        self._cancels: deque[Work] = deque()
        self._running: dict[Hash, Work] = {}
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

    @property
    def due_ns(self) -> int | None:
        """When a rate lets the next task begin; None if none waits for that."""
        return self._bank.due_ns()

    def add(self, task: Task) -> None:
        """Queue a task, unless it is here already."""
        if task.intent in self._work:
            return
        effect, problem = task.effect, task.problem
        limit = self._limits.get(effect.name)
        work = Work(
            effect.name,
            (next(self._arrivals),),
            lane_of(effect, task.params, task.workflow, task.cell_key),
            None if limit is None else group_of(effect, task.params, limit),
            task,
            task.attempt,
            task.attempt if problem is None and not task.is_once else task.attempt - 1,
            problem=problem,
            spent=task.spent,
            halted=task.halted,
        )
        self._work[task.intent] = work
        if work.lane is not None:
            self._bank.open(work)
        self._bank.offer(work)

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
        self._offer(work)
        return True

    def _offer(self, work: Work) -> None:
        """Let a task run again, in its place in the order; a suspect runs alone."""
        work.stage = WorkStage.QUEUED
        if work.deaths >= SUSPECT_DEATHS:
            self._suspects[work.task.intent] = work
        else:
            self._bank.offer(work)

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
                self._suspects.pop(intent, None)
                self._bank.withdraw(work)
                self._give_up(work)
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
        bank = self._bank
        bank.wake(now_ns)
        if self._suspects:
            if not self._running:
                suspect = min(self._suspects.values(), key=lambda work: work.order)
                del self._suspects[suspect.task.intent]
                yield self._begin(suspect, now_ns)
            return
        for effect in bank.effects:
            slots = self.slots.get(effect, 0)
            while bank.places[effect] < slots:
                work = bank.first(effect, now_ns)
                if work is None:
                    break
                yield self._begin(work, now_ns)

    def _begin(self, work: Work, now_ns: int) -> Work:
        self._bank.begin(work, now_ns)
        self._running[work.task.intent] = work
        work.stage = WorkStage.RUNNING
        if work.attempt > work.journaled:
            work.stage = WorkStage.BEGINNING
            work.pending_attempt = work.attempt
        return work

    def ask(self, work: Work, attempt: int, problem: str) -> bool:
        """The process asks for another attempt of a task that it has. False if the request makes no
        sense, for example because its number is not the next."""
        if work.pending_attempt is not None or not work.has_place or attempt != work.attempt + 1:
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
            self._offer(work)
        else:
            self._park(work)

    def _give_up(self, work: Work) -> None:
        work.stage = WorkStage.CANCELING
        self._cancels.append(work)

    def _park(self, work: Work) -> None:
        work.stage = WorkStage.PARKED
        self.parked[work.task.intent] = work.task

    def at_work(self, intent: Hash) -> Work | None:
        """Return the task if the process has it, else None."""
        work = self._running.get(intent)
        return work if work is not None and work.stage is WorkStage.RUNNING else None

    def end(self, intent: Hash) -> Work | None:
        """A task has its outcome. Returns it, or None if the process does not have it."""
        work = self._running.get(intent)
        if work is None or work.stage is not WorkStage.RUNNING:
            return None
        del self._running[intent]
        self._bank.leave(work)
        work.stage = WorkStage.SETTLING
        self._settling += 1
        return work

    def _stop_running(self, work: Work) -> None:
        del self._running[work.task.intent]
        self._bank.leave(work, has_begun=work.stage is not WorkStage.BEGINNING)

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
        self._bank.close(work)

    def take_back(self, ending: str, *, is_death: bool) -> Death:
        """The process is gone: queue its tasks again, except those that may run only once.

        ``is_death`` is False if we ended the process, so that no task is to blame. A task that is
        BEGINNING was not sent yet, and stays so.
        """
        sent = [work for work in self._running.values() if work.stage is WorkStage.RUNNING]
        is_alone = is_death and sum(work.has_place for work in sent) == 1
        death = Death()
        for work in reversed(sent):
            had_run = work.has_place
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
                    self._suspects.pop(work.task.intent, None)
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
            self._offer(work)
