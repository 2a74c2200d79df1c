"""A replicated world on servers in memory, with an owner, for tests of bases and joining."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from aos.core.decide.answers import Admitted
from aos.host.cluster.base import WorldServers
from aos.host.cluster.joining import JoinedNode, join_world
from aos.host.cluster.registration import WorldRegistration, find_registration, register
from aos.host.folder.folder import key_file
from aos.host.folder.replica_file import ReplicaFile
from aos.store.lmdb_store import LmdbStore
from aos.store.log.logged_store import LoggedStore
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from aos.store.log.memory_streams import MemoryStreams, SharedStreams
from aos.store.log.nats_address import NatsAddress
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.host.cluster.owner_process import (
    WORLD,
    Chance,
    OwnerProcess,
    begin,
    counting_draws,
)
from tests.memory_world import OPERATOR_KEY, WORLD_KEY

NAME = "shop"
STREAM = f"AOS-{WORLD.hex()[:16]}-1"
KEY = bytes(WORLD_KEY.verify_key)
LONG = "long " * 400
LARGE = bytes(range(256)) * 5000


class Killed(BaseException):
    """The process is killed here."""


@dataclass
class Kill:
    """Kills the process at the request with this number, from 1 on; never with 0. It does nothing
    more after that, also if it catches the exception."""

    at: int = 0
    count: int = 0
    requests: list[str] = field(default_factory=list)

    def __call__(self, request: str) -> None:
        self.count += 1
        self.requests.append(request)
        if 0 < self.at <= self.count:
            raise Killed(request)


class SteppedBucket(MemoryBucket):
    """A bucket that calls ``step`` before and after each write."""

    def __init__(self, shared: SharedBucket, step: Callable[[str], None]) -> None:
        super().__init__(shared)
        self._step = step

    def create(self, key: str, value: bytes) -> int:
        self._step(f"create {key}")
        revision = super().create(key, value)
        self._step(f"created {key}")
        return revision

    def replace(self, key: str, value: bytes, revision: int) -> int:
        self._step(f"replace {key}")
        revision = super().replace(key, value, revision)
        self._step(f"replaced {key}")
        return revision

    def remove(self, key: str) -> None:
        self._step(f"remove {key}")
        super().remove(key)
        self._step(f"removed {key}")


@dataclass
class Replicated:
    """The servers, and the folder of tests. ``owner`` writes the world."""

    path: Path
    streams: SharedStreams
    bucket: SharedBucket
    beats: SharedBucket
    owner: OwnerProcess

    @property
    def log(self) -> SharedStream:
        """The log of the world."""
        return self.streams.streams[self.registration().stream]

    @property
    def keys(self) -> Path:
        """A folder with the keys of the world."""
        return keys_folder(self.path / "keys")

    def servers(
        self, step: Callable[[str], None] = lambda _: None, fate: Callable[[], Fate] | None = None
    ) -> WorldServers:
        """One program's view of the servers."""
        return WorldServers(
            worlds=SteppedBucket(self.bucket, step),
            beats=MemoryBucket(self.beats),
            streams=MemoryStreams(self.streams, fate or (lambda: Fate.ANSWERED), step=step),
        )

    def copy(self) -> Replicated:
        """The same world on servers of their own, whose owner must not write."""
        return replace(
            self,
            streams=copy.deepcopy(self.streams),
            bucket=copy.deepcopy(self.bucket),
            beats=copy.deepcopy(self.beats),
        )

    def registration(self) -> WorldRegistration:
        entry = find_registration(MemoryBucket(self.bucket), NAME)
        assert entry is not None
        return entry.registration

    def bases(self) -> list[str]:
        return [name for name in self.streams.streams if name.startswith("AOS-BASE-")]

    def join(self, name: str, step: Callable[[str], None] = lambda _: None) -> JoinedNode:
        replica = ReplicaFile(
            address=NatsAddress.parse(f"nats://127.0.0.1/{NAME}"), stream="", node=name
        )
        return join_world(self.path / name, self.servers(step), replica, keys=self.keys)

    def events(self, *names: str) -> None:
        """Let the owner admit an event for each name, and write."""
        for name in names:
            answer = self.owner.tell(name, note=LONG + name, submission=f"s-{name}")
            assert isinstance(answer, Admitted)
            self.owner.run()
        self.owner.commit()


def keys_folder(path: Path) -> Path:
    """Make a folder with the keys of the world."""
    path.mkdir(exist_ok=True)
    for name, key in (("world.key", WORLD_KEY), ("operator.key", OPERATOR_KEY)):
        (path / name).write_bytes(key_file(key))
        (path / name).chmod(0o600)
    return path


@contextlib.contextmanager
def replicated(path: Path) -> Iterator[Replicated]:
    """A world with a manifest, some events, a snapshot, an erased value and a large one."""
    streams, bucket = SharedStreams(), SharedBucket()
    log = streams.streams[STREAM] = SharedStream()
    with LoggedStore.create(path / "owner") as store:
        world = begin(store, MemoryLog(log), STREAM)
        owner = OwnerProcess(world, store, Chance(counting_draws("owner")))
        register(
            MemoryBucket(bucket),
            WorldRegistration(name=NAME, world=WORLD, stream=STREAM).signed(WORLD_KEY),
        )
        rig = Replicated(path, streams, bucket, SharedBucket(), owner)
        owner.start()
        assert isinstance(owner.apply(), Admitted)
        rig.events("k0", "k1", "k2")
        owner.snapshot()
        assert isinstance(owner.erase(value_of("k0")), Admitted)
        store.put_blobs({content_hash(LARGE): LARGE})
        owner.write()
        yield rig
        world.thread.close()


def value_of(name: str) -> Hash:
    """The hash of the event that ``Replicated.events`` sends for a name."""
    return content_hash(encode({"key": name, "asks": [], "note": LONG + name}))


def rows_of(store: LmdbStore) -> dict[str, object]:
    """Everything that a journal makes in a store."""
    cut = store.cut()
    first = 1 if cut is None else cut.seq + 1
    return {
        "head": store.head(),
        "cut": cut,
        "frames": [frame.to_bytes() for frame in store.frames(first)],
        "intents": list(store.intents()),
        "submissions": list(store.submissions()),
        "snapshots": list(store.snapshots()),
        "erasures": list(store.erasures()),
        "names": list(store.names()),
        "blobs": sorted(store.blob_hashes()),
    }
