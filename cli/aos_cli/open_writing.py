"""Open a world for writing; every command that sends something begins with this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aos.host.door.patience import WaitPatience
from aos.host.door.writer import Writer, open_writer
from aos_cli.output import note
from aos_cli.progress import progress
from aos_cli.writing_timeout import chosen_timeout_s


@contextmanager
def writing_to(world: Path) -> Iterator[Writer]:
    """Open the world for the block, and show the progress of reading its journal."""
    with progress("reading the journal") as advance:
        writer = open_writer(world, patience=patience(), progress=advance, report=note)
    for remark in writer.folder.remarks():
        note(f"aos: {remark}")
    with writer:
        yield writer


def patience() -> WaitPatience:
    """How long this command waits for a world that makes nothing durable, and reports it (C-8a)."""
    return WaitPatience(chosen_timeout_s(), report=lambda text: note(f"aos: {text}"))
