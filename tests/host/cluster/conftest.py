"""Servers and nodes that the tests of a process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from tests.host.cluster.node_processes import NodeProcess, node_processes
from tests.nats_servers import Servers


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Three servers. No test breaks them. Their buckets have three replicas, whichever test is the
    first to use them."""
    with Servers(tmp_path_factory.mktemp("nats-three"), count=3) as servers:
        servers.start()
        with servers.connected() as connection:
            for bucket in (WORLDS, BEATS):
                NatsBucket(connection, bucket, replicas=3)
        yield servers


@pytest.fixture
def run() -> Iterator[Callable[..., NodeProcess]]:
    """Start a node: ``run(folder, *words)``."""
    with node_processes() as begin:
        yield begin
