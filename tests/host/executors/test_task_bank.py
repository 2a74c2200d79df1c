"""The task bank against a naive model: which open task is first, within lanes and limits (X-54,
N-51, N-64, N-65)."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aos.host.executors.limiter import Limit, Limiter
from aos.host.executors.task_bank import NO_SIGNERS, BankTask, Signers, TaskBank
from tests.tools import long_form

EFFECT = "test/echo@1"
OTHER = "test/other@1"
CONCURRENCY = 2
ANN: Signers = frozenset({("ann", b"a")})
BOB: Signers = frozenset({("bob", b"b")})


def open_task(
    number: int,
    *,
    effect: str = EFFECT,
    lane: bytes | None = None,
    group: bytes | None = None,
    signers: Signers = NO_SIGNERS,
) -> BankTask:
    return BankTask(
        effect, (number,), lane, None if group is None else (effect, group), signers=signers
    )


def bank_of(limit: Limit | None = None) -> TaskBank[BankTask]:
    return TaskBank(Limiter({} if limit is None else {EFFECT: limit}))


def offered(bank: TaskBank[BankTask], *tasks: BankTask) -> None:
    for task in tasks:
        bank.open(task)
        bank.offer(task)


def given_out(bank: TaskBank[BankTask], now_ns: int = 0) -> Iterator[int]:
    """The numbers of all tasks that may be given out now, which then have a place."""
    bank.wake(now_ns)
    while (task := bank.first(EFFECT, now_ns)) is not None:
        bank.begin(task, now_ns)
        yield task.order[0]


def test_a_task_that_comes_back_has_its_place_in_the_order_again() -> None:
    bank = bank_of()
    tasks = [open_task(number) for number in range(6)]
    offered(bank, *tasks)
    assert list(given_out(bank)) == [0, 1, 2, 3, 4, 5]

    for number in (4, 1, 3):
        bank.leave(tasks[number])
        bank.offer(tasks[number])
    offered(bank, open_task(6))

    assert list(given_out(bank)) == [1, 3, 4, 6]
    assert (bank.places[EFFECT], len(bank)) == (7, 0)


def test_a_task_that_is_withdrawn_and_offered_again_is_given_out_once() -> None:
    bank = bank_of()
    tasks = [open_task(number) for number in range(3)]
    offered(bank, *tasks)
    bank.withdraw(tasks[1])
    assert bank.first(EFFECT, 0) is tasks[0]
    bank.withdraw(tasks[0])
    assert bank.first(EFFECT, 0) is tasks[2]

    bank.offer(tasks[0])
    bank.offer(tasks[1])

    assert len(bank) == 3
    assert list(given_out(bank)) == [0, 1, 2]


def test_a_task_of_another_signer_is_passed_over_and_reported() -> None:
    """N-63"""
    bank = bank_of()
    of_ann, of_bob = open_task(1, signers=ANN), open_task(2, signers=BOB)
    offered(bank, of_ann, of_bob)

    def bob_may_sign(signers: Signers) -> bool:
        return signers == BOB

    assert bank.first(EFFECT, 0) is of_ann
    assert bank.first(EFFECT, 0, bob_may_sign) is of_bob
    assert list(bank.unsigned(EFFECT, 0, bob_may_sign)) == [of_ann]


def test_a_task_without_a_queue_may_have_a_place() -> None:
    """One that a worker has had since before a start, or that runs alone."""
    bank = bank_of(Limit(concurrency=1))
    earlier, later = open_task(1, group=b""), open_task(2, group=b"")
    bank.open(earlier)
    bank.resume(earlier)
    offered(bank, later)
    assert bank.first(EFFECT, 0) is None

    bank.leave(earlier)
    bank.leave(earlier)

    assert list(given_out(bank)) == [2]
    assert bank.places[EFFECT] == 1


def test_a_rate_delays_no_task_of_other_values() -> None:
    """N-65"""
    bank = bank_of(Limit(interval_ns=100, by=("n",)))
    offered(bank, *(open_task(number, group=b"%d" % (number // 3)) for number in range(6)))

    assert list(given_out(bank, 1_000)) == [0, 3]
    assert bank.due_ns() == 1_100
    assert list(given_out(bank, 1_099)) == []
    assert list(given_out(bank, 1_100)) == [1, 4]


def test_a_limit_that_is_free_again_serves_each_signer() -> None:
    """N-63, N-65"""
    bank = bank_of(Limit(concurrency=1))
    first, *others = (
        open_task(number, group=b"", signers=signers)
        for number, signers in enumerate((ANN, ANN, BOB))
    )
    offered(bank, first, *others)
    bank.first(EFFECT, 0)
    bank.begin(first, 0)
    assert bank.first(EFFECT, 0) is None

    bank.leave(first)

    of_ann, of_bob = others
    assert bank.first(EFFECT, 0, lambda signers: signers == BOB) is of_bob
    bank.begin(of_bob, 0)
    assert bank.first(EFFECT, 0) is None
    bank.leave(of_bob)
    assert bank.first(EFFECT, 0) is of_ann


def test_a_task_that_is_withdrawn_leaves_its_turn_to_the_next_of_its_limit() -> None:
    """N-65"""
    bank = bank_of(Limit(concurrency=1))
    first, second, third = (open_task(number, group=b"") for number in range(3))
    offered(bank, first, second, third)
    assert list(given_out(bank)) == [0]

    bank.leave(first)
    bank.withdraw(second)

    assert bank.first(EFFECT, 0) is third


class BankMachine(RuleBasedStateMachine):
    """Tasks of two effects, three lanes and two groups, offered and given out in any order."""

    def __init__(self) -> None:
        super().__init__()
        limits = {EFFECT: Limit(concurrency=CONCURRENCY, by=("n",))}
        self.bank: TaskBank[BankTask] = TaskBank(Limiter(limits))
        self.tasks: list[BankTask] = []
        self.offered: set[BankTask] = set()
        self.held: set[BankTask] = set()
        self.count = 0

    def chosen(self, choice: int) -> BankTask:
        return self.tasks[choice % len(self.tasks)]

    def expected(self, effect: str, signers: Signers | None) -> BankTask | None:
        for task in self.tasks:
            is_first = task.lane is None or task is next(
                other for other in self.tasks if other.lane == task.lane
            )
            places = sum(other.group == task.group for other in self.held)
            has_room = task.group is None or places < CONCURRENCY
            may_sign = signers in (None, task.signers)
            if (
                task in self.offered
                and task.effect == effect
                and is_first
                and has_room
                and may_sign
            ):
                return task
        return None

    @rule(
        effect=st.sampled_from([EFFECT, OTHER]),
        lane=st.sampled_from([None, None, b"a", b"b"]),
        group=st.sampled_from([b"1", b"2"]),
        signers=st.sampled_from([ANN, BOB]),
    )
    def a_task_is_opened(
        self, effect: str, lane: bytes | None, group: bytes, signers: Signers
    ) -> None:
        task = open_task(
            self.count,
            effect=effect,
            lane=None if lane is None else lane + effect.encode(),
            group=group if effect == EFFECT else None,
            signers=signers,
        )
        self.count += 1
        self.tasks.append(task)
        self.offered.add(task)
        offered(self.bank, task)

    @rule(effect=st.sampled_from([EFFECT, OTHER]), signers=st.sampled_from([None, None, ANN, BOB]))
    def the_first_is_given_out(self, effect: str, signers: Signers | None) -> None:
        may_sign = None if signers is None else signers.__eq__
        task = self.bank.first(effect, 0, may_sign)
        assert task is self.expected(effect, signers)
        if task is not None:
            self.bank.begin(task, 0)
            self.offered.discard(task)
            self.held.add(task)

    @precondition(lambda self: self.tasks)
    @rule(choice=st.integers(0, 50))
    def a_task_is_withdrawn(self, choice: int) -> None:
        task = self.chosen(choice)
        self.bank.withdraw(task)
        self.offered.discard(task)

    @precondition(lambda self: self.tasks)
    @rule(choice=st.integers(0, 50), has_begun=st.booleans())
    def a_task_comes_back(self, choice: int, has_begun: bool) -> None:
        task = self.chosen(choice)
        self.bank.leave(task, has_begun=has_begun)
        self.bank.offer(task)
        self.held.discard(task)
        self.offered.add(task)

    @precondition(lambda self: self.tasks)
    @rule(choice=st.integers(0, 50))
    def a_task_ends(self, choice: int) -> None:
        task = self.chosen(choice)
        self.bank.leave(task)
        self.bank.close(task)
        self.held.discard(task)
        self.offered.discard(task)
        self.tasks.remove(task)

    @invariant()
    def the_counts_fit(self) -> None:
        assert len(self.bank) == len(self.offered)
        assert self.bank.places.total() == len(self.held)


BankMachine.TestCase.settings = settings(
    max_examples=1_000 if long_form() else 30,
    stateful_step_count=60 if long_form() else 40,
    deadline=None,
)

TestBank = BankMachine.TestCase
