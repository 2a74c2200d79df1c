"""Plan steps for workers: from the states of the instances to claims, and from results to events
(spec/linear.md, L-30 to L-36).

The list of what is ready is advisory. A claim is an event for the instance, and the instance
decides; it is answered once that step is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from aos.core.journal.records import CellId, Record, Step
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.errors import AosError
from aos.host.stamps import now_ns
from aos.linear import (
    RUNNING,
    Claimable,
    LinearState,
    OutcomeInvalid,
    ReadyList,
    claimable,
    current_row,
    outbound_values,
    outcome_value,
    status_of,
)
from aos.manifest.names import CLAIM, EXTEND, LINEAR, RESULT
from aos.node.calls import SILENT, AnsweredClaims, ClientConnection
from aos.node.events import ask_cell
from aos.node.leases.desk import Body, ScopedToken
from aos.node.leases.result_desk import answer_each
from aos.node.problems import Problem
from aos.node.services import Services
from aos.node.steps.decoded_states import DecodedStates
from aos.node.steps.step_documents import step_task, task_name, task_place
from aos.node.steps.step_polls import StepPoll, StepPolls
from aos.read.views.linear_view import LinearAnswer
from aos.values.cbor import encode
from aos.values.digests import hash_text

POLLS_MAX: Final = 256
ANSWER_S: Final = 20.0
"""Seconds within which an instance takes an event."""

_MS: Final = 10**6
_RELEASED_NS: Final = 10**6

_CANCELED: Final = "CANCELED"

_Act: TypeAlias = Callable[[Body], Awaitable[dict[str, Any]]]


class _StepLease(NamedTuple):
    """A lease of an instance, as its row shows it."""

    worker: str
    claim: str
    seq: int
    epoch: int

    @property
    def by_claim(self) -> tuple[str, str]:
        """The claim that got it."""
        return self.worker, self.claim


class StepWork:
    """A listener of the follower, and the answers to the requests about plan steps."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._ready = ReadyList()
        self._polls = StepPolls(self._ready, self._worker_of)
        self._leased: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._leases: dict[str, _StepLease] = {}
        self._reserved: set[str] = set()
        self._told: set[str] = set()
        """Instances whose lease was in an answer to its worker."""
        self._decoded = DecodedStates()
        self._answered = AnsweredClaims()
        self._releasing: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    # The journal

    def rebased(self, state: State) -> None:
        """Read every running instance."""
        for instance in list(self._leases):
            self._note_held(instance, None)
        self._ready.clear()
        for cell in state.cells.of(LINEAR):
            if cell.declared is None:
                self._look(cell)

    def on_record(self, record: Record, state: State) -> None:
        """Read the instance that a step has changed."""
        if isinstance(record, Step) and record.cell[0] == LINEAR:
            self._look_at(record.cell, state)

    def _look_at(self, id: CellId, state: State) -> None:
        cell = state.cells.get(id)
        if cell is not None:
            self._look(cell)

    def _look(self, cell: Cell) -> None:
        state = self._read(cell)
        if state is None:
            return
        instance: str = state["instance"]
        running = status_of(state) == RUNNING
        row = current_row(state) if running else None
        earlier_lease = self._leases.get(instance)
        lease = None if row is None else _held_by(state, row)
        self._note_held(instance, lease)
        if earlier_lease is not None and earlier_lease != lease and _is_lost(state, earlier_lease):
            self._polls.lost(earlier_lease.worker)
        if instance not in self._reserved and self._ready.put(
            instance, None if cell.fault is not None else claimable(state)
        ):
            self._polls.changed()

    def _note_held(self, instance: str, lease: _StepLease | None) -> None:
        earlier_lease = self._leases.pop(instance, None)
        if earlier_lease != lease:
            self._told.discard(instance)
        if earlier_lease is not None:
            self._leased[earlier_lease.by_claim].discard(instance)
            if not self._leased[earlier_lease.by_claim]:
                del self._leased[earlier_lease.by_claim]
        if lease is not None:
            self._leases[instance] = lease
            self._leased[lease.by_claim].add(instance)

    def _worker_of(self, instance: str) -> str | None:
        lease = self._leases.get(instance)
        return None if lease is None else lease.worker

    def _read(self, cell: Cell) -> LinearState | None:
        if cell.state is None:
            return None
        value = self._decoded.value(cell.id, cell.state, self._services.follower.store.blob)
        return value if isinstance(value, dict) and value.get("steps") else None

    def _state(self, instance: str) -> LinearState | None:
        cell = self._services.follower.state.cells.get((LINEAR, encode(instance)))
        return None if cell is None else self._read(cell)

    async def run(self) -> None:
        """Serve claims that wait, until this is canceled."""
        await self._polls.run()

    # Claims

    async def claim(
        self, body: Body, token: ScopedToken, connection: ClientConnection = SILENT
    ) -> dict[str, Any]:
        """Claim plan steps; wait for one for up to ``wait_ms``. A repeated claim has the leases
        that it got before and that it still holds. Leases whose answer does not reach the client
        of ``connection`` are ended.

        Raises:
            ClientGoneError: The client has closed the connection.
        """
        _check_scope(token)
        if self._is_stopping:
            raise Problem(503, "stopping", "the node is stopping", retry_after_s=5)
        if len(self._polls) >= POLLS_MAX:
            detail = f"{POLLS_MAX} claims are waiting (claim more tasks with each request)"
            raise Problem(429, "too_many_polls", detail, retry_after_s=1)
        worker, claim = _worker(body, token), body["claim"]
        self._answered.repeated((worker, claim))
        self._polls.note_request(worker)
        steps_max = body.get("max", 1)
        poll = StepPoll(
            worker=worker,
            claim=claim,
            room={step["name"]: step.get("max", steps_max) for step in body["steps"]},
            steps_free=steps_max,
            lease_ns=body["lease_ms"] * _MS if "lease_ms" in body else None,
            is_gone=connection.is_gone,
        )
        instances = sorted(self._leased.get((worker, claim), ()))
        if not instances:
            instances = await self._claimed(poll, body.get("wait_ms", 0) / 1000)
        form = body.get("form", "json")
        states = [(instance, self._state(instance)) for instance in instances]
        tasks = [
            step_task(state, form, now_ns())
            for instance, state in states
            if state is not None and self._is_held_by(instance, worker, claim)
        ]
        self._watch_delivery((worker, claim), tasks, connection)
        self._told.update(
            instance for instance in instances if self._is_held_by(instance, worker, claim)
        )
        return {
            "world": hash_text(self._services.follower.state.world),
            "tasks": tasks,
            "unserved": [],
        }

    def _watch_delivery(
        self, key: tuple[str, str], tasks: Sequence[Body], connection: ClientConnection
    ) -> None:
        """End the leases of a claim if its answer does not reach the client (N-52a).

        Raises:
            ClientGoneError: It cannot: the client has closed the connection.
        """
        if not tasks:
            return
        worker, _ = key
        leases = [
            {"worker": worker, "task": task["task"], "epoch": task["epoch"]} for task in tasks
        ]
        self._answered.watch(key, connection, lambda _: self._end_leases(leases))

    def _end_leases(self, leases: Sequence[Body]) -> None:
        """Release leases whose worker has not heard of them, in the background."""

        async def release(lease: Body) -> None:
            with contextlib.suppress(Problem, AosError):  # the lease ends by itself
                await self._release(lease)

        for lease in leases:
            releasing = asyncio.get_running_loop().create_task(release(lease))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)

    def _is_held_by(self, instance: str, worker: str, claim: str) -> bool:
        lease = self._leases.get(instance)
        return lease is not None and lease.by_claim == (worker, claim)

    async def _claimed(self, poll: StepPoll, wait_s: float) -> list[str]:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        while True:
            picks = self._polls.pick(poll)
            if not picks and (left_s := until_s - loop.time()) > 0:
                picks = await self._waited(poll, left_s)
            if not picks:
                return []
            claimed = await self._grant(poll, picks)
            if claimed or self._is_stopping:
                return claimed
            poll = StepPoll(
                worker=poll.worker, claim=poll.claim, room=poll.room, steps_free=poll.steps_free,
                lease_ns=poll.lease_ns, is_gone=poll.is_gone,
            )  # fmt: skip

    async def _waited(self, poll: StepPoll, seconds: float) -> list[Claimable]:
        try:
            return await self._polls.wait(poll, seconds)
        except asyncio.CancelledError:
            if poll.result.done():
                self._give_back(poll.result.result())
            raise

    async def _grant(self, poll: StepPoll, picks: Sequence[Claimable]) -> list[str]:
        """Send a claim for each; return the instances that the worker has now. It continues if the
        caller is gone: then the leases end, unless the worker got them by the same claim."""
        names = [pick.instance for pick in picks]
        self._reserved.update(names)
        granting = asyncio.ensure_future(
            asyncio.gather(*(self._claim_one(poll, name) for name in names), return_exceptions=True)
        )
        granting.add_done_callback(lambda _: self._give_back(picks))
        try:
            answers = await asyncio.shield(granting)
        except asyncio.CancelledError:
            key = poll.worker, poll.claim
            granting.add_done_callback(lambda _: self._end_unheard(key, names))
            raise
        problems = [answer for answer in answers if isinstance(answer, BaseException)]
        claimed = [
            instance
            for instance, answer in zip(names, answers, strict=True)
            if isinstance(answer, LinearAnswer) and answer.tag == "Claimed"
        ]
        if problems and not claimed:
            raise problems[0]
        return claimed

    def _end_unheard(self, key: tuple[str, str], instances: Sequence[str]) -> None:
        """The caller of a claim went away before its answer. The worker may have made the claim
        again meanwhile, and know some of its leases."""
        states = [
            self._state(instance)
            for instance in instances
            if self._is_held_by(instance, *key) and instance not in self._told
        ]
        self._end_leases(
            [
                {
                    "worker": key[0],
                    "task": task_name(state["instance"], state["current_step_seq"]),
                    "epoch": current_row(state)["epoch"],
                }
                for state in states
                if state is not None
            ]
        )

    def _give_back(self, picks: Sequence[Claimable]) -> None:
        """Let others claim these, as far as they still can be claimed."""
        state = self._services.follower.state
        for pick in picks:
            self._reserved.discard(pick.instance)
            self._look_at((LINEAR, encode(pick.instance)), state)

    async def _claim_one(self, poll: StepPoll, instance: str) -> LinearAnswer:
        return await self.ask(
            CLAIM,
            {
                "instance": instance,
                "worker": poll.worker,
                "claim": poll.claim,
                "lease": poll.lease_ns,
            },
        )

    # Leases and results

    async def heartbeat(
        self, items: Sequence[Body], body: Body, token: ScopedToken
    ) -> list[dict[str, Any]]:
        """Extend leases; one answer for each item."""
        lease_ns = body["lease_ms"] * _MS if "lease_ms" in body else None
        return await self._answer_items(
            items, body, token, lambda item: self._extend(item, lease_ns)
        )

    async def release(
        self, items: Sequence[Body], body: Body, token: ScopedToken
    ) -> list[dict[str, Any]]:
        """End leases: the plan steps can be claimed again a millisecond later."""
        return await self._answer_items(items, body, token, self._release)

    async def results(
        self, items: Sequence[Body], body: Body, token: ScopedToken
    ) -> list[dict[str, Any]]:
        """Take results; one answer or problem for each item."""
        return await self._answer_items(items, body, token, self._result)

    async def _answer_items(
        self, items: Sequence[Body], body: Body, token: ScopedToken, act: _Act
    ) -> list[dict[str, Any]]:
        _check_scope(token)
        worker = _worker(body, token)
        answers = await asyncio.gather(
            *(answer_each(item, act({**item, "worker": worker})) for item in items)
        )
        self._polls.note_request(worker)
        return answers

    async def _extend(self, item: Body, lease_ns: int | None) -> dict[str, Any]:
        instance, seq = task_place(item["task"])
        reason = self._known_refusal(instance, seq, item["epoch"])
        if not reason:
            lease_fields = _lease_fields(item, instance, seq)
            reason = (await self.ask(EXTEND, {**lease_fields, "lease": lease_ns})).reason
        if reason:
            return {"answer": "canceled" if reason == _CANCELED else "lost"}
        state = self._state(instance)
        until_ns = None if state is None else current_row(state)["locked_until"]
        return {"answer": "leased"} | ({} if until_ns is None else {"lease_until_ns": until_ns})

    async def _release(self, item: Body) -> dict[str, Any]:
        ended = await self._extend(item, _RELEASED_NS)
        if ended["answer"] != "leased":
            return {"answer": "lost"}
        instance, _ = task_place(item["task"])
        self._note_held(instance, None)  # the end of this lease says nothing about its worker
        return {"answer": "released"}

    async def _result(self, item: Body) -> dict[str, Any]:
        instance, seq = task_place(item["task"])
        if "outcome" not in item:
            raise Problem(
                422, "result_does_not_fit", "outcome: the result of a plan step has one",
                pointer="/outcome",
            )  # fmt: skip
        reason = self._known_refusal(instance, seq, item["epoch"])
        if reason:
            raise Problem(409, reason.lower(), f"{reason}: {_WORDS[reason]}")
        manifest = self._services.follower.state.manifest
        try:
            value = {
                **_lease_fields(item, instance, seq),
                "outcome": outcome_value(item["outcome"]),
                "outbound": outbound_values(item.get("outbound", ()), manifest),
            }
        except OutcomeInvalid as problem:
            raise Problem(
                422, "result_does_not_fit", str(problem), pointer=problem.pointer
            ) from problem
        answer = await self.ask(RESULT, value)
        if answer.reason:
            raise refusal(answer)
        return {"answer": "settled", "seq": answer.seq}

    def _known_refusal(self, instance: str, seq: int, epoch: int) -> str:
        """Why an event about a lease is refused, if the state shows it; empty if it does not."""
        state = self._state(instance)
        if state is None:
            return "LEASE_LOST"
        last = state["last_result"]
        if last is not None and (last["seq"], last["epoch"]) == (seq, epoch):
            return ""  # perhaps the same result again
        if status_of(state) == _CANCELED:
            return _CANCELED
        if status_of(state) != RUNNING:
            return "NOT_RUNNING"
        is_old = state["current_step_seq"] > seq or current_row(state)["epoch"] > epoch
        return "STALE_EPOCH" if is_old and state["mode"]["$tag"] == "standard" else ""

    # Events

    async def ask(self, schema: str, value: Any) -> LinearAnswer:
        """Send an event to an instance; return its answer once that is durable.

        Raises:
            Problem: The instance is unknown, has failed by a fault, or does not answer.
        """
        name = f"instance {value['instance']}" if "instance" in value else schema
        return LinearAnswer.of(await ask_cell(self._services, schema, value, name))

    # The end

    def stop(self) -> None:
        """Answer claims with 503 from now on, and those that wait with nothing."""
        self._is_stopping = True
        self._polls.empty()


