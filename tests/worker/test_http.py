"""``sys/http.request@1`` against a server that does what servers do (X-60 to X-66)."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpcore
import pytest

from aos.errors import BadUsage
from aos.host.executors.http import HttpExecutor
from aos.host.executors.task import Halted
from aos.values.digests import content_hash, hash_text
from aos.worker.connections import Outside
from aos.worker.failure import EffectFailed, NotConfigured
from aos.worker.http import Client
from aos.worker.http_settings import AllowList, HttpLimits
from aos.worker.job import RequestContext
from aos.worker.results import WithBlobs, payload_of
from aos.worker.worker_secrets import SecretValue
from tests.free_ports import free_port
from tests.worker.stage import (
    Journal,
    act,
    effective,
    error_code,
    intent_of,
    payload,
    store_of,
    task,
)

PEM: Final = Path(__file__).parent / "shop_test.pem"
HTTP: Final = "sys/http.request@1"
OK: Final = b"HTTP/1.1 200 OK\r\n"


def response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


BOMB: Final = gzip.compress(bytes(3_000_000))
ANSWERS: Final[dict[str, bytes]] = {
    "/fine": response(b"hello", "X-A: 1", "x-a: 2", "Set-Cookie: a=1", "Set-Cookie: b=2"),
    "/missing": response(b"no", status="404 Not Found"),
    "/redirect": response(b"", "Location: /fine", status="302 Found"),
    "/gzip": response(gzip.compress(b"hello"), "Content-Encoding: gzip"),
    "/nested": response(gzip.compress(BOMB), "Content-Encoding: gzip, gzip"),
    "/brotli": response(b"\x8b", "Content-Encoding: br"),
    "/bomb": response(BOMB, "Content-Encoding: gzip"),
    "/large": response(bytes(70_000)),
    "/oversize": response(bytes(1_000_001)),
    "/chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "/to-the-end": OK + b"Connection: close\r\n\r\nhello",
    "/cut": OK + b"Content-Length: 10\r\nConnection: close\r\n\r\nhel",
    "/garbage": b"this is not HTTP\r\n\r\n",
    "/many-headers": response(b"", *(f"X-{n}: 1" for n in range(300))),
    "/huge-headers": response(b"", "X-Big: " + "x" * 200_000),
    "/latin": response(b"", "X-Name: caf\xe9"),
    "/no-content": b"HTTP/1.1 204 No Content\r\n\r\n",
}


@dataclass
class Server:
    """Answers from the table, and keeps what it was asked."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    server_names: list[str | None] = field(default_factory=list)
    _handlers: list[asyncio.Task[Any]] = field(default_factory=list)

    @asynccontextmanager
    async def listening(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        listening = await asyncio.start_server(self.handle, "127.0.0.1", self.port, ssl=tls)
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            listening.close()
            for each in self._handlers:
                each.cancel()
            await asyncio.gather(*self._handlers, return_exceptions=True)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.append(handler)
        try:
            await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    size = int(line.partition(b":")[2])
            self.requests.append(head + await reader.readexactly(size))
            path = head.split(b" ")[1].decode()
            if path == "/slow":
                writer.write(OK + b"Content-Length: 1000\r\n\r\n")
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            writer.write(ANSWERS.get(path.partition("?")[0], response(b"")))
            await writer.drain()
            if path in ("/to-the-end", "/cut", "/garbage"):
                break


def params(url: str, method: str = "GET", **more: Any) -> Any:
    """In normal form, though with a header that the core would not let through."""
    given: Any = {"method": method, "url": url, "headers": {}, **more}
    secret = given["headers"].get("X-A") if isinstance(given["headers"].get("X-A"), dict) else None
    if secret is not None:
        given["headers"] = {}
    normal: Any = effective().effects[HTTP].params.normalise(given)
    if secret is not None:
        normal["headers"]["X-A"] = secret
    return normal


def context(*secrets: SecretValue, blobs: Mapping[str, bytes] | None = None) -> RequestContext:
    ctx = RequestContext(
        intent="blake3:00",
        effect=HTTP,
        idempotency_key="blake3:11",
        attempt=1,
        workflow="w",
        key=None,
        issuer_ref=None,
        world="",
        deadline_ns=0,
        blobs=blobs or {},
    )
    ctx.named_secrets = {each.name: each for each in secrets}
    return ctx


def with_server(
    play: Callable[[Server, Client], Awaitable[Any]],
    *,
    allow: Callable[[int], list[str]] = lambda port: [f"127.0.0.1:{port}"],
    tls: bool = False,
    **more: Any,
) -> Server:
    """Play a scene with a server and a client that may reach what ``allow`` says of its port."""

    async def scene() -> Server:
        server = Server()
        ours = theirs = None
        if tls:
            ours = ssl.create_default_context(cafile=str(PEM))
            theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            theirs.load_cert_chain(PEM)

            def on_name(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
                server.server_names.append(name)

            theirs.sni_callback = on_name
        limits = HttpLimits(response_bytes_max=1_000_000, inline_bytes_max=64 * 1024)
        async with server.listening(theirs):
            outside = Outside(**more) if ours is None else Outside(ssl_context=ours, **more)
            client = Client(AllowList(allow(server.port)), limits, outside=outside)
            async with aclosing(client.connections):
                await play(server, client)
        return server

    return asyncio.run(scene())


def asked(path: str, method: str = "GET", **more: Any) -> tuple[WithBlobs, bytes]:
    """(result of one request, what the server got)."""
    results: list[WithBlobs] = []

    async def play(server: Server, client: Client) -> None:
        url = f"http://127.0.0.1:{server.port}{path}"
        results.append(await client.request(params(url, method, **more), context()))

    server = with_server(play)
    return results[0], server.requests[0]


def failure(path: str, method: str = "GET", **more: Any) -> EffectFailed:
    with pytest.raises(EffectFailed) as caught:
        asked(path, method, **more)
    return caught.value


def value(result: WithBlobs) -> dict[str, Any]:
    assert isinstance(result.value, dict)
    return result.value


def test_a_response_is_a_receipt() -> None:
    before = time.time_ns()
    result, _ = asked("/fine?x=1")
    found = value(result)

    assert (found["status"], found["body"], found["body_ref"]) == (200, b"hello", None)
    assert found["headers"] == {"content-length": "5", "x-a": "1, 2", "set-cookie": "a=1\nb=2"}
    timings = found["timings"]
    assert before <= timings["start_ns"] <= timings["end_ns"] <= time.time_ns()
    schema = effective().effects[HTTP].receipt
    assert isinstance(payload_of(result.value, schema, bytes_max=1000), bytes)


def test_a_request_says_what_it_must_and_no_more() -> None:
    """X-63."""
    _, request = asked("/fine?a=b", headers={"X-Mine": "1", "Accept": "text/plain"})

    lines = request.decode().split("\r\n")
    assert lines[0] == "GET /fine?a=b HTTP/1.1"
    assert lines[1].startswith("Host: 127.0.0.1:")
    assert sorted(lines[2:-2]) == [
        "Accept-Encoding: gzip, deflate",
        "Accept: text/plain",
        "User-Agent: aos",
        "X-Mine: 1",
    ]


@pytest.mark.parametrize(("method", "is_keyed"), [("POST", True), ("PATCH", True), ("PUT", False)])
def test_a_request_that_may_act_twice_carries_the_idempotency_key(
    method: str, is_keyed: bool
) -> None:
    _, request = asked("/fine", method, body=b"data")

    assert request.endswith(b"\r\n\r\ndata")
    assert b"Content-Length: 4\r\n" in request
    assert (b"Idempotency-Key: blake3:11\r\n" in request) == is_keyed


def test_the_workflow_may_give_an_idempotency_key_of_its_own() -> None:
    _, request = asked("/fine", "POST", headers={"idempotency-key": "mine"})

    assert request.lower().count(b"idempotency-key:") == 1
    assert b"idempotency-key: mine\r\n" in request


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/missing", 404, b"no"),
        ("/redirect", 302, b""),
        ("/gzip", 200, b"hello"),
        ("/brotli", 200, b"\x8b"),
        ("/chunked", 200, b"hello"),
        ("/to-the-end", 200, b"hello"),
        ("/no-content", 204, b""),
    ],
)
def test_any_response_of_the_server_is_the_result(path: str, status: int, body: bytes) -> None:
    """X-64: no redirect is followed, and an error of the server's is an answer."""
    result, _ = asked(path)

    assert (value(result)["status"], value(result)["body"]) == (status, body)


