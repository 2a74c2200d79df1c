"""Streams: every record once, in order, also across a reconnection (N-116, N-117)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.cli.shell import in_silence, start
from tests.cookbook.worlds import executors
from tests.copies import copied
from tests.node.nodes import WAIT_S, WANTED, Node, event, front


class Sent(NamedTuple):
    id: str
    kind: str | None
    data: Any


def events(answer: httpx.Response) -> Iterator[Sent]:
    """The events of a stream; comments are left out."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        else:
            if "data" in fields:
                yield Sent(fields["id"], fields.get("event"), json.loads(fields["data"]))
            fields = {}


def some(
    client: httpx.Client, path: str, number: int, last: str | None = None, /, **query: Any
) -> list[Sent]:
    """The first events of a stream."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", path, params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        return list(islice(events(answer), number))


@pytest.fixture
def kernel() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has ended, where no kernel process is needed."""
    with start("version", stdout=subprocess.DEVNULL) as process:
        process.wait()
        yield process


def test_a_stream_has_every_record_once_and_continues_where_it_broke(node: Node) -> None:
    client = node.client()
    for index in range(3):
        client.post("/v1/events", json=event(f"x-{index}"), params={"wait": "settled"})
    end = client.get("/v1/world").json()["journal"]["records"]

    seen: list[Sent] = []
    last = None
    while len(seen) < end:
        first = {"from": 1} if last is None else {}
        seen += some(client, "/v1/journal/stream", min(7, end - len(seen)), last, **first)
        last = seen[-1].id

    assert [int(each.id) for each in seen] == list(range(1, end + 1))
    assert [each.data["seq"] for each in seen] == list(range(1, end + 1))
    listed = client.get("/v1/records", params={"from": 1, "limit": end}).json()["records"]
    assert [each.kind for each in seen] == [each["kind"] for each in listed]


def test_a_stream_waits_for_the_next_record(node: Node) -> None:
    client, other = node.client(), node.client()
    with client.stream("GET", "/v1/journal/stream", params={"kind": "event"}) as answer:
        found = events(answer)
        for id in ("n-1", "n-2"):
            seq = other.post("/v1/events", json=event(id)).json()["seq"]
            sent = next(found)
            assert (sent.id, sent.kind) == (str(seq), "event")
            assert sent.data["value"]["trip_id"] == id


def test_a_stream_of_one_instance_has_only_its_records(node: Node) -> None:
    client = node.client()
    client.post("/v1/events", json=event("one-1"), params={"wait": "settled"})
    client.post("/v1/events", json=event("one-2"), params={"wait": "settled"})
    steps = client.get(
        "/v1/records",
        params={"from": 1, "kind": "step", "workflow": "booking", "key": "one-1", "limit": 100},
    ).json()["records"]

    query: dict[str, Any] = {"from": 1, "kind": "step", "workflow": "booking", "key": "one-1"}
    found = some(client, "/v1/journal/stream", len(steps), **query)

    assert [each.data["seq"] for each in found] == [each["seq"] for each in steps]


def test_a_record_that_is_not_there_yet_or_no_id_is_a_problem(node: Node) -> None:
    client = node.client()
    future = client.get("/v1/journal/stream", params={"from": 10**9})
    garbled = client.get("/v1/journal/stream", headers={"Last-Event-ID": "x"})
    unknown = client.get("/v1/journal/stream", params={"kind": "evnt"})

    assert (future.status_code, future.json()["rule"]) == (404, "record_is_unknown")
    assert (garbled.status_code, garbled.json()["rule"]) == (400, "last_event_id_is_invalid")
    assert unknown.status_code == 400
    assert client.get("/v1/feed").status_code == 400
    missing = client.get("/v1/feed", params={"schema": "trip/Nothing@1"})
    assert (missing.status_code, missing.json()["rule"]) == (404, "schema_is_unknown")


