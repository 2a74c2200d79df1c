"""Claims of plan steps that meet their own repetitions, ends and heartbeats (L-32, L-36, N-52)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from aos.errors import Unavailable
from aos.node.bodies import ClientGoneError
from aos.node.calls import Delivery
from aos.node.problems import Problem
from aos.read.views.linear_view import LinearAnswer
from tests.linear.stage import SECOND, Stage, plan_step
from tests.node.leases.stage import Connection, Token
from tests.node.linear.scheduled_stage import ScheduledStage
from tests.node.schedules import Job, run_scheduled, scheduled_loop, turns

Scene = Callable[[ScheduledStage], Awaitable[None]]


def play(scene: Scene) -> None:
    """Play a scene on a node with one instance, ``i-1``."""
    stage = Stage(timers=False)

    async def run(rng: Random) -> None:
        node = ScheduledStage(stage, rng)
        start(node, "i-1")
        await scene(node)

    run_scheduled(run, seed=0, clock=lambda: stage.now / SECOND)


def start(node: ScheduledStage, instance: str) -> None:
    node.stage.begin(plan_step("A", max_attempts=100), instance=instance)
    node.read_journal()
    node.follow(len(node.backlog))


def claim(
    node: ScheduledStage, worker: str, name: str, connection: Connection | None = None, **more: Any
) -> asyncio.Task[Any]:
    body = {"worker": worker, "claim": name, "steps": [{"name": "*/*"}], **more}
    return asyncio.ensure_future(node.steps.claim(body, Token(), connection or Connection()))


async def answer(node: ScheduledStage, asking: asyncio.Task[Any]) -> list[tuple[str, int]]:
    """The tasks of a claim, once everything has been carried out."""
    await node.settle_down()
    return [(task["task"], task["epoch"]) for task in (await asking)["tasks"]]


async def answer_to_heartbeat(node: ScheduledStage, worker: str, epoch: int) -> Any:
    item = {"task": "step:0:i-1", "epoch": epoch}
    [found] = await node.steps.heartbeat([item], {"worker": worker}, Token())
    return found


def test_an_earlier_request_that_ends_late_leaves_the_leases_to_its_repetition() -> None:
    """N-52: the earlier one took one lease and waits for another; its connection is closed."""

    async def scene(node: ScheduledStage) -> None:
        start(node, "i-2")
        dying = Connection()
        first = claim(node, "ann", "1", dying, max=2)
        await turns(3)
        jobs = scheduled_loop().jobs
        jobs[0].carry_out()
        node.follow(len(node.backlog))
        dying.is_closed = True
        again = claim(node, "ann", "1", max=2)
        await turns(3)

        tasks = await answer(node, again)

        assert first.done()
        assert tasks == [("step:0:i-1", 1), ("step:0:i-2", 1)]
        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND, "the lease lasts"

    play(scene)


def test_leases_go_back_if_no_request_of_their_claim_is_left() -> None:
    """N-52, L-36."""

    async def scene(node: ScheduledStage) -> None:
        first = claim(node, "ann", "1")
        await turns(3)
        again = claim(node, "ann", "1")
        await turns(3)
        first.cancel()
        again.cancel()
        await node.settle_down()
        node.advance(0.01)
        node.follow(len(node.backlog))

        assert await answer(node, claim(node, "bob", "2")) == [("step:0:i-1", 2)]

    play(scene)


def test_a_repeated_claim_does_not_get_a_lease_that_is_being_ended() -> None:
    """N-52a: the end of the first lease is on its way to the instance."""

    async def scene(node: ScheduledStage) -> None:
        first = Connection()
        asking = claim(node, "ann", "1", first)
        assert await answer(node, asking) == [("step:0:i-1", 1)]
        first.ends(Delivery.UNREAD)

        again = claim(node, "ann", "1", wait_ms=10_000)
        await turns(3)
        assert not again.done()
        await node.settle_down()
        node.advance(0.01)
        node.steps._polls.changed()

        assert await answer(node, again) == [("step:0:i-1", 2)]

    play(scene)


def test_a_lease_that_was_prolonged_is_not_ended_with_the_connection_of_its_answer() -> None:
    """N-52a: others can reset a connection over TCP."""

    async def scene(node: ScheduledStage) -> None:
        connection = Connection()
        await answer(node, claim(node, "ann", "1", connection))
        beating = asyncio.ensure_future(answer_to_heartbeat(node, "ann", 1))
        await node.settle_down()
        assert (await beating)["answer"] == "leased"

        connection.ends(Delivery.IN_DOUBT)
        await node.settle_down()

        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND

    play(scene)


def test_a_heartbeat_never_answers_with_the_lease_of_another_worker() -> None:
    """N-55: another claim gets the plan step before the heartbeat is answered."""

    async def scene(node: ScheduledStage) -> None:
        await answer(node, claim(node, "ann", "1"))
        beating = asyncio.ensure_future(answer_to_heartbeat(node, "ann", 1))
        await turns(3)
        [job] = scheduled_loop().jobs
        job.carry_out()
        node.stage.advance(31 * SECOND)
        assert node.stage.claim("bob") == "Claimed 0 2"
        node.read_journal()
        await node.settle_down()

        assert await beating == {"task": "step:0:i-1", "answer": "lost"}

    play(scene)


def test_a_lease_is_released_even_if_another_claim_has_the_plan_step_before_the_answer() -> None:
    """N-52b: a claim that waits gets it one millisecond later."""

    async def scene(node: ScheduledStage) -> None:
        await answer(node, claim(node, "ann", "1"))
        item = {"task": "step:0:i-1", "epoch": 1}
        releasing = asyncio.ensure_future(node.steps.release([item], {"worker": "ann"}, Token()))
        await turns(3)
        [job] = scheduled_loop().jobs
        job.carry_out()
        node.stage.advance(SECOND)
        assert node.stage.claim("bob") == "Claimed 0 2"
        node.read_journal()
        await node.settle_down()

        assert await releasing == [{"task": "step:0:i-1", "answer": "released"}]

    play(scene)


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_claim_whose_instance_is_canceled_before_its_event_gets_nothing(
    is_waiting: bool,
) -> None:
    """L-32: the instance refuses it, which is no mistake of the worker."""

    async def scene(node: ScheduledStage) -> None:
        asking = claim(node, "ann", "1", wait_ms=10_000 if is_waiting else 0)
        await turns(3)
        node.stage.cancel()
        node.read_journal()
        await node.settle_down()
        assert asking.done() is not is_waiting
        node.advance(11)

        assert await answer(node, asking) == []

    play(scene)


@pytest.mark.parametrize("status", [404, 409])
def test_a_claim_whose_instance_fails_before_its_event_is_503(status: int) -> None:
    """L-32: a worker repeats its claim then. With the status of the event it would end."""

    async def scene(node: ScheduledStage) -> None:
        async def fails(schema: str, value: Any) -> LinearAnswer:
            raise Problem(status, "no_answer", f"{schema} of {value['instance']}: it has failed")

        node.steps.ask = fails  # type: ignore[method-assign]
        asking = claim(node, "ann", "1", wait_ms=10_000)
        await node.settle_down()

        with pytest.raises(Problem, match="it has failed") as caught:
            await asking
        assert caught.value.status == 503

    play(scene)


def test_a_claim_that_lost_a_race_waits_for_the_next_plan_step() -> None:
    """L-32: the instance refuses the claim, because another one came first."""

    async def scene(node: ScheduledStage) -> None:
        serving = asyncio.ensure_future(node.steps.run())
        asking = claim(node, "ann", "1", wait_ms=10_000)
        await turns(3)
        assert node.stage.claim("bob") == "Claimed 0 1"
        node.read_journal()
        await node.settle_down()
        assert not asking.done()

        start(node, "i-2")
        assert await answer(node, asking) == [("step:0:i-2", 1)]
        serving.cancel()

    play(scene)


def test_a_claim_on_a_closed_connection_changes_nothing() -> None:
    """N-52a: two connections may be read in another order than they were used in."""

    async def scene(node: ScheduledStage) -> None:
        assert await answer(node, claim(node, "ann", "1")) == [("step:0:i-1", 1)]
        late = claim(node, "ann", "1", Connection(is_closed=True))
        await node.settle_down()
        with pytest.raises(ClientGoneError):
            await late
        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND

    play(scene)


async def ending_front(node: ScheduledStage) -> Job:
    """Kill a front that has just sent the end of the lease of ``i-1``; return that event, which has
    not reached the world."""
    first = Connection()
    assert await answer(node, claim(node, "ann", "1", first)) == [("step:0:i-1", 1)]
    first.ends(Delivery.UNREAD)
    await turns(3)
    [release] = scheduled_loop().jobs
    await node.kill()
    assert scheduled_loop().jobs == [release]
    assert not release.is_carried_out
    return release


def test_the_next_front_names_no_lease_that_an_event_on_its_way_ends() -> None:
    """N-52a: its instance confirms the lease, after the end that the dead front has sent."""

    async def scene(node: ScheduledStage) -> None:
        await ending_front(node)
        again = claim(node, "ann", "1")
        await turns(3)
        assert not again.done()
        await node.settle_down()

        [task] = (await again)["tasks"]
        assert task["lease_until_ns"] == node.row("i-1")["locked_until"]
        assert task["lease_until_ns"] < node.stage.now + SECOND, "the end has come first"

    play(scene)


def test_the_next_front_gives_out_a_plan_step_again_whose_lease_has_ended() -> None:
    """N-52a, L-13: the end comes between the start of the front and the repeated claim."""

    async def scene(node: ScheduledStage) -> None:
        release = await ending_front(node)
        again = claim(node, "ann", "1")
        await turns(3)
        release.carry_out()
        node.advance(0.01)

        assert await answer(node, again) == [("step:0:i-1", 2)]
        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND

    play(scene)


def test_the_next_front_gives_a_repeated_claim_no_lease_of_another_worker() -> None:
    """N-52: the claim waits for another plan step then."""

    async def scene(node: ScheduledStage) -> None:
        release = await ending_front(node)
        again = claim(node, "ann", "1", wait_ms=10_000)
        await turns(3)
        release.carry_out()
        node.advance(0.01)
        assert node.stage.claim("bob") == "Claimed 0 2"
        node.read_journal()
        await node.settle_down()
        assert not again.done()
        start(node, "i-2")

        assert await answer(node, again) == [("step:0:i-2", 1)]

    play(scene)


def test_a_lease_that_no_instance_could_confirm_stays_for_the_next_repetition() -> None:
    """N-52: an answer of the dead front may have named it."""

    async def scene(node: ScheduledStage) -> None:
        assert await answer(node, claim(node, "ann", "1")) == [("step:0:i-1", 1)]
        await node.kill()
        again = claim(node, "ann", "1")
        await turns(3)
        [confirmation] = scheduled_loop().jobs
        confirmation.fail(Unavailable("the world is away"))
        await node.settle_down()
        with pytest.raises(Unavailable):
            await again

        assert await answer(node, claim(node, "ann", "1")) == [("step:0:i-1", 1)]
        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND, "the lease lasts"

    play(scene)


def test_a_follower_that_begins_again_names_no_lease_that_is_being_ended() -> None:
    """N-52a: the front is the same one, and so is the end that it has sent."""

    async def scene(node: ScheduledStage) -> None:
        first = Connection()
        assert await answer(node, claim(node, "ann", "1", first)) == [("step:0:i-1", 1)]
        first.ends(Delivery.UNREAD)
        await turns(3)
        node.steps.rebased(node.follower.state)

        again = claim(node, "ann", "1", wait_ms=10_000)
        await turns(3)
        assert not again.done()
        again.cancel()
        await node.settle_down()

    play(scene)


def test_a_follower_that_begins_again_knows_which_leases_were_prolonged() -> None:
    """N-52a: as without that, the end of the connection does not end the lease."""

    async def scene(node: ScheduledStage) -> None:
        connection = Connection()
        await answer(node, claim(node, "ann", "1", connection))
        beating = asyncio.ensure_future(answer_to_heartbeat(node, "ann", 1))
        await node.settle_down()
        assert (await beating)["answer"] == "leased"
        node.steps.rebased(node.follower.state)

        connection.ends(Delivery.IN_DOUBT)
        await node.settle_down()

        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND

    play(scene)


@pytest.mark.parametrize("turn_count", range(5))
def test_a_killed_front_ends_no_lease(turn_count: int) -> None:
    """Its clients are gone with it: a dead process sends nothing because of that."""

    async def scene(node: ScheduledStage) -> None:
        asking = claim(node, "ann", "1")
        await turns(3)
        [job] = scheduled_loop().jobs
        job.carry_out()
        job.answer()
        scheduled_loop().jobs.clear()
        node.follow(len(node.backlog))
        await turns(turn_count)
        asking.cancel()
        await node.kill()
        await node.settle_down()

        assert node.row("i-1")["locked_until"] > node.stage.now + SECOND, "the lease lasts"

    play(scene)
