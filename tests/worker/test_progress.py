"""A stream of one intent: no faster than the manifest says, the newest kept (X-70 to X-74)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from aos.manifest.limits import MIB, WorldLimits
from aos.worker import progress
from aos.worker.outcome import StreamFrame
from aos.worker.progress import ProgressStream
from tests.worker.stage import intent_of


class Listener:
    """Holds a stream and what it sent. ``now`` is its clock."""

    def __init__(self, *, has_taker: bool = True, first: int = 0, **limits: int) -> None:
        self.now = 100.0
        self.sent: list[StreamFrame] = []
        self.complaints: list[str] = []
        self.stream = ProgressStream(
            intent=intent_of(1),
            effect="test/echo@1",
            limits=WorldLimits(**limits),
            first=first,
            has_taker=has_taker,
            send=self.sent.append,
            complain=self.complaints.append,
            clock=lambda: self.now,
        )

    @property
    def numbers(self) -> list[int]:
        return [each.frame_seq & 0xFFFFFFFF for each in self.sent]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def rehearse(scene: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        await scene()

    asyncio.run(play())


def test_as_many_frames_leave_at_once_as_a_second_may_have() -> None:
    async def scene() -> None:
        told = Listener(stream_rate=5)
        tell = told.stream.begin(1)
        for number in range(9):
            tell("k", number, None)
        await turns()
        assert told.numbers == [0, 1, 2, 3, 4]

        told.now += 1.0  # not yet: the journal's clock is another
        told.stream._pump()
        assert told.numbers == [0, 1, 2, 3, 4]

        told.now += 0.06
        told.stream._pump()
        assert told.numbers == list(range(9))
        told.stream.end()
        assert told.stream.dropped == 0

    rehearse(scene)


def test_waiting_progress_is_sent_by_itself_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "WINDOW_S", 0.02)

    async def scene() -> None:
        told = Listener(stream_rate=2)
        told.stream._clock = asyncio.get_running_loop().time
        tell = told.stream.begin(1)
        for number in range(5):
            tell("k", number, None)
        async with asyncio.timeout(60):
            while len(told.sent) < 5:  # noqa: ASYNC110  # what is waited for is a timer of the loop
                await asyncio.sleep(0.005)

    rehearse(scene)


def test_past_the_bound_the_oldest_that_waits_is_dropped() -> None:
    async def scene() -> None:
        told = Listener(stream_rate=1)
        tell = told.stream.begin(1)
        for number in range(200):
            tell("k", number, None)
        await turns()
        assert told.numbers == [136]
        assert told.stream.dropped == 136

        told.now += 2
        told.stream._pump()
        assert told.numbers == [136, 137]
        told.stream.end()
        assert told.stream.dropped == 198

    rehearse(scene)


def test_frames_that_wait_are_bounded_in_bytes() -> None:
    async def scene() -> None:
        told = Listener(stream_bytes=2 * MIB, stream_rate=1)
        tell = told.stream.begin(1)
        tell("k", b"", None)
        await turns()
        for size in (400_000, 400_000, 400_000, 1_500_000):
            tell("k", bytes(size), None)
        assert told.stream.dropped == 3
        assert told.stream._waiting_bytes == 1_500_000
        tell("k", b"", bytes(900_000))
        assert (told.stream.dropped, told.stream._waiting_bytes) == (4, 900_000)

    rehearse(scene)


def test_at_the_end_the_newest_leave_as_far_as_the_rate_allows() -> None:
    async def scene() -> None:
        told = Listener(stream_rate=10)
        tell = told.stream.begin(1)
        for number in range(4):
            tell("k", number, None)
        await turns()
        for number in range(4, 30):
            tell("k", number, None)
        told.stream.end()
        assert told.numbers == [0, 1, 2, 3, 24, 25, 26, 27, 28, 29]
        assert told.stream.dropped == 20

    rehearse(scene)


def test_a_new_attempt_keeps_the_rate_of_its_intent() -> None:
    async def scene() -> None:
        told = Listener(stream_rate=2)
        for attempt in (1, 2):
            tell = told.stream.begin(attempt)
            for number in range(2):
                tell("k", number, None)
            await turns()
            told.stream.end()
        assert [each.frame_seq for each in told.sent] == [1 << 32, (1 << 32) + 1]
        assert told.stream.dropped == 2

    rehearse(scene)


def test_an_intent_has_no_more_frames_than_the_manifest_says() -> None:
    async def scene() -> None:
        told = Listener(stream_frames=3)
        tell = told.stream.begin(1)
        for number in range(5):
            tell("k", number, None)
        told.stream.end()
        assert (told.numbers, told.stream.dropped) == ([0, 1, 2], 2)

    rehearse(scene)


@pytest.mark.parametrize(
    ("kind", "payload", "blob", "problem"),
    [
        ("k" * 129, None, None, "kind: expected text of 1 to 128 bytes, found 'kkk"),
        ("ä" * 65, None, None, "kind: expected text of 1 to 128 bytes, found 'ää"),
        ("\ud800", None, None, "'utf-8' codec can't encode character"),
        (None, None, None, "kind: expected text of 1 to 128 bytes, found None"),
        ("k", {"a": [1.5]}, None, "expected no floats, found float 1.5"),
        ("k", bytes(11), None, "payload: expected at most 10 bytes, found 11 (limits.world.str"),
        ("k", None, "text", "blob: expected bytes, found str"),
        ("k", None, bytes(4097), "blob: expected at most 4096 bytes, found 4097 (limits.world.ev"),
    ],
)
def test_progress_that_cannot_be_sent_is_reported_once_an_intent(
    kind: object, payload: object, blob: object, problem: str
) -> None:
    """X-73."""

    async def scene() -> None:
        told = Listener(stream_bytes=10, event_bytes=4096)
        tell = told.stream.begin(1)
        tell(kind, payload, blob)
        tell(kind, payload, blob)
        tell("fine", None, None)
        await turns()
        (complaint,) = told.complaints
        assert problem in complaint
        assert complaint.startswith("progress: ")
        assert [each.frame_kind for each in told.sent] == ["fine"]
        assert told.stream.dropped == 0

    rehearse(scene)


def test_frames_of_several_threads_are_numbered_without_a_gap_and_keep_the_order_of_each() -> None:
    async def scene() -> None:
        told = Listener(stream_rate=4096)
        tell = told.stream.begin(1)

        def body(name: str) -> None:
            for number in range(15):
                tell(name, number, None)

        threads = [threading.Thread(target=body, args=(name,)) for name in "abcd"]
        for each in threads:
            each.start()
        for each in threads:
            await asyncio.to_thread(each.join)
        await turns()
        told.stream.end()
        assert told.numbers == list(range(60))
        for name in "abcd":
            assert [each.payload[0] for each in told.sent if each.frame_kind == name] == list(
                range(15)
            )

    rehearse(scene)


def test_a_value_is_taken_as_it_is_when_it_is_told() -> None:
    async def scene() -> None:
        told = Listener()
        tell = told.stream.begin(1)
        value = [1]
        tell("k", value, None)
        value.append(2)
        await turns()
        assert told.sent[0].payload == b"\x81\x01"

    rehearse(scene)
