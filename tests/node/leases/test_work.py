"""The requests of ``/v1/work``, over a real kernel (N-51 to N-63)."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.records import Attempt
from aos.errors import Unavailable
from aos.host.executors.limiter import Limit
from aos.node.bodies import ClientGoneError
from aos.node.calls import Delivery
from aos.node.leases.row import LeaseHolder
from aos.node.leases.table import clear_table
from aos.node.node_settings import NodeSettings
from aos.node.problems import Problem
from tests.core.desk import log_of
from tests.node.leases.stage import ONCE, PAY, Connection, Stage, Token, play


def test_a_task_is_claimed_carried_out_and_settled(tmp_path: Path) -> None:
    """N-51, N-57."""

    async def scene(stage: Stage) -> None:
        stage.open("a", n=7)
        [task] = await stage.claim(lease_ms=10_000)
        assert task["task"] == stage.open_intents()[0]
        assert (task["effect"], task["epoch"], task["params"]) == (PAY, 1, {"n": 7})
        assert (task["workflow"], task["key"], task["issuer_ref"]) == ("t/desk@1", "k", "a")
        assert task["lease_until_ns"] == stage.clock.wall_ns + 10 * 10**9
        assert await stage.claim("bob") == []
        answer = await stage.result(task)
        assert (answer["answer"], answer["outcome"]) == ("settled", "delivered")
        assert log_of(stage.world, "k")[-1].startswith("t/pay@1 a ok")
        again = await stage.result(task)
        assert again == {"task": task["task"], "answer": "duplicate", "seq": answer["seq"]}
        other = await stage.result(task, payload={"ref": "another"})
        assert other["problem"]["rule"] == "receipt_intent_is_settled"

    stage = play(tmp_path, scene)
    assert stage.phases() == [], "the first attempt of this effect is not journaled"


def has_pending(stage: Stage) -> bool:
    """Whether the node has rows to write for which no request waits."""
    return stage.work._desk._syncing.has_pending


def test_a_result_is_answered_before_its_row_is_removed_and_a_start_forgets_the_row(
    tmp_path: Path,
) -> None:
    """N-54, N-57."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim()
        answer = await stage.result(task)
        assert answer["answer"] == "settled"
        assert has_pending(stage), "no one waits for the removal"

        # A kill: the row is on the disk, its task is not open.
        stage.work._desk._syncing._pending.clear()
        await stage.restart()

        assert [str(row.phase) for row in stage.work._desk._table.rows.values()] == ["Phase.LEASED"]
        assert await stage.claim("bob") == []
        assert await stage.beat(task) == "canceled"
        again = await stage.result(task)
        assert (again["answer"], again["seq"]) == ("duplicate", answer["seq"])
        stage.work._desk.write_rest()
        await stage.settle_down()
        assert not has_pending(stage)
        await stage.restart()
        assert not stage.work._desk._table.rows

    play(tmp_path, scene)


def test_a_claim_that_waits_gets_the_task_when_it_is_opened(tmp_path: Path) -> None:
    """N-51."""

    async def scene(stage: Stage) -> None:
        first = asyncio.ensure_future(stage.claim("ann", wait_ms=60_000))
        second = asyncio.ensure_future(stage.claim("bob", wait_ms=60_000, effects=[{"name": PAY}]))
        other = asyncio.ensure_future(stage.claim("eve", wait_ms=60_000, effects=[{"name": ONCE}]))
        await asyncio.sleep(0)
        assert stage.work.figures().polls == 3
        stage.open("a")
        assert [each["issuer_ref"] for each in await first] == ["a"]
        stage.open("b")
        assert [each["issuer_ref"] for each in await second] == ["b"]
        await stage.work.drain()
        assert await other == []
        with pytest.raises(Problem) as caught:
            await stage.claim("eve")
        assert (caught.value.status, caught.value.rule) == (503, "stopping")

    play(tmp_path, scene)


def test_workers_get_no_task_without_the_lease_of_a_replicated_world(tmp_path: Path) -> None:
    """CL-89."""

    async def scene(stage: Stage) -> None:
        holds_lease = False
        stage.work._desk.polls._holds_lease = lambda: holds_lease
        stage.open("a", "b")
        assert await stage.claim() == []
        waiting = asyncio.ensure_future(stage.claim("bob", wait_ms=60_000))
        await stage.work.tick()
        assert not waiting.done()

        holds_lease = True
        await stage.work.tick()
        assert [task["issuer_ref"] for task in await waiting] == ["a"]
        assert [task["issuer_ref"] for task in await stage.claim(claim="d")] == ["b"]

    play(tmp_path, scene)


