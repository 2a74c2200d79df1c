"""A program that appends steps with large states forever and prints its progress.

    python -m tests.store.delta_writer FOLDER           a writer
    python -m tests.store.delta_writer FOLDER reader    prints the size of each blob it is asked for

Its journal is the same in every run, as that of ``tests.store.writer``. Now and then it erases a
state.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from aos.core.journal.frame import NO_FRAME
from aos.core.pending import Sealed
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash, content_hash
from tests.store.children import say
from tests.store.journal import Journal


def group(journal: Journal, states: dict[Hash, bytes | None]) -> list[Sealed]:
    """The next commit group. ``states`` gets its states; None for those that it erases."""
    if journal.seq == 1:
        return [journal.genesis()]
    last = next((each for each in reversed(states.values()) if each is not None), None)
    seed = journal.seq
    added = random.Random(seed).randbytes(60)  # test data
    grown = bytes(6000) if last is None else last
    state = b"%08d" % seed + grown[8:] + added
    journal.step(state=state, replaces=last)
    states[content_hash(state)] = state
    if seed % 7 == 0 and last is not None:
        journal.erase(content_hash(last))
        states[content_hash(last)] = None
    return [journal.seal()]


def write(folder: Path) -> None:
    store = LmdbStore.open(folder) if (folder / "data.mdb").exists() else LmdbStore.create(folder)
    found = store.head()
    journal = Journal()
    states: dict[Hash, bytes | None] = {}
    while found is not None and journal.tip.seq < found.seq:
        group(journal, states)
    say("open", journal.tip.seq)
    while True:
        expected = journal.tip.frame if journal.tip.seq else NO_FRAME
        made = group(journal, states)
        store.append(made, journal.head(), expected=expected)
        say(journal.tip.seq)


def read(folder: Path) -> None:
    with LmdbStore.open(folder, readonly=True) as store:
        say("open")
        for asked in sys.stdin:
            say(len(store.blob(Hash(bytes.fromhex(asked)))))


if __name__ == "__main__":
    (read if sys.argv[2:] else write)(Path(sys.argv[1]))
