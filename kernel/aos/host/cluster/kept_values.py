"""The positions and the batches that the servers have of a world, when the world leaves them
(spec/cluster.md, CL-339).

    bucket ──positions, batches──▶ folder ──▶ the world is embedded ──▶ removed from the bucket
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nacl.signing import SigningKey

from aos.host.cluster.kept_batches import KeptBatches
from aos.host.cluster.kept_positions import KeptPosition, KeptPositions
from aos.host.folder.folder import WorldFolder
from aos.store.log.bucket import BATCHES, POSITIONS, Bucket
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptValues:
    """The ``positions`` of the readers of a world, and the rows of its ``batches``."""

    positions: tuple[KeptPosition, ...]
    batches: tuple[bytes, ...]


BringValues = Callable[[WorldFolder, KeptValues], None]
"""Writes the values to the files of a folder, where the front of an embedded world looks for them.
It may be called again after a kill."""


def read_kept_values(bucket: Bucket, world: Hash, key: SigningKey, stream: str) -> KeptValues:
    """Return the values that count: the ``key`` of the world has signed them, and positions are
    those of ``stream``. Raises BucketUnreachable."""
    return KeptValues(
        positions=tuple(KeptPositions(bucket, world, key, lambda: stream).load_all()),
        batches=tuple(KeptBatches(bucket, world, key).load()),
    )


def remove_kept_values(bucket: Bucket, world: Hash) -> None:
    """Remove all positions and batches of a world, also those that do not count. Raises
    BucketUnreachable: some may be left; call again."""
    for beginning in (POSITIONS, BATCHES):
        for key, _ in list(bucket.entries(f"{beginning}.{world.hex()}")):
            bucket.remove(key)