def test_a_claim_whose_caller_is_gone_takes_nothing(tmp_path: Path) -> None:
    """N-52: while it waits, and while its tasks become durable."""

    async def scene(stage: Stage) -> None:
        gone = asyncio.ensure_future(stage.claim("ann", wait_ms=60_000))
        await asyncio.sleep(0)
        stage.open("a")
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        [task] = await stage.claim("bob", "1")
        assert (task["issuer_ref"], task["epoch"]) == ("a", 1)

        stage.open("b", effect=ONCE)
        stage.link.may_answer.clear()
        gone = asyncio.ensure_future(stage.claim("ann", "2"))
        await stage.link.is_asked.wait()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        stage.link.may_answer.set()
        await stage.settle_down()
        [task] = await stage.claim("bob", "3")
        assert (task["issuer_ref"], task["epoch"]) == ("b", 1), "no worker had this attempt"

    assert play(tmp_path, scene).phases() == [("begun", 1)]


def test_a_claim_whose_connection_is_closed_takes_nothing_even_before_the_front_reads_that(
    tmp_path: Path,
) -> None:
    """N-52, N-52a: while it waits, at its arrival, and while its tasks become durable."""

    async def scene(stage: Stage) -> None:
        dead = Connection()
        gone = asyncio.ensure_future(stage.claim("ann", wait_ms=60_000, connection=dead))
        alive = asyncio.ensure_future(stage.claim("bob", "1", wait_ms=60_000))
        await asyncio.sleep(0)
        dead.is_closed = True
        stage.open("a")
        assert [(each["issuer_ref"], each["epoch"]) for each in await alive] == [("a", 1)]
        assert not gone.done()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)

        stage.open("b", effect=ONCE)
        with pytest.raises(ClientGoneError):
            await stage.claim("ann", "2", connection=dead)

        dying = Connection()
        stage.link.may_answer.clear()
        gone = asyncio.ensure_future(stage.claim("ann", "3", connection=dying))
        await stage.link.is_asked.wait()
        dying.is_closed = True
        stage.link.may_answer.set()
        with pytest.raises(ClientGoneError):
            await gone
        [task] = await stage.claim("bob", "4")
        assert (task["issuer_ref"], task["epoch"]) == ("b", 1), "no worker had this attempt"

    assert play(tmp_path, scene).phases() == [("begun", 1)]


@pytest.mark.parametrize(
    ("effect", "delivery", "next_epoch"),
    [
        (PAY, Delivery.UNREAD, 1),
        (ONCE, Delivery.UNREAD, 1),
        (PAY, Delivery.IN_DOUBT, 2),
        (ONCE, Delivery.IN_DOUBT, None),
        (PAY, Delivery.READ, None),
    ],
)
def test_a_task_that_was_not_delivered_is_given_out_again_at_once(
    tmp_path: Path, effect: str, delivery: Delivery, next_epoch: int | None
) -> None:
    """N-52a: the same attempt if nobody can have read it, else the next one; one that may run only
    once stays with its worker in doubt."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=effect)
        connection = Connection()
        [first] = await stage.claim("ann", connection=connection)
        other = asyncio.ensure_future(stage.claim("bob", "2", wait_ms=60_000))
        await asyncio.sleep(0)
        connection.ends(delivery)
        await stage.settle_down()
        for _ in range(200):
            await asyncio.sleep(0.001)
            if other.done():
                break
        if next_epoch is None:
            assert not other.done()
            assert await stage.beat(first) == "leased"
            await stage.work.drain()
        else:
            assert await stage.beat(first) == "lost"
        assert [each["epoch"] for each in await other] == ([next_epoch] if next_epoch else [])

    play(tmp_path, scene)


def test_a_worker_that_has_spoken_keeps_its_task_when_an_old_connection_breaks(
    tmp_path: Path,
) -> None:
    """N-52a: it made the claim again, prolonged its lease, or has sent its result."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        old, new = Connection(), Connection()
        [task] = await stage.claim("ann", connection=old)
        assert await stage.claim("ann", connection=new) == [task]
        old.ends(Delivery.UNREAD)
        assert await stage.claim("bob", "2") == []
        assert await stage.beat(task) == "leased"
        new.ends(Delivery.UNREAD)
        assert await stage.claim("bob", "3") == []
        assert (await stage.result(task))["answer"] == "settled"

        stage.open("b")
        last = Connection()
        [task] = await stage.claim("ann", "4", connection=last)
        assert (await stage.result(task))["answer"] == "settled"
        last.ends(Delivery.UNREAD)
        assert await stage.claim("bob", "5") == []

    play(tmp_path, scene)


