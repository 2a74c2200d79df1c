"""Tokens, scopes, hosts and origins over real connections (N-130 to N-138)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.host.folder.folder import open_folder
from aos.node.routes import ROUTES
from aos.node.tokens import Scope, create, revoke
from tests.copies import copied
from tests.node.nodes import WAIT_S, Node, event, front, running_kernel, wait_ready


@pytest.fixture(scope="module")
def closed(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with tokens."""
    folder = tmp_path_factory.mktemp("closed")
    path = copied(template, folder / "trips")
    made(path, "first", "read")
    with running_kernel(path) as kernel, front(path, folder / "front", kernel) as found:
        yield found


def made(path: Path, name: str, *scopes: str, **more: Any) -> str:
    secret = create(
        open_folder(path), name, tuple(map(Scope.read, scopes)), secret=os.urandom(32),
        now_ns=time.time_ns(), **more,
    )  # fmt: skip
    time.sleep(0.3)  # a running node looks at the file four times a second
    return secret


def status(client: httpx.Client, path: str, secret: str | None = None) -> int:
    headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
    return client.get(path, headers=headers).status_code


def test_a_node_with_tokens_wants_one(closed: Node) -> None:
    client = closed.client()
    secret = made(closed.path, "reader", "read")

    assert status(client, "/v1/world", secret) == 200
    for wrong in (None, secret[:-1], secret + "x", "aos_", "a b"):
        assert status(client, "/v1/world", wrong) == 401
    basic = client.get("/v1/world", headers={"authorization": "Basic dXNlcjpwYXNz"})
    assert basic.status_code == 401
    assert basic.headers["www-authenticate"] == "Bearer"
    assert status(client, "/healthz") == 200
    wait_ready(client)
    assert status(client, "/v1/openapi.json") == 200
    assert status(client, "/metrics") == 401


@pytest.mark.parametrize("path", [each.path for each in ROUTES if each.scope is None])
def test_an_operation_that_needs_no_token_looks_at_none(closed: Node, path: str) -> None:
    """N-119a: a check of a load balancer that sends an old token still sees that the node runs."""
    client = closed.client()
    for wrong in ("aos_unknown", "x"):
        assert status(client, path, wrong) == 200
    assert client.get(path, headers={"authorization": "Basic eA=="}).status_code == 200


@pytest.mark.parametrize("blanks", ["%s ", "%s\t", "\t %s \t"], ids=["blank", "tab", "both"])
def test_blanks_around_a_token_are_no_part_of_it(closed: Node, blanks: str) -> None:
    """N-103a"""
    secret = made(closed.path, f"blank-{blanks.encode().hex()}", "read")
    line = b"GET /v1/world HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n" % closed.port
    value = blanks % f"Bearer {secret}"
    with closed.raw() as raw:
        raw.sendall(line + f"Authorization:{value}\r\n\r\n".encode())
        assert raw.recv(1 << 12).startswith(b"HTTP/1.1 200")


