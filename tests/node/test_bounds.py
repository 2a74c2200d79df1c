"""The bounds of a connection, with small limits and the real protocol (N-140 to N-143)."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from aos.node.bodies import BodyRoom, ClientGoneError, receive_body
from aos.node.bounds import BoundedProtocol
from aos.node.calls import Delivery, connection_of
from aos.node.problems import Problem
from tests.node.steady_loop import run_steadily


class Small(BoundedProtocol):
    header_s = 0.2
    body_s = -0.7
    """With the grace of a second, 0.3 s."""
    part_s = 1.0
    connections_max = 3


async def endless(receive: Any, send: Any) -> None:
    """Send a stream until the client has gone away."""
    gone = asyncio.ensure_future(receive())  # the request; then its end
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while not gone.done() or (await gone)["type"] != "http.disconnect":
        if gone.done():
            gone = asyncio.ensure_future(receive())
        part = {"type": "http.response.body", "body": bytes(65_536), "more_body": True}
        await send(part)
        await asyncio.sleep(0)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer once the body is complete; never, if it is not."""
    if scope["path"] == "/endless":
        await endless(receive, send)
        return
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return
        if not message["more_body"]:
            break
    body = scope["path"].encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    config = uvicorn.Config(echo, http=Small, ws="none", lifespan="off", log_config=None)
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Small(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1]
        for each in list(state.connections):
            transport: Any = each.transport
            transport.abort()


async def talk(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause_s)
    async with asyncio.timeout(10):
        data = await reader.read()
    writer.close()
    return data


def rule(data: bytes) -> tuple[int, str]:
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)["rule"]


def test_time_in_which_the_process_cannot_run_does_not_count_here() -> None:
    async def act() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        time.sleep(0.5)  # noqa: ASYNC251  # as if another process had the processor
        stopped_s = loop.time() - began
        await asyncio.sleep(0.2)
        return stopped_s, loop.time() - began - stopped_s

    stopped_s, waited_s = run_steadily(act())

    assert stopped_s < 0.1
    assert waited_s >= 0.2


def test_a_silent_connection_and_half_a_header_end_in_time() -> None:
    async def act() -> tuple[bytes, bytes]:
        async with listening() as port:
            return await talk(port), await talk(port, b"GET / HTTP/1.1\r\nHo")

    silent, half = run_steadily(act())

    assert rule(silent) == rule(half) == (408, "header_is_late")