def test_a_claim_that_is_repeated_gets_the_same_tasks(tmp_path: Path) -> None:
    """N-52: after a lost answer, also over a crash of the front."""

    async def scene(stage: Stage) -> None:
        stage.open("a", "b", "c")
        found = await stage.claim("ann", "1", max=2)
        assert [each["issuer_ref"] for each in found] == ["a", "b"]
        assert await stage.claim("ann", "1", max=2) == found
        assert await stage.claim("ann", "1", token=Token("other"), max=0) == []
        await stage.restart()
        assert await stage.claim("ann", "1", max=2) == found
        await stage.result(found[0])
        assert await stage.claim("ann", "1", max=2) == found[1:]

    play(tmp_path, scene)


def test_a_claim_that_is_repeated_while_its_first_request_ends_keeps_its_tasks(
    tmp_path: Path,
) -> None:
    """N-52: the first caller goes away while the leases become durable."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        gone = asyncio.ensure_future(stage.claim("ann", "1"))
        while not stage.work.figures().leased:  # noqa: ASYNC110  # turns of this loop, no time
            await asyncio.sleep(0)
        assert not gone.done()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        again = await stage.claim("ann", "1")
        await stage.settle_down()

        others = await stage.claim("bob", "2")

        held = [(task["issuer_ref"], task["epoch"]) for task in [*again, *others]]
        assert held == [("a", 1)], "one worker has this attempt"

    play(tmp_path, scene)


@pytest.mark.parametrize("is_certain", [False, True])
def test_a_claim_that_is_repeated_twice_at_once_gives_its_task_to_one_worker(
    tmp_path: Path, is_certain: bool
) -> None:
    """N-52, N-52a: the first repetition is given up while the table is written; its tasks go to
    the second one, or to another worker, and not to both."""

    async def scene(stage: Stage) -> None:
        stage.open("a", "b")
        first, dying = Connection(), Connection()
        await stage.claim("ann", "1", connection=first)
        [other_task] = await stage.claim("cid", "2")
        beating = asyncio.ensure_future(stage.beat(other_task, "cid"))
        await asyncio.sleep(0)  # its row is being written
        gone = asyncio.ensure_future(stage.claim("ann", "1", connection=dying))
        again = asyncio.ensure_future(stage.claim("ann", "1", wait_ms=60_000))
        others = asyncio.ensure_future(stage.claim("bob", "3", wait_ms=60_000))
        await asyncio.sleep(0)
        if is_certain:
            dying.is_closed = True
        else:
            first.ends(Delivery.UNREAD)
        await asyncio.gather(gone, beating, return_exceptions=True)
        await asyncio.wait({again, others}, return_when=asyncio.FIRST_COMPLETED)
        await stage.settle_down()
        await stage.work.drain()

        held = [(task["issuer_ref"], task["epoch"]) for task in [*await again, *await others]]
        assert held == [("a", 1)], "one worker has this attempt"

    play(tmp_path, scene)


def test_a_claim_whose_task_ends_before_its_attempt_begins_gets_no_task(tmp_path: Path) -> None:
    """N-51: the worker has made no mistake."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=ONCE)
        [intent] = stage.world.state.intents
        stage.link.may_answer.clear()
        asking = asyncio.ensure_future(stage.claim("ann", "1"))
        await stage.link.is_asked.wait()
        stage.world.control("cancel", intent=intent)
        stage.link.may_answer.set()

        assert await asking == []

    play(tmp_path, scene)


def test_the_tasks_of_a_claim_go_back_if_its_repetition_is_gone_before_them(
    tmp_path: Path,
) -> None:
    """N-52: no request of the claim is left, and no answer has named them."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=ONCE)
        stage.link.may_answer.clear()
        first = asyncio.ensure_future(stage.claim("ann", "1"))
        await stage.link.is_asked.wait()
        again = asyncio.ensure_future(stage.claim("ann", "1"))
        await asyncio.sleep(0)
        first.cancel()
        again.cancel()
        await asyncio.gather(first, again, return_exceptions=True)
        stage.link.may_answer.set()
        await stage.settle_down()

        [task] = await stage.claim("bob", "2")
        assert (task["issuer_ref"], task["epoch"]) == ("a", 1), "no worker had this attempt"

    assert play(tmp_path, scene).phases() == [("begun", 1)]


def test_a_request_of_a_closed_connection_that_comes_late_leaves_the_tasks_to_its_repetition(
    tmp_path: Path,
) -> None:
    """N-52a: two connections may be read in another order than they were used in."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", "1")
        with pytest.raises(ClientGoneError):
            await stage.claim("ann", "1", connection=Connection(is_closed=True))
        assert await stage.claim("bob", "2") == []
        assert (await stage.result(task))["answer"] == "settled"

    play(tmp_path, scene)


