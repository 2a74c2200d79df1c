"""The nodes of a world as their beats show them, for those that move it (spec/cluster.md, CL-228,
CL-236)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aos.host.cluster.beat import Beat, read_beat
from aos.host.cluster.beating import owner_key
from aos.host.cluster.lease import LEASE_NS
from aos.store.log.bucket import Bucket
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldNodes:
    """The ``owner`` of a world and its living ``standbys`` by name. The owner is None if no node
    owns the world, or if the last one is silent."""

    owner: Beat | None
    standbys: Mapping[str, Beat]

    @property
    def owner_name(self) -> str | None:
        """The node that owns the world."""
        return None if self.owner is None else self.owner.node

    def is_ready(self, node: str) -> bool:
        """Whether a standby has everything that the owner had at its last beat."""
        beat = self.standbys.get(node)
        return (
            beat is not None
            and self.owner is not None
            and beat.end.position >= self.owner.end.position
        )

    def lives(self, node: str) -> bool:
        """Whether a node runs."""
        return node == self.owner_name or node in self.standbys


def read_nodes(
    beats: Bucket, stream: str, world: Hash, world_key: bytes | None, now_ns: int
) -> WorldNodes:
    """Read the beats of a world whose log is ``stream``. ``now_ns`` is the time of the servers.
    Without ``world_key``, signatures are not checked. Raises BucketUnreachable."""
    owner: Beat | None = None
    standbys: dict[str, Beat] = {}
    for key, entry in beats.entries(stream):
        beat = read_beat(entry.value, world, world_key)
        if beat is None or now_ns - entry.written_ns > LEASE_NS:
            continue
        if key == owner_key(stream):
            owner = None if beat.released else beat
        elif key == f"{stream}.standby.{beat.node}":
            standbys[beat.node] = beat
    if owner is not None:
        # An owner leaves the beat that it had as a standby.
        former = standbys.get(owner.node)
        if former is not None and former.instance == owner.instance:
            del standbys[owner.node]
    return WorldNodes(owner=owner, standbys=standbys)
