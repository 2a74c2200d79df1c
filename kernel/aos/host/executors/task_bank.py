"""The task bank: which open task is given out next, to a worker process or to a worker elsewhere
(X-54, N-51, N-64, N-65).

Nothing here does I/O or reads a clock. The bank decides by the order of opening, lanes, limits and
places. Its user decides who gets a task, under which attempt, and when the task runs again.

    open ──▶ offer ──▶ first, begin ──▶ leave ──▶ close
               │ ▲                        │
               ▼ └────────────────────────┘
            withdraw

Of the tasks of a lane, only the first is in a queue (M-5a). A task that its limit delays leaves its
queue, so that it delays no task of other values.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from aos.host.executors.lanes import Lane
from aos.host.executors.limiter import Group, Limiter

Signers: TypeAlias = frozenset[tuple[str, bytes]]
"""(name, public key) of those who may sign the receipt of a task."""

NO_SIGNERS: Final[Signers] = frozenset()

Order: TypeAlias = tuple[int, ...]


@dataclass(slots=True, eq=False)
class BankTask:
    """An open intent, as far as the bank needs it. ``order`` is its place in the order of opening;
    no two tasks of a bank have the same.

    The last three fields are the bank's: the task ``is_offered`` while it may be given out,
    ``is_queued`` while a queue has it, and ``has_place`` from ``begin`` to ``leave``.
    """

    effect: str
    order: Order
    lane: Lane | None
    group: Group | None
    signers: Signers = field(default=NO_SIGNERS, kw_only=True)
    is_offered: bool = field(default=False, init=False)
    is_queued: bool = field(default=False, init=False)
    has_place: bool = field(default=False, init=False)


TaskOf = TypeVar("TaskOf", bound=BankTask)


class _Queue(Generic[TaskOf]):
    """Tasks in the order of opening. Most come in this order; those that come back are in a heap,
    so each costs little in a long queue."""

    __slots__ = ("in_order", "returned")

    def __init__(self) -> None:
        self.in_order: deque[TaskOf] = deque()
        self.returned: list[tuple[Order, TaskOf]] = []

    def __len__(self) -> int:
        return len(self.in_order) + len(self.returned)

    def merge(self) -> None:
        """Let ``in_order`` begin with the first task of all."""
        if not self.in_order or self.returned[0][0] < self.in_order[0].order:
            self.in_order.appendleft(heapq.heappop(self.returned)[1])


class TaskBank(Generic[TaskOf]):
    """The open tasks that no one has, and the places of those that someone has.

    ``len`` is the number of offered tasks. ``effects`` are those that have had a task in a queue,
    in the order of the first one. ``places`` counts the tasks with a place by effect. ``fresh``
    collects the effects that have new offers since it was last cleared.
    """

    def __init__(self, limiter: Limiter) -> None:
        self.effects: tuple[str, ...] = ()
        self.fresh: set[str] = set()
        self.places: Counter[str] = Counter()
        self._limiter = limiter
        self._offered = 0
        self._lanes: dict[Lane, OrderedDict[TaskOf, None]] = {}
        self._queues: dict[str, dict[Signers, _Queue[TaskOf]]] = {}
        self._blocked: dict[Group, dict[Signers, list[tuple[Order, TaskOf]]]] = {}
        self._wakes: list[tuple[int, Group]] = []
        self._waking: set[Group] = set()

    def __len__(self) -> int:
        return self._offered

    def has_queued(self, effect: str) -> bool:
        """Whether a task of this effect may be in a queue. Limits are not asked."""
        return any(self._queues.get(effect, {}).values())

    # Open and closed

    def open(self, task: TaskOf) -> None:
        """Let a task keep its place in its lane. Called in the order of opening."""
        if task.lane is not None:
            self._lanes.setdefault(task.lane, OrderedDict())[task] = None

    def close(self, task: TaskOf) -> None:
        """Forget a task that has ended; the next of its lane may be given out."""
        if task.is_offered:
            self.withdraw(task)
        if task.lane is None:
            return
        lane = self._lanes[task.lane]
        was_first = next(iter(lane)) is task
        del lane[task]
        if not lane:
            del self._lanes[task.lane]
        elif was_first:
            first = next(iter(lane))
            if first.is_offered:
                self._push(first)

    # Offered and given out

    def offer(self, task: TaskOf) -> None:
        """Let a task be given out, once its lane and its limit allow it."""
        if not task.is_offered:
            task.is_offered = True
            self._offered += 1
        if task.lane is None or next(iter(self._lanes[task.lane])) is task:
            self._push(task)

    def withdraw(self, task: TaskOf) -> None:
        """Do not give a task out; it keeps its place in its lane, and ``first`` passes it over."""
        if task.is_offered:
            task.is_offered = False
            self._offered -= 1

    def first(
        self, effect: str, now_ns: int, may_sign: Callable[[Signers], bool] | None = None
    ) -> TaskOf | None:
        """The first task of an effect that may be given out now: of those for whose signers
        ``may_sign`` is true. None if there is none."""
        first: TaskOf | None = None
        for signers, queue in self._queues.get(effect, {}).items():
            if may_sign is None or may_sign(signers):
                task = self._first_of(queue, now_ns)
                if task is not None and (first is None or task.order < first.order):
                    first = task
        return first

    def begin(self, task: TaskOf, now_ns: int) -> None:
        """Give out the task that ``first`` has just returned, or one that is not offered."""
        if task.is_offered:
            self._queues[task.effect][task.signers].in_order.popleft()
            task.is_offered = task.is_queued = False
            self._offered -= 1
        task.has_place = True
        self.places[task.effect] += 1
        if task.group is not None:
            self._limiter.begin(task.group, now_ns)
            self._unblock(task.group)

    def resume(self, task: TaskOf) -> None:
        """Give a place to a task that someone has had since before this bank was made."""
        task.has_place = True
        self.places[task.effect] += 1
        if task.group is not None:
            self._limiter.resume(task.group)

    def leave(self, task: TaskOf, *, has_begun: bool = True) -> None:
        """Take the place of a task, if it has one: no one has the task any more. If it has not
        begun after all, it does not count for its rate."""
        if task.has_place:
            task.has_place = False
            self.places[task.effect] -= 1
            if task.group is not None:
                self._limiter.end(task.group, has_begun=has_begun)
                self._unblock(task.group)

    # Rates

    def due_ns(self) -> int | None:
        """When a rate allows the next task; None if no task waits for that."""
        return self._wakes[0][0] if self._wakes else None

    def wake(self, now_ns: int) -> None:
        """Queue the tasks again whose rate allows them now."""
        while self._wakes and self._wakes[0][0] <= now_ns:
            _, group = heapq.heappop(self._wakes)
            self._waking.discard(group)
            self._unblock(group)

    # Queues

    def unsigned(
        self, effect: str, now_ns: int, may_sign: Callable[[Signers], bool]
    ) -> Iterator[TaskOf]:
        """The first tasks of an effect that may be given out now to those who can sign them."""
        for signers, queue in self._queues.get(effect, {}).items():
            if not may_sign(signers):
                task = self._first_of(queue, now_ns)
                if task is not None:
                    yield task

    def _push(self, task: TaskOf) -> None:
        if not task.is_queued:
            task.is_queued = True
            try:
                queue = self._queues[task.effect][task.signers]
            except KeyError:
                queue = self._new_queue(task)
            if not queue.in_order or queue.in_order[-1].order < task.order:
                queue.in_order.append(task)
            else:
                heapq.heappush(queue.returned, (task.order, task))
        self.fresh.add(task.effect)

    def _new_queue(self, task: TaskOf) -> _Queue[TaskOf]:
        queue: _Queue[TaskOf] = _Queue()
        self._queues.setdefault(task.effect, {})[task.signers] = queue
        self.effects = tuple(self._queues)
        return queue

    def _first_of(self, queue: _Queue[TaskOf], now_ns: int) -> TaskOf | None:
        """The first task of a queue that its limit allows now. Tasks that it does not allow leave
        the queue until a place is free, or until the rate allows one."""
        in_order = queue.in_order
        while True:
            if queue.returned:
                queue.merge()
            if not in_order:
                return None
            task = in_order[0]
            group = task.group
            if not task.is_offered:
                in_order.popleft()  # withdrawn or closed since
                task.is_queued = False
                if group is not None:
                    self._unblock(group)
                continue
            if group is None:
                return task
            at_ns = self._limiter.ready_at(group, now_ns)
            if at_ns is not None and at_ns <= now_ns:
                return task
            in_order.popleft()
            self._block(task, group, at_ns)

    def _block(self, task: TaskOf, group: Group, at_ns: int | None) -> None:
        """Keep a task out of its queue until ``_unblock``; with ``at_ns``, ``wake`` does that."""
        by_signers = self._blocked.setdefault(group, {})
        heapq.heappush(by_signers.setdefault(task.signers, []), (task.order, task))
        if at_ns is not None and group not in self._waking:
            self._waking.add(group)
            heapq.heappush(self._wakes, (at_ns, group))

    def _unblock(self, group: Group) -> None:
        """Queue the first blocked task of a group that is still offered: one for each set of
        signers, because the next taker may sign for one set only."""
        by_signers = self._blocked.get(group)
        if by_signers is None:
            return
        for signers, blocked in tuple(by_signers.items()):
            while blocked:
                _, task = heapq.heappop(blocked)
                task.is_queued = False
                if task.is_offered:
                    self._push(task)
                    break
            if not blocked:
                del by_signers[signers]
        if not by_signers:
            del self._blocked[group]
