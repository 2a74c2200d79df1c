"""Claims that wait for a task: each task goes to the one that came first (N-51)."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aos.host.executors.task_bank import Signers
from aos.manifest.names import NODE
from aos.node.calls import SILENT
from aos.node.leases.leases import Leases, Moment, Pick
from aos.node.leases.row import LeaseHolder, RetryPolicy

POLLS_MAX: Final = 256
"""Claims that may wait at the same time."""

_ANY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEffect:
    """An effect of a claim: how many of its tasks, and the retry policy of its function."""

    tasks_max: int
    policy: RetryPolicy


@dataclass(slots=True, eq=False, kw_only=True)
class Poll:
    """One claim. ``wanted_effects`` None: all effects that ``allows`` allows. ``signs`` is the name
    and the public key with which its worker signs; None if the node signs.

    ``result`` gets the picks: none if its time is over, or if the claim was made again.
    ``is_gone`` says whether its client has closed the connection: then it takes nothing (N-52).
    """

    holder: LeaseHolder
    claim: str
    wanted_effects: Mapping[str, WantedEffect] | None
    allows: Callable[[str], bool]
    tasks_max: int
    lease_ns: int
    signs: tuple[str, bytes] | None
    result: asyncio.Future[list[Pick]]
    finished: asyncio.Future[None]
    is_gone: Callable[[], bool] = SILENT.is_gone
    pick_counts: Counter[str] = field(default_factory=Counter)

    def effects(self, offered: Iterable[str]) -> Iterable[str]:
        """Those of the offered effects that it may have more tasks of."""
        if self.wanted_effects is None:
            return [effect for effect in offered if self.allows(effect)]
        return [
            name
            for name, effect in self.wanted_effects.items()
            if self.pick_counts[name] < effect.tasks_max
        ]

    def may_sign(self, signers: Signers) -> bool:
        """Whether results of this worker, or the node for it, may be signed by one of these."""
        if self.signs is not None:
            return self.signs in signers
        return any(name == NODE for name, _ in signers)

    def policy(self, effect: str) -> RetryPolicy:
        """The retry policy of its function for ``effect``."""
        if self.wanted_effects is None or effect not in self.wanted_effects:
            return RetryPolicy()
        return self.wanted_effects[effect].policy


class Polls:
    """The claims that wait, in the order of their arrival. Used from one event loop. While
    ``holds_lease`` returns False, they get nothing (CL-89)."""

    def __init__(
        self,
        leases: Leases,
        clock: Callable[[], Moment],
        *,
        holds_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        self._leases = leases
        self._holds_lease = holds_lease
        self._lacked_lease = False
        self._clock = clock
        self._numbers = itertools.count()
        self._by_effect: dict[str, OrderedDict[int, Poll]] = {}
        self._count = 0
        self._is_planned = False

    def __len__(self) -> int:
        return self._count

    def pick(self, poll: Poll) -> list[Pick]:
        """Take the tasks that a claim gets now."""
        picks: list[Pick] = []
        if poll.is_gone():
            return picks
        if not self._holds_lease():
            self._lacked_lease = True
            return picks
        now = self._clock()
        while len(picks) < poll.tasks_max:
            pick = self._leases.take(poll, now)
            if pick is None:
                break
            poll.pick_counts[self._leases.tasks[pick.intent].task.effect] += 1
            picks.append(pick)
        return picks

    async def wait(self, poll: Poll, seconds: float) -> list[Pick]:
        """Wait until there is a task for a claim; return none after ``seconds``. A claim that is
        canceled meanwhile takes none."""
        number = next(self._numbers)
        names = [_ANY] if poll.wanted_effects is None else list(poll.wanted_effects)
        for name in names:
            self._by_effect.setdefault(name, OrderedDict())[number] = poll
        self._count += 1
        try:
            async with asyncio.timeout(seconds):
                return await poll.result
        except TimeoutError:
            return _picks_of(poll)
        except asyncio.CancelledError:
            for pick in _picks_of(poll):
                self._leases.give_back(pick)
            self.plan()
            raise
        finally:
            self._count -= 1
            for name in names:
                waiting = self._by_effect[name]
                del waiting[number]
                if not waiting:
                    del self._by_effect[name]

    def plan(self) -> None:
        """Serve waiting claims at the end of this turn of the loop, if there are new offers."""
        if self._leases.offers.fresh and not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._serve)

    def empty(self) -> None:
        """End all waiting claims without a task."""
        for waiting in self._by_effect.values():
            for poll in waiting.values():
                if not poll.result.done():
                    poll.result.set_result([])

    def _serve(self) -> None:
        self._is_planned = False
        fresh = sorted(self._leases.offers.fresh)
        self._leases.offers.fresh.clear()
        for effect in fresh:
            polls_by_number = {**self._by_effect.get(effect, {}), **self._by_effect.get(_ANY, {})}
            for _, poll in sorted(
                polls_by_number.items(), key=lambda numbered_poll: numbered_poll[0]
            ):
                if not self._leases.offers.has_queued(effect):
                    break
                self._give(poll)
        self._leases.offers.fresh.clear()

    def look_for_lease(self) -> None:
        """Serve all waiting claims if tasks may be handed out again."""
        if self._lacked_lease and self._holds_lease():
            self._lacked_lease = False
            for poll in self._in_order():
                self._give(poll)

    def _in_order(self) -> list[Poll]:
        polls = {
            number: poll for polls in self._by_effect.values() for number, poll in polls.items()
        }
        return [polls[number] for number in sorted(polls)]

    def note_request(self, holder: LeaseHolder) -> None:
        """Serve the waiting claims of a worker that was silent and has sent a request (N-52b).

        They are served at the end of this turn of the loop: after a new claim, because the
        connections of those that wait may be gone.

        Other requests are carried out before: a late result counts only if its task was not given
        out again.
        """
        if self._leases.silent.end_silence(holder):
            asyncio.get_running_loop().call_soon(self._serve_one, holder)

    def _serve_one(self, holder: LeaseHolder) -> None:
        for poll in self._in_order():
            if poll.holder == holder:
                self._give(poll)

    def _give(self, poll: Poll) -> None:
        """Give a waiting claim what it gets now."""
        if not poll.result.done() and poll.holder not in self._leases.silent:
            picks = self.pick(poll)
            if picks:
                poll.result.set_result(picks)


def _picks_of(poll: Poll) -> list[Pick]:
    """The picks that a claim got in the moment in which it stopped to wait."""
    return poll.result.result() if poll.result.done() and not poll.result.cancelled() else []
