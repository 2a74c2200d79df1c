"""A file that is read as a bundle (spec/bundle.md, B-30 to B-36)."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from blake3 import blake3

from aos.errors import AosError, BadUsage, Damage, Erased
from aos.prove.replay.replay_store import verify_bundle
from aos.store.bundle.items import (
    BLOB,
    END,
    END_BYTES,
    ERASED,
    FRAME,
    HEAD,
    HEADER,
    INDEX,
    End,
    item,
)
from aos.store.bundle.reader import open_bundle
from aos.store.bundle.writer import BundleWriter
from aos.values.digests import content_hash
from tests.store.test_bundle import fill, head

RUNS: Final = 100

TOKENS: Final = (
    *(b"\x82" + item(kind, b"")[1:-1] for kind in (HEADER, FRAME, BLOB, ERASED, HEAD, INDEX, END)),
    b"\x5b" + b"\xff" * 8, b"\x58\x20" + bytes(32), bytes(8),
)  # fmt: skip


def target(data: bytes) -> None:
    """Any file is refused, or reads as a bundle whose values have their hashes or are absent."""
    with tempfile.NamedTemporaryFile(suffix=".aos") as file:
        file.write(_closed(data))
        file.flush()
        path = Path(file.name)
        with contextlib.suppress(AosError), open_bundle(path) as bundle:
            bundle.check()
            bundle.head()
            for value in bundle.blob_hashes():
                assert content_hash(bundle.blob(value)) == value
            for erased in bundle.erased():
                with contextlib.suppress(Erased):
                    bundle.blob(erased.value)
                    raise AssertionError("an erased value has bytes")
            with contextlib.suppress(Damage):
                list(bundle.frames())
        with contextlib.suppress(BadUsage):
            assert not verify_bundle(path).is_sound, "its frames are none"


def _closed(data: bytes) -> bytes:
    """Return the file as it is; after a leading 1, with a matching closing hash."""
    if data[:1] != b"\x01" or len(data) < END_BYTES + 1:
        return data[1:]
    body = data[1:-END_BYTES]
    with contextlib.suppress(Damage):
        # The last 32 bytes are the hash, those before the positions.
        end = End.from_bytes(data[-48:])
        end = End(head_at=end.head_at, index_at=end.index_at, digest=blake3(body).digest())
        return body + item(END, end.to_bytes())
    return data[1:]


@cache
def _whole() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with BundleWriter(Path(folder) / "b") as writer:
            fill(writer)
            writer.finish(head())
        return (Path(folder) / "b").read_bytes()


def seeds() -> Iterator[bytes]:
    yield b"\x00" + _whole()
    yield b"\x01" + _whole()
    yield b"\x00" + _whole()[: len(_whole()) // 2]
    yield b"\x00"
