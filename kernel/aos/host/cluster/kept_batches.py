"""The batches of a replicated world, in its bucket, so that the next owner's node continues them
(spec/cluster.md, CL-335 to CL-338).

    AOS   _aos.batch.WORLD.SLOT   ["aos/batch/1", world, id, progress, row, signature]

A world has 32 slots. A new batch takes the slot of one that is over, so the bucket has few keys.
``row`` is the batch as the front has it: its order, the record at which its items were listed, and
its counts. The items are not there: each node lists them again at that record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from nacl.signing import SigningKey

from aos.core.journal.signing import SIGNATURE_BYTES
from aos.errors import BadUsage
from aos.host.cluster.signed_value import SignedValue, value_in
from aos.store.log.bucket import BATCHES, Bucket, BucketConflict
from aos.values.cbor import Value, is_nat
from aos.values.digests import Hash, is_hash

FORM: Final = "aos/batch/1"

SLOTS: Final = 32
ID_CHARACTERS_MAX: Final = 64
ROW_BYTES_MAX: Final = 60 * 1024
"""The longest row: a value of a bucket has at most 64 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch(SignedValue):
    """A batch of the ``world``. Its ``progress`` is twice the number of items that are finished,
    and 1 more once it is over."""

    world: Hash
    id: str
    progress: int
    row: bytes

    @property
    def is_over(self) -> bool:
        """Whether no more of it is done."""
        return self.progress % 2 == 1

    def _fields(self) -> list[Value]:
        return [FORM, self.world, self.id, self.progress, self.row]


class SlotEntry(NamedTuple):
    """The batch of a slot, None if its value is none, and the revision of the value."""

    batch: KeptBatch | None
    revision: int


def read_batch(data: bytes) -> KeptBatch | None:
    """Read a batch; None if the bytes are none. Its signature is not checked."""
    match value_in(data):
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
        self._slot_by_id: dict[str, int] = {}
        self._kept_ids: set[str] = set()
        """Of the batches that the bucket had when this was last asked."""
        self._lock = threading.Lock()

    def load(self) -> list[bytes]:
        """Return the row of each batch. Raises BucketUnreachable."""
        with self._lock:
            batches = self._batches(self._slots())
            self._slot_by_id = {id: slot for id, (slot, _) in batches.items()}
            self._kept_ids = set(batches)
            return [batch.row for _, batch in batches.values()]

    def keep(self, id: str, progress: int, row: bytes, *, instead_of: str | None = None) -> bool:
        """Keep a batch. A new one gets a free slot, or that of the batch ``instead_of``, which is
        over. Whether it is kept: not if another process has kept further progress, or has taken
        the slot, or has removed the batch because the world has left the servers.

        Raises:
            BadUsage: The row or the id is too long. No slot is free.
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
            return self._keep(batch, instead_of)

    def _keep(self, batch: KeptBatch, instead_of: str | None) -> bool:
        slot, former = self._slot_of(batch.id, instead_of)
        if former is None and batch.id in self._kept_ids:
            return False  # it must not be there when the world comes back
        kept_batch = None if former is None else former.batch
        if kept_batch is not None and kept_batch.id == batch.id:
            if kept_batch.progress > batch.progress:
                return False
            if kept_batch == batch:
                return True  # an earlier attempt has kept it
        key, value = self._key_of(slot), batch.to_bytes()
        self._slot_by_id[batch.id] = slot
        try:
            if former is None:
                self._bucket.create(key, value)
            else:
                self._bucket.replace(key, value, former.revision)
        except BucketConflict:
            entry = self._bucket.get(key)
            if entry is None or entry.value != value:
                return False
        self._kept_ids.add(batch.id)
        return True

    def _slot_of(self, id: str, instead_of: str | None) -> tuple[int, SlotEntry | None]:
        """The slot of a batch, or one for a new batch, and its entry. Raises: BadUsage: No slot
        is free."""
        known_slot = self._slot_by_id.get(id)
        entry = None if known_slot is None else self._bucket.get(self._key_of(known_slot))
        if known_slot is not None and entry is not None:
            batch = self._counted(entry.value)
            if batch is not None and batch.id == id:
                return known_slot, SlotEntry(batch, entry.revision)
        slots = self._slots()
        batches = self._batches(slots)
        slot = batches[id][0] if id in batches else self._free_slot(slots, batches, instead_of)
        return slot, slots.get(slot)

    def _free_slot(
        self,
        slots: Mapping[int, SlotEntry],
        batches: Mapping[str, tuple[int, KeptBatch]],
        instead_of: str | None,
    ) -> int:
        """A slot for a new batch. Raises: BadUsage: There is none."""
        if instead_of is not None and instead_of in batches:
            slot, former_batch = batches[instead_of]
            if former_batch.is_over:
                return slot
        used_slots = {slot for slot, _ in batches.values()}
        for slot in range(SLOTS):
            if slot not in used_slots:
                return slot
        raise BadUsage(
            "the bucket has no slot for another batch of this world",
            expected=f"fewer than {len(slots)} batches, or one that is over to be replaced",
        )

    def _slots(self) -> dict[int, SlotEntry]:
        """The entries of the slots that have a value."""
        below = f"{BATCHES}.{self._world.hex()}"
        slots = {}
        for key, entry in self._bucket.entries(below):
            name = key.removeprefix(f"{below}.")
            if name.isdigit() and int(name) < SLOTS and key == self._key_of(int(name)):
                slots[int(name)] = SlotEntry(self._counted(entry.value), entry.revision)
        return slots

    def _batches(self, slots: Mapping[int, SlotEntry]) -> dict[str, tuple[int, KeptBatch]]:
        """The batches by id, each with its slot; of two copies, the one with further progress."""
        batches: dict[str, tuple[int, KeptBatch]] = {}
        for slot, (batch, _) in slots.items():
            if batch is not None and (
                batch.id not in batches or batches[batch.id][1].progress < batch.progress
            ):
                batches[batch.id] = slot, batch
        return batches

    def _key_of(self, slot: int) -> str:
        return f"{BATCHES}.{self._world.hex()}.{slot}"

    def _counted(self, value: bytes) -> KeptBatch | None:
        """The batch of a value, if the key of the world has signed it."""
        batch = read_batch(value)
        counts = batch is not None and batch.world == self._world and batch.is_of(self._world_key)
        return batch if counts else None
