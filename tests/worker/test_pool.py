"""Tasks find their executor by effect; the pool checks the assignment at start (X-7 to X-11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from aos.core.decide.answers import Answer, Rule
from aos.errors import BadUsage
from aos.host.executors.pool import Coverage, Pool
from aos.host.executors.task import LEASE_LOOK_S, ExecutorStats, Halted, Task, WorkJournal
from aos.host.executors.timer import TimerExecutor
from aos.manifest.effective import Effective
from aos.manifest.keys import key_text
from aos.values.digests import Hash
from tests.answers import TAKEN, refused
from tests.worker.stage import PRESENT, Attempt, Journal, effective, intent_of, task


class Actor:
    """An executor that writes down what it is told."""

    def __init__(
        self,
        name: str,
        *effects: str,
        signer: tuple[str, bytes] | None = None,
        late: tuple[str, ...] = (),
        fails: bool = False,
        hangs: bool = False,
    ) -> None:
        self.name = name
        self.effects = frozenset(effects)
        self.signer = signer
        self.heard: list[object] = []
        self._late = late
        self._fails = fails
        self._hangs = hangs
        self.on_stranded: Callable[[], None] = lambda: None
        self.left: dict[Hash, Task] = {}

    async def start(self, _journal: WorkJournal) -> None:
        self.heard.append("start")
        if self._fails:
            raise BadUsage("it cannot start")
        if self._hangs:
            await asyncio.sleep(600)
        self.effects |= frozenset(self._late)

    def use(self, _effective: Effective) -> None:
        self.heard.append("use")

    def publish(self, tasks: Sequence[Task]) -> None:
        self.heard.append([each.opened_seq for each in tasks])

    def cancel(self, intents: Sequence[Hash]) -> None:
        self.heard.append(tuple(intents))

    async def stop(self) -> None:
        self.heard.append("stop")

    def stats(self) -> ExecutorStats:
        return ExecutorStats(running=1, queued=2, settled=3)

    def halted(self) -> Mapping[Hash, Halted]:
        return {}

    def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        return [intent for intent in intents if self.left.pop(intent, None) is not None]

    def stranded(self) -> Mapping[Hash, Task]:
        return self.left


journal = Journal()
ALL = tuple(PRESENT)


def test_tasks_go_to_the_executor_of_their_effect_in_their_order() -> None:
    async def scene() -> None:
        one, two = Actor("one", "test/echo@1"), Actor("two", late=("test/other@1",))
        pool = Pool([one, two])
        await pool.start(journal)
        pool.use(effective())
        pool.publish([task(1), task(2, "test/other@1"), task(3)])
        pool.cancel([intent_of(1)])
        await pool.stop()

        assert one.heard == ["start", "use", [1, 3], (intent_of(1),), "stop"]
        assert two.heard == ["start", "use", [2], (intent_of(1),), "stop"]
        assert pool.stats()["two"] == ExecutorStats(running=1, queued=2, settled=3)

    asyncio.run(scene())


def test_no_task_is_handed_out_without_the_lease() -> None:  # CL-89
    """It waits for the lease; a canceled one goes to its executor, which settles it."""

    async def scene() -> None:
        holds_lease = False
        one = Actor("one", "test/echo@1")
        pool = Pool([one, TimerExecutor()], holds_lease=lambda: holds_lease)
        await pool.start(journal)
        pool.use(effective())
        pool.publish([task(1), task(2), task(3)])
        pool.publish([task(4)])
        pool.settled([intent_of(3)])
        pool.cancel([intent_of(2)])
        await asyncio.sleep(3 * LEASE_LOOK_S)
        assert one.heard == ["start", "use", [2], (intent_of(2),)]

        holds_lease = True
        await asyncio.sleep(3 * LEASE_LOOK_S)
        assert one.heard[4:] == [[1, 4]]
        pool.publish([task(5)])
        assert one.heard[5:] == [[5]]
        await pool.stop()

    asyncio.run(scene())


def test_a_pool_that_stops_hands_out_none_of_the_tasks_that_wait_for_the_lease() -> None:  # CL-89
    async def scene() -> None:
        one = Actor("one", "test/echo@1")
        pool = Pool([one], holds_lease=lambda: False)
        await pool.start(journal)
        pool.publish([task(1)])
        await pool.stop()
        await asyncio.sleep(2 * LEASE_LOOK_S)
        assert one.heard == ["start", "stop"]

    asyncio.run(scene())


def test_two_executors_of_one_effect_are_refused() -> None:
    with pytest.raises(BadUsage, match="test/echo@1 is run by two executors, one and two"):
        Pool([Actor("one", "test/echo@1"), Actor("two", "test/echo@1")])


def test_two_executors_of_one_effect_are_refused_also_when_that_shows_at_the_start() -> None:
    async def scene() -> list[object]:
        two = Actor("two", late=("test/echo@1",))
        with pytest.raises(BadUsage, match="test/echo@1 is run by two executors, one and two"):
            await Pool([Actor("one", "test/echo@1"), two]).start(journal)
        return two.heard

    assert asyncio.run(scene())[-1] == "stop"


def test_when_one_cannot_start_none_is_left_running() -> None:
    async def scene() -> None:
        actors = [Actor("slow", hangs=True), Actor("bad", fails=True), Actor("good")]
        with pytest.raises(BadUsage, match="it cannot start"):
            await asyncio.wait_for(Pool(actors).start(journal), 60)
        assert [each.heard for each in actors] == [["start", "stop"]] * 3

    asyncio.run(scene())


def test_a_task_without_an_executor_waits_and_is_told_of_once_an_effect() -> None:
    """X-8."""
    lines: list[str] = []
    woken: list[int] = []

    async def scene() -> None:
        pool = Pool(
            [Actor("one", "test/echo@1")],
            report=lines.append,
            on_waiting=lambda: woken.append(1),
        )
        await pool.start(journal)
        pool.publish([task(n, "test/other@1") for n in (1, 2)])
        pool.publish([task(3, "test/quick@1")])
        assert set(pool.waiting) == {intent_of(n) for n in (1, 2, 3)}
        assert pool.waiting_by_effect() == {"test/other@1": 2, "test/quick@1": 1}
        pool.cancel([intent_of(1)])
        assert set(pool.waiting) == {intent_of(n) for n in (2, 3)}

    asyncio.run(scene())
    assert lines == [
        f"effect test/{name}@1 is waiting for an executor: its intents stay open until the world "
        "runs with one (--executors MODULE:ATTR)"
        for name in ("other", "quick")
    ]
    assert len(woken) == 3


def test_a_task_that_its_executor_gives_up_waits_too() -> None:
    woken: list[int] = []
    actor = Actor("one", "test/echo@1")
    pool = Pool([actor, TimerExecutor()], on_waiting=lambda: woken.append(1))
    actor.left[intent_of(1)] = task(1)

    actor.on_stranded()

    assert woken == [1]
    assert set(pool.waiting) == {intent_of(1)}
    assert pool.waiting_by_effect() == {"test/echo@1": 1}


@pytest.mark.parametrize("verdict", [TAKEN, refused(Rule.ATTEMPT_IS_OLD)])
def test_an_at_most_once_task_is_handed_over_once_its_attempt_is_journaled(verdict: Answer) -> None:
    """X-14."""
    lines: list[str] = []

    async def scene() -> None:
        gate = asyncio.Event()

        async def answer(attempt: Attempt) -> Answer:
            await gate.wait()
            return verdict

        journal = Journal(attempt=answer)
        actor = Actor("one", *ALL)
        pool = Pool([actor], report=lines.append)
        await pool.start(journal)
        pool.publish([task(1, "test/once@1"), task(2), task(3, "test/once@1")])
        pool.publish([task(1, "test/once@1")])
        await asyncio.sleep(0.01)
        assert actor.heard == ["start", [2]]

        pool.cancel([intent_of(3)])
        gate.set()
        await asyncio.sleep(0.01)
        await pool.stop()

        assert {each[:3] for each in journal.attempts} == {
            ("begun", intent_of(number), 1) for number in (1, 3)
        }
        passed: list[object] = [[1]] if verdict is TAKEN else []
        assert actor.heard == ["start", [2], (intent_of(3),), *passed, "stop"]
        assert set(pool.waiting) == (set() if passed else {intent_of(1)})

    asyncio.run(scene())
    assert len(lines) == (0 if verdict is TAKEN else 2)
    assert all("attempt 1 was refused: attempt_is_old: " in line for line in lines)


def test_an_executor_that_journals_attempts_itself_gets_its_tasks_at_once() -> None:
    class Scribe(Actor):
        journals_attempts = True

    async def scene() -> list[object]:
        scribe = Scribe("one", *ALL)
        pool = Pool([scribe])
        await pool.start(journal)
        pool.publish([task(1, "test/once@1")])
        return scribe.heard

    assert asyncio.run(scene()) == ["start", [1]]


def test_an_executor_that_fails_with_a_task_that_was_journaled_is_told_of() -> None:
    problems: list[Exception] = []

    class Broken(Actor):
        def publish(self, tasks: Sequence[Task]) -> None:
            raise ZeroDivisionError(len(tasks))

    async def scene() -> None:
        pool = Pool([Broken("one", *ALL)], failed=problems.append)
        await pool.start(journal)
        pool.publish([task(1, "test/once@1")])
        await asyncio.sleep(0.01)
        await pool.stop()

    asyncio.run(scene())
    assert [type(each) for each in problems] == [ZeroDivisionError]


def test_an_effect_that_the_core_answers_itself_needs_no_executor_and_waits_for_none() -> None:
    """X-9a."""
    cancel = effective().effects["sys/effect.cancel@1"]
    # As similar as a misspelling, but no executor is meant to run this one.
    pool = Pool([Actor("one", *ALL, "syz/effect.cancel@1")])

    coverage = pool.use(effective())
    pool.publish([replace(task(1), effect=cancel)])

    assert cancel.name not in coverage.unserved
    assert coverage.unused == ("syz/effect.cancel@1",)
    assert pool.waiting == {}


def test_an_effect_without_an_executor_and_one_without_a_definition_are_reported() -> None:
    pool = Pool([Actor("one", *ALL, "acme/unrelated@1")])

    assert pool.check(effective().effects) == Coverage(
        unserved=("sys/blob.get@1", "sys/blob.put@1", "sys/http.request@1", "sys/timer.set@1"),
        unused=("acme/unrelated@1",),
    )


def test_a_misspelt_effect_is_an_error_with_the_name_that_was_meant() -> None:
    """X-9."""
    pool = Pool([Actor("one", "test/ecoh@1")])

    with pytest.raises(BadUsage) as caught:
        pool.use(effective())

    assert str(caught.value) == (
        "executor one runs test/ecoh@1, which the manifest does not define "
        "(did you mean test/echo@1?)"
    )


def test_an_older_version_next_to_the_defined_one_is_no_error() -> None:
    coverage = Pool([Actor("one", "test/echo@1", "test/echo@2")]).check(effective().effects)

    assert coverage.unused == ("test/echo@2",)


KEY = bytes(31) + b"\1"


@pytest.mark.parametrize(
    ("executors", "signer", "problem"),
    [
        (None, None, None),
        (None, ("shop", KEY), "the manifest lists no executors"),
        ("shop", ("shop", KEY), None),
        ("shop", ("stop", KEY), "manifest.executors does not name stop for it"),
        ("shop", None, "manifest.executors does not name node for it"),
        ("other key", ("shop", KEY), "manifest.executors gives shop another public key"),
    ],
)
def test_receipts_that_the_core_would_refuse_are_told_of_at_the_start(
    executors: str | None, signer: tuple[str, bytes] | None, problem: str | None
) -> None:
    """X-10."""
    from nacl.signing import SigningKey

    right, other = (bytes(SigningKey(bytes([n]) * 32).verify_key) for n in (1, 2))
    if signer is not None:
        signer = (signer[0], right)
    listed = ""
    if executors is not None:
        key = key_text(right if executors == "shop" else other)
        listed = json.dumps([{"name": "shop", "public_key": key, "effects": ["test/echo@1"]}])
    lines: list[str] = []

    Pool([Actor("x", "test/echo@1", signer=signer)], report=lines.append).use(
        effective(executors=listed)
    )

    assert len(lines) == (problem is not None)
    if problem is not None:
        assert lines[0].startswith("receipts for test/echo@1 will be refused: they are signed by ")
        assert lines[0].endswith(f", and {problem}")
