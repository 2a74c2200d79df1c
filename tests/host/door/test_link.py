"""The async client of the socket: calls are joined, broken connections are made again (H-53c)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aos.boot_clock import boot_ns
from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.inputs import AttemptInput
from aos.errors import BadUsage, Unavailable
from aos.host.door.following import LiveFigures
from aos.host.door.link import CLOSED, Link
from aos.host.door.protocol import LENGTH_BYTES, SEND_ITEMS_MAX, ManifestChanged, pack, unpack
from aos.host.door.remote import NotSent
from aos.host.executors.task import Halted
from aos.host.folder.folder import open_folder
from aos.values.cbor import Value
from aos.values.digests import Hash
from tests.host.door.test_work_requests import frame, opened, outcome
from tests.host.rig import TIMEOUT_S, add
from tests.host.served import Served, make_folder, served

T = TypeVar("T")


def run(body: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(TIMEOUT_S):
            return await body

    return asyncio.run(bounded())


@contextlib.asynccontextmanager
async def linked(world: Served) -> AsyncIterator[Link]:
    link = Link(open_folder(world.path))
    try:
        yield link
    finally:
        await link.close()


def test_calls_of_one_turn_leave_as_one_request_and_each_gets_its_own_answers(
    tmp_path: Path,
) -> None:
    async def body(world: Served) -> None:
        manifest = world.rig.loaded.effective.hash
        async with linked(world) as link:
            answers = await asyncio.gather(
                *(link.send([add(f"k-{n}", submission_id=f"s-{n}")], manifest) for n in range(300)),
                link.send([add("a"), add("k-0", submission_id="s-0")], manifest),
                link.send([], manifest),
            )
        singles, (first, again), none = answers[:300], answers[300], answers[301]
        assert none == []
        seqs = [each.seq for [each] in singles if isinstance(each, Admitted)]
        assert len(seqs) == 300
        assert seqs == sorted(seqs)
        assert isinstance(first, Admitted)
        assert again == Duplicate(seq=seqs[0])

    with served(tmp_path / "w") as world:
        world.rig.quiet()
        batches = requests(world)
        run(body(world))
        assert batches == [302]


def requests(world: Served) -> list[int]:
    """How many inputs each call of the engine gets from now on."""
    sizes: list[int] = []
    submit = world.rig.engine.submit

    def counted(inputs: Any, **more: Any) -> Any:
        sizes.append(len(inputs))
        return submit(inputs, **more)

    world.rig.engine.submit = counted  # type: ignore[method-assign]
    return sizes


def test_a_request_takes_whole_calls_as_far_as_they_fit(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        async with linked(world) as link:
            most = [add("a") for _ in range(SEND_ITEMS_MAX)]
            calls = (link.send(most[: SEND_ITEMS_MAX - 1], None), link.send(most[:2], None))
            many, two = await asyncio.gather(*calls)
            assert (len(many), len(two)) == (SEND_ITEMS_MAX - 1, 2)

    with served(tmp_path / "w") as world:
        batches = requests(world)
        run(body(world))
        assert sorted(batches) == [2, SEND_ITEMS_MAX - 1]


def test_events_for_another_manifest_are_refused_and_the_others_are_taken(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        async with linked(world) as link:
            right, wrong = world.rig.loaded.effective.hash, Hash(bytes(32))
            taken, refused = await asyncio.gather(
                link.send([add("a")], right), link.send([add("b")], wrong), return_exceptions=True
            )
            assert isinstance(taken, list)
            assert isinstance(taken[0], Admitted)
            assert isinstance(refused, ManifestChanged)

    with served(tmp_path / "w") as world:
        run(body(world))


def test_work_of_another_process_reaches_the_journal(tmp_path: Path) -> None:
    async def body(world: Served, intents: list[Hash]) -> None:
        async with linked(world) as link:
            assert isinstance(
                await link.answer(
                    AttemptInput(intent=intents[0], attempt=2, problem="the lease was lost")
                ),
                Admitted,
            )
            assert isinstance(
                await link.answer(Halted("parked", "leases", "lost 5 times").of(intents[0], 2)),
                Admitted,
            )
            lost = await link.answer(
                AttemptInput(
                    intent=intents[1], attempt=1, phase="lost", problem="the lease was lost"
                )
            )
            assert isinstance(lost, Refusal), "it may run more than once"
            told = await link.answer(frame(intents[1]))
            assert isinstance(told, Refusal)
            assert told.rule is Rule.STREAM_HAS_NO_TAKER
            answers = await asyncio.gather(
                *(link.answer(outcome(each, attempt=2)) for each in intents)
            )
            assert {type(each) for each in answers} == {Admitted}

    with served(tmp_path / "w") as world:
        run(body(world, opened(world, 300)))
        world.rig.quiet()
        assert world.rig.engine.stats().figures.open_intents == 0


def test_the_process_that_is_not_there_has_taken_nothing(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        link = Link(open_folder(path))
        for call in (
            link.send([add("a")], None), link.status(), link.work(),
            link.answer(AttemptInput(intent=Hash(bytes(32)), attempt=1)),
            link.answer(outcome(Hash(bytes(32)))),
        ):  # fmt: skip
            with pytest.raises(NotSent, match="no process runs this world"):
                await call
        await link.close()

    run(body(make_folder(tmp_path / "w", Hash(bytes(32)))))


def test_a_connection_that_made_room_is_made_again_without_a_word(tmp_path: Path) -> None:
    """H-51b"""

    async def body(world: Served) -> None:
        async with linked(world) as one, linked(world) as two:
            for _ in range(3):
                for link in (one, two):
                    [answer] = await link.send([add("a")], None)
                    assert isinstance(answer, Admitted)

    with served(tmp_path / "w", connections_max=1) as world:
        run(body(world))
        assert world.rig.engine.stats().figures.events == 6, "none was taken twice"


def test_a_caller_that_is_canceled_takes_no_one_elses_answer(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        async with linked(world) as link:
            calls = [
                asyncio.create_task(link.send([add(f"{n}", submission_id=f"{n}")], None))
                for n in range(5)
            ]
            await asyncio.sleep(0)
            calls[2].cancel()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(found.pop(2), asyncio.CancelledError)
            seqs = [each[0].seq for each in found if isinstance(each, list)]  # type: ignore[union-attr]
            assert len(seqs) == 4
            [again] = await link.send([add("3", submission_id="3")], None)
            assert again == Duplicate(seq=seqs[2])

    with served(tmp_path / "w") as world:
        run(body(world))


def test_calls_that_wait_when_the_link_is_closed_are_told(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        async with linked(world) as link:
            calls = [asyncio.create_task(link.send([add("a")], None)) for _ in range(3)]
            await asyncio.to_thread(world.rig.store.entered.wait, TIMEOUT_S)
            late = asyncio.create_task(link.send([add("b")], Hash(bytes(32))))
            await asyncio.sleep(0)
            await link.close()
            for call in (*calls, late):
                with pytest.raises(Unavailable, match=CLOSED):
                    await call

    with served(tmp_path / "w") as world:
        world.rig.quiet()
        world.rig.store.entered.clear()
        world.rig.store.gate.clear()
        try:
            run(body(world))
        finally:
            world.rig.store.gate.set()


@pytest.mark.parametrize(
    "answer",
    [
        pack({"answers": []}),
        pack({"answers": [{"seq": "text"}]}),
        pack({"answers": 1}),
        pack({}),
        b"\0\0\0\1\xf6",
        b"\xff\xff\xff\xff",
        b"\0\0",
        b"",
    ],
)
def test_a_world_that_answers_nonsense_fails_the_call_and_not_the_next(
    tmp_path: Path, answer: bytes
) -> None:
    path = make_folder(tmp_path / "w", Hash(bytes(32)))

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        items: list[Value] = unpack(await reader.readexactly(size))["items"]
        is_first = next(asked)
        fields: list[Value] = [{"seq": 7, "to": []} for _ in items]
        writer.write(answer if is_first else pack({"answers": fields}))
        await writer.drain()
        writer.close()

    async def body() -> None:
        link = Link(open_folder(path))
        async with await asyncio.start_unix_server(speak, path / "aos.sock"):
            with pytest.raises((BadUsage, Unavailable)):
                await link.send([add("a")], None)
            assert await link.send([add("b")], None) == [Admitted(seq=7)]
            await link.close()

    asked = iter([True, False])
    run(body())


def test_a_link_knows_by_its_own_clock_how_long_tasks_may_be_handed_out(tmp_path: Path) -> None:
    """CL-89: also if the process of the world is suspended and says nothing more."""

    async def body(world: Served) -> None:
        heads: asyncio.Queue[int] = asyncio.Queue()
        async with linked(world) as link:
            assert link.holds_lease()
            following = asyncio.create_task(link.follow(lambda seq, _: heads.put_nowait(seq)))
            await heads.get()
            assert link.holds_lease(), "an embedded world"
            followers = world.server.followers
            for left_ns, holds_lease in ((10**12, True), (-1, False), (2 * 10**9, True)):
                followers._lease_end_ns = lambda left_ns=left_ns: boot_ns() + left_ns  # type: ignore[misc]
                world.loop.call_soon_threadsafe(followers.notify)
                await heads.get()
                await heads.get()
                assert link.holds_lease() == holds_lease
            followers._lease_end_ns = lambda: 1
            following.cancel()

    with served(tmp_path / "w") as world:
        run(body(world))


def test_a_follower_is_connected_again_when_the_world_comes_back(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        heads: asyncio.Queue[int] = asyncio.Queue()
        stops: asyncio.Queue[int] = asyncio.Queue()
        seen: list[LiveFigures] = []

        def on_head(seq: int, figures: LiveFigures) -> None:
            heads.put_nowait(seq)
            seen.append(figures)

        async with linked(world) as link:
            following = asyncio.create_task(link.follow(on_head, lambda: stops.put_nowait(0)))
            first = await heads.get()
            assert link.is_following
            await asyncio.to_thread(world.rig.ask, add("a"))
            await asyncio.to_thread(world.rig.quiet)
            while (seq := await heads.get()) < world.rig.store.head().seq:
                pass
            assert seq > first
            assert stops.empty()
            world.loop.call_soon_threadsafe(world.server.followers.end)
            for _ in range(3):  # each connection gets one message and the end, and another is made
                await stops.get()
            assert seen[-1].seq == seq
            following.cancel()

    with served(tmp_path / "w") as world:
        run(body(world))
