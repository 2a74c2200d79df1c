"""Claims of plan steps that wait: each plan step goes to the claim that came first (L-32)."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from aos.host.stamps import now_ns
from aos.linear import Claimable, ReadyList, matches
from aos.node.calls import SILENT
from aos.node.leases.silent_workers import SilentWorkers


@dataclass(slots=True, eq=False, kw_only=True)
class StepPoll:
    """One claim. ``room`` is how many plan steps it takes of each pattern, ``steps_free`` of all.
    ``is_gone`` says whether its client has closed the connection: then it takes nothing.
    ``finished`` is done once what it took is leased or given back."""

    worker: str
    claim: str
    room: dict[str, int]
    steps_free: int
    lease_ns: int | None
    is_gone: Callable[[], bool] = SILENT.is_gone
    result: asyncio.Future[list[Claimable]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    finished: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def patterns(self) -> list[str]:
        """The patterns of which it takes more."""
        return [pattern for pattern, room in self.room.items() if room > 0]

    def count(self, pick: Claimable) -> None:
        """Note that it has taken a plan step."""
        self.steps_free -= 1
        for pattern in self.patterns():
            if matches(pattern, pick.plan, pick.step):
                self.room[pattern] -= 1
                break


class StepPolls:
    """The claims that wait, in the order of their arrival. Used from one event loop.

    ``holder_of`` names the worker that has the last lease of an instance and has not released it.
    """

    def __init__(
        self,
        ready: ReadyList,
        holder_of: Callable[[str], str | None],
        clock: Callable[[], int] = now_ns,
    ) -> None:
        self._ready = ready
        self._holder_of = holder_of
        self._silent: SilentWorkers[str] = SilentWorkers()
        self._clock = clock
        self._numbers = itertools.count()
        self._waiting: OrderedDict[int, StepPoll] = OrderedDict()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def changed(self) -> None:
        """Something has become claimable, now or later."""
        self._changed.set()

    def lost(self, worker: str) -> None:
        """A worker has lost a lease."""
        self._silent.lost(worker, self._clock())

    def note_request(self, worker: str) -> None:
        """A worker has sent a request, which was carried out: its waiting claims get plan steps
        again (N-52b)."""
        if self._silent.end_silence(worker):
            self._changed.set()

    def pick(self, poll: StepPoll) -> list[Claimable]:
        """Take what a claim gets now. It is reserved until ``ReadyList.put``."""
        picks: list[Claimable] = []
        if poll.is_gone():
            return picks
        while poll.steps_free > 0:
            first = self._ready.take(poll.patterns(), self._clock())
            if first is None:
                break
            poll.count(first)
            picks.append(first)
        return picks

    def _pick_waiting(self, poll: StepPoll) -> list[Claimable]:
        """As ``pick``, for a claim that has waited: nothing if its worker is silent."""
        room, steps_free = dict(poll.room), poll.steps_free
        picks = self.pick(poll)
        for pick in picks:
            holder = self._holder_of(pick.instance)
            if holder is not None:
                self.lost(holder)  # its lease is over by time: otherwise this could not be claimed
        if poll.worker not in self._silent:
            return picks
        for pick in picks:
            self._ready.put(pick.instance, pick)
        poll.room, poll.steps_free = room, steps_free
        return []

    async def wait(self, poll: StepPoll, seconds: float) -> list[Claimable]:
        """Wait until there is something for a claim; return nothing after ``seconds``.

        If it is canceled, what it was given in that moment is in ``poll.picked``.
        """
        number = next(self._numbers)
        self._waiting[number] = poll
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(poll.result)
        except TimeoutError:
            return poll.result.result() if poll.result.done() else []
        finally:
            del self._waiting[number]

    def empty(self) -> None:
        """End all waiting claims with nothing."""
        for poll in self._waiting.values():
            if not poll.result.done():
                poll.result.set_result([])

    async def run(self) -> None:
        """Serve the claims that wait, until this is canceled."""
        while True:
            self._changed.clear()
            self._serve()
            due_ns = self._due_ns()
            pause_s = None if due_ns is None else max((due_ns - self._clock()) / 1e9, 0.001)
            try:
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _serve(self) -> None:
        for poll in list(self._waiting.values()):
            if self._is_served(poll):
                picks = self._pick_waiting(poll)
                if picks:
                    poll.result.set_result(picks)

    def _due_ns(self) -> int | None:
        waiting = {
            pattern
            for poll in self._waiting.values()
            if self._is_served(poll)
            for pattern in poll.patterns()
        }
        return self._ready.due_ns(waiting) if waiting else None

    def _is_served(self, poll: StepPoll) -> bool:
        return not poll.result.done() and poll.worker not in self._silent
