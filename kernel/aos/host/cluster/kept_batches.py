"""The batches of a replicated world, in its bucket, so that the next owner's node continues them
(spec/cluster.md, CL-335 to CL-338).

    AOS   _aos.batch.WORLD.DIGEST   ["aos/batch/1", world, id, progress, row, signature]

``row`` is the batch as the front has it: its order, the record at which its items were listed, and
what is done. The items are not there: each node lists them again at that record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.signing import SIGNATURE_BYTES
from aos.errors import BadUsage
from aos.host.cluster.signed_value import SignedValue
from aos.store.log.bucket import BATCHES, Bucket, BucketConflict
from aos.values.cbor import Value, decode_record, is_nat
from aos.values.digests import Hash, content_hash, is_hash
from aos.values.errors import ValueProblem

FORM: Final = "aos/batch/1"

ID_CHARACTERS_MAX: Final = 64
ROW_BYTES_MAX: Final = 60 * 1024
"""The longest row: a value of a bucket has at most 64 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch(SignedValue):
    """A batch of the ``world``. Its ``progress`` grows with each group of items, and at its end."""

    world: Hash
    id: str
    progress: int
    row: bytes

    def _fields(self) -> list[Value]:
        return [FORM, self.world, self.id, self.progress, self.row]


def read_batch(data: bytes) -> KeptBatch | None:
    """Read a batch; None if the bytes are none. Its signature is not checked."""
    try:
        value = decode_record(data)
    except ValueProblem:
        return None
    match value:
        case [
            str(form), bytes(world), str(id), progress, bytes(row), bytes(signature),
        ] if (
            form == FORM
            and is_hash(world)
            and is_nat(progress)
            and len(signature) == SIGNATURE_BYTES
        ):  # fmt: skip
            return KeptBatch(
                world=Hash(world), id=id, progress=progress, row=row, signature=signature
            )
    return None


class KeptBatches:
    """The batches of one world, whose key is ``key``. Any thread may call a method."""

    def __init__(self, bucket: Bucket, world: Hash, key: SigningKey) -> None:
        self._bucket = bucket
        self._world = world
        self._key = key
        self._world_key = key.verify_key.encode()
        self._lock = threading.Lock()

    def load(self) -> Iterator[bytes]:
        """Yield the row of each batch. Raises BucketUnreachable."""
        with self._lock:
            entries = list(self._bucket.entries(f"{BATCHES}.{self._world.hex()}"))
        for key, entry in entries:
            batch = self._counted(key, entry.value)
            if batch is not None:
                yield batch.row

    def keep(self, id: str, progress: int, row: bytes) -> bool:
        """Keep a batch. Whether it is kept: not if another process has kept further progress.

        Raises:
            BadUsage: The row or the id is too long.
            BucketUnreachable: It is unknown whether it was kept: call again.
        """
        if len(row) > ROW_BYTES_MAX or len(id) > ID_CHARACTERS_MAX:
            raise BadUsage(
                "a batch of a replicated world is too long",
                expected=f"at most {ROW_BYTES_MAX} bytes, and {ID_CHARACTERS_MAX} characters of an "
                "id",
                actual=f"{len(row)} bytes and {len(id)} characters",
                hint="send a shorter value, or select the cells by a shorter condition",
            )
        batch = KeptBatch(world=self._world, id=id, progress=progress, row=row).signed(self._key)
        with self._lock:
            return self._keep(batch)

    def _keep(self, batch: KeptBatch) -> bool:
        key, value = self._key_of(batch.id), batch.to_bytes()
        entry = self._bucket.get(key)
        if entry is not None:
            kept_batch = self._counted(key, entry.value)
            if kept_batch is not None and kept_batch.progress > batch.progress:
                return False
            if entry.value == value:
                return True  # an earlier attempt has kept it
        try:
            if entry is None:
                self._bucket.create(key, value)
            else:
                self._bucket.replace(key, value, entry.revision)
        except BucketConflict:
            entry = self._bucket.get(key)
            return entry is not None and entry.value == value
        return True

    def remove(self, ids: Iterable[str]) -> None:
        """Remove batches. Raises BucketUnreachable."""
        with self._lock:
            for id in ids:
                self._bucket.remove(self._key_of(id))

    def _key_of(self, id: str) -> str:
        """An id may have characters that no key has."""
        return f"{BATCHES}.{self._world.hex()}.{content_hash(id.encode()).hex()[:32]}"

    def _counted(self, key: str, value: bytes) -> KeptBatch | None:
        """The batch of a value, if the key of the world has signed it for this key."""
        batch = read_batch(value)
        counts = (
            batch is not None
            and batch.world == self._world
            and self._key_of(batch.id) == key
            and batch.is_of(self._world_key)
        )
        return batch if counts else None
