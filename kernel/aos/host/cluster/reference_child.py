"""The process that folds the journal of a standby with the reference (spec/cluster.md, CL-285).

    python -m aos.host.cluster.reference_child STORE NICE

It reads STORE, that of the node's folder, and writes nothing but its progress, a JSON document a
line, when that has changed. It ends after a difference.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from aos.errors import AosError
from aos.host.cluster.reference_fold import ReferenceFold
from aos.private_memory import keep_memory_private
from aos.store.lmdb_store import LmdbStore

LOOK_S: Final = 2.0
"""Interval of looks for another snapshot, in seconds."""


def main(words: list[str]) -> int:
    """Run the process until its parent ends it; return its exit code."""
    os.nice(int(words[1]))
    try:
        with LmdbStore.open(Path(words[0]), readonly=True, looks=False) as store:
            fold = ReferenceFold(store)
            while True:
                if fold.advance():
                    progress = fold.progress()
                    sys.stdout.write(json.dumps(progress.to_document()) + "\n")
                    sys.stdout.flush()
                    if progress.difference is not None:
                        return 0
                else:
                    time.sleep(LOOK_S)
    except BrokenPipeError:
        return 0
    except AosError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(sys.argv[1:]))
