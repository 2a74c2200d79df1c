"""The program that unpacks a bundle into a folder, and then verifies it (spec/page.md, PG-30).

    python -m aos.page.bundle_process FILE DIR

It writes lines of JSON on stdout: ``{"reached": N}`` now and then, ``{"unpacked": true}`` once DIR
is a world, and ``{"report": …}`` of ``aos verify FILE``, or ``{"problem": sentence}``, with
``"is_of_disk": true`` if the disk of DIR is full or fails.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from aos.errors import AosError, sentence
from aos.host.transfer.importing import import_world
from aos.node.child_program import tell, while_read
from aos.private_memory import keep_memory_private
from aos.prove.replay.replay_store import verify_bundle
from aos.store.errors import CommitFailed, NoRoom

SAY_S: Final = 0.2
"""Seconds between two lines of progress."""


class _Progress:
    def __init__(self) -> None:
        self._said_s = time.monotonic()

    def reached(self, number: int, _total: int = 0) -> None:
        if time.monotonic() - self._said_s >= SAY_S:
            self._said_s = time.monotonic()
            tell({"reached": number})


def main(file: Path, folder: Path) -> None:
    """Unpack and verify; an error of either is a ``problem``."""
    progress = _Progress()
    problem: dict[str, object] | None = None
    try:
        import_world(file, folder, progress=progress.reached)
        tell({"unpacked": True})
    except NoRoom:
        problem = _not_unpacked(file, f"a full disk at {folder.parent}")
    except CommitFailed as error:
        problem = _not_unpacked(file, f"a disk at {folder.parent} that fails: {error.__cause__}")
    except AosError as error:
        problem = {"problem": str(error)}
    try:
        report = verify_bundle(file, on_progress=progress.reached)
        tell({"report": report.to_document()})
    except AosError as error:
        problem = problem or {"problem": str(error)}
    if problem is not None:
        tell(problem)


def _not_unpacked(file: Path, actual: str) -> dict[str, object]:
    subject = "the bundle cannot be unpacked"
    hint = "make room there, or name another folder by TMPDIR, and start aos page again"
    return {
        "problem": sentence(subject, location=str(file), actual=actual, hint=hint),
        "is_of_disk": True,
    }


if __name__ == "__main__":
    keep_memory_private()
    with while_read():
        main(Path(sys.argv[1]), Path(sys.argv[2]))