def test_headers_are_about_the_body_that_is_given() -> None:
    assert value(asked("/gzip")[0])["headers"] == {}
    assert value(asked("/brotli")[0])["headers"] == {
        "content-length": "1",
        "content-encoding": "br",
    }
    assert value(asked("/latin")[0])["headers"]["x-name"] == "caf\xe9"


def test_a_large_body_becomes_a_blob() -> None:
    """X-66."""
    result, _ = asked("/large")

    data = bytes(70_000)
    assert result.blobs == (data,)
    assert value(result)["body"] is None
    assert value(result)["body_ref"] == hash_text(content_hash(data))


@pytest.mark.parametrize(
    ("path", "code", "retryable"),
    [
        ("/bomb", "http_too_large", False),
        ("/oversize", "http_too_large", False),
        ("/many-headers", "http_bad_response", False),
        ("/huge-headers", "http_bad_response", False),
        ("/cut", "http_failed", True),
        ("/garbage", "http_failed", True),
    ],
)
def test_a_response_that_cannot_be_taken_is_an_error(path: str, code: str, retryable: bool) -> None:
    """X-65."""
    found = failure(path)

    assert (found.code, found.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "get"}, "method: expected one of DELETE, GET, "),
        ({"method": "CONNECT"}, "method: expected one of"),
        ({"method": "GET /\r\n"}, "method: expected one of"),
        ({"headers": {"Host": "evil"}}, "header Host: the node sets it, or leaves it out"),
        ({"headers": {"transfer-Encoding": "chunked"}}, "header transfer-Encoding: the node"),
        ({"headers": {"Proxy-Authorization": "x"}}, "header Proxy-Authorization: the node"),
        ({"headers": {"X A": "x"}}, "header 'X A': expected a token and plain text"),
        ({"headers": {"X-A": "x\r\nX-B: y"}}, "header 'X-A': expected a token and plain text"),
        ({"headers": {"X-A": "\0"}}, "header 'X-A': expected a token and plain text"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "header x-a: it is there twice"),
        ({"headers": {f"X-{n}": "1" for n in range(130)}}, "headers: expected at most 128"),
        ({"headers": {"X-A": "x" * 70_000}}, "headers: expected at most 128 and 65536 bytes"),
        ({"body": b"x", "body_ref": hash_text(content_hash(b"x"))}, "expected body or body_ref"),
    ],
)
def test_a_request_that_is_not_one_is_refused(given: dict[str, Any], message: str) -> None:
    found = failure("/fine", **given)

    assert (found.code, found.retryable) == ("http_bad_request", False)
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "fine",
        "ftp://a.example/",
        "http://",
        "http:///x",
        "http://u:p@a.example/",
        "http://[::1",
    ],
)
def test_a_url_that_is_not_one_is_refused(url: str) -> None:
    async def play(_: Server, client: Client) -> None:
        with pytest.raises(EffectFailed) as caught:
            await client.request(params(url), context())
        assert caught.value.code == "http_bad_request"

    with_server(play)


