"""The tasks that may be given out now: by effect, in the order of opening, within lanes and limits
(N-51, N-64, N-65)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from aos.host.executors.lanes import Lane, Lanes
from aos.host.executors.limiter import Group, Limiter
from aos.values.digests import Hash

Signers: TypeAlias = frozenset[tuple[str, bytes]]
"""(name, public key) of those who may sign the receipt of a task."""

_Queue: TypeAlias = list[tuple[tuple[int, int], Hash, Group | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """An open intent, as far as decisions about leases need it.

    ``order`` is the place of its opening in the journal: sequence and index in the step.
    """

    intent: Hash
    effect: str
    order: tuple[int, int]
    is_once: bool = False
    signers: Signers = frozenset()
    lane: Lane | None = None
    group: Group | None = None


class TaskTaker(Protocol):
    """A claim, or another request for tasks."""

    def effects(self, offered: Iterable[str]) -> Iterable[str]:
        """Those of the ``offered`` effects that it takes now."""
        ...

    def may_sign(self, signers: Signers) -> bool:
        """Whether its results would be signed by one of ``signers``."""
        ...


class Offers:
    """The open tasks that no worker has. ``fresh`` collects the effects that have new offers since
    it was last cleared."""

    def __init__(self, limiter: Limiter) -> None:
        self.fresh: set[str] = set()
        self._limiter = limiter
        self._lanes = Lanes()
        self._offered: dict[Hash, OpenTask] = {}
        self._queues: dict[str, dict[Signers, _Queue]] = {}
        self._blocked: dict[Group, _Queue] = {}
        self._wakes: list[tuple[int, Group]] = []
        self._waking: set[Group] = set()

    def __len__(self) -> int:
        return len(self._offered)

    def __contains__(self, intent: Hash) -> bool:
        return intent in self._offered

    def has_queued(self, effect: str) -> bool:
        """Whether a task of this effect may be in a queue. Limits are not asked."""
        return any(self._queues.get(effect, {}).values())

    def open(self, task: OpenTask) -> None:
        """Let an open task keep its place in its lane. Called in the order of opening."""
        self._lanes.add(task.lane, task.intent)

    def close(self, task: OpenTask) -> None:
        """Forget a task that has ended; the next of its lane may be given out."""
        self._offered.pop(task.intent, None)
        first = self._lanes.remove(task.lane, task.intent)
        if first is not None and first in self._offered:
            self._queue(self._offered[first])

    def offer(self, task: OpenTask) -> None:
        """Let a task be given out, once its lane and its limit allow it."""
        self._offered[task.intent] = task
        if self._lanes.is_first(task.lane, task.intent):
            self._queue(task)

    def withdraw(self, intent: Hash) -> None:
        """Do not give a task out; it keeps its place in its lane. Unknown ones are ignored."""
        self._offered.pop(intent, None)

    def take(self, taker: TaskTaker, now_ns: int) -> OpenTask | None:
        """Take the first task that ``taker`` may have; None if there is none now."""
        best: tuple[tuple[int, int], str, Signers] | None = None
        for effect in taker.effects(self._queues):
            for signers, queue in self._queues.get(effect, {}).items():
                if not taker.may_sign(signers):
                    continue
                first = self._first(queue, now_ns)
                if first is not None and (best is None or first.order < best[0]):
                    best = first.order, effect, signers
        if best is None:
            return None
        _, effect, signers = best
        _, intent, _ = heapq.heappop(self._queues[effect][signers])
        task = self._offered.pop(intent)
        if task.group is not None:
            self._limiter.begin(task.group, now_ns)
            self._unblock(task.group)
        return task

    def unsigned(self, taker: TaskTaker, now_ns: int) -> Iterator[str]:
        """Effects with tasks that ``taker`` would get if it could sign for them."""
        for effect in taker.effects(self._queues):
            for signers, queue in self._queues.get(effect, {}).items():
                if not taker.may_sign(signers) and self._first(queue, now_ns) is not None:
                    yield effect

    def resume(self, task: OpenTask) -> None:
        """Count a task for its limit that a worker has had since before this start."""
        if task.group is not None:
            self._limiter.resume(task.group)

    def free(self, task: OpenTask, *, has_begun: bool = True) -> None:
        """End a task's share of its limit: no worker has it any more."""
        if task.group is not None:
            self._limiter.end(task.group, has_begun=has_begun)
            self._unblock(task.group)

    def due_ns(self) -> int | None:
        """When a rate allows the next task; None if no task waits for that."""
        return self._wakes[0][0] if self._wakes else None

    def wake(self, now_ns: int) -> None:
        """Offer the tasks again whose rate allows them now."""
        while self._wakes and self._wakes[0][0] <= now_ns:
            _, group = heapq.heappop(self._wakes)
            self._waking.discard(group)
            self._unblock(group)

    def _queue(self, task: OpenTask) -> None:
        queue = self._queues.setdefault(task.effect, {}).setdefault(task.signers, [])
        heapq.heappush(queue, (task.order, task.intent, task.group))
        self.fresh.add(task.effect)

    def _first(self, queue: _Queue, now_ns: int) -> OpenTask | None:
        """The first task of a queue that its limit allows now. Tasks that it does not allow leave
        the queue until a place is free, or until the rate allows one."""
        while queue:
            task = self._offered.get(queue[0][1])
            if task is None:
                _, _, group = heapq.heappop(queue)  # taken, paused or ended since
                if group is not None:
                    self._unblock(group)
                continue
            if task.group is None:
                return task
            at_ns = self._limiter.ready_at(task.group, now_ns)
            if at_ns is not None and at_ns <= now_ns:
                return task
            queue_entry = heapq.heappop(queue)
            heapq.heappush(self._blocked.setdefault(task.group, []), queue_entry)
            if at_ns is not None and task.group not in self._waking:
                self._waking.add(task.group)
                heapq.heappush(self._wakes, (at_ns, task.group))
        return None

    def _unblock(self, group: Group) -> None:
        """Queue the first blocked task of a group again, which is still to be given out."""
        blocked = self._blocked.get(group, [])
        while blocked:
            task = self._offered.get(heapq.heappop(blocked)[1])
            if task is not None:
                self._queue(task)
                break
        if not blocked:
            self._blocked.pop(group, None)
