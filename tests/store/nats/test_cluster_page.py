"""The configuration of servers on the page (spec/cluster.md, CL-10): three servers run with it, on
other ports of this machine, and a node has the permissions that it needs."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from aos.errors import Refused
from aos.host.cluster.bus_asking import pass_on_to
from aos.host.cluster.bus_client import BusClient, Owner
from aos.host.cluster.bus_server import client_subject, inbox_of, node_subject, serve_bus
from aos.host.door.protocol import pack
from aos.host.nats_servers import LocalServer
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import check_durable
from aos.store.log.nats_messaging import NatsMessaging
from aos.values.digests import Hash
from tests.guides.code_blocks import blocks_of
from tests.nats_servers import Servers, new_log, state_of
from tests.store.log.nodes import LogNode, frames_after
from tests.store.nats.test_nats_access import certificate, user

STATUS = pack({"op": "status"})


class PageServers(Servers):
    """Servers that run with the blocks of the page."""

    def __init__(self, folder: Path, files: Path, public: str, sender: str) -> None:
        self._files = files
        self._public = public
        self._sender = sender
        super().__init__(folder, count=3)

    def start_server(self, server: LocalServer) -> None:
        text = "\n".join(blocks_of("cluster.md", "conf"))
        for index, other in enumerate(self.servers, 1):
            text = text.replace(f"10.0.0.{index}:6222", f"127.0.0.1:{other.ports.route}", 3)
        own = self.servers[0].ports.route
        listen = f'listen: "127.0.0.1:{own}"'
        assert listen in text
        text = text.replace(listen, f'listen: "127.0.0.1:{server.ports.route}"')
        for expected, actual in {
            "server_name: n1": f"server_name: {server.name}",
            "10.0.0.1:4222": f"127.0.0.1:{server.ports.client}",
            "10.0.0.1:8222": f"127.0.0.1:{server.ports.monitor}",
            "/var/lib/nats": str(self._path / server.name),
            "/etc/nats/n1-key.pem": str(self._files / "server-key.pem"),
            "/etc/nats/n1.pem": str(self._files / "server.pem"),
            "/etc/nats/ca.pem": str(self._files / "node.pem"),
            "UPUBLICKEYOFTHEUSER": self._public,
            "UPUBLICKEYOFTHESENDER": self._sender,
        }.items():
            assert expected in text, expected
            text = text.replace(expected, actual)
        assert "10.0.0." not in text
        server.configuration.write_text(text)
        server.process = subprocess.Popen(
            [self._program, "--config", str(server.configuration)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def test_servers_run_with_the_configuration_of_the_page(tmp_path: Path) -> None:
    server_cert, _ = certificate(tmp_path, "server")
    cert, key = certificate(tmp_path, "node")
    seed, public = user()
    sender_seed, sender_public = user()
    access = NatsAccess(
        credentials=seed, authorities=server_cert, certificate=cert, certificate_key=key
    )
    sender = replace(access, credentials=sender_seed)
    with PageServers(tmp_path / "servers", tmp_path, public, sender_public) as servers:
        servers.start()
        with servers.connected(access=access, is_tls=True) as connection:
            log = new_log(connection, replicas=3)
            check_durable(servers.monitors, state_of(connection, log.stream).replicas)
            node, reader = LogNode(log), LogNode(log)
            node.writer.append(frames_after(node.tip, b"1"))
            reader.read()
            assert reader.journal == [b"1"]
            assert len(list(log.read_again(1, 1))) == 1
            log.trim(2)
            for name in (WORLDS, BEATS):
                bucket = NatsBucket(connection, name, replicas=3)
                revision = bucket.create("shop", b"1")
                bucket.replace("shop", b"2", revision)
                assert [entry.value for _, entry in bucket.entries()] == [b"2"]
            with servers.connected(access=sender, is_tls=True) as client:
                for name in (WORLDS, BEATS):
                    entry = NatsBucket(client, name, replicas=None).get("shop")
                    assert entry is not None
                with pytest.raises(Refused, match="does not permit"):
                    NatsBucket(client, WORLDS, replicas=None).replace("shop", b"3", revision)
            with servers.connected(access=sender, is_tls=True) as client:
                asyncio.run(_asked(connection, client))


def _same(owner: Owner) -> Owner:
    return owner


async def _asked(connection: NatsConnection, client: NatsConnection) -> None:
    """A sender asks at the subject for clients; at that for nodes it may not."""
    inbox = inbox_of(Hash(b"w" * 32), b"i" * 16)

    async def answer(messages: bytes) -> bytes:
        return messages

    async with serve_bus(connection, inbox, answer):
        for asking, subject, is_permitted in (
            (connection, node_subject(inbox), True),
            (client, client_subject(inbox), True),
            (client, node_subject(inbox), False),
        ):
            owner = Owner("n1", b"i" * 16, subject)
            pass_on = pass_on_to(asking, BusClient(NatsMessaging(asking), partial(_same, owner)))
            if is_permitted:
                assert await pass_on(STATUS) == STATUS
            else:
                with pytest.raises(Refused, match="does not permit"):
                    await pass_on(STATUS)