def test_half_a_body_is_cut_off_where_the_application_waits_for_it() -> None:
    async def act() -> bytes:
        async with listening() as port:
            try:
                return await talk(port, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")
            except ConnectionResetError:
                return b""

    assert run_steadily(act()) == b""


def test_requests_of_one_connection_each_have_the_whole_time() -> None:
    async def act() -> bytes:
        async with listening() as port:
            one = b"GET /%d HTTP/1.1\r\n\r\n"
            parts = [one % each for each in range(5)]
            last = b"GET /end HTTP/1.1\r\nConnection: close\r\n\r\n"
            return await talk(port, *parts, last, pause_s=0.1)

    data = run_steadily(act())

    assert data.count(b"200 OK") == 6
    assert data.endswith(b"/end")


def test_one_connection_too_many_is_answered_and_closed() -> None:
    async def act() -> bytes:
        async with listening() as port:
            kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            found = await talk(port)
            for _, writer in kept:
                writer.close()
            return found

    assert rule(run_steadily(act())) == (503, "connections_are_full")


def test_a_client_that_does_not_read_a_stream_is_disconnected_and_a_slow_one_is_not() -> None:
    """N-143"""

    async def act() -> tuple[int, int]:
        async with listening() as port:
            slow, stuck = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in (slow, stuck):
                writer.write(b"GET /endless HTTP/1.1\r\n\r\n")
            read, until_s = 0, asyncio.get_running_loop().time() + 2.0
            while asyncio.get_running_loop().time() < until_s:
                read += len(await slow[0].read(4_000_000))
                await asyncio.sleep(0.005)
            is_open = len(await slow[0].read(1))
            left = 0
            with suppress(ConnectionResetError):
                async with asyncio.timeout(10):
                    while part := await stuck[0].read(4_000_000):
                        left += len(part)
            for _, writer in (slow, stuck):
                writer.close()
            return is_open, left

    is_open, left = run_steadily(act())

    assert is_open == 1
    assert left < 100_000_000, "the content of the buffers, then the end"


def test_all_bodies_together_have_a_bound_and_their_room_comes_back() -> None:
    room = BodyRoom(10)
    with room.share() as take, room.share() as other:
        take(6)
        with pytest.raises(Problem) as caught:
            other(5)
        assert (caught.value.status, caught.value.retry_after_s) == (429, 1)
        other(4)
    with room.share() as take:
        take(10)


def test_a_body_ends_at_its_limit_its_time_or_with_its_client() -> None:
    parts = [b"abc", b"def"]

    async def some() -> dict[str, Any]:
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": True}
        await asyncio.sleep(60)
        raise AssertionError

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def read(receive: Any, most: int, declared: int | None = None) -> bytes:
        return await receive_body(
            receive, bytes_max=most, declared=declared, take=lambda _: None, seconds=0.1
        )

    with pytest.raises(Problem) as late:
        asyncio.run(read(some, 6))
    assert late.value.status == 408
    parts[:] = [b"abc", b"def"]
    with pytest.raises(Problem) as large:
        asyncio.run(read(some, 5))
    assert large.value.status == 413
    assert len(parts) == 0
    with pytest.raises(Problem):
        asyncio.run(read(some, 5, declared=6))
    with pytest.raises(ClientGoneError):
        asyncio.run(read(gone, 5))


async def watched(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request, and note how its answer was delivered."""
    connection = connection_of(scope)
    connection.watch(scope["state"]["found"].append)
    await echo(scope, receive, send)
    scope["state"]["gone"].append(connection.is_gone)


@pytest.mark.parametrize("is_local", [True, False])
def test_a_connection_shows_whether_the_last_answer_was_read(
    tmp_path: Path, *, is_local: bool
) -> None:
    """N-52a: a client that ended with an unread answer is found out; one that has read its answer,
    or that sends another request, has it."""
    reset = Delivery.UNREAD if is_local else Delivery.IN_DOUBT
    config = uvicorn.Config(watched, http=Small, ws="none", lifespan="off", log_config=None)
    state = ServerState()
    found: list[Delivery] = []
    gone: list[Any] = []

    address: Any = None

    def connect() -> socket.socket:
        client = socket.socket(socket.AF_UNIX if is_local else socket.AF_INET)
        client.settimeout(10)
        client.connect(address)
        return client

    async def ask(client: socket.socket) -> None:
        count = len(gone)
        client.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        while len(gone) == count:  # noqa: ASYNC110  # turns of this loop, no time
            await asyncio.sleep(0.001)

    async def until(count: int) -> None:
        async with asyncio.timeout(10):
            while len(found) < count:  # noqa: ASYNC110  # turns of this loop, no time
                await asyncio.sleep(0.001)

    async def act() -> None:
        nonlocal address
        loop = asyncio.get_running_loop()
        app_state = {"found": found, "gone": gone}

        def make() -> Small:
            return Small(config=config, server_state=state, app_state=app_state)

        if is_local:
            address = str(tmp_path / "s")
            server = await loop.create_unix_server(make, address)
        else:
            server = await loop.create_server(make, "127.0.0.1", 0)
            address = server.sockets[0].getsockname()
        async with server:
            reader = connect()
            await ask(reader)
            assert reader.recv(65_536)
            await ask(reader)
            await until(1)
            assert reader.recv(65_536)
            assert not gone[-1]()
            reader.close()
            assert gone[-1](), "before the loop has read that"
            await until(2)
            other = connect()
            await ask(other)
            other.close()
            await until(3)

    run_steadily(act())
    assert found == [Delivery.READ, Delivery.READ, reset]
