"""Servers that the tests of a process share. Tests that break servers have their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.host.cluster import cluster_documents, overview
from aos.store.log.nats_connection import NatsConnection
from tests.nats_servers import Servers
from tests.store.nats.named_cluster import NamedCluster, named_cluster


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One server."""
    with Servers(tmp_path_factory.mktemp("nats-one")) as servers:
        servers.start()
        yield servers


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Three servers."""
    with Servers(tmp_path_factory.mktemp("nats-three"), count=3) as servers:
        servers.start()
        yield servers


@pytest.fixture
def connection(server: Servers) -> Iterator[NatsConnection]:
    with server.connected() as connection:
        yield connection


@pytest.fixture
def cluster(server: Servers, tmp_path: Path) -> Iterator[NamedCluster]:
    with named_cluster(server, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def long_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a status or a check, no node is silent, however late it comes after a beat."""
    for module in (cluster_documents, overview):
        monkeypatch.setattr(module, "LEASE_NS", 600 * 10**9)
