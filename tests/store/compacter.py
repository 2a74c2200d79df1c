"""A program that compacts a store: ``python -m tests.store.compacter FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from aos.store.lmdb_store import LmdbStore
from tests.store.children import say


def main() -> None:
    with LmdbStore.open(Path(sys.argv[1])) as store:
        store.compact()
    say("compacted")


if __name__ == "__main__":
    main()
