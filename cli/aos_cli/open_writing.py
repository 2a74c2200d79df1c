"""Open a world for writing; every command that sends something begins with this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aos.host.door.writer import Writer, open_writer
from aos_cli.output import note
from aos_cli.progress import progress


@contextmanager
def writing_to(world: Path) -> Iterator[Writer]:
    """Open the world for the block, and show the progress of reading its journal."""
    with progress("reading the journal") as advance:
        writer = open_writer(world, progress=advance, report=note)
    with writer:
        yield writer
