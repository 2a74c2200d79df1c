"""Webhooks and spans of a replicated world continue where the last owner's node was
(spec/cluster.md, CL-330 to CL-333). The nodes are copies of one world with one bucket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from aos.errors import Unavailable
from aos.host.cluster.kept_positions import KeptPositions
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.node.position_file import PositionMovedError, SharedPosition
from aos.node.tracing.span_poster import READER as SPANS
from aos.node.tracing.span_poster import SpanPoster, newest_attempts
from aos.node.webhooks import READER, Webhook, WebhookPoster, emitted
from aos.read.views.view import View
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from tests.client.conftest import template, trips
from tests.copies import copied
from tests.node.nodes import WAIT_S
from tests.node.test_webhooks import ENDED, SECRET
from tests.node.tracing.test_spans import Receiver, all_spans, booked

__all__ = ["booked", "template", "trips"]

NAME = "trips"


@dataclass
class FakeLink:
    """The process of a node that owns the world. ``is_lost`` is whether the next requests
    get no answer; ``posted_when_lost`` has the number of ``posts`` at each such request."""

    path: Path
    shared: SharedBucket
    is_lost: list[bool] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    posts: list[str] = field(default_factory=list)
    posted_when_lost: list[int] = field(default_factory=list)

    async def cluster(self, op: str, **fields: Any) -> dict[str, Any]:
        folder = open_folder(self.path)
        positions = KeptPositions(
            MemoryBucket(self.shared), folder.world, folder.world_key(), lambda: "AOS-1"
        )
        if self.is_lost and self.is_lost.pop(0):
            self.posted_when_lost.append(len(self.posts))
            raise Unavailable("the servers do not answer")
        if op == "position":
            position = positions.load(fields["reader"])
            return {"position": position and [position.seq, position.index, position.reader_bytes]}
        self.kept.append(fields["seq"])
        words = [fields[name] for name in ("reader", "seq", "index", "more")]
        return {"kept": positions.keep(*words)}


def shared_position(link: FakeLink, reader: str, lines: list[str]) -> SharedPosition:
    return SharedPosition(cast("Any", link), 1, reader, lines.append)


def events_of(path: Path) -> int:
    """How many events a webhook of the world has to post."""
    with open_reader(path) as reader:
        view = View(reader.state, reader.store)
        return len(list(emitted(view, {ENDED}, 1, reader.state.next_seq - 1)))


async def _until(condition: Callable[[], bool], running: asyncio.Future[None]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition() and not running.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    if running.done():
        running.result()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def posted(
    path: Path, link: FakeLink, count: int, lines: list[str], *, first: int | None = 1
) -> list[str]:
    """The ids that a node posts in a term, until it has kept the position of so many."""
    ids = link.posts

    def answer(request: httpx.Request) -> httpx.Response:
        ids.append(request.headers["webhook-id"])
        return httpx.Response(204, stream=httpx.ByteStream(b""))

    follower = Follower(path)
    await follower.start()
    webhook = Webhook(
        name=NAME, url="http://h/", schemas=frozenset({ENDED}), secret=SECRET, first=first
    )
    poster = WebhookPoster(
        webhook, open_folder(path), follower, lines.append, httpx.MockTransport(answer)
    )
    assert poster.reader == f"{READER}/{NAME}"
    before = len(link.kept)
    shared = shared_position(link, poster.reader, lines)
    running = asyncio.ensure_future(poster.run(shared))
    await _until(lambda: len(ids) >= count and len(link.kept) - before >= count, running)
    follower.close()
    return ids


def test_the_next_owner_posts_what_the_last_one_has_not(booked: Path, tmp_path: Path) -> None:
    """CL-332: though it has no file, and its webhook would begin at the next record."""
    a, b = copied(booked, tmp_path / "a"), copied(booked, tmp_path / "b")
    bucket, lines = SharedBucket(), list[str]()
    count = events_of(booked)
    assert count >= 2

    async def run() -> tuple[list[str], list[str], list[str]]:
        first = await posted(a, FakeLink(a, bucket), 1, lines)
        (a / "node" / "webhooks" / f"{NAME}.json").unlink()
        second = await posted(b, FakeLink(b, bucket), count - len(first), lines, first=None)
        third = await posted(a, FakeLink(a, bucket), 0, lines, first=None)
        return first, second, third

    first, second, third = asyncio.run(run())

    assert len(first) + len(second) == count
    assert len({*first, *second}) == count, "no event is posted twice"
    assert third == []
    assert lines == []


def test_nothing_more_is_posted_before_a_position_is_kept(
    booked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CL-332"""
    monkeypatch.setattr("aos.node.position_file.KEEP_PAUSE_S", 0.05)
    path, lines = copied(booked, tmp_path / "a"), list[str]()
    count = events_of(path)
    # Read twice, kept at the begin, and kept after the first event.
    link = FakeLink(path, SharedBucket(), is_lost=[True, False, False, True, True, True])

    ids = asyncio.run(posted(path, link, count, lines))

    assert len(set(ids)) == len(ids) == count
    assert link.posted_when_lost == [0, 1, 1, 1]
    line = f"{READER}/{NAME}: it waits for the servers: the servers do not answer"
    assert lines == [line, line], "it is reported once for each position"