def test_a_token_with_a_rate_is_slowed_down_and_no_other(closed: Node) -> None:
    """N-131a"""
    client = closed.client()
    slow = made(closed.path, "slow", "read", "send", rate="2/min", burst=3)
    other = made(closed.path, "other", "read")

    assert [status(client, "/v1/world", slow) for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/v1/world", headers={"authorization": f"Bearer {slow}"})
    assert refused.json()["rule"] == "token_is_too_fast"
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert refused.json()["detail"] == "slow: expected at most 2/min, and 3 at once"
    assert status(client, "/v1/world", other) == 200

    sender = made(closed.path, "sender", "read", "send", rate="1/min", burst=2)
    headers = {"authorization": f"Bearer {sender}"}
    body = {"items": [event(f"rate-{number}") for number in range(30)]}
    assert client.post("/v1/events", json=body, headers=headers).status_code == 200
    after = client.get("/v1/world", headers=headers)
    assert after.status_code == 429
    assert 20 * 60 <= int(after.headers["retry-after"]) <= 30 * 60


def test_a_token_does_only_what_its_scopes_allow(closed: Node) -> None:
    client = closed.client()
    trips, others = made(closed.path, "trips", "send:trip/*"), made(closed.path, "o", "send:shop/*")
    by_trips = {"authorization": f"Bearer {trips}"}
    by_others = {"authorization": f"Bearer {others}"}

    assert client.post("/v1/events", json=event("s-1"), headers=by_trips).status_code == 200
    refused = client.post("/v1/events", json=event("s-2"), headers=by_others)
    assert (refused.status_code, refused.json()["rule"]) == (403, "token_does_not_allow")
    batch = client.post("/v1/events", json={"items": [event("s-3")]}, headers=by_others)
    assert batch.json()["items"][0]["problem"]["status"] == 403
    assert status(client, "/v1/world", trips) == 403
    snapshot = client.post("/v1/snapshots", headers=by_trips)
    assert snapshot.status_code == 403


def test_a_revoked_token_is_out_within_a_second_and_its_stream_ends(closed: Node) -> None:
    client = closed.client()
    secret = made(closed.path, "gone", "read")
    headers = {"authorization": f"Bearer {secret}"}
    with client.stream("GET", "/v1/journal/stream", headers=headers) as answer:
        assert answer.status_code == 200
        parts = answer.iter_raw()
        next(parts)
        revoke(open_folder(closed.path), "gone")
        until = time.monotonic() + WAIT_S
        for _ in parts:
            assert time.monotonic() < until, "the stream does not end"

    assert status(client, "/v1/world", secret) == 401


def test_an_expired_token_is_out(closed: Node) -> None:
    client = closed.client()
    for life_s in (1.5, 15, 60):  # a busy machine may use a token too late
        expires_ns = time.time_ns() + int(life_s * 1e9)
        secret = made(closed.path, f"short-{life_s:g}", "read", expires_ns=expires_ns)
        if status(client, "/v1/world", secret) == 200:
            break
        assert time.time_ns() > expires_ns
    else:
        pytest.fail("no token was valid before its end")
    until = time.monotonic() + life_s + WAIT_S
    while status(client, "/v1/world", secret) == 200:
        assert time.monotonic() < until


def test_the_owner_needs_no_token_on_the_nodes_own_socket(closed: Node) -> None:
    owner = closed.owner()

    assert owner.get("/v1/world").status_code == 200
    made_snapshot = owner.post("/v1/snapshots")
    assert made_snapshot.status_code == 200, made_snapshot.text
    assert made_snapshot.json()["document"].startswith("blake3:")


def test_without_tokens_loopback_operates_nothing(node: Node) -> None:
    refused = node.client().post("/v1/snapshots")

    assert (refused.status_code, refused.json()["rule"]) == (403, "token_does_not_allow")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:{port}", 200),
        ("LOCALHOST:{port}", 200),
        ("127.0.0.1:{port}", 200),
        ("evil.example:{port}", 403),
        ("localhost", 403),
        ("localhost:1", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("", 403),
    ],
)
def test_only_the_nodes_own_names_reach_it_on_loopback(
    node: Node, host: str, expected: int
) -> None:
    client = node.client(headers={"host": host.format(port=node.port)})

    assert status(client, "/healthz") == expected


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", ""])
def test_a_foreign_origin_is_refused(node: Node, origin: str) -> None:
    found = node.client().post("/v1/events", json=event("o-1"), headers={"origin": origin})

    assert (found.status_code, found.json()["rule"]) == (403, "origin_is_foreign")
    assert "access-control-allow-origin" not in found.headers


def test_the_nodes_own_origin_is_accepted(node: Node) -> None:
    headers = {"origin": f"http://127.0.0.1:{node.port}"}

    assert node.client().get("/healthz", headers=headers).status_code == 200


def test_the_access_log_has_a_line_for_each_request_and_no_secret(closed: Node) -> None:
    client = closed.client()
    secret = made(closed.path, "logged", "read")
    headers = {"authorization": f"Bearer {secret}"}
    client.get("/v1/cells", params={"key_prefix": "private"}, headers=headers)
    client.get("/v1/nothing%E2%80%AE%0A", headers=headers)

    until = time.monotonic() + WAIT_S
    # They are written after the answers.
    while len(lines := closed.requests()) < 2 or lines[-1]["status"] != 404:
        assert time.monotonic() < until
    line, last = lines[-2:]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/cells", 200)
    assert line["token"] == "logged"
    assert line["ms"] > 0
    assert last["status"] == 404
    text = closed.log.read_text()
    assert "private" not in text
    assert secret.removeprefix("aos_") not in text
