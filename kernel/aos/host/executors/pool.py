"""Pass each task to the executor that runs its effect (X-7 to X-10)."""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from aos.errors import BadUsage
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import (
    LEASE_LOOK_S,
    Configured,
    ExecutorStats,
    Halted,
    Journaling,
    Leased,
    Report,
    Stranding,
    Task,
    TaskExecutor,
    TaskNow,
    Timing,
    Working,
    WorkJournal,
    report_to_stderr,
)
from aos.manifest.effective import Effect, Effective
from aos.manifest.names import KERNEL, NODE, is_system
from aos.values.digests import Hash
from aos.worker.shipped import option_for

TYPO: Final = 0.9
"""From this similarity on, a name counts as misspelt: one letter of twenty, or the version."""

ALIKE: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Effects of the manifest without an executor (``unserved``), and effects that an executor runs
    but the manifest does not define (``unused``). ``lacking`` is what executors lack otherwise, as
    lines for people: allowed hosts, values of secrets."""

    unserved: tuple[str, ...]
    unused: tuple[str, ...]
    lacking: tuple[str, ...] = ()


class Pool:
    """All executors of one world.

    Call ``start``, then ``use`` with the manifest in force, then ``publish`` with the open tasks;
    ``use`` again when another manifest comes into force. ``on_waiting`` is called when ``waiting``
    grows. ``failed`` gets the exception of an executor that could not take a task after its attempt
    was journaled. No task is handed out while ``holds_lease`` returns False (CL-89): it waits here,
    or in an executor that has a queue.
    """

    def __init__(
        self,
        executors: Sequence[TaskExecutor],
        *,
        report: Report = report_to_stderr,
        on_waiting: Callable[[], None] = lambda: None,
        failed: Callable[[Exception], None] | None = None,
        holds_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        self._executors = tuple(executors)
        self._on_waiting = on_waiting
        self._failed = failed or _raise
        self._report = report
        self._holds_lease = holds_lease
        self._without_lease: dict[Hash, Task] = {}
        self._lease_look: asyncio.TimerHandle | None = None
        self._outbox: JournalOutbox | None = None
        self._beginning: set[Hash] = set()
        self._by_effect: dict[str, TaskExecutor] = {}
        self._waiting: dict[Hash, Task] = {}
        self._over: dict[Hash, Halted] = {}
        self._reported_effects: set[str] = set()
        self._strandings = [executor for executor in executors if isinstance(executor, Stranding)]
        self.timing = next((member for member in executors if isinstance(member, Timing)), None)
        """The executor of timers, if there is one here."""
        for stranding in self._strandings:
            stranding.on_stranded = on_waiting
        for member in executors:
            if isinstance(member, Leased):
                member.holds_lease = holds_lease
        self._route()

    @property
    def waiting(self) -> Mapping[Hash, Task]:
        """Open tasks that no executor here will run: their effect has none, or it gave up (X-8)."""
        stranded = {
            intent: task
            for stranding in self._strandings
            for intent, task in stranding.stranded().items()
        }
        return {**self._waiting, **stranded} if stranded else self._waiting

    def is_due(self) -> bool:
        """Whether the time of a timer has come."""
        return self.timing is not None and self.timing.is_due()

    def next_ns(self) -> int | None:
        """The time of the next timer, in ns since 1970; None without one."""
        return None if self.timing is None else self.timing.next_ns()

    async def start(self, journal: WorkJournal) -> None:
        """Start all executors, or none.

        Raises:
            BadUsage: One cannot start, or two run the same effect (X-7).
        """
        self._outbox = JournalOutbox("pool", journal, self._report)
        starts = [asyncio.ensure_future(member.start(journal)) for member in self._executors]
        try:
            await asyncio.gather(*starts)
            self._route()
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await self.stop()
            raise

    def _route(self) -> None:
        for executor in self._executors:
            for effect in sorted(executor.effects):
                registered = self._by_effect.setdefault(effect, executor)
                if registered is not executor:
                    raise BadUsage(
                        f"effect {effect} is run by two executors, {registered.name} and "
                        f"{executor.name}: expected one (leave it out of one of them)"
                    )

    def use(self, effective: Effective) -> Coverage:
        """Use the manifest in force, and report its effects that no executor here can run.

        Raises:
            BadUsage: As ``check`` does. The executors use the manifest all the same.
        """
        for executor in self._executors:
            executor.use(effective)
        for line in _without_authority(self._by_effect, effective):
            self._report(line)
        coverage = self.check(effective.effects)
        # Two executors may lack the same secret.
        lacking = dict.fromkeys(
            line
            for executor in self._executors
            if isinstance(executor, Configured)
            for line in executor.lacking()
        )
        return replace(coverage, lacking=tuple(lacking))

    def check(self, effects: Mapping[str, Effect]) -> Coverage:
        """Compare the effects that executors run with those that the manifest defines (X-9, X-9a).

        Raises:
            BadUsage: An executor runs an effect that is not defined and whose name resembles one
                that is defined and has no executor: the name is misspelt.
        """
        run_by_others = {name for name, effect in effects.items() if effect.executor != KERNEL}
        unserved = tuple(sorted(run_by_others - set(self._by_effect)))
        unused = tuple(
            sorted(name for name in self._by_effect if name not in effects and not is_system(name))
        )
        for name in unused:
            near = difflib.get_close_matches(name, unserved, n=3, cutoff=TYPO)
            if near:
                raise BadUsage(
                    f"executor {self._by_effect[name].name} runs {name}, which the manifest "
                    "does not define",
                    hint=f"did you mean {' or '.join(near)}?",
                )
        return Coverage(unserved=unserved, unused=unused)

    def publish(self, tasks: Sequence[Task]) -> None:
        """Pass each task to its executor. Without one it stays open, reported once for each effect.

        A task whose attempt must be in the journal first is journaled by its executor or here.
        """
        if not self._holds_lease():
            tasks = self._not_held_back(tasks)
        groups: dict[TaskExecutor, list[Task]] = {}
        for task in tasks:
            executor = self._by_effect.get(task.effect.name)
            if task.effect.executor == KERNEL:
                continue  # the core answers it itself (X-9a)
            if executor is None:
                self._wait(task)
            elif task.begins and not isinstance(executor, Journaling):
                self._begin(executor, task)
            else:
                groups.setdefault(executor, []).append(task)
        for executor, group in groups.items():
            executor.publish(group)

    def _not_held_back(self, tasks: Sequence[Task]) -> list[Task]:
        """Keep tasks until the lease is held again; return those that their executors keep."""
        passed = []
        for task in tasks:
            executor = self._by_effect.get(task.effect.name)
            if executor is None or isinstance(executor, Leased | Timing):
                passed.append(task)
            else:
                self._without_lease[task.intent] = task
        self._look_later()
        return passed

    def _look_later(self) -> None:
        if self._without_lease and self._lease_look is None:
            loop = asyncio.get_running_loop()
            self._lease_look = loop.call_later(LEASE_LOOK_S, self._look_for_lease)

    def _look_for_lease(self) -> None:
        self._lease_look = None
        if not self._holds_lease():
            self._look_later()
            return
        tasks, self._without_lease = list(self._without_lease.values()), {}
        try:
            self.publish(tasks)
        except Exception as problem:  # noqa: BLE001  # there is no caller to raise it to
            self._failed(problem)

    def keep_parked(self, task: Task) -> None:
        """Keep a parked task open that may run only once (K-97): no executor gets it."""
        assert task.halted is not None, "kept, and not parked"
        self._over[task.intent] = task.halted
        self._keep(task)

    def halted(self) -> Mapping[Hash, tuple[Task, Halted]]:
        """Open tasks that are held or parked here."""
        halts = {**self._over}
        for stranding in self._strandings:
            halts.update(stranding.halted())
        tasks = self.waiting
        return {
            intent: (tasks[intent], halted) for intent, halted in halts.items() if intent in tasks
        }

    def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        """Run stranded tasks again, with all attempts of their policy (X-16). Returns those that
        run."""
        return [intent for stranding in self._strandings for intent in stranding.retry(intents)]

    def _begin(self, executor: TaskExecutor, task: Task) -> None:
        """Journal the attempt of a task for an executor that does not do so itself, before the
        executor gets the task (X-12, X-14)."""
        assert self._outbox is not None, "published before start"
        if task.intent not in self._beginning:
            self._beginning.add(task.intent)
            begun = partial(self._begun, executor, task)
            self._outbox.begin(task, task.attempt, task.problem, begun)

    def _begun(self, executor: TaskExecutor, task: Task, is_granted: bool) -> None:
        if task.intent not in self._beginning:
            return  # it was canceled meanwhile
        self._beginning.discard(task.intent)
        if not is_granted:
            self._keep(task)
            return
        try:
            executor.publish([task])
        except Exception as problem:  # noqa: BLE001  # there is no caller to raise it to
            self._failed(problem)

    def _keep(self, task: Task) -> None:
        """Keep a task open whose attempt was refused; that has been reported."""
        self._waiting[task.intent] = task
        self._on_waiting()

    def _wait(self, task: Task) -> None:
        self._waiting[task.intent] = task
        name = task.effect.name
        if name not in self._reported_effects:
            self._reported_effects.add(name)
            near = difflib.get_close_matches(name, self._by_effect, n=3, cutoff=ALIKE)
            suggestion = f"; executors here run {' and '.join(near)}" if near else ""
            self._report(
                f"effect {name} is waiting for an executor: its intents stay open until the world "
                f"runs with one ({option_for(name)}{suggestion})"
            )
        self._on_waiting()

    def waiting_by_effect(self) -> Mapping[str, int]:
        """How many tasks of each effect no executor here will run."""
        return Counter(task.effect.name for task in self.waiting.values())

    def now(self) -> Iterator[TaskNow]:
        """Yield the tasks of the executors here, with their phases; timers are not among these."""
        for executor in self._executors:
            if isinstance(executor, Working):
                yield from executor.now()

    @property
    def effects(self) -> frozenset[str]:
        """The effects that executors here run."""
        return frozenset(self._by_effect)

    def runs(self, effect: str) -> bool:
        """Whether an executor here runs this effect."""
        return effect in self._by_effect

    def given_up(self) -> frozenset[str]:
        """The effects of ``waiting`` whose executor here has given up their tasks."""
        return frozenset(self._by_effect).intersection(self.waiting_by_effect())

    def settled(self, intents: Sequence[Hash]) -> None:
        """Do not count tasks as waiting that were settled elsewhere."""
        if self._waiting or self._without_lease:
            for intent in intents:
                self._waiting.pop(intent, None)
                self._over.pop(intent, None)
                self._without_lease.pop(intent, None)

    def cancel(self, intents: Sequence[Hash]) -> None:
        """Cancel tasks at their executors."""
        for intent in intents:
            self._waiting.pop(intent, None)
            self._over.pop(intent, None)
            task = self._without_lease.pop(intent, None)
            if task is not None:
                # Its executor settles it as canceled, and does not run it.
                self._by_effect[task.effect.name].publish([task])
        self._beginning.difference_update(intents)
        for executor in self._executors:
            executor.cancel(intents)

    async def stop(self) -> None:
        """Stop all executors together; each lets its running effects end, for up to 2 s (X-11).
        Unsettled tasks stay open in the journal.

        An attempt that is being journaled may still become durable; then the next start journals it
        as lost (X-14)."""
        if self._lease_look is not None:
            self._lease_look.cancel()
        self._without_lease.clear()
        if self._outbox is not None:
            await self._outbox.drain(0)
        await asyncio.gather(*(executor.stop() for executor in self._executors))

    def stats(self) -> Mapping[str, ExecutorStats]:
        """Return counts for the status, by executor name."""
        return {executor.name: executor.stats() for executor in self._executors}


def _raise(problem: Exception) -> None:
    raise problem


def _without_authority(by_effect: Mapping[str, TaskExecutor], effective: Effective) -> list[str]:
    """Effects whose receipts the core would refuse, because of who signs them here (X-10)."""
    lines = []
    for effect, executor in sorted(by_effect.items()):
        if effect not in effective.effects:
            continue
        name, key = executor.signer or (NODE, None)
        if effective.executors is None:
            problem = None if key is None else "the manifest lists no executors"
        else:
            manifest_executor = effective.executors.get(name)
            if manifest_executor is None or effect not in manifest_executor.effects:
                problem = f"manifest.executors does not name {name} for it"
            elif key is not None and key != manifest_executor.public_key:
                problem = f"manifest.executors gives {name} another public key"
            else:
                problem = None
        if problem is not None:
            signs = name if key is None else f"{name} with ed25519:{key.hex()}"
            lines.append(
                f"receipts for {effect} will be refused: they are signed by {signs}, and {problem}"
            )
    return lines