def test_a_node_whose_position_was_moved_continues_there(booked: Path, tmp_path: Path) -> None:
    """CL-333"""
    path, bucket = copied(booked, tmp_path / "a"), SharedBucket()
    shared = shared_position(FakeLink(path, bucket), SPANS, [])

    async def run() -> None:
        await shared.save(9)
        with pytest.raises(PositionMovedError):
            await shared.save(8)
        assert await shared.load() == (9, 0, b"")

    asyncio.run(run())


def test_spans_continue_with_the_attempts_of_open_effects(
    booked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CL-330: two nodes export what one would have."""
    monkeypatch.setattr("aos.node.tracing.span_poster.DELAY_S", 0)
    monkeypatch.setattr("aos.node.tracing.span_poster.BATCH", 1)
    monkeypatch.setattr("aos.node.tracing.span_poster.WINDOW", 1)
    bucket, receivers = SharedBucket(), list[Receiver]()
    expected = all_spans(booked)

    async def exported(path: Path, count: int) -> None:
        receiver = Receiver()
        receivers.append(receiver)
        follower = Follower(path)
        await follower.start()
        poster = SpanPoster(open_folder(path), follower, receiver, lambda _: None)
        link = FakeLink(path, bucket)
        shared = shared_position(link, SPANS, [])
        if len(receivers) == 1:
            await shared.save(1, more=b"{}")  # it begins with the first record
            link.kept.clear()
        running = asyncio.ensure_future(poster.run(shared))
        await _until(
            lambda: poster.exported >= count and bool(link.kept) and _is_kept(poster, link), running
        )
        follower.close()

    def _is_kept(poster: SpanPoster, link: FakeLink) -> bool:
        return link.kept[-1] == poster.position

    async def run() -> None:
        await exported(copied(booked, tmp_path / "a"), len(expected) // 2)
        await exported(copied(booked, tmp_path / "b"), len(expected) - len(receivers[0].taken))

    asyncio.run(run())

    taken: Sequence[Any] = [span for receiver in receivers for span in receiver.taken]
    assert [(span.seq, span.id) for span in taken] == [(span.seq, span.id) for span in expected]
    assert list(taken) == expected, "with the same attempts"


def test_the_newest_attempts_are_kept() -> None:
    attempts = {f"{number}": [["attempt", number, {}]] for number in range(100)}

    assert json.loads(newest_attempts(attempts)) == attempts
    kept = json.loads(newest_attempts(attempts, 300))
    assert list(kept) == list(attempts)[-len(kept) :]
    assert 0 < len(kept) < 100
    assert newest_attempts(attempts, 300) == json.dumps(kept).encode()
    assert len(newest_attempts(attempts, 300)) <= 300
