"""Where the readers of a journal continue: the webhooks and the export of spans, in the bucket of a
replicated world (spec/cluster.md, CL-330 to CL-333).

    AOS   _aos.position.WORLD.DIGEST
          ["aos/position/1", world, stream, reader, seq, index, more, signature]

The owner's front reads and posts; its process keeps the positions, since it has the key of the
world. So the next owner continues there.

Rule 1: a position goes forwards only, by compare-and-set. A later one is of another process, which
owns the world now, or has owned it before and was suspended: its reader continues there.

Rule 2: the positions of an earlier stream do not count: the world may have lost records since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.signing import SIGNATURE_BYTES
from aos.errors import BadUsage
from aos.host.cluster.signed_value import SignedValue, value_in
from aos.store.log.bucket import POSITIONS, Bucket, BucketConflict
from aos.values.cbor import Value, is_nat
from aos.values.digests import Hash, content_hash, is_hash

FORM: Final = "aos/position/1"

READER_CHARACTERS_MAX: Final = 100
"""The longest name of a reader."""

MORE_BYTES_MAX: Final = 48 * 1024
"""So much a reader keeps with its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPosition(SignedValue):
    """A ``reader``, such as ``webhook/orders``, continues at the item ``index`` of record ``seq``
    of the world, as the ``stream`` has it. ``reader_bytes`` are its own."""

    world: Hash
    stream: str
    reader: str
    seq: int
    index: int = 0
    reader_bytes: bytes = b""

    @property
    def place(self) -> tuple[int, int]:
        """The record and the item."""
        return self.seq, self.index

    def _fields(self) -> list[Value]:
        return [FORM, self.world, self.stream, self.reader, self.seq, self.index, self.reader_bytes]


def position_key(world: Hash, reader: str) -> str:
    """The key of a position. A name of a reader may have characters that no key has."""
    return f"{POSITIONS}.{world.hex()}.{content_hash(reader.encode()).hex()[:32]}"


def read_position(data: bytes) -> KeptPosition | None:
    """Read a position; None if the bytes are none. Its signature is not checked."""
    match value_in(data):
        case [
            str(form), bytes(world), str(stream), str(reader), seq, index, bytes(reader_bytes),
            bytes(signature),
        ] if (
            form == FORM
            and is_hash(world)
            and is_nat(seq)
            and is_nat(index)
            and len(signature) == SIGNATURE_BYTES
        ):  # fmt: skip
            return KeptPosition(
                world=Hash(world), stream=stream, reader=reader, seq=seq, index=index,
                reader_bytes=reader_bytes, signature=signature,
            )  # fmt: skip
    return None


class KeptPositions:
    """The positions of one world. ``key`` is that of the world, and ``stream`` returns that of its
    log. Any thread may call a method."""

    def __init__(
        self, bucket: Bucket, world: Hash, key: SigningKey, stream: Callable[[], str]
    ) -> None:
        self._bucket = bucket
        self._world = world
        self._key = key
        self._world_key = key.verify_key.encode()
        self._stream = stream
        self._lock = threading.Lock()

    def load(self, reader: str) -> KeptPosition | None:
        """Return the position of a reader; None without one that counts. Raises
        BucketUnreachable."""
        with self._lock:
            return self._position_of(reader)[0]

    def load_all(self) -> list[KeptPosition]:
        """Return the positions of all readers that count. Raises BucketUnreachable."""
        positions = []
        with self._lock:
            for key, entry in self._bucket.entries(f"{POSITIONS}.{self._world.hex()}"):
                position = read_position(entry.value)
                if position is not None and key == position_key(self._world, position.reader):
                    positions.append(position)
            return [position for position in positions if self._counts(position, position.reader)]

    def keep(self, reader: str, seq: int, index: int, reader_bytes: bytes) -> bool:
        """Keep a position. Whether it is kept: not if another process has kept a later one.

        Raises:
            BadUsage: A field is too long.
            BucketUnreachable: It is unknown whether it was kept: call again.
        """
        if len(reader_bytes) > MORE_BYTES_MAX or len(reader) > READER_CHARACTERS_MAX:
            raise BadUsage(
                "a position is too long",
                expected=f"at most {MORE_BYTES_MAX} bytes, and {READER_CHARACTERS_MAX} characters "
                "of a name",
                actual=f"{len(reader_bytes)} bytes and {len(reader)} characters",
            )
        position = KeptPosition(
            world=self._world, stream=self._stream(), reader=reader, seq=seq, index=index,
            reader_bytes=reader_bytes,
        ).signed(self._key)  # fmt: skip
        with self._lock:
            return self._keep(position)

    def _keep(self, position: KeptPosition) -> bool:
        kept_position, revision = self._position_of(position.reader)
        if kept_position is not None and kept_position.place > position.place:
            return False
        if kept_position == position:
            return True  # an earlier attempt has kept it
        key, value = position_key(self._world, position.reader), position.to_bytes()
        try:
            if revision is None:
                self._bucket.create(key, value)
            else:
                self._bucket.replace(key, value, revision)
        except BucketConflict:
            kept_position, _ = self._position_of(position.reader)
            return kept_position == position
        return True

    def _position_of(self, reader: str) -> tuple[KeptPosition | None, int | None]:
        """The position of a reader that counts, and the revision of its key's value."""
        entry = self._bucket.get(position_key(self._world, reader))
        if entry is None:
            return None, None
        position = read_position(entry.value)
        counts = position is not None and self._counts(position, reader)
        return (position if counts else None), entry.revision

    def _counts(self, position: KeptPosition, reader: str) -> bool:
        return (
            (position.world, position.reader) == (self._world, reader)
            and position.stream == self._stream()
            and position.is_of(self._world_key)
        )