def test_a_host_that_is_not_allowed_is_refused_before_anything_is_sent() -> None:
    """X-61."""

    async def play(server: Server, client: Client) -> None:
        for host in ("127.0.0.1", "localhost", "[::1]", "169.254.169.254", "metadata.internal"):
            with pytest.raises(NotConfigured) as caught:
                await client.request(params(f"http://{host}:{server.port}/fine"), context())
            assert caught.value.code == "http_not_allowed"
            assert caught.value.remedy == (f"run the world with --allow-http {host}:{server.port}")

    server = with_server(play, allow=lambda _: ["127.0.0.1:1", "example.com"])
    assert server.connections == 0


@pytest.mark.parametrize(
    "host",
    ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "[fe80::1%25eth0]", "a..b"],
)
def test_an_address_in_disguise_is_no_host(host: str) -> None:
    """X-61: what a resolver might read as an address is not even looked up."""

    async def play(server: Server, client: Client) -> None:
        with pytest.raises(EffectFailed) as caught:
            await client.request(params(f"http://{host}:{server.port}/fine"), context())
        assert caught.value.code == "http_bad_request"

    assert with_server(play).connections == 0


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
        "100.64.0.1", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1",
        "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::",
        "64:ff9b::7f00:1", "fe80::1%lo",
    ],
)  # fmt: skip
def test_a_name_may_not_lead_inside(address: str) -> None:
    """X-62: every form of an address that is not of the internet at large."""

    async def resolve(_: str, __: int) -> list[str]:
        return [address]

    async def play(server: Server, client: Client) -> None:
        with pytest.raises(NotConfigured) as caught:
            await client.request(params(f"http://shop.test:{server.port}/fine"), context())
        assert caught.value.code == "http_not_allowed"

    seen = with_server(play, allow=lambda port: [f"shop.test:{port}"], resolve=resolve)
    assert seen.connections == 0


