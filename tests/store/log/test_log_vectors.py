"""spec/vectors/log.json is what the code makes, and what it reads."""

from __future__ import annotations

import json

import cbor2
from blake3 import blake3
from nacl.signing import VerifyKey

from aos.store.log.entry import EntryPart
from aos.store.log.memory_log import MemoryLog, SharedStream
from tests.store.log.log_vectors import PATH, vectors
from tests.store.log.nodes import LogNode

FILE = json.loads(PATH.read_text())


def test_the_file_is_current() -> None:  # LG-42
    assert vectors() == FILE


def test_the_entries_are_as_the_specification_says() -> None:  # LG-1, LG-3, LG-4
    """With cbor2, blake3 and nacl alone."""
    key = VerifyKey(bytes.fromhex(FILE["world_key"]))
    for row in FILE["entries"]:
        data = bytes.fromhex(row["entry_hex"])
        assert blake3(data).hexdigest() == row["name_hex"]
        form, kind, *fields = cbor2.loads(data)
        assert form == "aos/log/1"
        if kind == "blobs":
            after, blobs, signature = fields
            hashes = [blake3(blob).digest() for blob in blobs]
            world = bytes.fromhex(FILE["world"])
            signed = ["aos/log-blobs/1", world, after, hashes]
            key.verify(cbor2.dumps(signed, canonical=True), signature)


def test_a_reader_finds_the_entries_that_count() -> None:  # LG-10 to LG-12
    stream = SharedStream()
    for row in FILE["stream"]:
        data = bytes.fromhex(row["data_hex"])
        stream.publish(EntryPart.read(row["Aos-Entry"], row["Aos-Part"], data))
    node = LogNode(MemoryLog(stream))

    counted = [entry.hash.hex() for entry in node.counter.counted()]

    assert counted == FILE["counts"]
    assert node.journal == [b"record 1", b"record 2", b"record 3"]
    assert node.blobs == [b"slice 1", b"slice 2"]
