"""A program that appends forever and prints its progress after each commit.

    python -m tests.store.writer FOLDER SECONDS-OF-NOTHING [limit ...]

Its journal is the same in every run: a parent can make the same bytes. It continues where the store
ends. An exception of a commit is printed as ``failed: Name: text`` and tried once more.
"""

from __future__ import annotations

import sys
from pathlib import Path

from aos.core.journal.frame import NO_FRAME
from aos.core.pending import Sealed
from aos.errors import AosError
from aos.store.lmdb_store import LmdbStore
from tests.store.children import say
from tests.store.journal import Journal

FRAMES_A_GROUP = 3


def group(journal: Journal) -> list[Sealed]:
    """The next commit group of the one journal that this program writes."""
    made = []
    if journal.seq == 1:
        return [journal.genesis()]
    for _ in range(FRAMES_A_GROUP):
        seq = journal.event(f"id {journal.seq}", bytes(seq_size(journal.seq)))
        intents = journal.step(intents=seq % 3)
        for intent in intents[:1]:
            journal.receipt(intent, abandoned=intents[1:])
        made.append(journal.seal())
    return made


def seq_size(seq: int) -> int:
    """Some values are inline in the record, some outside it, some on many pages."""
    return (1, 900, 3000, 40_000)[seq % 4]


def main() -> None:
    folder = Path(sys.argv[1])
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 62
    store = LmdbStore.open(folder) if (folder / "data.mdb").exists() else LmdbStore.create(folder)
    found = store.head()
    journal = Journal()
    while found is not None and journal.tip.seq < found.seq:
        group(journal)
    say("open", journal.tip.seq)
    for _ in range(most):
        expected = journal.tip.frame if journal.tip.seq else NO_FRAME
        made = group(journal)
        for _ in range(2):
            try:
                store.append(made, journal.head(), expected=expected)
            except AosError as error:
                say(f"failed: {type(error).__name__}: {error}")
            else:
                say(journal.tip.seq)
                break
        else:
            break
    try:
        head = store.head()
        say("ends", 0 if head is None else head.seq)
    except AosError as error:
        say(f"ends: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
