"""A program that appends and erases large blobs, and prints its progress.

    python -m tests.store.packer FOLDER

Its journal is the same in every run; it continues where the store ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from aos.core.journal.frame import NO_FRAME
from aos.core.pending import Sealed
from aos.store.lmdb_store import LmdbStore
from aos.store.packs import PACKED_BYTES
from aos.values.digests import content_hash
from tests.store.children import say
from tests.store.journal import Journal


def large(name: str) -> bytes:
    return name.encode() * PACKED_BYTES


STEPS = 4


def group(journal: Journal, step: int) -> list[Sealed]:
    """The next commit group: two blobs, one more with an erasure, the erased one again."""
    match step:
        case 0:
            return [journal.genesis()]
        case 1:
            journal.event(value=large("a"))
            journal.event(value=large("b"))
        case 2:
            journal.erase(content_hash(large("a")))
            journal.event(value=large("c"))
        case _:
            journal.event(value=large("a"))
            journal.erase(content_hash(large("b")))
    return [journal.seal()]


def main() -> None:
    folder = Path(sys.argv[1])
    is_made = (folder / "data.mdb").exists()
    with LmdbStore.open(folder) if is_made else LmdbStore.create(folder) as store:
        head, journal = store.head(), Journal()
        for step in range(STEPS):
            expected = journal.tip.frame if step else NO_FRAME
            made = group(journal, step)
            if head is None or journal.tip.seq > head.seq:
                store.append(made, journal.head(), expected=expected)
                say(journal.tip.seq)


if __name__ == "__main__":
    main()
