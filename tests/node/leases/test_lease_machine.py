"""Leases against a model: claims, results, crashes and clocks in any order (N-52 to N-65)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aos.host.executors.limiter import Limit, Limiter
from aos.host.executors.task_bank import Signers
from aos.node.leases.leases import (
    START_NS,
    Leases,
    Lose,
    Moment,
    OpenTask,
    Park,
    Pick,
    Standing,
    TaskPlace,
)
from aos.node.leases.row import LeaseHolder, RetryPolicy, Row
from aos.values.digests import Hash, content_hash
from tests.node.leases.model import Given, Model, ModelTask
from tests.tools import long_form
from tests.worker.stage import effective

SECOND = 10**9
LEASE_NS = 30 * SECOND
CONCURRENCY = 3
EFFECTS = {False: "test/retried@1", True: "test/once@1"}
WORKERS = (LeaseHolder("ann", "t"), LeaseHolder("bob", "t"), LeaseHolder("ann", "other"))


class Everything:
    """A claim for all effects."""

    def effects(self, offered: Iterable[str]) -> Iterable[str]:
        return list(offered)

    def may_sign(self, signers: Signers) -> bool:  # noqa: ARG002  # of the protocol
        return True


def intent_of(number: int) -> Hash:
    return content_hash(b"%d" % number)


class LeaseMachine(RuleBasedStateMachine):
    """The node's leases, a journal, a table on a disk, and workers that remember what they got."""

    @initialize()
    def begin(self) -> None:
        self.model = Model(concurrency=CONCURRENCY)
        self.disk: dict[Hash, Row] = {}
        self.since = 0
        self.wall = 1_000_000 * SECOND
        self.steady_offset = 1_000_000 * SECOND
        self.claims = 0
        self.start()

    def start(self) -> None:
        """A start of the front: it knows the journal and the rows on the disk, nothing else."""
        limit = Limit(concurrency=CONCURRENCY, interval_ns=SECOND, burst=2)
        limiter = Limiter(dict.fromkeys(EFFECTS.values(), limit))
        self.leases = Leases(self.disk, since=self.since, limiter=limiter)
        for task in self.model.tasks:
            if task.is_open:
                self.open(task)
        self.leases.forget_unknown(self.moment)
        self.sync()

    def open(self, task: ModelTask) -> None:
        name = EFFECTS[task.is_once]
        lane = None if task.lane is None else f"{name}{task.lane}".encode()
        open_task = OpenTask(
            intent=intent_of(task.number),
            effect=name,
            order=(task.number, 0),
            is_once=task.is_once,
            lane=lane,
            group=(name, b""),
        )
        halt = "parked" if task.is_halted else None
        self.leases.open(
            open_task,
            effective().effects[name],
            attempt=task.journaled,
            halt=halt,  # type: ignore[arg-type]
            now=self.moment,
        )

    @property
    def moment(self) -> Moment:
        return Moment(self.model.now + self.steady_offset, self.wall)

    def sync(self) -> None:
        """Write the changed rows, and journal what the leases want journaled."""
        for intent, row in self.leases.changes.items():
            if row is None:
                self.disk.pop(intent, None)
            else:
                self.disk[intent] = Row.from_bytes(row.to_bytes())
        self.leases.changes.clear()
        while self.leases.actions:
            action = self.leases.actions.pop()
            task = self.task(action.intent)
            match action:
                case Lose():
                    assert task.is_once
                    task.is_open = False
                    self.leases.end(action.intent)
                case Park():
                    task.is_halted = True
                    self.leases.halted(action.intent, "parked")
        for intent, row in self.leases.changes.items():
            if row is None:
                self.disk.pop(intent, None)

    def task(self, intent: Hash) -> ModelTask:
        return next(each for each in self.model.tasks if intent_of(each.number) == intent)

    # The journal and the clocks

    @rule(lane=st.sampled_from([None, None, "a", "b"]), is_once=st.booleans())
    def a_step_opens_a_task(self, lane: str | None, is_once: bool) -> None:
        lane = None if lane is None else f"{lane}{is_once}"
        task = ModelTask(len(self.model.tasks) + 1, lane, is_once, journaled=0 if is_once else 1)
        self.model.tasks.append(task)
        self.open(task)

    @rule(seconds=st.integers(0, 40))
    def time_passes(self, seconds: int) -> None:
        self.model.now += seconds * SECOND
        self.wall += seconds * SECOND
        self.leases.expire(self.moment)
        self.sync()

    @rule(days=st.sampled_from([-1, 1]))
    def the_wall_clock_jumps(self, days: int) -> None:
        self.wall += days * 86_400 * SECOND
        self.leases.expire(self.moment)
        self.sync()

    @rule(steady=st.integers(-5, 5), is_cleared=st.booleans())
    def the_front_is_killed_and_starts(self, steady: int, is_cleared: bool) -> None:
        """A cleared table is one that was damaged, deleted or copied."""
        self.steady_offset += steady * 1_000 * SECOND
        if is_cleared:
            self.disk = {}
            self.since = len(self.model.tasks)
        self.model.restart(is_cleared=is_cleared, grace=START_NS)
        self.start()

    # Workers

    @rule(
        worker=st.sampled_from(WORKERS),
        most=st.integers(1, 3),
        crash=st.sampled_from([None, None, None, "reserved", "begun", "granted", "synced"]),
        is_granted=st.booleans(),
    )
    def a_worker_claims(
        self, worker: LeaseHolder, most: int, crash: str | None, is_granted: bool
    ) -> None:
        """The front may be killed at each point of a claim, and a journal may refuse an attempt."""
        self.leases.expire(self.moment)
        self.sync()
        self.claims += 1
        claim = str(self.claims)
        picks: list[Pick] = []
        while len(picks) < most:
            pick = self.leases.take(Everything(), self.moment)
            if pick is None:
                break
            picks.append(pick)
        got: list[Pick] = []
        stored: list[Pick] = []
        """Those of ``got`` whose leases are on the disk: a repetition of the claim gets them."""
        for pick in picks:
            task = self.task(pick.intent)
            self.model.check_lane(task)
            if pick.must_begin:
                assert pick.epoch == task.journaled + 1
                if task.is_once:
                    self.leases.reserve(pick)
                    self.sync()
                    stored = list(got)
                    if crash == "reserved":
                        self.give_out(worker, stored)
                        self.the_front_is_killed_and_starts(0, False)
                        return
                if not is_granted:
                    self.leases.give_back(pick)
                    continue
                task.journaled = pick.epoch
                if crash == "begun":
                    self.give_out(worker, stored)
                    self.the_front_is_killed_and_starts(0, False)
                    return
                self.leases.begun(pick.intent, pick.epoch)
            if self.leases.grant(
                pick, worker, claim, lease_ns=LEASE_NS, policy=RetryPolicy(), now=self.moment
            ):
                got.append(pick)
        if crash == "granted":
            self.give_out(worker, stored)
            self.the_front_is_killed_and_starts(0, False)
            return
        self.sync()
        self.give_out(worker, got)
        if crash == "synced":
            self.the_front_is_killed_and_starts(0, False)
            found = self.leases.claimed(worker, claim)
            assert found == sorted(
                ((each.intent, each.epoch) for each in got),
                key=lambda each: self.task(each[0]).number,
            )
        else:
            self.leases.offers.fresh.clear()

    def give_out(self, worker: LeaseHolder, got: list[Pick]) -> None:
        for pick in got:
            task = self.task(pick.intent)
            task.next_given_is(pick.epoch, self.model.now)
            task.has_failed = False
            until = self.model.now + LEASE_NS
            task.given.append(Given(pick.epoch, worker, until))

    def some_given(self, choice: int) -> tuple[ModelTask, Given]:
        pairs = [(task, each) for task in self.model.tasks for each in task.given]
        return pairs[choice % len(pairs)]

    def has_given(self) -> bool:
        return any(task.given for task in self.model.tasks)

    @precondition(has_given)
    @rule(choice=st.integers(0, 200), is_forged=st.booleans())
    def a_worker_sends_a_result(self, choice: int, is_forged: bool) -> None:
        task, given = self.some_given(choice)
        holder = given.holder._replace(token="forged") if is_forged else given.holder
        intent = intent_of(task.number)
        standing = self.leases.standing(intent, given.epoch, holder)
        may_speak = task.speaker(given.epoch, holder)
        if standing is Standing.HOLDER:
            assert may_speak, "a stale receipt was taken"
            was_parked = task.is_halted
            self.leases.ending(intent)
            task.is_open = False
            self.leases.end(intent)
            self.sync()
            assert was_parked or intent not in self.disk
        elif not task.is_open:
            assert standing is Standing.GONE

    @precondition(has_given)
    @rule(choice=st.integers(0, 200))
    def the_journal_refuses_a_result(self, choice: int) -> None:
        task, given = self.some_given(choice)
        intent = intent_of(task.number)
        if self.leases.standing(intent, given.epoch, given.holder) is Standing.HOLDER:
            assert self.leases.ending(intent)
            self.leases.not_ended(intent, self.moment)
            self.leases.expire(self.moment)
            self.sync()

    @precondition(has_given)
    @rule(choice=st.integers(0, 200))
    def a_worker_reports_a_retryable_failure(self, choice: int) -> None:
        task, given = self.some_given(choice)
        intent = intent_of(task.number)
        if self.leases.standing(intent, given.epoch, given.holder) is not Standing.HOLDER:
            return
        assert task.speaker(given.epoch, given.holder)
        if self.leases.tasks[intent].task_place is TaskPlace.PARKED:
            return
        pause_ns = self.leases.failed(intent, "no answer", parks=False, now=self.moment)
        assert (pause_ns is None) or not task.is_once
        if pause_ns is not None:
            task.has_failed = True
            task.given[-1].until = self.model.now
        self.sync()

    @precondition(has_given)
    @rule(choice=st.integers(0, 200))
    def a_worker_sends_a_heartbeat(self, choice: int) -> None:
        task, given = self.some_given(choice)
        intent = intent_of(task.number)
        self.leases.expire(self.moment)
        row = self.leases.heartbeat(intent, given.epoch, given.holder, None, self.moment)
        self.sync()
        if row is not None:
            assert task.speaker(given.epoch, given.holder)
            task.given[-1].until = self.model.now + LEASE_NS
        elif task.is_open and task.speaker(given.epoch, given.holder):
            assert given.until <= self.model.now, "a valid lease was called lost"

    @precondition(has_given)
    @rule(choice=st.integers(0, 200), began=st.booleans())
    def a_worker_releases_a_task(self, choice: int, began: bool) -> None:
        task, given = self.some_given(choice)
        intent = intent_of(task.number)
        if self.leases.release(intent, given.epoch, given.holder, began=began, now=self.moment):
            last = task.given[-1]
            assert (last.epoch, last.holder) == (given.epoch, given.holder)
            last.until, last.is_unused = self.model.now, not began
        self.sync()

    @precondition(lambda self: bool(self.model.tasks))
    @rule(choice=st.integers(0, 200))
    def a_task_is_canceled(self, choice: int) -> None:
        task = self.model.tasks[choice % len(self.model.tasks)]
        task.is_open = False
        self.leases.end(intent_of(task.number))
        self.sync()

    @precondition(lambda self: bool(self.model.tasks))
    @rule(choice=st.integers(0, 200))
    def an_operator_retries_a_parked_task(self, choice: int) -> None:
        task = self.model.tasks[choice % len(self.model.tasks)]
        pick = self.leases.retry(intent_of(task.number))
        self.sync()
        if pick is not None:
            assert task.is_halted
            assert task.is_open
            task.journaled, task.is_halted = pick.epoch, False
            self.leases.begun(pick.intent, pick.epoch)

    @invariant()
    def the_limit_holds(self) -> None:
        for name in EFFECTS.values():
            held = [each for each in self.leases.leased() if each.task.effect == name]
            self.model.check_concurrency(len(held))

    def teardown(self) -> None:
        """Everything that is open and may run is offered in the end, and ends."""
        if not hasattr(self, "model"):
            return
        for _ in range(20 * (len(self.model.tasks) + 1)):
            waiting = [each for each in self.model.tasks if each.is_open and not each.is_halted]
            lanes = {each.lane for each in self.model.tasks if each.is_open and each.is_halted}
            waiting = [each for each in waiting if each.lane is None or each.lane not in lanes]
            if not waiting:
                return
            self.time_passes(31)
            self.a_worker_claims(WORKERS[0], 3, None, True)
            for task in self.model.tasks:
                if task.is_open and task.given and task.given[-1].until > self.model.now:
                    task.is_open = False
                    self.leases.end(intent_of(task.number))
                    self.sync()
        pytest.fail("a task was never offered")


LeaseMachine.TestCase.settings = settings(
    max_examples=400 if long_form() else 15,
    stateful_step_count=60 if long_form() else 40,
    deadline=None,
)

TestLeases = LeaseMachine.TestCase
