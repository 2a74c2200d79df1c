"""A world that is registered on servers, with nodes that have beaten once."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.host.cluster.beat import Beat
from aos.host.cluster.beating import Beats
from aos.host.cluster.registration import WorldRegistration, register
from aos.host.folder.replica_file import ReplicaFile
from aos.store.log.bucket import BucketUnreachable
from aos.store.log.logged_store import LogEnd, LoggedStore
from aos.store.log.nats_address import NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import log_settings, new_stream_name
from aos.store.plain_files import PlainFolder
from aos.values.digests import hash_text
from tests.host.cluster.owner_process import WORLD, begin
from tests.memory_world import OPERATOR_KEY, WORLD_KEY
from tests.nats_servers import Servers, made

OTHER_KEY: Final = SigningKey(b"o" * 32)


@dataclass
class RegisteredWorld:
    """The world ``name``, whose first node is ``a``."""

    connection: NatsConnection
    servers: Servers
    folder: Path
    replicas: int = 1
    name: str = field(default_factory=lambda: f"w{os.urandom(4).hex()}")

    def __post_init__(self) -> None:
        self.stream = new_stream_name(WORLD)
        made(self.connection, log_settings(self.stream, self.replicas))
        self.log = NatsLog(self.connection, self.stream)
        self.worlds, self.beats = self._bucket(WORLDS), self._bucket(BEATS)
        self.folder.mkdir(mode=0o700)
        with LoggedStore.create(self.folder / "store") as store:
            begin(store, self.log, self.stream).thread.close()
            self.end = store.end
        self.revision = register(self.worlds, self.registration.signed(WORLD_KEY))

    def _bucket(self, bucket: str) -> NatsBucket:
        for _ in range(20):
            try:
                return NatsBucket(self.connection, bucket, replicas=self.replicas)
            except BucketUnreachable:  # servers that have just started
                continue
        raise AssertionError("no answer")

    @property
    def registration(self) -> WorldRegistration:
        return WorldRegistration(name=self.name, world=WORLD, stream=self.stream)

    @property
    def address(self) -> NatsAddress:
        return NatsAddress.parse(f"{self.servers.address}/{self.name}")

    def node(self, name: str, *, inbox: str = "inbox", key: SigningKey = WORLD_KEY) -> Beats:
        """The beats of a process of a node."""
        return Beats(
            self.beats, stream=self.stream, world=WORLD, key=key, node=name,
            instance=name.encode().ljust(16, b"."), inbox=inbox,
        )  # fmt: skip

    @contextlib.contextmanager
    def beating(self, node: Beats) -> Iterator[None]:
        """Let a node own the world, and beat until the block ends."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.3):
                with contextlib.suppress(BucketUnreachable):
                    node.renew(self.end)

        node.claim(self.end)
        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def add_beat(self, node: str, end: LogEnd, key: SigningKey = WORLD_KEY) -> None:
        """Write the beat of a standby with any end."""
        beat = Beat(world=WORLD, node=node, instance=bytes(16), inbox="inbox", end=end)
        self.beats.create(f"{self.stream}.standby.{node}", beat.signed(key).to_bytes())

    def make_folder(self, *, unverified_durability: bool = False) -> Path:
        """Complete the folder of a node."""
        keys = self.folder / "keys"
        keys.mkdir(mode=0o700)
        for file, key in (("world.key", WORLD_KEY), ("operator.key", OPERATOR_KEY)):
            (keys / file).write_text(f"{bytes(key).hex()}\n")
            (keys / file).chmod(0o600)
        document = {"format": 1, "world": hash_text(WORLD), "created": "2026-11-30T00:00:00Z"}
        (self.folder / "world.json").write_text(json.dumps(document))
        replica = ReplicaFile(
            address=self.address,
            stream=self.stream,
            node="a",
            unverified_durability=unverified_durability,
        )
        with PlainFolder.at_user_path(self.folder) as folder:
            replica.write(folder)
        return self.folder
