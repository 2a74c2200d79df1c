"""The clients of a node, sync and async, against a front, and against nodes that fail."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.client import (
    Accepted,
    AsyncClient,
    Client,
    Duplicate,
    Item,
    Refusal,
    Rule,
    WaitTimedOut,
    connect,
    node_connection,
    node_steps,
)
from aos.client.node_connection import AddressList, NodeUnavailable
from aos.client.requests import SharedRequests, request
from aos.errors import BadUsage, Pruned, Refused, Unavailable
from aos.values.cbor import encode
from tests.node.conftest import node
from tests.node.nodes import WANTED, Node, trip

__all__ = ["node"]


def test_each_event_gets_one_of_three_answers_over_http(node: Node) -> None:
    with Client(node.url) as world:
        accepted = world.send(WANTED, trip("h-1"), id="h-1")
        again = world.send(WANTED, trip("h-1"), id="h-1")
        refused = world.send(WANTED, {"trip_id": "h-1"})
        as_cbor = world.send(WANTED, encode({"trip_id": "h-2", "city": "Lisbon"}))

    assert isinstance(accepted, Accepted)
    assert accepted.to == (("trip/booking@1", "h-1"),)
    assert again == Duplicate(seq=accepted.seq)
    assert isinstance(refused, Refusal)
    assert refused.rule is Rule.EVENT_IS_INVALID
    assert "city" in refused.message
    assert isinstance(as_cbor, Accepted)
    assert as_cbor.to == (("trip/booking@1", "h-2"),)


def test_an_instance_is_the_same_over_http_as_from_the_folder(node: Node) -> None:
    with Client(node.url) as world, connect(node.path) as local:
        answer = world.send(WANTED, trip("i-1"))
        found = world.wait("booking", "i-1")
        same = local.instance("booking", "i-1")

        assert isinstance(answer, Accepted)
        assert found.status == "completed"
        assert found.seq > answer.seq
        assert same is not None
        assert (found.state, found.key, found.queued) == (same.state, same.key, same.queued)
        assert world.instance("booking", "never-sent") is None
        assert {"workflow": "trip/booking@1", "key": "i-1"}.items() <= next(
            each for each in world.instances(workflow="booking") if each["key"] == "i-1"
        ).items()
        assert all(each["key"] != "i-1" for each in world.instances(status="failed"))
        counts = world.count_cells(workflow="booking", where="key = i-1", group_by="status")
        assert counts["count"] == 1
        assert counts["groups"] == [{"value": "completed", "count": 1}]
        assert world.count_cells()["count"] == len([*world.instances()])
        with pytest.raises(BadUsage, match="group by, column 1: "):
            world.count_cells(workflow="booking", group_by="nothing")


def test_unknown_names_are_errors_and_a_wait_that_takes_too_long_gives_the_last_view(
    node: Node,
) -> None:
    with Client(node.url) as world:
        with pytest.raises(BadUsage, match="no workflow is called 'hotel': expected one of"):
            world.instance("hotel", "x")
        with pytest.raises(BadUsage, match="is keyed: expected the key of a cell after it"):
            world.instance("booking")
        with pytest.raises(BadUsage, match="expected a JSON value"):
            world.send(WANTED, {1, 2})
        with pytest.raises(WaitTimedOut, match=r"no such instance after 0\.2 s") as caught:
            world.wait("booking", "never-sent", timeout_s=0.2)
        assert caught.value.instance is None
        end = world.seq()
        with pytest.raises(BadUsage, match=f"found {end + 100}"):
            next(world.follow(after=end + 100))


def test_a_client_follows_the_same_records_over_http_as_from_the_folder(node: Node) -> None:
    with Client(node.url) as world, connect(node.path) as local:
        world.send(WANTED, trip("f-1"))
        world.send(WANTED, trip("f-2", "Atlantis"))
        world.wait("booking", "f-1")
        world.wait("booking", "f-2")
        end = world.seq()
        all_of = [each for each in world.follow(after=0, idle_s=0.2) if each["seq"] <= end]
        of_one = list(world.follow(after=0, workflow="booking", key="f-2", idle_s=0))

        assert all_of == [each for each in local.follow(after=0, idle_s=0) if each["seq"] <= end]
        assert of_one == list(local.follow(after=0, workflow="booking", key="f-2", idle_s=0))
        start = next(world.follow(after=end - 1))
        assert start["seq"] == end


def test_the_async_client_does_the_same_with_many_tasks(node: Node) -> None:
    async def book(world: AsyncClient, id: str) -> tuple[object, str]:
        answer = await world.send(WANTED, trip(id), id=id)
        return answer, (await world.wait("booking", id)).status

    async def all_of_them() -> None:
        async with AsyncClient(node.url) as world:
            before = await world.seq()
            found = await asyncio.gather(*(book(world, f"a-{each}") for each in range(8)))
            assert all(isinstance(answer, Accepted) for answer, _ in found)
            assert {status for _, status in found} == {"completed"}
            keys = {each["key"] async for each in world.instances(workflow="booking")}
            counts = await world.count_cells(workflow="booking", where="key ^= a-")
            assert (counts["count"], counts["groups"]) == (8, [])
            assert {f"a-{each}" for each in range(8)} <= keys
            events = world.follow(after=before, kinds=["event"], idle_s=0.2)
            assert len([each async for each in events]) == 8
            assert await world.instance("booking", "never-sent") is None
            with pytest.raises(BadUsage):
                await world.instance("hotel")

    asyncio.run(all_of_them())


def test_a_node_that_is_not_there_is_unavailable(unused_folder: Path) -> None:
    with Client(unused_folder) as world:
        with pytest.raises(Unavailable, match=r"no node serves this world \(start one: aos node"):
            world.send(WANTED, trip("x"), timeout_s=0)
        with pytest.raises(Unavailable):
            world.instance("booking", "x")
        with pytest.raises(Unavailable):
            next(world.follow(after=0))
    with Client("http://127.0.0.1:9") as world, pytest.raises(Unavailable, match="not answer"):
        world.seq()
    with pytest.raises(BadUsage, match="expected a URL with http"):
        Client("ftp://example")


@pytest.fixture
def unused_folder(tmp_path: Path) -> Path:
    return tmp_path


def answering(handle: Callable[[httpx.Request], httpx.Response]) -> Client:
    """A client whose requests ``handle`` answers."""
    world = Client("http://node")
    http = httpx.Client(base_url="http://node", transport=httpx.MockTransport(handle))
    world._nodes = AddressList("http://node", lambda _: http)
    return world


def problem(status: int, rule: str, detail: str = "the reason") -> httpx.Response:
    return httpx.Response(status, json={"status": status, "rule": rule, "detail": detail})


def test_an_event_is_sent_again_under_one_id_until_the_node_answers() -> None:
    ids: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        ids.append(json.loads(request.content)["submission_id"])
        match len(ids):
            case 1:
                raise httpx.ReadError("the connection broke")
            case 2:
                return problem(503, "world_is_unavailable")
            case 3:
                return problem(429, "world_is_busy")
        to: list[Any] = [{"workflow": "trip/booking@1", "key": "t"}]
        return httpx.Response(200, json={"seq": 7, "duplicate": True, "to": to})

    with answering(handle) as world:
        answer = world.send(WANTED, trip("t"))

    # The first try was accepted, and its answer was lost.
    assert answer == Accepted(seq=7, to=(("trip/booking@1", "t"),))
    assert len(ids) == 4
    assert len(set(ids)) == 1


@pytest.mark.parametrize(
    ("status", "rule", "error", "exit_code"),
    [
        (401, "token_is_missing", Refused, 1),
        (403, "token_does_not_allow", Refused, 1),
        (400, "body_is_invalid", BadUsage, 2),
        (500, "world_is_damaged", None, 3),
        (410, "value_was_erased", None, 3),
        (410, "record_was_pruned", Refused, 1),
        (503, "world_is_unavailable", Unavailable, 4),
        (502, "", Unavailable, 4),
    ],
)
def test_a_problem_is_the_error_with_the_exit_code_of_the_command_line(
    status: int, rule: str, error: type[Exception] | None, exit_code: int
) -> None:
    with (
        answering(lambda _: problem(status, rule)) as world,
        pytest.raises(error or Exception, match="the reason") as caught,
    ):
        world.send(WANTED, trip("t"), timeout_s=0)

    assert caught.value.exit_code == exit_code  # type: ignore[attr-defined]
    assert ("AOS_TOKEN" in str(caught.value)) == (status in (401, 403))


def test_a_page_that_is_no_node_is_unavailable() -> None:
    with (
        answering(lambda _: httpx.Response(200, text="<html>")) as world,
        pytest.raises(Unavailable, match="is this its URL"),
    ):
        world.send(WANTED, trip("t"), timeout_s=0)


def test_a_batch_has_an_answer_for_each_event_and_its_refusals_do_not_stop_it(node: Node) -> None:
    with Client(node.url) as world:
        given = [trip("b-1"), {"trip_id": "b-2"}, trip("b-3")]
        found = world.send_batch([Item(schema=WANTED, value=each) for each in given])
        as_cbor = world.send_batch(
            [Item(schema=WANTED, value=encode({"trip_id": "b-4", "city": "Lisbon"}))]
        )

    assert [type(each) for each in found] == [Accepted, Refusal, Accepted]
    assert isinstance(as_cbor[0], Accepted)


def test_a_follower_continues_after_the_last_record_when_the_connection_breaks() -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/records":
            return httpx.Response(200, json={"records": [{"seq": 9}], "next": None})
        asked.append(request.url.params["from"])
        match len(asked):
            case 1:
                cut = b':\n\nid: 3\nevent: step\ndata: {"seq": 3}\n\nid: 4\nevent: step\ndata: {"se'
                return httpx.Response(200, content=iter([cut]))
            case 2:
                raise httpx.ConnectError("refused")
            case 3:
                return problem(503, "world_is_unavailable")
            case 4:
                return httpx.Response(200, content=iter([b'id: 4\ndata: {"seq": 4}\n\n']))
        return problem(410, "record_was_pruned")

    with answering(handle) as world:
        records = world.follow(after=2)
        found = [next(records)["seq"], next(records)["seq"]]
        with pytest.raises(Pruned, match="the reason"):
            next(records)

    assert found == [3, 4]
    assert asked == ["3", "4", "4", "4", "5"]


def test_a_feed_has_each_event_once_and_resumes_between_two_of_one_step(node: Node) -> None:
    """N-117"""
    ended = ["trip/Booked@1"]
    with Client(node.url) as world:
        before = world.seq()
        for number in range(3):
            world.send(WANTED, trip(f"feed-{number}"))
            world.wait("booking", f"feed-{number}")
        feed = world.feed(ended, first=before + 1)
        found = [next(feed) for _ in range(3)]
        places = [(each["seq"], each["index"]) for each in found]
        rest = world.feed(ended, after=places[0])
        assert [next(rest), next(rest)] == found[1:]
        fresh = world.feed(ended, first=world.seq() + 1)
        world.send(WANTED, trip("feed-9"))
        assert next(fresh)["key"] == "feed-9"
        whole = world.feed(ended)
        assert [next(whole), next(whole)] == list(islice(world.feed(ended, first=1), 2))
        assert next(world.feed(ended, after=(0, 0))) == next(world.feed(ended))
        assert next(world.feed(ended))["seq"] <= found[0]["seq"], "by default it has all history"
        assert [each["key"] for each in found] == ["feed-0", "feed-1", "feed-2"]
        for wrong in ({"after": (1, 0), "first": 1}, {"first": 10**6}):
            with pytest.raises(BadUsage):
                next(world.feed(ended, **wrong))
        with pytest.raises(BadUsage, match="no manifest of this world has"):
            next(world.feed(["trip/Nothing@1"]))
        with pytest.raises(BadUsage, match="expected schemas"):
            next(world.feed([]))

    async def same() -> list[object]:
        async with AsyncClient(node.url) as world:
            return [
                event
                async for _, event in _numbered(world.feed(ended, first=before + 1), len(found))
            ]

    assert asyncio.run(same()) == found


async def _numbered(feed: Any, count: int) -> Any:
    """The first events of a feed, which is closed then."""
    number = 0
    async for each in feed:
        yield number, each
        number += 1
        if number == count:
            await feed.aclose()
            return


def test_a_feed_continues_after_the_last_event_when_the_connection_breaks() -> None:
    asked: list[tuple[str | None, str | None]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/records":
            return httpx.Response(200, json={"records": [{"seq": 9}], "next": None})
        asked.append((request.url.params.get("from"), request.headers.get("last-event-id")))
        match len(asked):
            case 1:
                raise httpx.ConnectError("refused")
            case 2:
                cut = b':\n\nid: 12.0\ndata: {"seq": 12, "index": 0}\n\nid: 12.1\ndata: {"s'
                return httpx.Response(200, content=iter([cut]))
            case 3:
                whole = b'id: 12.1\ndata: {"seq": 12, "index": 1}\n\n'
                return httpx.Response(200, content=iter([whole]))
        return problem(410, "record_was_pruned")

    with answering(handle) as world:
        feed = world.feed(["a/B@1"])
        assert [next(feed)["index"], next(feed)["index"]] == [0, 1]
        with pytest.raises(Pruned):
            next(feed)

    assert asked == [(None, None), (None, None), (None, "12.0"), (None, "12.1")]


@pytest.mark.parametrize("path", ["feed", "follow"])
def test_a_feed_and_a_follower_wait_for_a_node_that_starts(path: str) -> None:
    """As ``send`` does, and no longer than they are told."""
    tries: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        tries.append(request.url.path)
        if len(tries) == 1:
            raise httpx.ConnectError("refused")
        if len(tries) == 2:
            return problem(503, "starting")
        if request.url.path == "/v1/records":
            return httpx.Response(200, json={"records": [{"seq": 9}], "next": None})
        return httpx.Response(200, content=iter([b'id: 4.0\ndata: {"seq": 4, "index": 0}\n\n']))

    with answering(handle) as world:
        found = world.feed(["a/B@1"]) if path == "feed" else world.follow(after=3)
        assert next(found)["seq"] == 4

    tries.clear()
    with answering(lambda _: problem(503, "starting")) as world:
        found = (
            world.feed(["a/B@1"], timeout_s=0)
            if path == "feed"
            else world.follow(after=3, timeout_s=0)
        )
        with pytest.raises(NodeUnavailable, match="the reason"):
            next(found)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("most", [1_000, 10**9])
def test_an_answer_that_does_not_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, *, is_async: bool, most: int
) -> None:
    """W-4b: it is too long, or comes too slowly."""
    monkeypatch.setattr(node_connection, "ANSWER_BYTES_MAX", most)
    monkeypatch.setattr(node_steps, "ANSWER_S", 60.0 if most == 1_000 else 0.3)

    def dripping() -> Iterator[bytes]:
        while True:
            yield bytes(100)
            time.sleep(0.01)

    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return dripping()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in dripping():
                yield part

    async def asked() -> None:
        async with AsyncClient("http://node") as world:
            http = httpx.AsyncClient(
                base_url="http://node",
                transport=httpx.MockTransport(lambda _: httpx.Response(200, stream=Body())),
            )
            world._nodes = AddressList("http://node", lambda _: http)
            await world.seq()

    text = "more than 1,000 bytes" if most == 1_000 else "no whole answer after 0.3 s"
    with answering(lambda _: httpx.Response(200, stream=Body())) as world:
        ask = (lambda: asyncio.run(asked())) if is_async else world.seq
        with pytest.raises(Unavailable, match=text):
            ask()


def test_both_clients_are_made_with_the_same_options() -> None:
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


def test_both_clients_have_the_same_requests_with_one_text() -> None:
    requests = {name for name, value in vars(SharedRequests).items() if isinstance(value, request)}
    blocking, awaited = Client("http://node"), AsyncClient("http://node")

    assert {"send", "instance", "count_cells", "wait", "document"} <= requests
    for name in requests:
        answer, coroutine = getattr(blocking, name), getattr(awaited, name)
        assert inspect.signature(answer) == inspect.signature(coroutine)
        assert "self" not in inspect.signature(answer).parameters
        assert answer.__doc__ == coroutine.__doc__ == getattr(Client, name).__doc__
        assert answer.__doc__
        assert inspect.iscoroutinefunction(coroutine)
        assert not inspect.iscoroutinefunction(answer)
