"""Webhooks post what workflows emit, each event in its order, until it is accepted (N-117a to
N-117d)."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import hashlib
import hmac
import json
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import httpx
import pytest

from aos.errors import BadUsage
from aos.host.folder.folder import open_folder
from aos.host.follower import Follower
from aos.node.node_settings import read_settings
from aos.node.webhooks import Position, Webhook, WebhookPoster
from tests.cli.shell import here
from tests.cookbook.worlds import executors
from tests.copies import copied
from tests.node.hostile_receivers import (
    HostileAnswer,
    SendBytes,
    dripping_header,
    endless,
    receiving,
)
from tests.node.nodes import WAIT_S, event
from tests.node.test_node_process import started, wait_until

SECRET = bytes(range(32))
ENDED = "trip/Booked@1"


class Post(NamedTuple):
    id: str
    body: bytes
    headers: Any


@contextmanager
def receiver(answer: Callable[[int], int]) -> Iterator[tuple[str, list[Post]]]:
    """A server: its URL, and the posts that came. ``answer`` is the status of the nth of them."""
    posts: list[Post] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            posts.append(Post(self.headers["webhook-id"], body, self.headers))
            self.send_response(answer(len(posts)))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", posts
    finally:
        server.shutdown()
        server.server_close()


def configure(path: Path, url: str, *lines: str) -> None:
    secret = path / "hook.secret"
    secret.write_bytes(b"whsec_" + base64.b64encode(SECRET) + b"\n")
    secret.chmod(0o600)
    text = [
        '[webhooks."trips"]', f'url = "{url}"', f'schemas = ["{ENDED}"]', 'secret = "hook.secret"',
        *lines,
    ]  # fmt: skip
    (path / "node.toml").write_text("\n".join(text))


def event_of(post: Post) -> tuple[int, ...]:
    """The step of the event that was posted, and its place there."""
    return tuple(map(int, post.id.split(".")[1:]))


def kept_position(path: Path) -> tuple[int, int]:
    """The event that the webhook posts next after a restart."""
    return Position(open_folder(path), "trips").load() or (0, 0)


def accepted(posts: list[Post], refused: int) -> list[str]:
    """The ids, in the order in which they were first accepted."""
    return list(dict.fromkeys(each.id for each in posts[refused:]))


def test_each_event_is_posted_in_order_though_the_receiver_fails_and_the_front_is_killed(
    template: Path, tmp_path: Path
) -> None:
    path = copied(template, tmp_path / "trips")
    refused = 2
    log = tmp_path / "log"
    with receiver(lambda number: 503 if number <= refused else 204) as (url, posts):
        configure(path, url)
        agencies = executors("saga", "agencies")
        with (
            started(path, log, "--executors", agencies) as node,
            httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
        ):
            for number in range(4):
                sent = client.post(
                    "/v1/events", json=event(f"h-{number}"), params={"wait": "settled"}
                )
                assert sent.status_code == 200
            wait_until(lambda: len(accepted(posts, refused)) >= 2)
            [front] = node.fronts()
            os.kill(front, signal.SIGKILL)
            wait_until(lambda: node.fronts() not in ([], [front]))
            with httpx.Client(base_url=node.url, timeout=WAIT_S) as again:
                for number in range(4, 7):
                    again.post("/v1/events", json=event(f"h-{number}"), params={"wait": "settled"})
                wait_until(lambda: len(accepted(posts, refused)) == 7)
                metrics = again.get("/metrics").text
        assert 'aos_webhook_posts_total{outcome="accepted",webhook="trips"}' in metrics
        assert 'aos_webhook_lag_records{webhook="trips"}' in metrics
    assert "webhook trips: event " in log.read_text()
    assert "answered 503; it is repeated" in log.read_text()

    assert len({each.id for each in posts[: refused + 1]}) == 1, "the first is posted until taken"
    places = [tuple(map(int, each.split(".")[1:])) for each in accepted(posts, refused)]
    assert places == sorted(places)
    steps = here("inspect", "journal", "--kind", "step", "--json", "--from", "1", "--world", path)
    emitted = [
        (step["seq"], index)
        for step in steps.lines
        for index, each in enumerate(step["events"])
        if each["schema"] == ENDED
    ]
    assert places == emitted
    for each in posts:
        document = json.loads(each.body)
        assert document["schema"] == ENDED
        assert each.id.endswith(f".{document['seq']}.{document['index']}")
        assert each.headers["idempotency-key"] == each.id
        stamp = each.headers["webhook-timestamp"]
        assert abs(int(stamp) - time.time()) < 600
        signed = f"{each.id}.{stamp}.".encode() + each.body
        digest = hmac.new(SECRET, signed, hashlib.sha256).digest()
        assert each.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def test_a_webhook_may_begin_with_earlier_events(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "trips")
    agencies = executors("saga", "agencies")
    with started(path, tmp_path / "log", "--executors", agencies) as node:
        httpx.post(
            f"{node.url}/v1/events", json=event("e-1"), params={"wait": "settled"}, timeout=WAIT_S
        )
    for first, expected in (("from = 1", 1), (None, 1)):
        with receiver(lambda _: 200) as (url, posts):
            configure(path, url, *([] if first is None else [first]))
            with started(path, tmp_path / "log2", "--executors", agencies) as node:
                if first is None:
                    answer = httpx.post(
                        f"{node.url}/v1/events", json=event("e-2"), params={"wait": "settled"},
                        timeout=WAIT_S,
                    )  # fmt: skip
                    assert answer.status_code == 200
                wait_until(lambda posts=posts, expected=expected: len(posts) >= expected)
                # A front that is killed before it has kept that would post it again.
                wait_until(lambda posts=posts: kept_position(path) > event_of(posts[-1]))
            assert len({each.id for each in posts}) == expected, "an accepted post is not repeated"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[webhooks."a b"]', 'webhooks."a b": expected a name'),
        ('[webhooks.a]\nurl = "ftp://x"', 'webhooks."a".url: expected a URL'),
        ('[webhooks.a]\nurl = "https://u:p@x"', 'webhooks."a".url: expected a URL'),
        ('[webhooks.a]\nurl = "https://x"\nschemas = []', 'webhooks."a".schemas: expected names'),
        ('[webhooks.a]\nurl = "https://x"\nschemas = ["b"]', 'webhooks."a".schemas: expected'),
        ('[webhooks.a]\nulr = "https://x"', 'webhooks."a".ulr is not a key'),
        ('[webhooks.a]\nurl = "https://x"\nschemas = ["s/E@1"]\nfrom = 0', ".from: expected"),
        ('[webhooks.a]\nurl = "https://x"\nschemas = ["s/E@1"]', 'webhooks."a".secret: expected a'),
        ('[webhooks.a]\nurl = "https://x"\nschemas = ["s/E@1"]\nsecret = "no"', "found no file"),
        ('[webhooks.a]\nurl = "https://x"\nschemas = ["s/E@1"]\nsecret = "open"', "mode 0644"),
        ('[webhooks.a]\nurl = "https://x"\nschemas = ["s/E@1"]\nsecret = "odd"', "something else"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "node.toml").write_text(text)
    for name, mode in (("open", 0o644), ("odd", 0o600)):
        (tmp_path / name).write_bytes(b"whsec_YQ==")
        (tmp_path / name).chmod(mode)

    with pytest.raises(BadUsage) as refused:
        read_settings(tmp_path)

    assert error in str(refused.value)


def dripping_body(send: SendBytes) -> None:
    send(b"HTTP/1.1 204 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        send(b"1\r\nx\r\n")
        time.sleep(0.05)


def away_until_a_date(send: SendBytes) -> None:
    date = email.utils.formatdate(time.time() + 90, usegmt=True).encode()
    send(b"HTTP/1.1 503 Away\r\nretry-after: " + date + b"\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "answer_s", "problem", "pause_s"),
    [
        (endless, WAIT_S, None, (0, 0)),
        (dripping_body, WAIT_S, None, (0, 0)),
        (dripping_header, 1.0, "no answer within 1 s", (0, 0)),
        (away_until_a_date, WAIT_S, "answered 503", (20, 90)),
    ],
)
def test_a_receiver_holds_no_webhook_and_fills_no_memory(
    tmp_path: Path,
    answer: HostileAnswer,
    answer_s: float,
    problem: str | None,
    pause_s: tuple[float, float],
) -> None:
    """N-117d: one deadline from the connection to the end of the header; a bounded part of the body
    is read, and nothing is unpacked. Retry-After may be a date."""

    async def post(url: str) -> tuple[str | None, float]:
        webhook = Webhook(name="w", url=url, schemas=frozenset(), secret=SECRET)
        folder: Any = SimpleNamespace(path=tmp_path)
        poster = WebhookPoster(webhook, folder, cast("Any", None), pytest.fail)
        poster.answer_s = answer_s
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            return await poster._post(client, "id", b"{}")

    with receiving(answer) as url:
        tracemalloc.start()
        outcome = asyncio.run(post(f"{url}/hook"))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert outcome[0] == problem
    assert pause_s[0] <= outcome[1] <= pause_s[1]
    assert peak < 8 * 1024 * 1024


def test_a_line_about_a_receiver_has_no_token_of_its_url_and_no_secret(
    template: Path, tmp_path: Path
) -> None:
    """N-117e: whatever the receiver or the HTTP package says."""
    path = copied(template, tmp_path / "trips")
    said = f"bad line: /hooks/t0ken%2Fa dXNlcjpwdzEyMw== {base64.b64encode(SECRET).decode()}"

    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.RemoteProtocolError(said)

    async def lines() -> list[str]:
        found: list[str] = []
        follower = Follower(path)
        await follower.start()
        hook = Webhook(
            name="trips",
            url="https://user:pw123@h/hooks/t0ken%2Fa",
            schemas=frozenset({ENDED}),
            secret=SECRET,
            first=1,
        )
        transport = httpx.MockTransport(answer)
        poster = WebhookPoster(hook, open_folder(path), follower, found.append, transport)
        running = asyncio.ensure_future(poster.run())
        async with asyncio.timeout(WAIT_S):
            while not found and not running.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        follower.close()
        return found

    sent = here("send", "trip/Requested@1", '{"trip_id": "t", "city": "Rome"}', "--world", path)
    assert sent.code == 0
    agencies = executors("saga", "agencies")
    assert here("run", "--until-idle", "--executors", agencies, "--world", path).code == 0

    [line] = asyncio.run(lines())

    mark = "[secret webhook trips]"
    assert f"no answer (bad line: /hooks/{mark} {mark} {mark})" in line