_WORDS: Final[Mapping[str, str]] = {
    _CANCELED: "the instance was canceled",
    "NOT_RUNNING": "the instance has ended",
    "STALE_EPOCH": "another claim or plan step follows",
    "LEASE_LOST": "there is no such instance",
}


def refusal(answer: LinearAnswer) -> Problem:
    """A refusal, in the words of the instance."""
    status = 422 if answer.reason == "INVALID" else 409
    return Problem(status, answer.reason.lower(), answer.words)


def _check_scope(token: ScopedToken) -> None:
    if not token.allows("work", LINEAR):
        raise Problem(
            403, "token_does_not_allow", f"the token {token.name} does not allow work:{LINEAR}"
        )


def _held_by(state: LinearState, row: Mapping[str, Any]) -> _StepLease | None:
    if row["claim"] is None:
        return None
    return _StepLease(row["locked_by"], row["claim"], state["current_step_seq"], row["epoch"])


def _is_lost(state: LinearState, lease: _StepLease) -> bool:
    """Whether a lease that has ended was lost: no result and no cancel has ended it."""
    last = state["last_result"]
    has_result = last is not None and (last["seq"], last["epoch"]) == (lease.seq, lease.epoch)
    return not has_result and status_of(state) != _CANCELED


def _worker(body: Body, token: ScopedToken) -> str:
    """The holder of a lease. Two workers of one name under different tokens are different."""
    return f"{body['worker']}@{token.name}"


def _lease_fields(item: Body, instance: str, seq: int) -> dict[str, Any]:
    return {
        "instance": instance,
        "worker": item["worker"],
        "epoch": item["epoch"],
        "seq": seq,
    }