@pytest.mark.parametrize(("effect", "epochs"), [(PAY, [2]), (ONCE, [])])
@pytest.mark.parametrize("delivery", [Delivery.UNREAD, Delivery.IN_DOUBT])
def test_an_attempt_that_two_answers_have_named_is_not_given_out_again(
    tmp_path: Path, effect: str, epochs: list[int], delivery: Delivery
) -> None:
    """N-52a: a request comes after its repetition, whose answer the worker has read, and the end of
    its connection comes later still."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=effect)
        late = Connection()
        [task] = await stage.claim("ann", "1")
        assert await stage.claim("ann", "1", connection=late) == [task]

        late.ends(delivery)
        await stage.settle_down()

        assert [each["epoch"] for each in await stage.claim("bob", "2")] == epochs
        if effect == ONCE:
            assert (await stage.result(task))["answer"] == "settled"

    play(tmp_path, scene)


def test_a_lost_lease_is_followed_by_the_next_attempt_which_the_journal_has(
    tmp_path: Path,
) -> None:
    """N-53, N-58."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [old] = await stage.claim("ann", lease_ms=1_000)
        await stage.pass_s(0.9)
        assert await stage.beat(old) == "leased"
        await stage.pass_s(0.9)
        assert await stage.claim("bob", "2") == []
        await stage.pass_s(0.2)
        assert await stage.beat(old) == "lost"
        [new] = await stage.claim("bob", "3")
        assert new["epoch"] == 2
        late = await stage.result(old)
        assert (late["problem"]["status"], late["problem"]["rule"]) == (409, "lease_is_over")
        assert (await stage.result(new, "bob"))["answer"] == "settled"

    stage = play(tmp_path, scene)
    [attempt] = [each for each in stage.world.records() if isinstance(each, Attempt)]
    assert (attempt.attempt, attempt.problem) == (2, "worker ann lost its lease")


def test_a_waiting_claim_of_a_worker_that_lost_a_lease_gets_nothing_until_it_is_heard(
    tmp_path: Path,
) -> None:
    """N-52b: a stopped worker would let the lease of each further attempt run out, too."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", "1", lease_ms=10_000)
        waits = asyncio.ensure_future(stage.claim("ann", "2", wait_ms=60_000))
        await asyncio.sleep(0)
        await stage.pass_s(10)
        stage.open("b")
        await stage.settle_down()
        assert not waits.done()
        assert stage.phases() == []

        assert await stage.beat(task) == "lost"
        [again] = await waits
        assert (again["issuer_ref"], again["epoch"]) == ("a", 2)
        [other] = await stage.claim("bob")
        assert other["issuer_ref"] == "b"

    play(tmp_path, scene)


@pytest.mark.parametrize("word", ["claim", "result", "release", "progress"])
def test_each_request_of_a_silent_worker_lets_its_waiting_claims_have_tasks(
    tmp_path: Path, word: str
) -> None:
    """N-52b: after the request itself, so a late result still counts."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", "1", lease_ms=10_000)
        waits = asyncio.ensure_future(stage.claim("ann", "2", wait_ms=60_000))
        elsewhere = asyncio.ensure_future(
            stage.claim("ann", "3", wait_ms=60_000, token=Token("other"), effects=[{"name": ONCE}])
        )
        await asyncio.sleep(0)
        await stage.pass_s(10)
        match word:
            case "claim":
                [mine] = await stage.claim("ann", "4")
                assert (mine["issuer_ref"], mine["epoch"]) == ("a", 2)
            case "result":
                assert (await stage.result(task))["answer"] == "settled"
            case "release":
                assert await stage.release(task, began=True) == "lost"
            case _:
                frame = {"task": task["task"], "epoch": 1, "number": 1, "kind": "x"}
                await stage.work.progress({"worker": "ann", "frames": [frame]}, Token())
        stage.open("b", "c")
        [found] = await waits
        assert found["issuer_ref"] == ("b" if word in ("claim", "result") else "a")
        stage.open("d", effect=ONCE)
        [found] = await elsewhere
        assert found["issuer_ref"] == "d", "another worker of this name"

    play(tmp_path, scene)


