"""Every decision about leases: which worker has which task, and until when (N-52 to N-63).

Nothing here does I/O or reads a clock: the journal's facts, the requests and the time come in, rows
to store and actions to journal come out. The table and the socket are ``work.py``'s.

    offered ──take──▶ beginning ──grant──▶ leased ──ending──▶ ending ──end──▶ (gone)
       ▲                  │ give_back         │ lost, released, failed
       └──────────────────┴── paused ◀────────┴──▶ stopping ──▶ parked, or gone
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from aos.core.journal.inputs import LOST, AttemptInput
from aos.core.journal.vocabulary import HaltPhase
from aos.host.executors.limiter import Limiter
from aos.host.executors.task import Halted
from aos.host.executors.task_bank import BankTask, Signers, TaskBank
from aos.manifest.effective import Effect
from aos.manifest.forms import ATTEMPTS_DEFAULT, BASE_MS_DEFAULT, CAP_MS_DEFAULT
from aos.node.leases.row import LeaseHolder, Phase, RetryPolicy, Row
from aos.node.leases.silent_workers import SilentWorkers
from aos.values.digests import Hash
from aos.worker.policy import PARKING_ATTEMPTS

LOST_MAX: Final = 5
"""Leases of a task that may be lost in a row before it is parked (N-59)."""

START_NS: Final = 15 * 10**9
"""No lease ends within this time of a start, so that its worker can come back (N-55)."""

LEASE_LOST: Final = "lease_lost"
"""The code of a task that was parked because its leases were lost."""

_MS: Final = 10**6


class Moment(NamedTuple):
    """One moment on two clocks, in ns. Decisions use ``steady_ns``, which never goes back; rows
    have ``wall_ns``, which a restart understands."""

    steady_ns: int
    wall_ns: int


@dataclass(slots=True, eq=False, kw_only=True)
class OpenTask(BankTask):
    """An open intent, as far as decisions about leases need it.

    ``order`` is the place of its opening in the journal: sequence and index in the step.
    """

    intent: Hash
    is_once: bool = False


class TaskTaker(Protocol):
    """A claim, or another request for tasks."""

    def effects(self, offered: Iterable[str]) -> Iterable[str]:
        """Those of the ``offered`` effects that it takes now."""
        ...

    def may_sign(self, signers: Signers) -> bool:
        """Whether its results would be signed by one of ``signers``."""
        ...


class TaskPlace(enum.Enum):
    """Where an open task is between its opening and its receipt."""

    OFFERED = "offered"
    PAUSED = "paused"
    """It waits for the end of its retry pause."""
    BEGINNING = "beginning"
    """A claim has it, and its attempt or its row is not durable yet."""
    LEASED = "leased"
    ENDING = "ending"
    """Its result is on the way into the journal."""
    STOPPING = "stopping"
    """Its halt or its loss is on the way into the journal."""
    PARKED = "parked"
    """The journal says that it does not run now: it is held or parked."""


class Standing(enum.Enum):
    """Whether a worker may speak for an attempt."""

    HOLDER = "holder"
    """The worker has the last attempt; its lease may have ended."""
    STALE = "stale"
    """Another attempt follows or has begun, or the lease is another worker's."""
    GONE = "gone"
    """The task is not open."""


class Pick(NamedTuple):
    """A task that a claim gets as attempt ``epoch``. It ``must_begin`` if the journal does not have
    that attempt yet, because of ``problem``."""

    intent: Hash
    epoch: int
    must_begin: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Lose:
    """To be journaled: the only attempt ended in an unknown way (K-97)."""

    intent: Hash
    epoch: int
    problem: str

    def item(self) -> AttemptInput:
        """The input that journals it."""
        return AttemptInput(
            intent=self.intent, attempt=self.epoch, phase=LOST, problem=self.problem
        )


