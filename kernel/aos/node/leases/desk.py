"""The desk that all requests about work share: the leases, the table behind them, and the link to
the process that runs the world (spec/node-work.md)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from aos.boot_clock import boot_ns
from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import AttemptInput
from aos.core.state.state import State
from aos.errors import AosError, BadUsage, Unavailable
from aos.host.executors.limiter import Limiter
from aos.host.executors.task import Lost, Report, WorkItem
from aos.host.stamps import now_ns
from aos.node.leases.leases import Leases, Lose, Moment, Park, Pick
from aos.node.leases.polls import Polls
from aos.node.leases.results import GONE_RULES, refusal_problem
from aos.node.leases.table import Syncing, Table
from aos.node.node_settings import NodeSettings
from aos.node.problems import Problem, text_for_clients
from aos.store.store import Store
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem

RETRY_S: Final = 1.0
"""Pause before an action is journaled again that the world could not take, in seconds."""

Body = Mapping[str, Any]


class ScopedToken(Protocol):
    """A token, as far as work needs it."""

    @property
    def name(self) -> str:
        """Its name; a lease belongs to a worker under a token."""
        ...

    def allows(self, verb: str, name: str | None = None) -> bool:
        """Whether it allows ``verb`` for ``name``."""
        ...


class WorkLink(Protocol):
    """The way to the process that runs the world (``aos.host.door.link.Link``)."""

    async def answer(self, item: WorkItem) -> Answer | Lost: ...

    async def work(self) -> Mapping[str, Any]: ...

    async def retry(self, intents: Sequence[Hash]) -> list[Hash]: ...


def now() -> Moment:
    """This moment, on both clocks."""
    return Moment(boot_ns(), now_ns())


class WorkDesk:
    """Decides, stores and journals for the requests of one node. Used from one event loop.

    ``changed`` is set when the time of the next lease or pause may have changed. ``world_effects``
    are the effects that the process of the world runs; None until it has been asked.
    """

    def __init__(
        self,
        table: Table,
        link: WorkLink,
        settings: NodeSettings,
        *,
        store: Callable[[], Store],
        clock: Callable[[], Moment],
        report: Report,
        holds_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        self.link = link
        self.store = store
        self.clock = clock
        self.report = report
        self.limits = settings.limits
        limiter = Limiter(settings.limits)
        self.leases = Leases(table.rows, since=table.since, limiter=limiter)
        self.polls = Polls(self.leases, clock, holds_lease=holds_lease)
        self.changed = asyncio.Event()
        self.world_effects: frozenset[str] | None = None
        self.followed: State | None = None
        self.running: set[asyncio.Task[None]] = set()
        self._table = table
        self._syncing = Syncing(table.write)

    @property
    def state(self) -> State:
        """The durable state, as the follower has it. Raises as ``check_started``."""
        self.check_started()
        assert self.followed is not None
        return self.followed

    def check_started(self) -> None:
        """Raises: Problem: 503: the node is starting."""
        if self.followed is None or self.world_effects is None:
            raise Problem(503, "starting", "the node is starting", retry_after_s=1)

    def flush(self) -> None:
        """Store what has changed, begin what must be journaled, serve the claims that wait."""
        leases = self.leases
        if leases.changes:
            self._syncing.put(leases.changes)
            leases.changes.clear()
            self.changed.set()
        for action in leases.actions:
            self.run(self._journal(action))
        leases.actions.clear()
        self.polls.plan()

    def run(self, body: Coroutine[Any, Any, None]) -> None:
        """Run something in the background, until it ends or the desk is closed."""
        task = asyncio.get_running_loop().create_task(body)
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def _journal(self, action: Lose | Park) -> None:
        """Journal a loss or a halt; retry while the world cannot take it (N-58, N-59)."""
        while True:
            try:
                answer = await self.link.answer(action.item())
            except AosError:
                await asyncio.sleep(RETRY_S)
                continue
            break
        if isinstance(answer, Refusal):
            if answer.rule not in GONE_RULES:
                self.report(f"node: task {hash_text(action.intent)}: {answer.text}")
        elif isinstance(action, Park):
            self.report(
                f"node: task {hash_text(action.intent)} is parked: {action.problem} (it runs again "
                f"with aos tasks retry {action.intent.hex()[:8]})"
            )
            self.leases.halted(action.intent, "parked")
            self.flush()

    async def synced(self) -> None:
        """Return once everything that has changed is durable.

        Raises:
            Problem: 503: the table cannot be written.
        """
        self.flush()
        try:
            await self._syncing.synced()
        except AosError as problem:
            raise self.unavailable(problem) from problem

    def write_rest(self) -> None:
        """Store the changes for which no request waits."""
        if self._syncing.has_pending:
            self.run(self._write_rest())

    async def _write_rest(self) -> None:
        with contextlib.suppress(Problem):  # the next request that waits for them says so
            await self.synced()

    async def begin(self, pick: Pick) -> Problem | None:
        """Journal the attempt of a pick, if the journal does not have it. Returns why not."""
        if not pick.must_begin:
            return None
        try:
            answer = await self.link.answer(
                AttemptInput(intent=pick.intent, attempt=pick.epoch, problem=pick.problem)
            )
        except AosError as problem:
            return self.unavailable(problem)
        match answer:
            case Refusal(rule=Rule.ATTEMPT_IS_OLD):
                # An earlier request was journaled, and its answer was lost. No worker has it.
                self.leases.begun(pick.intent, pick.epoch)
                return None
            case Refusal(rule=rule) if rule in GONE_RULES:
                self.leases.end(pick.intent)
                return refusal_problem(answer)
            case Refusal():
                self.report(f"node: task {hash_text(pick.intent)}: {answer.text}")
                self.leases.halted(pick.intent, "parked")
                return refusal_problem(answer)
        self.leases.begun(pick.intent, pick.epoch)
        return None

    def unavailable(self, problem: AosError) -> Problem:
        """The problem of an error of the world or of the table."""
        text = text_for_clients(problem, self._table.world)
        if isinstance(problem, BadUsage):
            return Problem(400, "not_understood", text)
        pause_s = 1 if isinstance(problem, Unavailable) else 5
        return Problem(503, "unavailable", text, retry_after_s=pause_s)

    async def close(self) -> None:
        """Write what is left and close the table."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.flush()
        await self._syncing.close()
        self._table.close()


def intent_of(item: Body) -> Hash:
    """The intent of an item.

    Raises:
        Problem: 422: it is no hash.
    """
    try:
        return parse_hash(item["task"])
    except ValueProblem as problem:
        raise Problem(422, "task_is_invalid", str(problem), pointer="/task") from problem
