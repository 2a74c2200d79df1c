"""Results of workers on their way into the journal: settled, retried, halted or refused (N-57,
N-60)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aos.core.decide.answers import Admitted, Duplicate, Refusal
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import KernelReceipt, Receipt
from aos.core.journal.vocabulary import HaltPhase
from aos.errors import AosError
from aos.host.executors.task import Halted
from aos.node.leases.desk import Body, ScopedToken, WorkDesk, intent_of
from aos.node.leases.leases import Standing, TaskPlace
from aos.node.leases.results import (
    GONE_RULES,
    another_result,
    is_same,
    lease_is_over,
    read_result,
    refusal_problem,
)
from aos.node.leases.row import LeaseHolder
from aos.node.problems import Problem
from aos.values.digests import Hash
from aos.worker.outcome import Outcome

_ENDED: Final = ("settled", "duplicate", "abandoned")
"""Answers about tasks that have ended. Their rows are removed with the next group of changes: a
start finds them without a task, and forgets them."""


async def answer_each(
    items: Sequence[Body], answer: Callable[[Body], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The answers to items, or their problems, in the order of the items. All begin at once."""

    async def answer_one(item: Body) -> dict[str, Any]:
        try:
            return {"task": item["task"], **(await answer(item))}
        except Problem as problem:
            return {"task": item["task"], "problem": problem.document()}

    if len(items) == 1:  # most requests: it needs no task of the event loop
        return [await answer_one(items[0])]
    return await asyncio.gather(*map(answer_one, items))


