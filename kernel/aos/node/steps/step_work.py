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
from dataclasses import replace
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
from aos.node.bodies import ClientGoneError
from aos.node.calls import SILENT, AnsweredClaims, ClaimRequests, ClientConnection, Delivery
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


async def ask_instance(services: Services, schema: str, value: Any) -> LinearAnswer:
    """Send an event to an instance; return its answer once that is durable.

    Raises:
        Problem: The instance is unknown, has failed by a fault, or does not answer.
    """
    name = f"instance {value['instance']}" if "instance" in value else schema
    return LinearAnswer.of(await ask_cell(services, schema, value, name))


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

    def __init__(self, services: Services, *, clock: Callable[[], int] = now_ns) -> None:
        self._services = services
        self._clock = clock
        self._ready = ReadyList()
        self._polls = StepPolls(self._ready, self._worker_of, clock)
        self._requests = ClaimRequests()
        self._claiming: dict[tuple[str, str], StepPoll] = {}
        self._leased: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._leases: dict[str, _StepLease] = {}
        self._reserved: set[str] = set()
        self._told: set[str] = set()
        """Instances whose lease was in an answer to its worker."""
        self._prolonged: set[str] = set()
        """Instances whose lease its worker has prolonged."""
        self._inherited: set[str] = set()
        """Instances whose lease an earlier front may have ended: that event may be on its way."""
        self._ending: dict[str, _StepLease] = {}
        """Leases that the node ends: no answer names them any more."""
        self._decoded = DecodedStates()
        self._answered = AnsweredClaims()
        self._releasing: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    # The journal

    def rebased(self, state: State) -> None:
        """Read every running instance. Leases that this front has noted or ends stay so."""
        noted_leases = dict(self._leases)
        self._ready.clear()
        for cell in state.cells.of(LINEAR):
            if cell.declared is None:
                self._look(cell)
        for instance in [*self._leases, *self._ending]:
            if (LINEAR, encode(instance)) not in state.cells:
                self._note_held(instance, None)
                self._ending.pop(instance, None)
        self._inherited.update(
            instance
            for instance, lease in self._leases.items()
            if noted_leases.get(instance) != lease
        )

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
        if self._ending.get(instance) == lease:
            lease = None
        else:
            self._ending.pop(instance, None)
        self._note_held(instance, lease)
        if earlier_lease is not None and earlier_lease != lease and _is_lost(state, earlier_lease):
            self._polls.lost(earlier_lease.worker)
        if instance not in self._reserved and self._ready.put(
            instance, None if cell.fault is not None else claimable(state)
        ):
            self._polls.changed()

    def _note_held(self, instance: str, lease: _StepLease | None) -> None:
        earlier_lease = self._leases.get(instance)
        if earlier_lease == lease:
            return
        self._leases.pop(instance, None)
        self._told.discard(instance)
        self._prolonged.discard(instance)
        self._inherited.discard(instance)
        if earlier_lease is not None:
            self._leased[earlier_lease.by_claim].pop(instance, None)
            if not self._leased[earlier_lease.by_claim]:
                del self._leased[earlier_lease.by_claim]
        if lease is not None:
            self._leases[instance] = lease
            self._leased[lease.by_claim][instance] = None

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
        if connection.is_gone():
            raise ClientGoneError  # the worker may have repeated the claim on another connection
        key = _worker(body, token), body["claim"]
        request = self._requests.begin(key)
        try:
            self._answered.repeated(key)
            self._polls.note_request(key[0])
            await self._lease(key, request, body, connection)
            instances = self._confirmed(key) if self._requests.is_last(key, request) else []
            return self._answer(key, instances, body.get("form", "json"), connection)
        finally:
            self._leave(key, request)

    async def _lease(
        self, key: tuple[str, str], request: object, body: Body, connection: ClientConnection
    ) -> None:
        """Lease plan steps to a claim that has none, and confirm leases that an earlier front may
        have ended. Only its last request does that, after the earlier ones have ended."""
        while (earlier := self._claiming.get(key)) is not None:
            if not earlier.result.done():
                earlier.result.set_result([])
            await asyncio.shield(earlier.finished)
        leased = self._leased.get(key, {})
        inherited = [instance for instance in leased if instance in self._inherited]
        if (leased and not inherited) or not self._requests.is_last(key, request):
            return
        steps_max = body.get("max", 1)
        poll = StepPoll(
            worker=key[0],
            claim=key[1],
            room={step["name"]: step.get("max", steps_max) for step in body["steps"]},
            steps_free=steps_max,
            lease_ns=body["lease_ms"] * _MS if "lease_ms" in body else None,
            is_gone=connection.is_gone,
        )
        await self._claimed(poll, request, body.get("wait_ms", 0) / 1000, inherited)

    def _confirmed(self, key: tuple[str, str]) -> list[str]:
        """The instances whose leases an answer to a claim may name."""
        return [
            instance for instance in self._leased.get(key, ()) if instance not in self._inherited
        ]

    def _answer(
        self,
        key: tuple[str, str],
        instances: Sequence[str],
        form: str,
        connection: ClientConnection,
    ) -> dict[str, Any]:
        states = [self._state(instance) for instance in instances]
        tasks = [step_task(state, form, self._clock()) for state in states if state is not None]
        self._told.update(instances)
        self._watch_delivery(key, instances, connection)
        return {
            "world": hash_text(self._services.follower.state.world),
            "tasks": tasks,
            "unserved": [],
        }

    def _leave(self, key: tuple[str, str], request: object) -> None:
        """A request of a claim is over. If it is the last one, the leases that no answer has named
        end: no worker knows of them. An answer of an earlier front may have named those that are
        not confirmed."""
        if self._requests.end(key, request):
            self._end_leases(
                {
                    instance: self._leases[instance]
                    for instance in sorted(self._confirmed(key))
                    if instance not in self._told
                }
            )

    def _watch_delivery(
        self, key: tuple[str, str], instances: Sequence[str], connection: ClientConnection
    ) -> None:
        """End the leases of a claim if its answer does not reach the client, unless the worker has
        prolonged them (N-52a).

        Raises:
            ClientGoneError: It cannot: the client has closed the connection.
        """
        leases = {instance: self._leases[instance] for instance in instances}

        def take_back(_: Delivery) -> None:
            self._end_leases(
                {
                    instance: lease
                    for instance, lease in leases.items()
                    if instance not in self._prolonged
                }
            )

        if leases:
            self._answered.watch(key, connection, take_back)

    def _end_leases(self, leases: Mapping[str, _StepLease]) -> None:
        """Release leases whose worker has not heard of them, in the background."""

        async def release(item: Body) -> None:
            with contextlib.suppress(Problem, AosError):  # the lease ends by itself
                await self._release(item)

        for instance, lease in leases.items():
            if self._leases.get(instance) != lease:
                continue
            self._note_held(instance, None)
            self._ending[instance] = lease
            item = {
                "worker": lease.worker,
                "task": task_name(instance, lease.seq),
                "epoch": lease.epoch,
            }
            releasing = asyncio.get_running_loop().create_task(release(item))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)

    async def _claimed(
        self, poll: StepPoll, request: object, wait_s: float, inherited: Sequence[str]
    ) -> None:
        """Confirm the leases of ``inherited``. If they are gone, lease what a poll gets, once there
        is something."""
        key = poll.worker, poll.claim
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        has_ended = True
        try:
            while self._requests.is_last(key, request):
                this_try = self._claiming[key] = replace(
                    poll, room=dict(poll.room), result=loop.create_future()
                )
                instances = inherited or await self._picked(this_try, until_s)
                if not instances:
                    return
                granting = self._grant(this_try, instances)
                try:
                    has_ended = False
                    is_over = await asyncio.shield(granting) or self._is_stopping
                finally:
                    has_ended = granting.done()
                    if not has_ended:
                        # It continues without its caller. A repetition waits for its end.
                        self._requests.resume(key, request)
                        granting.add_done_callback(lambda _: self._finish(poll, request))
                if is_over or self._confirmed(key):
                    return
                if inherited:
                    inherited = ()
                    self._polls.note_request(poll.worker)  # it came after the leases were lost
        finally:
            if has_ended:
                self._end(poll)

    def _end(self, poll: StepPoll) -> None:
        self._claiming.pop((poll.worker, poll.claim), None)
        poll.finished.set_result(None)

    def _finish(self, poll: StepPoll, request: object) -> None:
        self._end(poll)
        self._leave((poll.worker, poll.claim), request)

    async def _picked(self, poll: StepPoll, until_s: float) -> list[str]:
        """The instances that a poll gets; it waits for one until ``until_s``."""
        picks = self._polls.pick(poll)
        left_s = until_s - asyncio.get_running_loop().time()
        if not picks and left_s > 0:
            try:
                picks = await self._polls.wait(poll, left_s)
            except asyncio.CancelledError:
                if poll.result.done():
                    self._give_back(_instances(poll.result.result()))
                raise
        return _instances(picks)

    def _grant(self, poll: StepPoll, instances: Sequence[str]) -> asyncio.Future[bool]:
        """Send a claim for each; return whether the worker has one of the instances now.

        Raises:
            Problem: 503: It has none, and an instance did not answer, or failed by a fault.
        """

        async def grant() -> bool:
            try:
                answers = await asyncio.gather(
                    *(self._claim_one(poll, instance) for instance in instances),
                    return_exceptions=True,
                )
            finally:
                self._give_back(instances)
            problems = [answer for answer in answers if isinstance(answer, BaseException)]
            has_lease = any(
                isinstance(answer, LinearAnswer) and answer.tag == "Claimed" for answer in answers
            )
            if problems and not has_lease:
                raise _for_a_claim(problems[0])
            return has_lease

        self._reserved.update(instances)
        for instance in instances:
            self._ready.put(instance, None)
        granting = asyncio.ensure_future(grant())
        granting.add_done_callback(_seen)
        return granting

    def _give_back(self, instances: Sequence[str]) -> None:
        """Let others claim these, as far as they still can be claimed."""
        state = self._services.follower.state
        for instance in instances:
            self._reserved.discard(instance)
            self._look_at((LINEAR, encode(instance)), state)

    async def _claim_one(self, poll: StepPoll, instance: str) -> LinearAnswer:
        answer = await self.ask(
            CLAIM,
            {
                "instance": instance,
                "worker": poll.worker,
                "claim": poll.claim,
                "lease": poll.lease_ns,
            },
        )
        if answer.tag == "Claimed":
            # The world takes events of an earlier front before those of this one.
            self._inherited.discard(instance)
        return answer

    # Leases and results

    async def heartbeat(
        self, items: Sequence[Body], body: Body, token: ScopedToken
    ) -> list[dict[str, Any]]:
        """Extend leases; one answer for each item."""
        lease_ns = body["lease_ms"] * _MS if "lease_ms" in body else None
        return await self._answer_items(
            items, body, token, lambda item: self._prolong(item, lease_ns)
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
        answers = await answer_each(items, lambda item: act({**item, "worker": worker}))
        self._polls.note_request(worker)
        return answers

    async def _prolong(self, item: Body, lease_ns: int | None) -> dict[str, Any]:
        instance, seq = task_place(item["task"])
        lease = self._leases.get(instance)
        if lease is not None and (lease.worker, lease.seq, lease.epoch) == (
            item["worker"], seq, item["epoch"],
        ):  # fmt: skip
            self._prolonged.add(instance)
        reason = await self._extend(item, lease_ns)
        state = self._state(instance)
        if reason or state is None or not _is_at(state, seq, item["epoch"]):
            # The lease may be over by now, and another one may have begun.
            reason = reason or self._known_refusal(instance, seq, item["epoch"])
            return {"answer": "canceled" if reason == _CANCELED else "lost"}
        return {"answer": "leased", "lease_until_ns": current_row(state)["locked_until"]}

    async def _extend(self, item: Body, lease_ns: int | None) -> str:
        """Set the end of a lease. Return why its instance refuses that; empty if it does not."""
        instance, seq = task_place(item["task"])
        reason = self._known_refusal(instance, seq, item["epoch"])
        if not reason:
            lease_fields = _lease_fields(item, instance, seq)
            reason = (await self.ask(EXTEND, {**lease_fields, "lease": lease_ns})).reason
        return reason

    async def _release(self, item: Body) -> dict[str, Any]:
        instance, _ = task_place(item["task"])
        lease = self._leases.get(instance)
        if await self._extend(item, _RELEASED_NS):
            return {"answer": "lost"}
        # Another claim may have the plan step by now.
        if lease is not None and self._leases.get(instance) == lease:
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
        """As ``ask_instance``."""
        return await ask_instance(self._services, schema, value)

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


def _for_a_claim(problem: BaseException) -> BaseException:
    """Why a claim gets nothing. Its worker has made no mistake if an instance refuses an event."""
    if isinstance(problem, Problem) and problem.status < 500:
        return Problem(503, "no_answer", str(problem), retry_after_s=1)
    return problem


def _seen(granting: asyncio.Future[bool]) -> None:
    """Its caller may be gone: then no one else reads the problem."""
    if not granting.cancelled():
        granting.exception()


def _check_scope(token: ScopedToken) -> None:
    if not token.allows("work", LINEAR):
        raise Problem(
            403, "token_does_not_allow", f"the token {token.name} does not allow work:{LINEAR}"
        )


def _held_by(state: LinearState, row: Mapping[str, Any]) -> _StepLease | None:
    if row["claim"] is None:
        return None
    return _StepLease(row["locked_by"], row["claim"], state["current_step_seq"], row["epoch"])


def _instances(picks: Sequence[Claimable]) -> list[str]:
    return [pick.instance for pick in picks]


def _is_at(state: LinearState, seq: int, epoch: int) -> bool:
    """Whether this claim of a plan step is the last one, and has its lease."""
    if status_of(state) != RUNNING or state["current_step_seq"] != seq:
        return False
    row = current_row(state)
    return row["epoch"] == epoch and row["locked_until"] is not None


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
