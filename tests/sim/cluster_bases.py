"""Bases, trims and joins of a simulated cluster (spec/cluster.md, CL-290 to CL-293).

In three of ten seeds, nodes make bases while the others work, and are killed at any step of it; a
node loses its disk, or is behind the trim, and joins from the newest base; the servers lose the end
of a base. The chance is one of its own, so the rest of the story of a seed is as it would be.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final
from unittest import mock

from aos.core.journal.frame import read_frame
from aos.errors import AosError, Damage, Refused, Unavailable
from aos.host.cluster import joining
from aos.host.cluster.base import WorldServers, make_base
from aos.host.cluster.registration import WorldRegistration, register, registered
from aos.store.lmdb_store import LmdbStore
from aos.store.log import world_streams
from aos.store.log.base_stream import BaseReader
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_streams import MemoryStreams, SharedStreams
from aos.store.row_copy import FRAMES
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY
from tests.sim.failure import SimFailure

if TYPE_CHECKING:
    from tests.sim.cluster import ClusterSim
    from tests.sim.cluster_checker import Chain
    from tests.sim.cluster_node import SimNode

NAME: Final = "shop"
KEY: Final = bytes(WORLD_KEY.verify_key)
MS: Final = 10**6


class MakerKilled(BaseException):
    """The process that makes a base, or joins, ends here. The node itself may run on."""


def has_bases(seed: int) -> bool:
    """Whether nodes of this seed make bases. The seeds of the other defects are none of them."""
    return seed % 10 in (1, 5, 7)


def loses_end_too(seed: int) -> bool:
    """Whether the servers of a seed with bases may also lose the end of the log."""
    return seed % 10 == 5 and random.Random(f"bases end {seed}").random() < 0.3


class SimBases:
    """The servers of one cluster, with the registration and the streams of bases."""

    def __init__(self, sim: ClusterSim, stream: str) -> None:
        self.sim = sim
        self.chance = random.Random(f"bases {sim.seed}")
        self.shared = SharedStreams(streams={stream: sim.stream}, now_ns=lambda: sim.now_ns)
        self.bucket = SharedBucket(now_ns=lambda: sim.now_ns)
        self.stream = stream
        self.bases = 0
        self.joins = 0
        self.has_lost_base = False
        """The servers have lost the end of the base that the registration names."""
        self._maker: SimNode | None = None
        self._fails = True

    def found(self) -> None:
        """Register the world, before anything fails."""
        registration = WorldRegistration(name=NAME, world=WORLD, stream=self.stream)
        register(MemoryBucket(self.bucket), registration.signed(WORLD_KEY))

    def servers(self) -> WorldServers:
        """The servers, as a process that makes a base or joins sees them."""
        return WorldServers(
            worlds=MemoryBucket(self.bucket),
            beats=MemoryBucket(self.sim.bucket),
            streams=MemoryStreams(self.shared, step=self._step),
        )

    def registration(self) -> WorldRegistration:
        """The registration of the world."""
        return registered(MemoryBucket(self.bucket), NAME, KEY).registration

    def act(self) -> None:
        """Do something about bases, now and then."""
        number = self.chance.random()
        if number < 0.06:
            self._make(self.chance.choice(self.sim.nodes))
        elif self.sim.lost_position is not None:
            return  # what the log has lost is on the disks of nodes alone
        elif number < 0.08:
            self._lose_disk()
        elif number < 0.10:
            self._lose_base()

    def heal(self) -> None:
        """Make a base, from the node that has come furthest; nothing fails any more."""
        self._fails = False
        nodes = [node for node in self.sim.nodes if node.store is not None]
        if nodes:
            self._make(max(nodes, key=_position))

    def _step(self, _: str) -> None:
        """Between two requests, the process is killed, or others work."""
        if not self._fails:
            return
        number = self.chance.random()
        if number < 0.04:
            raise MakerKilled
        if number < 0.12 and self._maker is not None:
            maker, self._maker = self._maker, None
            self.sim.now_ns += 50 * MS
            for node in self.sim.nodes:
                if node is not maker:
                    node.act()
            if number < 0.04:
                self._make(
                    self.chance.choice([node for node in self.sim.nodes if node is not maker])
                )
            self._maker = maker

    def _make(self, node: SimNode) -> None:
        """Make a base from the store of a node that runs."""
        if node.store is None or node.store.head() is None or node.log.is_away:
            return
        maker, self._maker = self._maker, node
        try:
            made = make_base(self.servers(), NAME, node.store, WORLD_KEY)
            self.bases += made.is_new
            self.has_lost_base = self.has_lost_base and not made.is_new
        except MakerKilled:
            pass
        except Refused:
            if not self.has_lost_base:  # else this node is older than the base
                raise
        except Damage:
            if self.sim.lost_position is None:  # else this node may have what the log has lost
                raise
        finally:
            self._maker = maker
        self.check_reach()

    def _lose_disk(self) -> None:
        """A machine gets another disk: its node joins again."""
        node = self.chance.choice(self.sim.nodes)
        if node.damage is None and self._has_other(node):
            node.kill()
            shutil.rmtree(node.folder)
            node.needs_join = True

    def _lose_base(self) -> None:
        """The servers lose the last message of the newest base."""
        base = self.registration().base
        if base is not None and not self.has_lost_base and self._has_other(None):
            stream = self.shared.streams[base.stream]
            stream.lose_end(stream.tail - 1)
            self.has_lost_base = True

    def _has_other(self, lost: SimNode | None) -> bool:
        """Whether another node than ``lost`` runs that could make the newest base again."""
        if any(node.needs_join for node in self.sim.nodes):
            return False
        base = self.registration().base
        position = 0 if base is None else base.end.position
        return any(_position(node) >= position for node in self.sim.nodes if node is not lost)

    def join(self, node: SimNode) -> bool:
        """Make the store of a node from the newest base and the log; whether that is done."""
        new = node.folder.with_name(f"{node.name}.joining")
        shutil.rmtree(new, ignore_errors=True)
        try:
            filled = joining._fill(new, self.servers(), NAME, WORLD_KEY, joining.no_progress)
            if node.folder.exists():
                joining._keep_history(node.folder, new, filled)
        except (MakerKilled, Unavailable):
            return False
        except Damage as problem:
            node.damage = f"{type(problem).__name__}: {problem}"
            return False
        shutil.rmtree(node.folder, ignore_errors=True)
        new.rename(node.folder)
        self.joins += 1
        return True

    # Checks

    def check_reach(self) -> None:
        """The registration names a whole base, or none, and the log continues it: nothing was
        trimmed that no base has."""
        base, first = self.registration().base, self.sim.stream.first
        if first > max(1, 0 if base is None else base.end.position):
            raise SimFailure("base", f"the log begins at {first}, and the base is {base}")
        if base is None or self.has_lost_base:
            return
        stream = self.shared.streams.get(base.stream)
        if stream is None:
            raise SimFailure("base", "the base that the registration names was removed")
        log = MemoryStreams(self.shared).log(base.stream)
        try:
            end = BaseReader(log, KEY).check()
        except AosError as problem:
            raise SimFailure("base", f"the base is not whole: {problem}") from problem
        if end.end != base.end:
            raise SimFailure("base", f"the base ends with {end.end}, and not {base.end}")

    def check(self, chain: Chain, folder: Path) -> None:
        """The newest base has a prefix of the journal, and no erased value; a node that joins has
        the whole journal."""
        self.check_reach()
        base = self.registration().base
        if base is None:
            return
        reader = BaseReader(MemoryStreams(self.shared).log(base.stream), KEY)
        rows = list(reader.rows())
        hashes = [read_frame(row.value).hash for row in rows if row.table == FRAMES]
        if hashes != chain.hashes[: len(hashes)] or chain.frames[len(hashes) - 1].header.last != (
            base.end.seq
        ):
            raise SimFailure("base", "the base has another journal than the log")
        values = {row.key for row in rows if row.table in ("blobs", "pack")}
        store = next(node.store for node in self.sim.nodes if node.store is not None)
        kept = [
            hash for hash, row in store.erasures() if row.seq <= base.end.seq and hash in values
        ]
        if kept:
            raise SimFailure("base", f"the base has the erased values {kept}")
        joining._fill(folder, self.servers(), NAME, WORLD_KEY, joining.no_progress)
        with LmdbStore.open(folder, readonly=True, looks=False) as joined:
            if [frame.hash for frame in joined.frames()] != chain.hashes:
                raise SimFailure("join", "a node that joins has another journal than the log")


def _position(node: SimNode) -> int:
    """How far the store of a node has taken the log; -1 if the node does not run."""
    if node.store is None:
        return -1
    place = node.store.place
    return 0 if place is None else place.position


@contextmanager
def counted_names() -> Iterator[None]:
    """Streams of bases have names by their number, so that a seed determines their order."""
    numbers = iter(range(1, 10**6))
    names = SimpleNamespace(token_hex=lambda _: f"{next(numbers):016x}")
    with mock.patch.object(world_streams, "secrets", names):
        yield