def test_a_lost_lease_of_a_silent_worker_goes_to_another_worker_that_waits(tmp_path: Path) -> None:
    """N-52b"""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        await stage.claim("ann", "1", lease_ms=10_000)
        first = asyncio.ensure_future(stage.claim("ann", "2", wait_ms=60_000))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(stage.claim("bob", "3", wait_ms=60_000))
        await asyncio.sleep(0)
        await stage.pass_s(10)
        [found] = await second
        assert (found["issuer_ref"], found["epoch"]) == ("a", 2)
        assert not first.done()
        await stage.work.drain()
        assert await first == []

    play(tmp_path, scene)


def test_a_late_result_counts_while_no_later_attempt_began(tmp_path: Path) -> None:
    """N-53."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", lease_ms=1_000)
        await stage.pass_s(100)
        assert await stage.beat(task) == "lost"
        assert (await stage.result(task))["answer"] == "settled"
        assert await stage.claim("bob", "2") == []

    play(tmp_path, scene)


def test_only_its_worker_under_its_token_speaks_for_a_task(tmp_path: Path) -> None:
    """N-54."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        for forged in (
            await stage.result(task, "bob"),
            await stage.result(task, token=Token("other")),
            await stage.result({**task, "epoch": 2}),
        ):
            assert forged["problem"]["rule"] == "lease_is_over"
        assert await stage.beat(task, "bob") == "lost"
        assert await stage.release(task, "bob", began=False) == "lost"
        assert (await stage.result({**task, "task": "blake3:" + "0" * 64}))["problem"][
            "status"
        ] == 404
        assert await stage.beat(task) == "leased"

    play(tmp_path, scene)


def test_a_retryable_failure_pauses_at_the_node_as_often_as_the_claim_allows(
    tmp_path: Path,
) -> None:
    """N-60."""
    policy = [{"name": PAY, "attempts": 3, "backoff_ms": 2_000, "backoff_cap_ms": 3_000}]

    async def scene(stage: Stage) -> None:
        stage.open("a")
        for attempt, pause_s in ((1, 2), (2, 3)):
            [task] = await stage.claim("ann", str(attempt), effects=policy)
            assert task["epoch"] == attempt
            answer = await stage.fail(task)
            at_ns = stage.clock.wall_ns + pause_s * 10**9
            assert (answer["answer"], answer["retry_at_ns"]) == ("retry", at_ns)
            assert (await stage.fail(task)) == answer, "a result that is sent again counts once"
            await stage.pass_s(pause_s - 0.1)
            assert await stage.claim("ann", "x", effects=policy) == []
            await stage.pass_s(0.2)
        [task] = await stage.claim("ann", "3", effects=policy)
        assert (await stage.fail(task))["answer"] == "settled"
        assert "busy" in log_of(stage.world, "k")[-1]

    assert play(tmp_path, scene).phases() == [("begun", 2), ("begun", 3)]


def test_a_pause_lasts_over_a_crash_of_the_front_and_a_jump_of_the_clock(tmp_path: Path) -> None:
    """N-60."""
    policy = [{"name": PAY, "attempts": 2, "backoff_ms": 10_000}]

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", "1", effects=policy)
        await stage.fail(task)
        stage.clock.wall_ns -= 86_400 * 10**9
        await stage.restart()
        await stage.pass_s(9)
        assert await stage.claim("ann", "2") == []
        await stage.pass_s(2)
        assert len(await stage.claim("ann", "3")) == 1

    play(tmp_path, scene)


def test_a_final_failure_is_not_retried(tmp_path: Path) -> None:
    """X-45: its call may still run."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", effects=[{"name": PAY, "attempts": 9}])
        assert (await stage.fail(task, is_final=True))["answer"] == "settled"

    play(tmp_path, scene)


def test_five_lost_leases_in_a_row_park_a_task_until_an_operator_retries_it(
    tmp_path: Path,
) -> None:
    """N-59."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        for number in range(5):
            [task] = await stage.claim("ann", str(number), lease_ms=1_000)
            await stage.pass_s(1.1)
        assert await stage.claim("ann", "x") == []
        [listed] = (await stage.work.list(Token()))["tasks"]
        assert (listed["task"], listed["phase"], listed["lost"]) == (task["task"], "parked", 5)
        assert "5 leases in a row were lost" in stage.lines[-1]
        await stage.restart()
        assert await stage.claim("ann", "y") == []
        runs = await stage.work.retry({"all_parked": True}, Token())
        assert runs == {"tasks": [task["task"]]}
        [task] = await stage.claim("ann", "z")
        assert task["epoch"] == 6
        assert (await stage.result(task))["answer"] == "settled"

    phases = play(tmp_path, scene).phases()
    assert phases == [*(("begun", each) for each in range(2, 6)), ("parked", 5), ("begun", 6)]