def test_a_stream_may_begin_before_the_first_record_where_nothing_was_pruned(node: Node) -> None:
    """N-116, N-117: record 0 is the genesis, which no stream has."""
    client = node.client()
    client.post("/v1/events", json=event("begin-1"), params={"wait": "settled"})
    [first] = some(client, "/v1/journal/stream", 1, **{"from": 1})
    assert some(client, "/v1/journal/stream", 1, "0") == [first]
    ended = {"schema": "trip/Booked@1"}
    [whole] = some(client, "/v1/feed", 1, **ended, **{"from": 1})
    assert some(client, "/v1/feed", 1, **ended) == [whole], "by default a feed has all history"
    for last in ("0", "0.0", "0.7"):
        assert some(client, "/v1/feed", 1, last, **ended) == [whole]


def test_a_feed_resumes_between_two_events_of_one_step(node: Node) -> None:
    """The saga emits its end once for each trip."""
    client = node.client()
    manifest = client.get("/v1/manifest").json()
    for index in range(3):
        client.post("/v1/events", json=event(f"f-{index}"), params={"wait": "settled"})
    steps = client.get("/v1/records", params={"from": 1, "kind": "step", "limit": 1000}).json()
    emitted = [
        (step["seq"], place, each["schema"], each["value"])
        for step in steps["records"]
        for place, each in enumerate(step["events"])
    ]
    schemas = sorted({each[2] for each in emitted})
    assert schemas, manifest["schemas"]

    seen: list[Sent] = []
    last = None
    while len(seen) < len(emitted):
        first = {"from": 1} if last is None else {}
        [found] = some(client, "/v1/feed", 1, last, schema=schemas, **first)
        seen.append(found)
        last = found.id

    assert [(each.data["seq"], each.data["index"]) for each in seen] == [
        (seq, place) for seq, place, _, _ in emitted
    ]
    assert [each.data["value"] for each in seen] == [value for _, _, _, value in emitted]


def test_a_stream_from_a_pruned_record_is_410(
    template: Path, tmp_path: Path, kernel: subprocess.Popen[bytes]
) -> None:
    path = copied(template, tmp_path / "trips")
    for words in (
        ("send", WANTED, '{"trip_id": "p", "city": "Rome"}'),
        ("run", "--until-idle", "--executors", executors("saga", "agencies")),
        ("snapshot",),
        ("send", WANTED, '{"trip_id": "q", "city": "Rome"}'),
        ("journal", "prune", "--before", "newest"),
    ):
        assert in_silence(*words, "--world", path) == 0

    with front(path, tmp_path / "front", kernel, is_run=False) as node:
        client = node.client()
        pruned = client.get("/v1/journal/stream", params={"from": 2})
        record = client.get("/v1/record", params={"seq": 2})
        feed = client.get("/v1/feed", params={"from": 2, "schema": WANTED})
        end = client.get("/v1/world").json()["journal"]["records"]
        [last] = some(client, "/v1/journal/stream", 1, None, **{"from": end})

    assert (pruned.status_code, pruned.json()["rule"]) == (410, "record_was_pruned")
    assert (record.status_code, feed.status_code) == (410, 410)
    assert int(last.id) == end


def test_a_65th_stream_is_refused_and_a_closed_one_makes_room(node: Node) -> None:
    sockets = []
    try:
        for _ in range(64):
            raw = node.raw()
            raw.sendall(
                b"GET /v1/journal/stream HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % node.port
            )
            assert b"200 OK" in raw.recv(4096)
            sockets.append(raw)
        refused = node.client().get("/v1/journal/stream")
        assert (refused.status_code, refused.json()["rule"]) == (429, "streams_are_full")
        assert refused.headers["retry-after"]
    finally:
        for raw in sockets:
            raw.close()
    until_s = time.monotonic() + WAIT_S
    while True:
        with node.client().stream("GET", "/v1/journal/stream", params={"from": 1}) as answer:
            if answer.status_code == 200:
                return
        assert time.monotonic() < until_s, "no stream has ended"
        time.sleep(0.1)