def test_a_name_that_changes_its_mind_is_asked_once() -> None:
    """X-62: the address that was looked at is the one that is connected to."""
    asked_for: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        asked_for.append(host)
        return ["93.184.216.34"] if len(asked_for) == 1 else ["127.0.0.1"]

    connected: list[str] = []

    class Network(httpcore.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
            connected.append(host)
            raise httpcore.ConnectError("this test allows no connection")

    async def play(_: Server, client: Client) -> None:
        with pytest.raises(EffectFailed) as caught:
            await client.request(params("http://shop.test/fine"), context())
        assert caught.value.code == "http_connect_failed"

    with_server(play, allow=lambda _: ["shop.test"], resolve=resolve, network=Network())
    assert (asked_for, connected) == (["shop.test"], ["93.184.216.34"])


def test_codings_one_around_the_other_are_not_taken_off() -> None:
    """X-64: each would multiply the work."""
    assert failure("/nested").code == "http_bad_response"


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Names lead to ``addresses``; returns the names that were asked for."""
    asked_for: list[str] = []

    async def getaddrinfo(self: object, host: str, port: int, **_: Any) -> list[Any]:
        asked_for.append(host)
        return [(2, 1, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked_for


def test_a_name_that_leads_to_a_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X-62."""
    resolving(monkeypatch, "127.0.0.1", "10.0.0.1", "::ffff:127.0.0.1")

    async def play(server: Server, client: Client) -> None:
        with pytest.raises(NotConfigured) as caught:
            await client.request(params(f"http://shop.test:{server.port}/fine"), context())
        assert caught.value.code == "http_not_allowed"
        assert str(caught.value) == (
            "shop.test leads to a private address: run the world with "
            f"--allow-http shop.test:{server.port}+private"
        )

    assert with_server(play, allow=lambda port: [f"shop.test:{port}"]).connections == 0


def test_a_name_is_resolved_once_and_that_address_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_for = resolving(monkeypatch, "127.0.0.1")

    async def play(server: Server, client: Client) -> None:
        for path in ("/fine", "/missing"):
            await client.request(params(f"http://shop.test:{server.port}{path}"), context())

    server = with_server(play, allow=lambda port: [f"shop.test:{port}+private"])

    assert asked_for == ["shop.test"]
    assert server.connections == 1
    assert f"\r\nHost: shop.test:{server.port}\r\n".encode() in server.requests[0]


def test_the_next_address_is_tried_when_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolving(monkeypatch, "127.0.0.2", "127.0.0.1")  # no server listens on the first

    async def play(server: Server, client: Client) -> None:
        await client.request(params(f"http://shop.test:{server.port}/fine"), context())

    assert with_server(play, allow=lambda port: [f"shop.test:{port}+private"]).connections == 1


def test_a_certificate_is_checked_against_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")

    async def play(server: Server, client: Client) -> None:
        await client.request(params(f"https://shop.test:{server.port}/fine"), context())
        with pytest.raises(EffectFailed) as caught:
            await client.request(params(f"https://other.test:{server.port}/fine"), context())
        assert (caught.value.code, caught.value.retryable) == ("http_connect_failed", False)

    server = with_server(
        play,
        allow=lambda port: [f"shop.test:{port}+private", f"other.test:{port}+private"],
        tls=True,
    )
    assert server.server_names == ["shop.test", "other.test"]
    assert len(server.requests) == 1


def test_a_port_without_a_listener_is_a_retryable_error() -> None:
    async def play(_: Server, client: Client) -> None:
        with pytest.raises(EffectFailed) as caught:
            await client.request(params("http://127.0.0.1:1/"), context())
        assert (caught.value.code, caught.value.retryable) == ("http_connect_failed", True)

    with_server(play, allow=lambda _: ["127.0.0.1:1"])


def test_a_name_that_is_not_known_is_an_error_that_may_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def getaddrinfo(self: object, host: str, port: int, **_: Any) -> list[Any]:
        raise OSError("Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)

    async def play(_: Server, client: Client) -> None:
        with pytest.raises(EffectFailed) as caught:
            await client.request(params("http://no.test/"), context())
        assert (caught.value.code, caught.value.retryable) == ("http_connect_failed", True)
        assert caught.value.message == "no.test cannot be resolved: Name or service not known"

    with_server(play, allow=lambda _: ["no.test"])


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert value(asked("/fine")[0])["status"] == 200


def test_requests_run_in_a_process_of_their_own() -> None:
    """X-60: with blobs both ways, and a body that does not end settled as a timeout."""
    data = b"from the store"
    blob = content_hash(data)
    server = Server()

    def ask(number: int, path: str, method: str = "GET", **more: Any) -> Any:
        url = f"http://127.0.0.1:{server.port}{path}"
        given = {"method": method, "url": url, "headers": {"X-N": "1"}, **more}
        return task(number, HTTP, given)

    async def play(executor: HttpExecutor, journal: Journal) -> None:
        tasks = [
            ask(1, "/fine"),
            ask(2, "/large"),
            ask(3, "/echo", "POST", body_ref=hash_text(blob)),
            ask(4, "/echo", "POST", body_ref=hash_text(content_hash(b"other"))),
            task(5, HTTP, {"method": "GET", "url": "http://example.com/", "headers": {}}),
            ask(6, "/slow"),
        ]
        async with server.listening():
            executor.publish(tasks)
            await journal.wait(4)
            await journal.until(lambda: bool(journal.halts))
            executor.cancel([intent_of(6)])
            await journal.wait(5)

    def make(journal: Journal) -> HttpExecutor:
        return HttpExecutor(
            [f"127.0.0.1:{server.port}"], read=store_of({blob: data}), report=journal.report
        )

    server.port = free_port()
    journal = act(make, play)

    assert payload(journal.of(1))["body"] == b"hello"
    large = payload(journal.of(2))["body_ref"]
    assert {hash_text(each) for each in journal.of(2).blobs} == {large}
    assert any(each.endswith(b"\r\n\r\nfrom the store") for each in server.requests)
    assert error_code(journal.of(4)) == "blob_missing"
    why = Halted(
        "held",
        "http_not_allowed",
        "host example.com is not allowed: run the world with --allow-http example.com",
    )
    assert journal.halts == [(intent_of(5), 1, why)]
    assert journal.of(6).status == "canceled"
    assert {each.executor for each in journal.outcomes} == {"node"}


def test_no_process_is_started_without_a_request() -> None:
    async def play(executor: HttpExecutor, _: Journal) -> None:
        await asyncio.sleep(0.01)
        assert executor.effects == {HTTP}
        assert executor._process.life is None

    act(lambda journal: HttpExecutor(read=store_of({}), report=journal.report), play)


def test_a_bad_entry_is_refused_when_the_executor_is_made() -> None:
    with pytest.raises(BadUsage, match="allowed HTTP host 'https://x'"):
        HttpExecutor(["https://x"], read=store_of({}))
