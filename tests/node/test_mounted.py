"""A front that is mounted behind a router (N-132a, N-132b, N-134a)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.errors import BadUsage
from aos.host.folder.folder import open_folder
from aos.node import openapi
from aos.node.mounted import Mounted, MountPoint
from aos.node.tokens import revoke
from tests.cli.shell import in_silence
from tests.copies import copied
from tests.node.nodes import (
    SERVER,
    WAIT_S,
    Node,
    at_router,
    event,
    front,
    running_kernel,
    wait_ready,
)
from tests.node.test_access import made
from tests.node.test_node_process import wait_until

PREFIX = "/w/alpha"


@pytest.fixture(scope="module")
def mounted(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The world ``alpha`` of a router, without tokens."""
    folder = tmp_path_factory.mktemp("mounted")
    path = copied(template, folder / "alpha")
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, folder / "front", kernel, mount=at_router()) as found,
    ):
        yield found


@pytest.fixture
def router(mounted: Node) -> Iterator[httpx.Client]:
    with mounted.routed() as found:
        yield found


# Paths (N-132b)


def test_the_paths_of_the_api_are_below_the_name_of_the_world(router: httpx.Client) -> None:
    sent = router.post(f"{PREFIX}/v1/events", json=event("m-1"), params={"wait": "ran"})
    assert sent.status_code == 200, sent.text
    wait_ready(router)

    for path in ("/v1/world", "/v1/cells?limit=1", "/healthz", "/readyz", "/v1/openapi.json"):
        assert router.get(f"{PREFIX}{path}").status_code == 200, path
        assert router.get(path).status_code == 200, path
    assert "aos_" in router.get(f"{PREFIX}/metrics").text
    assert router.get(f"{PREFIX}/v1/world").content == router.get("/v1/world").content


def test_the_header_log_is_below_the_name_of_the_world(mounted: Node) -> None:
    assert in_silence("checkpoint", "--world", mounted.path) == 0
    router = mounted.routed()

    found = router.get(f"{PREFIX}/log/checkpoint")

    assert found.status_code == 200
    assert found.content == router.get("/log/checkpoint").content
    refused = router.post(f"{PREFIX}/log/checkpoint")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert f"{PREFIX}/log/: expected GET" in refused.json()["detail"]


def test_addresses_in_answers_have_the_prefix_of_the_request(router: httpx.Client) -> None:
    below = router.get(f"{PREFIX}/v1/openapi.json").json()
    assert below == openapi.document(PREFIX)
    assert below["servers"] == [{"url": PREFIX}]
    assert router.get("/v1/openapi.json").json() == openapi.document()

    unknown = router.get(f"{PREFIX}/v1/none")
    assert (unknown.status_code, unknown.json()["detail"]) == (
        404,
        f"nothing is at {PREFIX}/v1/none (GET {PREFIX}/v1/openapi.json lists every path)",
    )
    wrong = router.get(f"{PREFIX}/v1/events")
    assert wrong.json()["detail"] == f"{PREFIX}/v1/events: expected POST, found GET"


def test_an_endless_answer_comes_below_the_name_too(router: httpx.Client) -> None:
    with router.stream("GET", f"{PREFIX}/v1/journal/stream?from=1") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "id: 1" in next(text for text in answer.iter_text() if "id:" in text)


HOSTILE = (
    "/w/other/v1/world", "/w/other/healthz", "/w/alph/v1/world", "/w/alphabet/v1/world", "/w/",
    "/w/ALPHA/v1/world", "/w//v1/world", "/w/alpha/../v1/world", "/w/alpha/../other/v1/world",
    "/w/alpha/./v1/world", "/w/alpha//v1/world", "/w/alpha/w/alpha/v1/world",
    "/w/alpha%2Fv1/world", "/w%2Falpha/v1/world", "/w%2falpha%2fv1%2fworld", "/%77/other/v1/world",
    "/w/%61lpha/v1/world", "/w/other%2F..%2Falpha/v1/world", "/w/alpha%00/v1/world",
    "/w/alpha%2F..%2Fother/v1/world", "/w/alpha/..%2Fv1/world", "/w/alpha\\v1\\world", "//v1/world",
    "/w/alpha;/v1/world", "/w/alpha/v1/../v1/world", "/w/alpha",
)  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_is_not_exactly_of_this_world_is_unknown(mounted: Node, path: str) -> None:
    answer, body = raw(mounted, f"GET {path} HTTP/1.1\r\nHost: {SERVER}\r\n")

    assert answer == 404, body
    assert b'"rule":"path_is_unknown"' in body.replace(b'": "', b'":"')
    assert b"application/problem+json" in body


# Where and from whom (N-132a)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:7460", 200), ("127.0.0.1:7460", 200), ("evil.example:7460", 403),
        ("localhost", 403), ("localhost:1", 403), ("node", 403), ("", 403),
    ],
)  # fmt: skip
def test_only_the_names_of_the_router_reach_it(mounted: Node, host: str, expected: int) -> None:
    for path in (f"{PREFIX}/v1/world", "/v1/world", f"{PREFIX}/healthz"):
        assert raw(mounted, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n")[0] == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (f"http://{SERVER}", 200), ("http://evil.example", 403), ("null", 403),
        ("http://localhost:7461", 403), ("", 403),
    ],
)  # fmt: skip
def test_only_the_pages_of_the_router_send_events(
    router: httpx.Client, origin: str, expected: int
) -> None:
    sent = router.post(f"{PREFIX}/v1/events", json=event("m-1"), headers={"origin": origin})

    assert sent.status_code == expected


