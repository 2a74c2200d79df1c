"""Open a world for reading; every reading command begins with this."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aos.audit.views.view import View
from aos.host.folder.reader import open_reader
from aos_cli.progress import progress


@contextmanager
def looking_at(world: Path, at: int | None = None) -> Iterator[View]:
    """A view of the world's durable state now, whether or not a process runs it; or as it was
    after record ``at``, with the journal's clock at that record."""
    with progress("reading the journal") as advance:
        reader = open_reader(world, at=at, progress=advance)
    with reader:
        yield View(
            reader.state,
            reader.store,
            now_ns=time.time_ns() if at is None else None,
            is_past=at is not None,
        )