def test_a_task_that_may_run_once_is_journaled_before_it_is_given_out_and_lost_with_its_lease(
    tmp_path: Path,
) -> None:
    """N-61, K-97."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=ONCE)
        [task] = await stage.claim("ann", lease_ms=1_000)
        assert stage.phases() == [("begun", 1)]
        await stage.pass_s(1.1)
        assert "unknown_outcome" in log_of(stage.world, "k")[-1]
        assert await stage.claim("bob", "2") == []
        assert await stage.beat(task) == "lost"

    assert play(tmp_path, scene).phases() == [("begun", 1), ("lost", 1)]


def test_a_task_that_is_given_back_before_it_began_keeps_its_attempt(tmp_path: Path) -> None:
    """N-58: also one that may run only once."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=ONCE)
        stage.open("b")
        for task in await stage.claim("ann", max=2):
            assert await stage.release(task, began=False) == "released"
            assert await stage.beat(task) == "lost"
        await stage.restart()
        found = await stage.claim("bob", "2", max=2)
        assert [each["epoch"] for each in found] == [1, 1]
        for task in found:
            assert await stage.release(task, "bob", began=True) == "released"
        await stage.settle_down()
        [task] = await stage.claim("ann", "3", max=2)
        assert (task["issuer_ref"], task["epoch"]) == ("b", 2)

    assert play(tmp_path, scene).phases() == [("begun", 1), ("lost", 1), ("begun", 2)]


def test_leases_last_over_a_start_for_fifteen_seconds_at_least(tmp_path: Path) -> None:
    """N-55."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", lease_ms=1_000)
        stage.clock.pass_s(500)
        stage.clock.steady_ns = 10**15
        await stage.restart()
        await stage.pass_s(14)
        assert await stage.claim("bob", "2") == []
        assert await stage.beat(task) == "leased"
        await stage.pass_s(1.1)
        [task] = await stage.claim("bob", "3")
        assert task["epoch"] == 2

    play(tmp_path, scene)


@pytest.mark.parametrize("effect", [PAY, ONCE])
def test_a_table_that_is_gone_gives_no_attempt_out_a_second_time(
    tmp_path: Path, effect: str
) -> None:
    """N-56."""

    async def scene(stage: Stage) -> None:
        stage.open("a", effect=effect)
        [task] = await stage.claim("ann")
        await stage.restart(before=lambda: clear_table(tmp_path))
        await stage.settle_down()
        assert await stage.beat(task) in ("lost", "canceled")
        found = await stage.claim("bob", "2")
        assert [each["epoch"] for each in found] == ([2] if effect == PAY else [])
        assert "problem" in await stage.result(task)

    play(tmp_path, scene)


def test_a_payload_that_does_not_fit_is_422_and_the_lease_stays(tmp_path: Path) -> None:
    """N-62."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        for payload_fields in ({"payload": {"wrong": 1}}, {"payload_cbor": b"\xff", "payload": 1}):
            problem = (await stage.result(task, **payload_fields))["problem"]
            assert (problem["status"], problem["rule"]) == (422, "result_does_not_fit")
        assert await stage.beat(task) == "leased"
        assert (await stage.result(task))["answer"] == "settled"

    play(tmp_path, scene)


def test_a_result_that_the_world_cannot_take_is_503_and_taken_later(tmp_path: Path) -> None:
    """N-57."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        stage.link.problem = Unavailable("the disk is full")
        problem = (await stage.result(task))["problem"]
        assert (problem["status"], problem["detail"]) == (503, "the disk is full")
        stage.link.problem = None
        assert (await stage.result(task))["answer"] == "settled"

    play(tmp_path, scene)


def test_a_canceled_task_is_told_by_the_heartbeat_and_its_result_is_refused(
    tmp_path: Path,
) -> None:
    """N-55."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        stage.world.control("cancel", intent=next(iter(stage.world.state.intents)))
        stage.link.publish()
        assert await stage.beat(task) == "canceled"
        problem = (await stage.result(task))["problem"]
        assert problem["rule"] == "receipt_intent_is_settled"

    play(tmp_path, scene)