@dataclass(frozen=True, slots=True)
class Park:
    """To be journaled: the task does not run until an operator asks for it (K-99)."""

    intent: Hash
    epoch: int
    code: str
    problem: str

    def item(self) -> AttemptInput:
        """The input that journals it."""
        return Halted("parked", self.code, self.problem).of(self.intent, self.epoch)


Action: TypeAlias = Lose | Park


@dataclass(slots=True, eq=False)
class TaskEntry:
    """An open task and its progress. ``attempt`` is the last one in the journal
    (``State.attempt``); ``until_ns`` is when its lease or its pause ends, on the steady clock;
    ``back`` is where an ending task was before; ``halt`` says why a PARKED one does not run.
    ``is_named``: an answer may have named its lease to the worker."""

    task: OpenTask
    effect: Effect
    attempt: int
    row: Row | None
    task_place: TaskPlace = TaskPlace.OFFERED
    until_ns: int = 0
    back: TaskPlace = TaskPlace.OFFERED
    halt: HaltPhase | None = None
    is_named: bool = True


@dataclass(slots=True)
class _Ended:
    """A task that ended while a worker had it; the worker has not heard of it yet."""

    row: Row
    until_ns: int


class Leases:
    """All tasks of a world. ``rows`` are those of the table at the start.

    Tasks that were opened at ``since`` or before and have no row may have been given out by a table
    that is gone: the journal gets a new attempt before they are given out (N-56). ``actions`` are
    to be journaled, ``changes`` to be stored (None: removed); the caller empties both. ``lost``
    counts leases that ran out, and ``silent`` has the workers that have lost one since they were
    heard.
    """

    def __init__(self, rows: Mapping[Hash, Row], *, since: int, limiter: Limiter) -> None:
        self.offers: TaskBank[OpenTask] = TaskBank(limiter)
        self.tasks: dict[Hash, TaskEntry] = {}
        self.actions: list[Action] = []
        self.changes: dict[Hash, Row | None] = {}
        self.lost = 0
        self.silent: SilentWorkers[LeaseHolder] = SilentWorkers()
        self._since = since
        self._stored = dict(rows)
        self._ended: dict[Hash, _Ended] = {}
        self._claims: dict[tuple[LeaseHolder, str], set[Hash]] = {}
        self._times: list[tuple[int, Hash]] = []

    # The journal

    def open(
        self,
        task: OpenTask,
        effect: Effect,
        *,
        attempt: int,
        halt: HaltPhase | None,
        now: Moment,
    ) -> None:
        """Take an open intent; ``attempt`` and ``halt`` as the state has them. A known one is
        ignored. One that an earlier process held is offered again (X-16)."""
        if task.intent in self.tasks:
            return
        row = self._stored.pop(task.intent, None)
        entry = TaskEntry(task=task, effect=effect, attempt=attempt, row=row)
        self.tasks[task.intent] = entry
        self.offers.open(task)
        if halt is not None:
            entry.task_place, entry.halt = TaskPlace.PARKED, halt
            if row is None:
                self._put(entry, Row(epoch=attempt, phase=Phase.OVER))
            if halt == "held" and self.retry(task.intent) is not None:
                self._offer(entry)
        elif row is None:
            if task.is_once and attempt:
                self._lose(entry, "no lease says who ran it")
            else:
                self._offer(entry)
        else:
            self._restore(entry, row, now)

    def _restore(self, entry: TaskEntry, row: Row, now: Moment) -> None:
        """Continue where the last process stopped (N-55)."""
        if row.phase is Phase.LEASED and entry.attempt <= row.epoch:
            left_ns = min(max(row.until_ns - now.wall_ns, START_NS), max(row.lease_ns, START_NS))
            entry.task_place = TaskPlace.LEASED
            self.offers.resume(entry.task)
            self._claims.setdefault((row.holder, row.claim), set()).add(entry.task.intent)
            self._time(entry, now.steady_ns + left_ns)
        elif entry.task.is_once and (row.phase is not Phase.RESERVED or entry.attempt > row.epoch):
            self._lose(entry, row.problem or "its lease is over")
        elif row.phase is Phase.LEASED:
            self._put(entry, row._replace(phase=Phase.OVER))
            self._offer(entry)
        elif row.lost >= LOST_MAX:
            self._park(entry, row)
        else:
            left_ns = min(max(row.resume_ns - now.wall_ns, 0), row.pause_ns)
            if left_ns:
                self._pause(entry, now.steady_ns + left_ns)
            else:
                self._offer(entry)

    def forget_unknown(self, now: Moment) -> None:
        """Every open intent has been opened: the other rows are of tasks that ended meanwhile."""
        for intent, row in self._stored.items():
            self.changes[intent] = None
            if row.phase is Phase.LEASED:
                self._end_lease(intent, row, now.steady_ns + max(row.lease_ns, START_NS))
        self._stored.clear()

    def begun(self, intent: Hash, attempt: int) -> None:
        """The journal has this attempt."""
        entry = self.tasks.get(intent)
        if entry is None or attempt <= entry.attempt:
            return
        entry.attempt = attempt
        if entry.task_place is TaskPlace.PARKED:
            entry.halt = None
            self._offer(entry)

    def halted(self, intent: Hash, phase: HaltPhase) -> None:
        """The journal says that a task is held or parked."""
        entry = self.tasks.get(intent)
        if entry is not None and entry.task_place is not TaskPlace.PARKED:
            if entry.row is None:
                self._put(entry, Row(epoch=entry.attempt, phase=Phase.OVER))
            elif entry.row.phase is Phase.LEASED:
                self._over(entry, entry.row.problem)
            self.offers.leave(entry.task)
            entry.task_place, entry.halt = TaskPlace.PARKED, phase
            self.offers.withdraw(entry.task)

    def end(self, intent: Hash) -> None:
        """A task is settled, or no cell waits for it any more. Unknown ones are ignored."""
        entry = self.tasks.pop(intent, None)
        if entry is None:
            return
        self.offers.leave(entry.task)
        self.offers.close(entry.task)
        if entry.row is not None:
            self.changes[intent] = None
            if entry.row.phase is Phase.LEASED:
                self._drop_claim(intent, entry.row)
                self._end_lease(intent, entry.row, entry.until_ns)

    def close_all(self, open_now: Mapping[Hash, object]) -> None:
        """End every task that is not in ``open_now``."""
        for intent in [intent for intent in self.tasks if intent not in open_now]:
            self.end(intent)

    # Claims

    def take(self, taker: TaskTaker, now: Moment) -> Pick | None:
        """Take the next task for a worker; it is given out once it is granted. None: there is none
        now."""
        task: OpenTask | None = None
        for effect in taker.effects(self.offers.effects):
            first = self.offers.first(effect, now.steady_ns, taker.may_sign)
            if first is not None and (task is None or first.order < task.order):
                task = first
        if task is None:
            return None
        self.offers.begin(task, now.steady_ns)
        entry = self.tasks[task.intent]
        entry.task_place = TaskPlace.BEGINNING
        epoch = self._next_epoch(entry)
        problem = None if entry.row is None else entry.row.problem
        return Pick(task.intent, epoch, epoch > max(entry.attempt, 0), problem)

    def _next_epoch(self, entry: TaskEntry) -> int:
        row = entry.row
        if row is None:
            if not entry.task.is_once and entry.task.order[0] <= self._since:
                return entry.attempt + 1
            return max(entry.attempt, 1)
        if row.phase is Phase.RESERVED:
            return max(row.epoch, entry.attempt)
        return max(row.epoch + 1, entry.attempt)

    def reserve(self, pick: Pick) -> None:
        """Note an attempt that may run only once before it is journaled: after a crash in between,
        it is known that no worker had it."""
        entry = self.tasks.get(pick.intent)
        if entry is not None:
            previous = entry.row or Row(epoch=0, phase=Phase.RESERVED)
            self._put(entry, previous._replace(epoch=pick.epoch, phase=Phase.RESERVED))

    def grant(
        self,
        pick: Pick,
        holder: LeaseHolder,
        claim: str,
        *,
        lease_ns: int,
        policy: RetryPolicy,
        now: Moment,
    ) -> bool:
        """Lease a task to a worker; its attempt is durable in the journal. Returns False if the
        task has ended meanwhile, or does not run."""
        entry = self.tasks.get(pick.intent)
        if (
            entry is None
            or entry.task_place is not TaskPlace.BEGINNING
            or entry.attempt > pick.epoch
        ):
            return False
        previous = entry.row or Row(epoch=0, phase=Phase.RESERVED)
        row = previous._replace(
            epoch=pick.epoch,
            phase=Phase.LEASED,
            holder=holder,
            claim=claim,
            until_ns=now.wall_ns + lease_ns,
            lease_ns=lease_ns,
            pause_ns=0,
            resume_ns=0,
            problem=None,
            policy=policy,
        )
        self._put(entry, row)
        entry.task_place, entry.is_named = TaskPlace.LEASED, False
        self._claims.setdefault((holder, claim), set()).add(pick.intent)
        self._time(entry, now.steady_ns + lease_ns)
        return True

    def give_back(self, pick: Pick) -> None:
        """A task that was taken is not given out after all. Unknown ones are ignored."""
        entry = self.tasks.get(pick.intent)
        if entry is not None and entry.task_place is TaskPlace.BEGINNING:
            self.offers.leave(entry.task, has_begun=False)
            self._offer(entry)

    def unsigned(self, taker: TaskTaker, now: Moment) -> list[str]:
        """The effects with tasks that ``taker`` would get if it could sign for them, by name."""
        return sorted(
            {
                task.effect
                for effect in taker.effects(self.offers.effects)
                for task in self.offers.unsigned(effect, now.steady_ns, taker.may_sign)
            }
        )

    def claimed(self, holder: LeaseHolder, claim: str) -> list[tuple[Hash, int]]:
        """The tasks and epochs of an earlier claim that its worker still has, in the order of
        opening."""
        intents = self._claims.get((holder, claim), set())
        entries = sorted(
            (self.tasks[intent] for intent in intents), key=lambda entry: entry.task.order
        )
        return [(entry.task.intent, entry.row.epoch) for entry in entries if entry.row is not None]

    def named(self, intents: Iterable[Hash]) -> None:
        """The answer to a claim names these leases."""
        for intent in intents:
            entry = self.tasks.get(intent)
            if entry is not None:
                entry.is_named = True

    def unnamed(self, holder: LeaseHolder, claim: str) -> list[tuple[Hash, int]]:
        """Those of ``claimed`` that no answer has named."""
        return [
            (intent, epoch)
            for intent, epoch in self.claimed(holder, claim)
            if not self.tasks[intent].is_named
        ]

    def acknowledged(self, intent: Hash) -> None:
        """The worker knows that its task has ended."""
        self._ended.pop(intent, None)

    # Requests of workers

    def standing(self, intent: Hash, epoch: int, holder: LeaseHolder) -> Standing:
        """Whether a worker may speak for an attempt. The end of the lease alone does not matter,
        as long as no later attempt was given out or journaled (N-53)."""
        entry = self.tasks.get(intent)
        if entry is None:
            return Standing.GONE
        row = entry.row
        is_current = (
            row is not None
            and row.phase is not Phase.RESERVED
            and not row.resume_ns
            and (row.epoch, row.holder) == (epoch, holder)
            and entry.attempt <= epoch
        )
        return Standing.HOLDER if is_current else Standing.STALE

    def heartbeat(
        self, intent: Hash, epoch: int, holder: LeaseHolder, lease_ns: int | None, now: Moment
    ) -> Row | None:
        """Prolong a lease, to ``lease_ns`` from now (None: as long as before). Returns its row;
        None if the worker does not have it, or if it has ended."""
        entry = self.tasks.get(intent)
        if entry is None or entry.row is None or not self._has_lease(entry, epoch, holder, now):
            return None
        length_ns = lease_ns or entry.row.lease_ns
        row = entry.row._replace(until_ns=now.wall_ns + length_ns, lease_ns=length_ns)
        self._put(entry, row)
        self._time(entry, now.steady_ns + length_ns)
        return row

    def is_canceled(self, intent: Hash, epoch: int, holder: LeaseHolder) -> bool:
        """Whether a task has ended without a result of the worker that has it."""
        ended = self._ended.get(intent)
        return ended is not None and (ended.row.epoch, ended.row.holder) == (epoch, holder)

    def release(
        self, intent: Hash, epoch: int, holder: LeaseHolder, *, began: bool, now: Moment
    ) -> bool:
        """A worker gives up a lease. Returns False if it does not have it."""
        entry = self.tasks.get(intent)
        if entry is None or entry.row is None or not self._has_lease(entry, epoch, holder, now):
            return False
        if entry.task_place is not TaskPlace.LEASED:
            return False
        if began:
            self._stop_lease(entry, f"worker {holder.worker} released it after it had begun")
        else:
            self._take_back(entry, entry.row)
        return True

    def undelivered(self, intent: Hash, leased: Row, *, is_certain: bool, now: Moment) -> None:
        """The answer with which a worker got the lease ``leased`` did not reach it (N-52a).

        Nothing happens if the worker has prolonged it, or has it no more. If it ``is_certain``, the
        same attempt is offered again; else the next one, and a task that may run only once stays
        leased until its time is over.
        """
        entry = self.tasks.get(intent)
        if entry is None or entry.row is not leased or entry.task_place is not TaskPlace.LEASED:
            return
        if not self._has_lease(entry, leased.epoch, leased.holder, now):
            return
        if is_certain:
            self._take_back(entry, leased)
        elif not entry.task.is_once:
            self._stop_lease(entry, f"the connection of worker {leased.holder.worker} was reset")

    def reclaim(self, intent: Hash, problem: str) -> bool:
        """End a lease on behalf of an operator. Returns False if the task has none."""
        entry = self.tasks.get(intent)
        if entry is None or entry.task_place is not TaskPlace.LEASED:
            return False
        self._stop_lease(entry, problem)
        return True

    # Results

    def ending(self, intent: Hash) -> bool:
        """A result of the last attempt goes to the journal; until that answers, the task is not
        given out. Returns False if a claim has the task already: then the journal decides."""
        entry = self.tasks[intent]
        if entry.task_place in (TaskPlace.BEGINNING, TaskPlace.ENDING, TaskPlace.STOPPING):
            return False
        entry.back, entry.task_place = entry.task_place, TaskPlace.ENDING
        self.offers.withdraw(entry.task)
        return True

    def not_ended(self, intent: Hash, now: Moment) -> None:
        """The journal did not take the result: the task is where it was before. Unknown ones are
        ignored."""
        entry = self.tasks.get(intent)
        if entry is None or entry.task_place is not TaskPlace.ENDING:
            return
        entry.task_place = entry.back
        match entry.back:
            case TaskPlace.OFFERED:
                self._offer(entry)
            case TaskPlace.PAUSED:
                self._pause(entry, entry.until_ns)
            case TaskPlace.LEASED:
                self._time(entry, max(entry.until_ns, now.steady_ns))

    def failed(self, intent: Hash, problem: str, *, parks: bool, now: Moment) -> int | None:
        """An attempt failed in a way that allows another one. Returns the pause before it, in ns;
        None if no attempt is left (N-57). ``parks``: a mistake in the worker's code, which has more
        attempts."""
        entry = self.tasks[intent]
        row = entry.row
        assert row is not None, "failed without a row"
        if entry.task.is_once:
            return None
        attempts_max, base_ms, cap_ms = policy_of(entry.effect, row.policy)
        if attempts_max is None:
            attempts_max = PARKING_ATTEMPTS if parks else ATTEMPTS_DEFAULT
        failed = row.failed + 1
        if failed >= attempts_max:
            return None
        pause_ns: int = min(base_ms * 2 ** min(failed - 1, 32), cap_ms) * _MS
        if row.phase is Phase.LEASED:
            self._drop_claim(intent, row)
        updated = row._replace(
            phase=Phase.OVER,
            failed=failed,
            lost=0,
            pause_ns=pause_ns,
            resume_ns=now.wall_ns + pause_ns,
            problem=problem,
        )
        self._put(entry, updated)
        self.offers.leave(entry.task)
        self.offers.withdraw(entry.task)
        self._pause(entry, now.steady_ns + pause_ns)
        return pause_ns

    def failed_before(
        self, intent: Hash, epoch: int, holder: LeaseHolder, now: Moment
    ) -> int | None:
        """The pause that is left after this attempt, in ns, if its worker has reported a failure
        already, and no later attempt was given out; else None."""
        entry = self.tasks.get(intent)
        if entry is None or entry.row is None or not entry.row.resume_ns:
            return None
        if (entry.row.epoch, entry.row.holder) != (epoch, holder):
            return None
        return max(0, entry.until_ns - now.steady_ns) if entry.task_place is TaskPlace.PAUSED else 0

    def retry(self, intent: Hash) -> Pick | None:
        """The attempt with which a held or parked task may run again: to be journaled. None if it
        is neither, or has run and may run only once."""
        entry = self.tasks.get(intent)
        if entry is None or entry.task_place is not TaskPlace.PARKED:
            return None
        if entry.task.is_once and entry.halt != "held":
            return None
        previous = entry.row
        assert previous is not None, "held or parked without a row"
        # All attempts of its policy again; the lost leases count from 0.
        epoch = max(entry.attempt, previous.epoch) + 1
        if entry.task.is_once:
            self._put(entry, previous._replace(epoch=epoch, phase=Phase.RESERVED, lost=0, failed=0))
        else:
            self._put(entry, previous._replace(phase=Phase.OVER, lost=0, failed=0))
        return Pick(intent, epoch, True, "an operator asked to run it again")

    # Time

    def due_ns(self) -> int | None:
        """When ``expire`` has something to do, on the steady clock; None if nothing waits."""
        times = [self._times[0][0]] if self._times else []
        at_ns = self.offers.due_ns()
        return min([*times, at_ns], default=None) if at_ns is not None else min(times, default=None)

    def expire(self, now: Moment) -> None:
        """End the leases and the pauses whose time has come."""
        while self._times and self._times[0][0] <= now.steady_ns:
            at_ns, intent = heapq.heappop(self._times)
            ended = self._ended.get(intent)
            if ended is not None and ended.until_ns <= now.steady_ns:
                del self._ended[intent]
            entry = self.tasks.get(intent)
            if entry is None or entry.until_ns != at_ns:
                continue
            if entry.task_place is TaskPlace.LEASED:
                assert entry.row is not None
                self.lost += 1
                self.silent.lost(entry.row.holder, now.steady_ns)
                problem = f"worker {entry.row.holder.worker} lost its lease"
                self._put(entry, entry.row._replace(lost=entry.row.lost + 1))
                self._stop_lease(entry, problem)
            elif entry.task_place is TaskPlace.PAUSED:
                self._offer(entry)
        self.offers.wake(now.steady_ns)

    def leased(self) -> Iterator[TaskEntry]:
        """The tasks that a worker has."""
        return (entry for entry in self.tasks.values() if entry.task_place in _AT_WORKER)

    # Steps of the above

    def _has_lease(self, entry: TaskEntry, epoch: int, holder: LeaseHolder, now: Moment) -> bool:
        row = entry.row
        return (
            row is not None
            and row.phase is Phase.LEASED
            and (row.epoch, row.holder) == (epoch, holder)
            and entry.attempt <= epoch
            and (entry.task_place is TaskPlace.ENDING or entry.until_ns > now.steady_ns)
        )

    def _take_back(self, entry: TaskEntry, row: Row) -> None:
        """A worker does not have a task any more, and has not begun it."""
        self._drop_claim(entry.task.intent, row)
        self._put(entry, row._replace(phase=Phase.RESERVED, until_ns=0))
        self.offers.leave(entry.task, has_begun=False)
        self._offer(entry)

    def _stop_lease(self, entry: TaskEntry, problem: str) -> None:
        """A worker does not have a task any more, and may have begun it."""
        row = self._over(entry, problem)
        self.offers.leave(entry.task)
        if entry.task.is_once:
            self._lose(entry, problem)
        elif row.lost >= LOST_MAX:
            self._park(entry, row)
        else:
            self._offer(entry)

    def _over(self, entry: TaskEntry, problem: str | None) -> Row:
        row = entry.row
        assert row is not None, "a lease without a row"
        self._drop_claim(entry.task.intent, row)
        updated = row._replace(phase=Phase.OVER, until_ns=0, problem=problem)
        self._put(entry, updated)
        return updated

    def _lose(self, entry: TaskEntry, problem: str) -> None:
        entry.task_place = TaskPlace.STOPPING
        epoch = max(entry.attempt, 0 if entry.row is None else entry.row.epoch)
        self.actions.append(Lose(entry.task.intent, epoch, problem))

    def _park(self, entry: TaskEntry, row: Row) -> None:
        entry.task_place = TaskPlace.STOPPING
        problem = f"{row.lost} leases in a row were lost: {row.problem or 'they ran out'}"
        epoch = max(row.epoch, entry.attempt)
        self.actions.append(Park(entry.task.intent, epoch, LEASE_LOST, problem))

    def _offer(self, entry: TaskEntry) -> None:
        entry.task_place = TaskPlace.OFFERED
        self.offers.offer(entry.task)

    def _pause(self, entry: TaskEntry, until_ns: int) -> None:
        entry.task_place = TaskPlace.PAUSED
        self._time(entry, until_ns)

    def _put(self, entry: TaskEntry, row: Row) -> None:
        entry.row = self.changes[entry.task.intent] = row

    def _drop_claim(self, intent: Hash, row: Row) -> None:
        key = (row.holder, row.claim)
        intents = self._claims.get(key)
        if intents is not None:
            intents.discard(intent)
            if not intents:
                del self._claims[key]

    def _end_lease(self, intent: Hash, row: Row, until_ns: int) -> None:
        self._ended[intent] = _Ended(row, until_ns)
        heapq.heappush(self._times, (until_ns, intent))

    def _time(self, entry: TaskEntry, at_ns: int) -> None:
        entry.until_ns = at_ns
        heapq.heappush(self._times, (at_ns, entry.task.intent))


_AT_WORKER: Final = (TaskPlace.LEASED, TaskPlace.ENDING)


def policy_of(effect: Effect, claimed: RetryPolicy) -> tuple[int | None, int, int]:
    """Attempts, base and cap of the pauses in ms: the definition's, else the claim's (X-43)."""
    attempts = effect.attempts if effect.attempts != ATTEMPTS_DEFAULT else claimed.attempts
    return (
        attempts,
        _defined_or_claimed(effect.base_ms, BASE_MS_DEFAULT, claimed.base_ms),
        _defined_or_claimed(effect.cap_ms, CAP_MS_DEFAULT, claimed.cap_ms),
    )


def _defined_or_claimed(defined: int, default: int, claimed: int | None) -> int:
    return claimed if defined == default and claimed is not None else defined
