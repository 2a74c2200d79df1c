"""The process that makes a checkpoint of a running world: it only reads the store."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from aos.errors import AosError
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.private_memory import keep_memory_private

NICE = 10


def main(world: Path) -> int:
    """Make a checkpoint; print why it could not be made."""
    os.nice(NICE)
    try:
        make_checkpoint(world)
    except AosError as problem:
        print(problem, file=sys.stderr)  # noqa: T201  # its parent reads it
        return problem.exit_code
    return 0


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(Path(sys.argv[1])))