class ResultDesk:
    """Takes results. Of one task, it takes one result at a time."""

    def __init__(self, desk: WorkDesk) -> None:
        self._desk = desk
        self._settling: dict[Hash, asyncio.Future[None]] = {}

    async def take(self, body: Body, token: ScopedToken) -> dict[str, Any]:
        """Take results of workers (N-57, N-60)."""
        holder = LeaseHolder(body["worker"], token.name)
        self._desk.leases.expire(self._desk.clock())
        answers = await answer_each(body["results"], lambda item: self._result(item, holder, token))
        self._desk.polls.note_request(holder)
        if all(answer.get("answer") in _ENDED for answer in answers):
            self._desk.flush()  # the receipts are durable, and no answer is about a row
        else:
            await self._desk.synced()
        return {"answers": answers}

    async def _result(self, item: Body, holder: LeaseHolder, token: ScopedToken) -> dict[str, Any]:
        intent = intent_of(item)
        while intent in self._settling:
            await asyncio.shield(self._settling[intent])
        standing = self._desk.leases.standing(intent, item["epoch"], holder)
        state = self._desk.state
        open_intent = state.intents.get(intent)
        if standing is Standing.GONE:
            return await self._late_result(item, intent, holder, token)
        if standing is not Standing.HOLDER or open_intent is None:
            left_ns = self._desk.leases.failed_before(
                intent, item["epoch"], holder, self._desk.clock()
            )
            if left_ns is not None and item["status"] in ("error", "timeout", "parked"):
                return self._retry_answer(left_ns)
            raise lease_is_over()
        outcome = read_result(item, intent, open_intent.effect, state.manifest)
        self._settling[intent] = asyncio.get_running_loop().create_future()
        try:
            return await self._dispose(outcome, intent)
        finally:
            self._settling.pop(intent).set_result(None)

    async def _dispose(self, outcome: Outcome, intent: Hash) -> dict[str, Any]:
        """Retry, halt or settle a task that the worker of the result has."""
        task_place = self._desk.leases.tasks[intent].task_place
        may_change = task_place in (TaskPlace.LEASED, TaskPlace.OFFERED, TaskPlace.PAUSED)
        failure = outcome.failure
        if failure is not None and outcome.may_be_retried:
            if not may_change:
                raise lease_is_over()
            parks = failure.end == "park"
            pause_ns = self._desk.leases.failed(
                intent, failure.problem, parks=parks, now=self._desk.clock()
            )
            if pause_ns is not None:
                return self._retry_answer(pause_ns)
        is_locked = self._desk.leases.ending(intent)
        try:
            if failure is not None and outcome.halts:
                phase: HaltPhase = "held" if failure.end == "hold" else "parked"
                if not is_locked:
                    raise lease_is_over()
                return await self._halt(
                    intent,
                    outcome.attempt,
                    Halted(phase, failure.code, failure.halt_problem),
                )
            return await self._settle(outcome)
        finally:
            self._desk.leases.not_ended(intent, self._desk.clock())
            self._desk.flush()

    def _retry_answer(self, pause_ns: int) -> dict[str, Any]:
        return {"answer": "retry", "retry_at_ns": self._desk.clock().wall_ns + pause_ns}

    async def _halt(self, intent: Hash, epoch: int, halted: Halted) -> dict[str, Any]:
        try:
            answer = await self._desk.link.answer(halted.of(intent, epoch))
        except AosError as problem:
            raise self._desk.unavailable(problem) from problem
        if isinstance(answer, Refusal):
            raise refusal_problem(answer)
        self._desk.leases.halted(intent, halted.phase)
        return {"answer": halted.phase}

    async def _settle(self, outcome: Outcome) -> dict[str, Any]:
        try:
            answer = await self._desk.link.answer(outcome)
        except AosError as problem:
            raise self._desk.unavailable(problem) from problem
        intent = outcome.intent
        match answer:
            case Admitted():
                self._desk.leases.end(intent)
                self._desk.leases.acknowledged(intent)
                is_late = answer.outcome == "abandoned"
                return {
                    "answer": "abandoned" if is_late else "settled",
                    "seq": answer.seq,
                    "outcome": answer.outcome or "",
                }
            case Duplicate():
                return {"answer": "duplicate", "seq": answer.seq}
            case Refusal(rule=rule) if rule in GONE_RULES:
                self._desk.leases.end(intent)
                self._desk.leases.acknowledged(intent)
                return await self._compared(outcome)
        assert isinstance(answer, Refusal), "only a stream frame is lost"
        raise refusal_problem(answer)

    async def _late_result(
        self, item: Body, intent: Hash, holder: LeaseHolder, token: ScopedToken
    ) -> dict[str, Any]:
        """A result of a task that is not open: its cell does not wait for it any more, or it is
        settled."""
        state = self._desk.state
        abandoned = state.abandoned.get(intent)
        if abandoned is not None:
            if not self._desk.leases.is_canceled(intent, item["epoch"], holder):
                raise lease_is_over()
            outcome = read_result(item, intent, abandoned.effect, state.manifest)
            if outcome.halts:
                raise lease_is_over()  # no cell waits for it, so there is nothing to run again
            return await self._settle(outcome)
        record = await asyncio.to_thread(self._receipt, intent)
        if record is None and intent in state.intents:
            raise lease_is_over()
        if record is None:
            raise Problem(404, "task_is_unknown", f"there is no task {item['task']}")
        if not token.allows("work", record.effect):
            detail = f"the token {token.name} does not allow work:{record.effect}"
            raise Problem(403, "token_does_not_allow", detail)
        self._desk.leases.acknowledged(intent)
        effect = None if state.manifest is None else state.manifest.effects.get(record.effect)
        if effect is None or not isinstance(record, Receipt):
            raise another_result()
        if not is_same(record, read_result(item, intent, effect, state.manifest)):
            raise another_result()
        return {"answer": "duplicate", "seq": record.seq}

    async def _compared(self, outcome: Outcome) -> dict[str, Any]:
        record = await asyncio.to_thread(self._receipt, outcome.intent)
        if record is None or not is_same(record, outcome):
            raise another_result()
        return {"answer": "duplicate", "seq": record.seq}

    def _receipt(self, intent: Hash) -> Receipt | KernelReceipt | None:
        """The record that settled an intent. It may be read from another thread."""
        store = self._desk.store()
        row = store.intent(intent)
        if row is None or row.settled_seq is None:
            return None
        try:
            frame = store.frame_at(row.settled_seq)
        except AosError:
            return None  # pruned
        if frame is None:
            return None
        record = from_bytes(frame.records[row.settled_seq - frame.header.first])
        return record if isinstance(record, Receipt | KernelReceipt) else None
