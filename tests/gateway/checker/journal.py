"""Read an exported bundle with a CBOR reader alone (spec/bundle.md, spec/journal.md)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import blake3
import cbor2

Map: TypeAlias = dict[str, Any]

KINDS: Final = frozenset({"aos-bundle", "frame", "blob", "erased", "head", "index", "end"})


class NotABundle(ValueError):
    """The file has another form than a bundle."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The records of a world in their order, and the values that they refer to."""

    records: tuple[Map, ...]
    blobs: Mapping[bytes, bytes]

    def __getitem__(self, seq: int) -> Map:
        return self.records[seq - 1]

    def value(self, slot: bytes | Map) -> Any:
        """The value of a slot: its bytes, or the blob with this hash."""
        data = slot if isinstance(slot, bytes) else self.blobs[slot["hash"]]
        return cbor2.loads(data)


def read_bundle(path: Path) -> Journal:
    """
    Raises:
        NotABundle: The file has another form.
    """
    frames: list[bytes] = []
    blobs: dict[bytes, bytes] = {}
    for kind, body in _items(path.read_bytes()):
        if kind == "frame":
            frames.append(body)
        elif kind == "blob":
            blobs[blake3.blake3(body).digest()] = body
    return Journal(_records(frames), blobs)


def _items(data: bytes) -> Iterable[tuple[str, bytes]]:
    reader = io.BytesIO(data)
    while reader.tell() < len(data):
        try:
            kind, body = cbor2.load(reader)
        except (cbor2.CBORDecodeError, TypeError, ValueError) as error:
            raise NotABundle(f"it is no sequence of [kind, body]: {error}") from error
        if kind not in KINDS:
            raise NotABundle(f"an item of the unknown kind {kind!r}")
        yield kind, body


def _records(frames: Iterable[bytes]) -> tuple[Map, ...]:
    records = [cbor2.loads(each) for frame in frames for each in cbor2.loads(frame)["records"]]
    for seq, record in enumerate(records, 1):
        if record["seq"] != seq:
            raise NotABundle(f"expected record {seq}, found record {record['seq']}")
    return tuple(records)
