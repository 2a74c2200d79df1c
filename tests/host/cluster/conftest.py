"""Servers and nodes that the tests of a process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aos.core.decide.answers import Admitted
from aos.host.door.writer import open_writer
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from tests.host import puppet
from tests.host.cluster.fronts import Answers, Fronts, give_webhook, patiently
from tests.host.cluster.node_processes import NodeProcess, joined, made, node_processes
from tests.nats_servers import Servers
from tests.node.test_webhooks import receiver


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


@pytest.fixture(scope="package")
def group(tmp_path_factory: pytest.TempPathFactory, three: Servers) -> Iterator[Fronts]:
    """A world of the puppet on three nodes. Tests start again what they kill."""
    top = tmp_path_factory.mktemp("fronts") / "fronted"
    top.mkdir()
    assert made(three, top / "a").code == 0
    folders = {"a": top / "a"}
    folders |= {name: joined(top / "a", top / name, name) for name in ("b", "c")}
    answers = Answers()
    with receiver(answers) as (url, posts), node_processes() as begin:
        for folder in folders.values():
            give_webhook(folder, url)
        fronts = Fronts(folders, begin, posts=posts, answers=answers)
        a = fronts.start("a")
        patiently(lambda: a.owns, lambda: a.output)
        with open_writer(folders["a"]) as writer:
            assert isinstance(writer.apply(puppet.manifest()).answer, Admitted)
        for name in ("b", "c"):
            fronts.start(name)
        fronts.all_ready()
        yield fronts
        for client in fronts.clients.values():
            client.close()
