"""Real NATS servers for tests: on loopback, with data in a folder of the test."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aos.errors import BadUsage
from aos.host.nats_program import find_nats_server
from aos.host.nats_servers import HOST, PORTS_FILE, LocalServer, LocalServers
from aos.store.log.log import LogUnreachable
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import Unanswered
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import (
    NatsStreamState,
    log_settings,
    make_stream,
    new_stream_name,
    stream_state,
)
from aos.values.digests import Hash
from tests.tools import missing

PATIENT_S = 30.0
PORTS = range(10_000, 17_900)
"""Each server has three, 1,000 apart: below those of ``tests.free_ports``."""


def nats_program() -> Path:
    """The program; without it the test is skipped loudly, or fails."""
    try:
        return find_nats_server()
    except BadUsage as problem:
        missing(f"nothing is tested on NATS servers: {problem}")


def _first_port(count: int) -> int:
    """A first port of free ones, below those that the system gives to connections: a server that
    starts again must find its port free."""
    while True:
        first = secrets.choice(PORTS)
        numbers = (first + index + more for index in range(count) for more in (0, 1000, 2000))
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for number in numbers:
                probes.enter_context(socket.socket()).bind((HOST, number))
            return first


class Servers(LocalServers):
    """Servers with other settings: ``extra`` replaces parts of each configuration."""

    def __init__(
        self, folder: Path, *, count: int = 1, extra: Mapping[str, Any] | None = None
    ) -> None:
        self._extra = extra or {}
        first = None if (folder / PORTS_FILE).exists() else _first_port(count)
        super().__init__(folder, nats_program(), first_port=first, count=count)

    def configuration(self, server: LocalServer) -> dict[str, Any]:
        document = super().configuration(server)
        for name, value in self._extra.items():
            if value is None:
                del document[name]
            elif isinstance(value, Mapping) and isinstance(document.get(name), dict):
                document[name].update(value)
            else:
                document[name] = value
        return document

    def named(self, name: str) -> LocalServer:
        return next(server for server in self.servers if server.name == name)

    def kill(self, server: LocalServer) -> None:
        """End a server as a loss of power does."""
        assert server.process is not None
        server.process.kill()
        server.process.wait()

    def pause(self, server: LocalServer) -> None:
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)

    def resume(self, server: LocalServer) -> None:
        assert server.process is not None
        server.process.send_signal(signal.SIGCONT)

    def stop(self, server: LocalServer) -> None:
        """End a server in order."""
        assert server.process is not None
        server.process.terminate()
        server.process.wait(90)

    def restart(self, server: LocalServer) -> None:
        """Run a server again that has ended, and wait until it answers."""
        self.start_server(server)
        until = time.monotonic() + 90
        while server.document("/varz") is None:
            assert time.monotonic() < until, server.log.read_text()
            time.sleep(0.02)

    def connected(
        self,
        *,
        access: NatsAccess | None = None,
        is_tls: bool = False,
        answer_seconds: float = PATIENT_S,
    ) -> NatsConnection:
        """A connection, which waits ``answer_seconds`` for each answer: longer than that of a node,
        which asks again (``ANSWER_SECONDS``), as a test on a busy machine does not."""
        text = f"{self.address}/shop"
        address = NatsAddress.parse(text.replace("nats:", "tls:") if is_tls else text)
        return NatsConnection(address, access, answer_seconds=answer_seconds)


def new_log(connection: NatsConnection, *, replicas: int = 1) -> NatsLog:
    """The log of a new world."""
    name = new_stream_name(Hash(os.urandom(32)))
    made(connection, log_settings(name, replicas))
    while True:
        try:
            return NatsLog(connection, name)
        except LogUnreachable:
            continue


def made(connection: NatsConnection, settings: Mapping[str, Any]) -> NatsStreamState:
    for _ in range(20):
        try:
            return connection.run(make_stream(connection, settings))
        except Unanswered:  # servers that have just started, on a busy machine
            continue
    raise AssertionError("no answer")


def state_of(connection: NatsConnection, stream: str) -> NatsStreamState:
    return connection.run(stream_state(connection, stream))


def asked(connection: NatsConnection, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """An operator's request to JetStream."""
    return connection.run(connection.api(name, document))