def test_a_result_for_a_cell_that_is_gone_is_journaled_as_abandoned(tmp_path: Path) -> None:
    """N-57."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        stage.world.send("t/Tell@1", {"key": "k", "asks": [], "note": "delete"})
        stage.link.publish()
        assert await stage.beat(task) == "canceled"
        assert (await stage.result(task, "bob"))["problem"]["rule"] == "lease_is_over"
        assert (await stage.result(task))["answer"] == "abandoned"

    play(tmp_path, scene)


@pytest.mark.parametrize("status", ["held", "parked"])
def test_a_halt_of_a_task_whose_cell_is_gone_is_409(tmp_path: Path, status: str) -> None:
    """N-57, N-60: no cell waits for it, so an operator has nothing to retry."""
    error = {"code": "no_key", "message": "no key", "retryable": False}

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        stage.world.send("t/Tell@1", {"key": "k", "asks": [], "note": "delete"})
        stage.link.publish()
        problem = (await stage.result(task, status=status, payload=error))["problem"]
        assert (problem["status"], problem["rule"]) == (409, "lease_is_over")
        assert (await stage.result(task))["answer"] == "abandoned"

    assert play(tmp_path, scene).phases() == []


@pytest.mark.parametrize("name", ["results", "progress"])
def test_a_request_that_is_canceled_before_its_items_run_leaves_no_coroutine(
    tmp_path: Path, name: str
) -> None:
    """A coroutine that is never awaited prints a warning."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        item = {"task": task["task"], "epoch": task["epoch"], "status": "ok", "payload": {}}
        items = {"results": [item, item], "frames": [item, item]}
        answering = asyncio.ensure_future(
            getattr(stage.work, name)({"worker": "ann", **items}, Token())
        )
        await asyncio.sleep(0)
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        assert answering.cancelled()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(tmp_path, scene)
        gc.collect()
    assert not [each for each in caught if "never awaited" in str(each.message)]


def test_a_parked_result_that_is_final_is_followed_by_no_attempt(tmp_path: Path) -> None:
    """N-60, X-78."""
    error = {"code": "secret_in_result", "message": "it holds a secret", "retryable": False}

    async def scene(stage: Stage) -> None:
        stage.open("a", "b")
        leaking, mistaken = await stage.claim("ann", max=2, effects=[{"name": PAY, "attempts": 3}])
        final = await stage.result(leaking, status="parked", payload=error, is_final=True)
        assert final["answer"] == "parked"
        other = await stage.result(mistaken, status="parked", payload=error)
        assert other["answer"] == "retry"

    assert play(tmp_path, scene).phases()[0] == ("parked", 1)


def test_held_and_parked_tasks_stay_open_until_an_operator_retries_them(tmp_path: Path) -> None:
    """N-60, X-15 to X-17."""
    error = {"code": "no_key", "message": "no key", "retryable": False}

    async def scene(stage: Stage) -> None:
        stage.open("a", "b")
        held, parked = await stage.claim("ann", max=2, effects=[{"name": PAY, "attempts": 1}])
        assert (await stage.result(held, status="held", payload=error))["answer"] == "held"
        assert (await stage.result(parked, status="parked", payload=error))["answer"] == "parked"
        assert await stage.claim("ann", "2", max=2) == []
        listed = (await stage.work.list(Token()))["tasks"]
        assert [each["phase"] for each in listed] == ["held", "parked"]
        runs = await stage.work.retry({"tasks": [held["task"], parked["task"]]}, Token())
        assert len(runs["tasks"]) == 2
        assert [each["epoch"] for each in await stage.claim("ann", "3", max=2)] == [2, 2]

    phases = play(tmp_path, scene).phases()
    assert phases == [("held", 1), ("parked", 1), ("begun", 2), ("begun", 2)]


def test_a_held_task_has_no_further_attempt_although_its_error_may_be_retried(
    tmp_path: Path,
) -> None:
    """N-60, X-15: another attempt would lack the same thing."""
    error = {"code": "no_key", "message": "no key", "retryable": True}

    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann", effects=[{"name": PAY, "attempts": 5}])
        assert (await stage.result(task, status="held", payload=error))["answer"] == "held"

    assert play(tmp_path, scene).phases() == [("held", 1)]


