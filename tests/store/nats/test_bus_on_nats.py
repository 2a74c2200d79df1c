"""Requests over the bus on real servers (spec/cluster.md, CL-120 to CL-127)."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos.host.cluster.bus_asking import pass_on_to
from aos.host.cluster.bus_client import BusClient, NotCarriedOut, Owner
from aos.host.cluster.bus_server import inbox_of, node_subject, serve_bus
from aos.host.door.protocol import MIB, bodies_of, pack, unpack
from aos.store.log.nats_connection import ANSWER_SECONDS, NatsConnection
from aos.store.log.nats_messaging import NatsMessaging
from aos.values.digests import Hash
from tests.nats_servers import Servers
from tests.tools import takes_less_than

WORLD = Hash(b"w" * 32)

Answer = Callable[[bytes], Awaitable[bytes]]


class Asked:
    """An owner that answers each request with its own fields, and the requests that it had."""

    def __init__(self) -> None:
        self.inbox = inbox_of(WORLD, secrets.token_bytes(16))
        self.threads: set[str] = set()
        self.count = 0
        self.lines: list[str] = []
        self.pause_s = 0.0

    async def answer(self, messages: bytes) -> bytes:
        self.count += 1
        self.threads.add(threading.current_thread().name)
        await asyncio.sleep(self.pause_s)
        return b"".join(pack(dict(unpack(body))) for body in bodies_of(messages))

    def owner(self) -> Owner:
        return Owner("n1", b"i" * 16, node_subject(self.inbox))

    def client(self, connection: NatsConnection, patience_s: float = 60) -> BusClient:
        return BusClient(NatsMessaging(connection), self.owner, patience_s=patience_s)


def asking(
    servers: Servers, story: Callable[[Asked, Callable[[], NatsConnection]], Awaitable[None]]
) -> None:
    """Run a story with an owner that serves its inbox in this thread's loop."""
    asked = Asked()
    connections: list[NatsConnection] = []

    def connected() -> NatsConnection:
        connections.append(servers.connected(answer_seconds=ANSWER_SECONDS))
        return connections[-1]

    async def run() -> None:
        async with asyncio.timeout(240):
            async with serve_bus(connected(), asked.inbox, asked.answer, report=asked.lines.append):
                await story(asked, connected)

    try:
        asyncio.run(run())
    finally:
        for connection in connections:
            connection.close()


def test_requests_and_replies_of_many_mib(server: Servers) -> None:
    """CL-121: the owner answers in its own loop, and its thread is not that of the connection."""

    async def story(asked: Asked, connected: Callable[[], NatsConnection]) -> None:
        connection = connected()
        pass_on = pass_on_to(connection, asked.client(connection))
        for size in (0, 1, MIB, 20 * MIB):
            message = pack({"op": "module", "wasm": os.urandom(size)})
            assert await pass_on(message) == message
        assert asked.count == 4
        assert asked.threads == {threading.current_thread().name}

    asking(server, story)


def test_many_requests_at_the_same_time_on_three_servers(three: Servers) -> None:
    """CL-123: also a large one among them."""

    async def story(asked: Asked, connected: Callable[[], NatsConnection]) -> None:
        connection = connected()
        pass_on = pass_on_to(connection, asked.client(connection))
        messages = [pack({"op": "status", "number": number}) for number in range(200)]
        messages.append(pack({"op": "module", "wasm": bytes(8 * MIB)}))
        assert await asyncio.gather(*map(pass_on, messages)) == messages

    asking(three, story)


def test_a_long_answer_is_waited_for(server: Servers) -> None:
    """CL-121: longer than one message may take."""

    async def story(asked: Asked, connected: Callable[[], NatsConnection]) -> None:
        asked.pause_s = 3.0
        connection = connected()
        message = pack({"op": "status"})
        assert await pass_on_to(connection, asked.client(connection))(message) == message
        assert asked.count == 1

    asking(server, story)


def test_an_inbox_that_no_program_listens_to(server: Servers) -> None:
    """CL-125: known at once, and told after the patience."""
    asked = Asked()
    with server.connected() as connection:
        client = asked.client(connection, patience_s=0.5)

        def ask() -> None:
            with pytest.raises(NotCarriedOut, match="no program listens there") as refusal:
                connection.run(client.ask(pack({"op": "status"}), answer_s=60, is_repeatable=True))
            assert refusal.value.exit_code == Unavailable.exit_code

        assert takes_less_than(5, ask)


def test_a_server_that_ends_in_the_middle_ends_no_request(tmp_path: Path) -> None:
    """CL-120: asker and owner use the other servers."""
    with Servers(tmp_path, count=3) as servers:
        servers.start()

        async def story(asked: Asked, connected: Callable[[], NatsConnection]) -> None:
            connection = connected()
            pass_on = pass_on_to(connection, asked.client(connection))
            asked.pause_s = 1.0
            messages = [pack({"op": "status", "number": number}) for number in range(20)]
            await pass_on(messages[0])
            replies = asyncio.gather(*map(pass_on, messages))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(servers.kill, servers.servers[0])
            assert await replies == messages
            assert asked.count == 21

        asking(servers, story)


def test_pieces_fit_servers_that_take_short_messages(tmp_path: Path) -> None:
    """CL-121: max_payload of 64 KiB."""
    with Servers(tmp_path, extra={"max_payload": 65536}) as servers:
        servers.start()

        async def story(asked: Asked, connected: Callable[[], NatsConnection]) -> None:
            connection = connected()
            message = pack({"op": "module", "wasm": os.urandom(2 * MIB)})
            assert await pass_on_to(connection, asked.client(connection))(message) == message

        asking(servers, story)
