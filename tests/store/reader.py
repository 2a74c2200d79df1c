"""A program that reads a store: each line of input is answered with ``<head> <frames>``.

With ``hold`` as second argument it opens a transaction, says so and never ends it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lmdb

from aos.core.journal.frame import Tip, follow
from aos.store.lmdb_store import LmdbStore
from tests.store.children import say
from tests.store.journal import WORLD


def main() -> None:
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ["hold"]:
        held = lmdb.open(str(folder), readonly=True, map_size=1 << 30).begin()
        say("held", held.id())
        sys.stdin.readline()
        return
    with LmdbStore.open(folder, readonly=True) as store:
        say("open")
        for _ in sys.stdin:
            head = store.head()
            tip = Tip(world=WORLD)
            for frame in store.frames():
                tip = follow(tip, frame)
            say(0 if head is None else head.seq, tip.log.size)


if __name__ == "__main__":
    main()