def test_a_held_task_is_offered_again_when_the_node_starts(tmp_path: Path) -> None:
    """N-60, X-16: also one that may run only once, because it has not run."""
    error = {"code": "no_key", "message": "no key", "retryable": False}

    async def scene(stage: Stage) -> None:
        stage.open("a")
        stage.open("b", effect=ONCE)
        for task in await stage.claim("ann", max=2):
            await stage.result(task, status="held", payload=error)
        assert await stage.claim("ann", "2", max=2) == []
        await stage.restart()
        found = await stage.claim("ann", "3", max=2)
        assert [(each["issuer_ref"], each["epoch"]) for each in found] == [("a", 2), ("b", 2)]
        for task in found:
            assert (await stage.result(task))["answer"] == "settled"

    play(tmp_path, scene)


def test_an_operator_ends_a_lease(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        answer = await stage.work.reclaim({"tasks": [task["task"]]}, Token("root"))
        assert answer == {"tasks": [task["task"]]}
        assert await stage.beat(task) == "lost"
        [task] = await stage.claim("bob", "2")
        assert task["epoch"] == 2

    play(tmp_path, scene)


def test_limits_of_an_effect_bound_leases(tmp_path: Path) -> None:
    """N-65."""
    settings = NodeSettings(
        limits={PAY: Limit(concurrency=2, by=("n",)), ONCE: Limit(interval_ns=10**9, burst=2)}
    )

    async def scene(stage: Stage) -> None:
        stage.open("a", "b", "c", n=1)
        stage.open("d", n=2)
        found = await stage.claim("ann", max=9)
        assert [each["issuer_ref"] for each in found] == ["a", "b", "d"]
        waiting = asyncio.ensure_future(stage.claim("bob", "2", wait_ms=60_000))
        await asyncio.sleep(0)
        await stage.result(found[0])
        assert [each["issuer_ref"] for each in await waiting] == ["c"]

        stage.open("e", "f", "g", effect=ONCE)
        found = await stage.claim("ann", "3", max=9)
        assert [each["issuer_ref"] for each in found] == ["e", "f"]
        await stage.pass_s(0.9)
        assert await stage.claim("ann", "4") == []
        await stage.pass_s(0.2)
        assert len(await stage.claim("ann", "5")) == 1

    play(tmp_path, scene, settings)


def test_a_claim_hears_of_tasks_for_another_signer_although_it_has_all_that_it_asked_for(
    tmp_path: Path,
) -> None:
    """N-63: intents of one effect may have been opened under manifests with other executors."""
    body: dict[str, Any] = {
        "worker": "ann",
        "claim": "1",
        "effects": [{"name": PAY, "max": 1}],
        "signs": {"executor": "bank", "key": b"k" * 32},
    }

    async def scene(stage: Stage) -> None:
        stage.open("a")
        claims = stage.work._claims
        poll = claims._poll(body, Token(), LeaseHolder("ann", "shop"))
        poll.pick_counts[PAY] = 1
        unserved = claims._unserved(poll, body, Token())
        assert [each["rule"] for each in unserved] == ["needs_another_signer"]

    play(tmp_path, scene)


def test_a_claim_hears_why_it_gets_no_task_of_an_effect(tmp_path: Path) -> None:
    """N-63."""

    async def scene(stage: Stage) -> None:
        stage.open("a")
        names = [PAY, "t/none@1", "sys/timer.set@1"]
        body: dict[str, Any] = {
            "worker": "ann",
            "claim": "1",
            "effects": [{"name": each} for each in names],
            "signs": {"executor": "bank", "key": b"k" * 32},
        }
        answer = await stage.work.claim(body, Token())
        assert answer["tasks"] == []
        assert {(each["effect"], each["rule"]) for each in answer["unserved"]} == {
            (PAY, "needs_another_signer"),
            ("t/none@1", "effect_is_unknown"),
            ("sys/timer.set@1", "effect_runs_in_the_world"),
        }
        answer = await stage.work.claim(body, Token(effects=("other",)))
        assert {each["rule"] for each in answer["unserved"]} == {"token_does_not_allow"}

    play(tmp_path, scene)


def test_progress_of_the_worker_that_has_the_task_reaches_its_cell(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.open("a")
        [task] = await stage.claim("ann")
        assert (task["takes_progress"], task["next_frame"]) == (True, 0)
        frame = {
            "task": task["task"], "epoch": 1, "number": 2**32, "kind": "half", "payload": {"p": 1},
        }  # fmt: skip
        body = {"worker": "ann", "frames": [frame, {**frame, "epoch": 2}]}
        taken, stale = (await stage.work.progress(body, Token()))["answers"]
        assert taken == {"task": task["task"], "answer": "taken", "number": 2**32}
        assert stale["problem"]["rule"] == "lease_is_over"
        assert log_of(stage.world, "k")[-1].startswith("half")

    play(tmp_path, scene)
