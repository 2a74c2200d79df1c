"""The work of a node: its tasks, from the journal to workers and back (spec/node-work.md).

It follows the journal, answers the requests of ``/v1/work/*``, and writes to the journal over the
link to the process that runs the world. ``leases.py`` decides, ``table.py`` remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Refusal
from aos.core.journal.records import (
    Attempt,
    Control,
    KernelReceipt,
    Receipt,
    Record,
    Step,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import AosError
from aos.host.executors.task import Lost, Report, report_to_stderr
from aos.manifest.names import TIMER
from aos.node.calls import SILENT, ClientConnection
from aos.node.leases.claims import ClaimDesk
from aos.node.leases.desk import (
    Body,
    ScopedToken,
    WorkDesk,
    WorkLink,
    intent_of,
    now,
)
from aos.node.leases.documents import is_task, open_task
from aos.node.leases.leases import Leases, Moment, Standing, TaskPlace
from aos.node.leases.result_desk import ResultDesk, answer_each
from aos.node.leases.results import (
    lease_is_over,
    read_frame,
)
from aos.node.leases.row import LeaseHolder, Phase
from aos.node.leases.table import Table, open_table
from aos.node.node_settings import NodeSettings
from aos.store.store import Store
from aos.values.digests import Hash, hash_text

TICK_S: Final = 0.25
"""Longest pause between two looks at the clock, in seconds."""

LISTED_MAX: Final = 10_000

_MS: Final = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFigures:
    """Counts for metrics. ``lost`` counts leases since the start of the front."""

    leased: int
    offered: int
    parked: int
    lost: int
    polls: int


class LeasedWork:
    """A listener of the follower, and the handlers of ``/v1/work/*``. Used from one event loop.

    The bodies have been checked against ``schemas``. Every handler raises Problem; an item that is
    refused has its problem in the answer.
    """

    def __init__(
        self,
        table: Table,
        link: WorkLink,
        settings: NodeSettings,
        *,
        store: Callable[[], Store],
        clock: Callable[[], Moment] = now,
        report: Report = report_to_stderr,
        holds_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        self._desk = WorkDesk(
            table, link, settings, store=store, clock=clock, report=report, holds_lease=holds_lease
        )
        self._claims = ClaimDesk(self._desk)
        self._results = ResultDesk(self._desk)

    @property
    def leases(self) -> Leases:
        """The decisions, for metrics and tests."""
        return self._desk.leases

    # The journal

    async def start(self) -> None:
        """Ask the process of the world for the effects that it runs itself; they are no tasks.

        Raises:
            Unavailable: The process is away.
        """
        fields = await self._desk.link.work()
        self._desk.world_effects = frozenset(fields["effects"])
        if self._desk.followed is not None:
            self._open_all()

    def rebased(self, state: State) -> None:
        """The follower has begun, or begun again, with this state."""
        self._desk.followed = state
        if self._desk.world_effects is not None:
            self._open_all()

    def _open_all(self) -> None:
        state = self._desk.state
        self._desk.leases.close_all(state.intents)
        # The world runs its timers itself, and may sleep on a million of them.
        for intent, last_attempt in state.intents.in_order(but=TIMER):
            self._open(intent)
            if last_attempt is not None:
                self._desk.leases.begun(intent.intent, last_attempt)
        self._desk.leases.forget_unknown(self._desk.clock())
        self._desk.flush()

    def _open(self, intent: OpenIntent) -> None:
        state = self._desk.state
        assert self._desk.world_effects is not None
        if intent.intent in self._desk.leases.tasks or not is_task(
            state, intent, self._desk.world_effects
        ):
            return
        halt = state.halt(intent)
        self._desk.leases.open(
            open_task(state, intent, self._desk.limits, self._desk.store()),
            intent.effect,
            attempt=state.attempt(intent),
            halt=None if halt is None else halt.phase,
            now=self._desk.clock(),
        )

    def on_record(self, record: Record, state: State) -> None:
        """The follower has folded a record."""
        self._desk.followed = state
        if self._desk.world_effects is None:
            return
        match record:
            case Step():
                for opened_intent in record.intents:
                    intent = state.intents.get(opened_intent.intent)
                    if intent is not None:
                        self._open(intent)
                self._end(record.abandoned)
            case Receipt() | KernelReceipt():
                self._end((record.intent, *record.abandoned))
            case Control():
                self._end(record.abandoned)
            case Attempt(phase="begun"):
                self._desk.leases.begun(record.intent, record.attempt)
            case Attempt(phase="held" | "parked" as phase):
                self._desk.leases.halted(record.intent, phase)
            case _:
                return
        self._desk.flush()

    def _end(self, intents: Sequence[Hash]) -> None:
        for intent in intents:
            self._desk.leases.end(intent)

    # Time

    async def run(self) -> None:
        """End leases and pauses in time, until this is canceled."""
        while True:
            self._desk.changed.clear()
            await self.tick()
            due_ns = self._desk.leases.due_ns()
            pause_s = TICK_S
            if due_ns is not None:
                pause_s = min(max((due_ns - self._desk.clock().steady_ns) / 1e9, 0.001), TICK_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._desk.changed.wait()
            except TimeoutError:
                self._desk.write_rest()

    async def tick(self) -> None:
        """End the leases and pauses whose time has come."""
        self._desk.polls.look_for_lease()
        self._desk.leases.expire(self._desk.clock())
        self._desk.flush()

    # Requests of workers

    async def claim(
        self, body: Body, token: ScopedToken, connection: ClientConnection = SILENT
    ) -> dict[str, Any]:
        """Lease tasks to a worker; wait for one for up to ``wait_ms`` (N-51, N-52).

        If the caller is canceled, or the answer does not reach the client of ``connection``, its
        tasks are given back.
        """
        return await self._claims.claim(body, token, connection)

    async def results(self, body: Body, token: ScopedToken) -> dict[str, Any]:
        """Take results of workers (N-57, N-60)."""
        return await self._results.take(body, token)

    async def heartbeat(self, body: Body, token: ScopedToken) -> dict[str, Any]:
        """Prolong leases (N-55)."""
        holder = LeaseHolder(body["worker"], token.name)
        lease_ns = body["lease_ms"] * _MS if "lease_ms" in body else None
        self._desk.leases.expire(self._desk.clock())
        answers = []
        for item in body["leases"]:
            intent, epoch = intent_of(item), item["epoch"]
            row = self._desk.leases.heartbeat(intent, epoch, holder, lease_ns, self._desk.clock())
            answer: dict[str, Any] = {"task": item["task"]}
            if row is not None:
                answer |= {"answer": "leased", "lease_until_ns": row.until_ns}
            elif self._desk.leases.is_canceled(intent, epoch, holder):
                answer["answer"] = "canceled"
            else:
                answer["answer"] = "lost"
            answers.append(answer)
        self._desk.polls.note_request(holder)
        await self._desk.synced()
        return {"answers": answers}

    async def release(self, body: Body, token: ScopedToken) -> dict[str, Any]:
        """Take back tasks that a worker does not finish (N-58)."""
        holder = LeaseHolder(body["worker"], token.name)
        self._desk.leases.expire(self._desk.clock())
        answers = []
        for item in body["leases"]:
            intent = intent_of(item)
            is_released = self._desk.leases.release(
                intent, item["epoch"], holder, began=item["began"], now=self._desk.clock()
            )
            answers.append({"task": item["task"], "answer": "released" if is_released else "lost"})
        self._desk.polls.note_request(holder)
        await self._desk.synced()
        return {"answers": answers}

    async def progress(self, body: Body, token: ScopedToken) -> dict[str, Any]:
        """Submit stream frames of running tasks (K-90). They are not kept."""
        holder = LeaseHolder(body["worker"], token.name)
        answers = await answer_each(body["frames"], lambda item: self._tell(item, holder))
        self._desk.polls.note_request(holder)
        for item, answer in zip(body["frames"], answers, strict=True):
            answer["number"] = item["number"]
        return {"answers": answers}

    async def _tell(self, item: Body, holder: LeaseHolder) -> dict[str, Any]:
        intent = intent_of(item)
        open_intent = self._desk.state.intents.get(intent)
        standing = self._desk.leases.standing(intent, item["epoch"], holder)
        if open_intent is None or standing is not Standing.HOLDER:
            raise lease_is_over()
        try:
            answer = await self._desk.link.answer(read_frame(item, open_intent))
        except AosError as problem:
            raise self._desk.unavailable(problem) from problem
        match answer:
            case Lost():
                return {"answer": "dropped", "detail": answer.text}
            case Refusal():
                return {"answer": "dropped", "detail": answer.text}
        return {"answer": "taken"}

    # Operators

    async def list(self, token: ScopedToken) -> dict[str, Any]:  # noqa: ARG002  # the route checks it
        """The tasks that workers have, and those that wait for a pause or for an operator."""
        self._desk.leases.expire(self._desk.clock())
        at = self._desk.clock()
        documents: list[dict[str, Any]] = []
        parked = 0
        for intent, entry in self._desk.leases.tasks.items():
            phase = _PHASES.get(entry.task_place)
            if phase is None:
                continue
            if entry.task_place is TaskPlace.PARKED:
                phase, parked = entry.halt or phase, parked + 1
            if len(documents) == LISTED_MAX:
                continue
            document: dict[str, Any] = {
                "task": hash_text(intent),
                "effect": entry.task.effect,
                "phase": phase,
                "attempt": entry.attempt,
                "lost": 0 if entry.row is None else entry.row.lost,
            }
            row = entry.row
            if row is not None and row.phase is Phase.LEASED:
                document |= {"worker": row.holder.worker, "token": row.holder.token}
                document["until_ns"] = row.until_ns
            elif entry.task_place is TaskPlace.PAUSED:
                document["until_ns"] = at.wall_ns + max(0, entry.until_ns - at.steady_ns)
            if row is not None and row.phase is not Phase.LEASED:
                document["problem"] = row.problem
            documents.append(document)
        leased = sum(1 for _ in self._desk.leases.leased())
        return {
            "tasks": documents,
            "leased": leased,
            "offered": len(self._desk.leases.offers),
            "parked": parked,
        }

    async def retry(self, body: Body, token: ScopedToken) -> dict[str, Any]:  # noqa: ARG002  # the route checks it
        """Run held and parked tasks again, with all attempts of their policy (N-59). Intents that
        are no tasks are effects of the process that runs the world, which runs them again (H-59e).
        """
        intents = self._intents_of(body)
        world_intents = [intent for intent in intents if intent not in self._desk.leases.tasks]
        running = await self._desk.link.retry(world_intents) if world_intents else []
        picks = [
            pick for intent in intents if (pick := self._desk.leases.retry(intent)) is not None
        ]
        await self._desk.synced()
        problems = await asyncio.gather(*(self._desk.begin(pick) for pick in picks))
        await self._desk.synced()
        failed = [problem for problem in problems if problem is not None]
        if failed and len(failed) == len(picks) and not running:
            raise failed[0]
        begun = [
            pick.intent for pick, problem in zip(picks, problems, strict=True) if problem is None
        ]
        return {"tasks": [hash_text(intent) for intent in (*running, *begun)]}

    def _intents_of(self, body: Body) -> Sequence[Hash]:
        if "tasks" in body:
            return [intent_of({"task": task}) for task in body["tasks"]]
        return [
            intent
            for intent, entry in self._desk.leases.tasks.items()
            if entry.task_place is TaskPlace.PARKED and entry.halt == "parked"
        ]

    async def reclaim(self, body: Body, token: ScopedToken) -> dict[str, Any]:
        """End leases on behalf of an operator: the tasks are given out with the next attempt."""
        problem = f"an operator ended the lease ({token.name})"
        self._desk.leases.expire(self._desk.clock())
        intents = [intent_of({"task": task}) for task in body["tasks"]]
        ended = [intent for intent in intents if self._desk.leases.reclaim(intent, problem)]
        await self._desk.synced()
        return {"tasks": [hash_text(intent) for intent in ended]}

    def figures(self) -> LeaseFigures:
        """Counts for metrics. Reads every task."""
        task_places = [entry.task_place for entry in self._desk.leases.tasks.values()]
        return LeaseFigures(
            leased=sum(
                task_place in (TaskPlace.LEASED, TaskPlace.ENDING) for task_place in task_places
            ),
            offered=len(self._desk.leases.offers),
            parked=task_places.count(TaskPlace.PARKED),
            lost=self._desk.leases.lost,
            polls=len(self._desk.polls),
        )

    # The end

    async def drain(self) -> None:
        """Answer claims with 503 from now on, and those that wait without a task."""
        self._claims.stop()

    async def close(self) -> None:
        """Write what is left and close the table."""
        self._claims.stop()
        await self._desk.close()


_PHASES: Final[Mapping[TaskPlace, str]] = {
    TaskPlace.LEASED: "leased",
    TaskPlace.ENDING: "leased",
    TaskPlace.PAUSED: "paused",
    TaskPlace.STOPPING: "parked",
    TaskPlace.PARKED: "parked",
}


async def open_work(
    path: Path,
    link: WorkLink,
    store: Callable[[], Store],
    settings: NodeSettings,
    *,
    seq: int,
    report: Report = report_to_stderr,
    holds_lease: Callable[[], bool] = lambda: True,
) -> LeasedWork:
    """Open the work of the world in ``path``, whose journal ends at record ``seq``. Workers get no
    task while ``holds_lease`` returns False.

    Raises:
        Unavailable: The table of leases cannot be opened.
    """
    table = await asyncio.to_thread(open_table, path, seq=seq, report=report)
    return LeasedWork(table, link, settings, store=store, report=report, holds_lease=holds_lease)
