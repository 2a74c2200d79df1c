"""The process of a node that owns a world on NATS when no other does, and serves its inbox.
Its cells run no step.

    python -m tests.host.cluster.bus_owner FOLDER ADDRESS STREAM NODE

It prints a line when it owns the world. ``made`` makes the world first.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from aos.host.apply.migrator import Migrator
from aos.host.cluster.beating import Beats
from aos.host.cluster.bus_server import inbox_of, serve_bus
from aos.host.cluster.lease import Decision
from aos.host.cluster.registration import WorldRegistration, register
from aos.host.cluster.replica import Replica, ReplicaSettings, Role
from aos.host.door.exchange import answering
from aos.host.door.server import Server
from aos.host.world.engine import Engine
from aos.store.log.log import LogUnreachable
from aos.store.log.logged_store import LoggedStore
from aos.store.log.nats_address import NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_log import NatsLog
from tests.cli.shell import ROOT, environment
from tests.host.cluster.owner_process import WORLD, begin
from tests.memory_world import OPERATOR, WORLD_KEY
from tests.nats_servers import Servers, new_log

LEASE_NS = 10**9


def made(servers: Servers, folder: Path, name: str) -> str:
    """Make the world under a name; return its stream. The store of each node is a folder in
    ``folder``."""
    with servers.connected() as connection:
        log = new_log(connection)
        register(
            NatsBucket(connection, WORLDS, replicas=1),
            WorldRegistration(name=name, world=WORLD, stream=log.stream).signed(WORLD_KEY),
        )
        NatsBucket(connection, BEATS, replicas=1)
        with LoggedStore.create(folder / "a") as store:
            begin(store, log, log.stream).thread.close()
        with LoggedStore.create(folder / "b") as store:
            store.begin(log.stream)
        return log.stream


@contextlib.contextmanager
def owner(folder: Path, address: str, stream: str, node: str) -> Iterator[subprocess.Popen[str]]:
    """The process, which is killed at the end. It may not own the world yet."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.host.cluster.bus_owner", str(folder), address, stream, node],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=environment(PYTHONPATH=f"{ROOT / 'kernel'}:{ROOT / 'cli'}:{ROOT}"),
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def owns(process: subprocess.Popen[str]) -> None:
    """Wait until the process owns the world."""
    assert process.stdout is not None
    assert process.stdout.readline() == "owns\n"


def main(folder: Path, address: str, stream: str, node: str) -> None:
    connection = NatsConnection(NatsAddress.parse(address))
    instance = secrets.token_bytes(16)
    inbox = inbox_of(WORLD, instance)
    beats = Beats(
        NatsBucket(connection, BEATS, replicas=1), stream=stream, world=WORLD, key=WORLD_KEY,
        node=node, instance=instance, inbox=inbox,
    )  # fmt: skip
    settings = ReplicaSettings(
        world=WORLD, key=WORLD_KEY, stream=stream, host={"kernel": "test"}, lease_ns=LEASE_NS
    )
    with LoggedStore.open(folder / node) as store:
        replica = Replica(store, NatsLog(connection, stream), beats, settings)
        while replica.role is not Role.OWNING:
            with contextlib.suppress(LogUnreachable):
                _turn(replica)
            time.sleep(0.1)
        world = replica.world()
        engine = Engine(
            world, store=store, key=WORLD_KEY, migrator=Migrator(world.blobs.read, world=folder),
            has_started=True,
        )  # fmt: skip
        engine.start()
        threading.Thread(target=_beat, args=(replica,), daemon=True).start()
        asyncio.run(_serve(engine, store, address, inbox))


def _turn(replica: Replica) -> None:
    if replica.role is Role.CLOSED:
        replica.restore()
    elif replica.role is Role.CLAIMING:
        replica.claim()
    elif replica.turn() is Decision.TAKE_OVER:
        replica.take_over()


def _beat(replica: Replica) -> None:
    while True:
        replica.own_turn()
        time.sleep(0.3)


async def _serve(engine: Engine, store: LoggedStore, address: str, inbox: str) -> None:
    server = Server(
        engine, world=WORLD, operators=[OPERATOR], stop=lambda: None, check_owns=store.check_owns
    )
    connection = NatsConnection(NatsAddress.parse(address))
    async with serve_bus(connection, inbox, answering(server.talk)):
        sys.stdout.write("owns\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
