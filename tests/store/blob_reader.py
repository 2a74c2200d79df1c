"""A program that opens a store, waits for a line, and prints the length of a blob."""

from __future__ import annotations

import sys
from pathlib import Path

from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash
from tests.store.children import say


def main() -> None:
    hash = Hash(bytes.fromhex(sys.argv[2]))
    with LmdbStore.open(Path(sys.argv[1]), readonly=True) as store:
        say("open")
        sys.stdin.readline()
        say(len(store.blob(hash)) if store.has_blob(hash) else "none")


if __name__ == "__main__":
    main()