def test_a_request_of_the_router_is_never_the_owners(mounted: Node) -> None:
    """On the node's own socket the same request is."""
    for path in (f"{PREFIX}/v1/snapshots", "/v1/snapshots"):
        refused = mounted.routed().post(path)
        assert (refused.status_code, refused.json()["rule"]) == (403, "token_does_not_allow")
    assert mounted.owner().post(f"{PREFIX}/v1/snapshots").status_code == 200
    assert mounted.owner().get("/v1/world").status_code == 200


PEERS = (
    (("192.0.2.7",), "192.0.2.7"),
    (("2001:db8::7",), "2001:db8::7"),
    (("192.0.2.7", "198.51.100.1"), ""),
    (("x" * 65,), ""),
    ((), ""),
)


@pytest.mark.parametrize(("peers", "expected"), PEERS)
def test_the_access_log_has_the_client_of_the_router(
    mounted: Node, peers: tuple[str, ...], expected: str
) -> None:
    path = f"{PREFIX}/v1/peers-{PEERS.index((peers, expected))}"
    raw(mounted, f"GET {path} HTTP/1.1\r\nHost: {SERVER}\r\n" + headers(peers))

    assert logged(mounted, path)["peer"] == expected


def test_the_word_of_a_client_about_its_address_counts_for_nothing(mounted: Node) -> None:
    path = "/v1/own-peer"
    mounted.client().get(path, headers={"aos-peer": "192.0.2.7"})

    assert logged(mounted, path)["peer"] == "127.0.0.1"


def headers(peers: tuple[str, ...]) -> str:
    return "".join(f"aos-peer: {peer}\r\n" for peer in peers)


def logged(node: Node, path: str) -> dict[str, Any]:
    """The line of the access log about the request for ``path``."""
    wait_until(lambda: path in [line["path"] for line in node.requests()])
    [line] = [line for line in node.requests() if line["path"] == path]
    return line


def raw(node: Node, head: str) -> tuple[int, bytes]:
    """Send a request as it is to the door; return the status and all bytes of the answer."""
    with node.raw() if node.door is None else socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_S)
        if node.door is not None:
            client.connect(str(node.door))
        client.sendall(f"{head}Connection: close\r\n\r\n".encode())
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


# Tokens (N-134a)


def test_a_token_for_all_worlds_opens_each_until_it_is_revoked(
    template: Path, tmp_path: Path
) -> None:
    all_worlds = tmp_path / "all"
    assert in_silence("init", all_worlds) == 0
    file = all_worlds / "node" / "tokens.json"
    path = copied(template, tmp_path / "alpha")
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, tmp_path / "front", kernel, mount={"tokens": str(file)}) as node,
    ):
        router = node.routed()

        def status(secret: str | None = None, path: str = "/v1/world") -> int:
            fields = {} if secret is None else {"authorization": f"Bearer {secret}"}
            return router.get(f"{PREFIX}{path}", headers=fields).status_code

        assert status() == 200, "no token exists"
        shared = made(all_worlds, "web", "read", rate="2/min", burst=2)
        own = made(path, "web", "read")

        assert status() == 401
        assert [status(own), status(shared), status(shared), status(shared)] == [200, 200, 200, 429]
        assert status(own) == 200, "the rate of another token of this name"
        wait_until(lambda: {"web", "*/web"} <= {line["token"] for line in node.requests()})

        lasting = made(all_worlds, "lasting", "read")
        fields = {"authorization": f"Bearer {lasting}"}
        with router.stream("GET", f"{PREFIX}/v1/journal/stream?from=1", headers=fields) as answer:
            parts = answer.iter_raw()
            next(parts)
            revoke(open_folder(all_worlds), "lasting")
            list(parts)  # the stream ends
        assert status(lasting) == 401

        other = made(all_worlds, "other", "read")
        assert status(other) == 200
        file.chmod(0o644)
        time.sleep(0.3)
        assert [status(other), status(), status(own)] == [401, 401, 200]
        assert "no token for all worlds is valid" in node.log.read_text()
        assert other.removeprefix("aos_") not in node.log.read_text()


# Settings


@pytest.mark.parametrize("name", ["a", "0", "a-b-", "x" * 63])
def test_the_front_reads_what_the_kernel_process_writes(name: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        mounted = Mounted(
            name=name, door=door, server=("::1", 7460), scheme="https", tokens=tmp_path / "t.json"
        )

        assert MountPoint.read(mounted.settings()) == MountPoint(
            name=name, door=door.fileno(), server=("::1", 7460), scheme="https",
            tokens=tmp_path / "t.json",
        )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["", "-a", "A", "a/b", "a.b", "..", "a\n", "é", "x" * 64, "a%2f", "a_b", "a b"]
)
def test_a_world_cannot_be_mounted_at_another_name(name: str) -> None:
    with (
        socket.socket(socket.AF_UNIX) as door,
        pytest.raises(BadUsage, match="not a name of a mounted world"),
    ):
        Mounted(name=name, door=door, server=("127.0.0.1", 7460), scheme="http")


def test_a_router_has_no_other_scheme() -> None:
    with socket.socket(socket.AF_UNIX) as door, pytest.raises(BadUsage, match="expected http or"):
        Mounted(name="a", door=door, server=("127.0.0.1", 7460), scheme="ftp")
