"""A bundle that the page shows: a child process unpacks it, then verifies it (spec/page.md, PG-30).

FILE ──check, unpack──▶ a folder of its own ──▶ read as a world at rest
  └───verify──▶ "verifying", then "sound to record N" or the findings
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from aos.dataclass_methods import QUICK_PROGRAM
from aos.node.child_program import kill
from aos.node.problems import Problem
from aos.read.views.record_view import Document

LINE_BYTES_MAX: Final = 1 << 22
"""The longest line of the child: a report with its findings."""


class BundleReading:
    """The progress of one bundle. ``report`` is the document of ``aos verify FILE --json``, None
    before its end; ``problem`` is the sentence of an error that ended the child, and
    ``is_of_disk`` says that it is one of the disk that the bundle is unpacked to."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.file = file
        self.folder = folder
        self.is_unpacked = False
        self.reached = 0
        self.report: Document | None = None
        self.problem: str | None = None
        self.is_of_disk = False

    def check(self) -> None:
        """Check that the bundle can be read.

        Raises:
            Problem: It is not unpacked yet (503), or cannot be (422, or 507 if the disk is
                full or fails).
        """
        if self.is_unpacked:
            return
        if self.is_of_disk and self.problem is not None:
            raise Problem(507, "bundle_has_no_room", self.problem)
        if self.problem is not None:
            raise Problem(422, "bundle_is_invalid", self.problem)
        raise Problem(
            503, "bundle_is_being_read",
            f"{self.file}: the bundle is being unpacked ({self.reached:,} so far)",
            retry_after_s=1,
        )  # fmt: skip

    @property
    def command(self) -> list[str]:
        """The words of the command that verifies the bundle."""
        name = str(self.file)
        return ["aos", "verify", *(["--"] if name.startswith("-") else []), name]

    async def run(self) -> None:
        """Run the child to its end. Canceling this ends the child."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, *QUICK_PROGRAM, "aos.page.bundle_process", str(self.file),
            str(self.folder),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES_MAX,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._take(json.loads(line))
            await process.wait()
        finally:
            if process.returncode is None:
                await kill(process)
        if self.report is None and self.problem is None:
            self.problem = f"{self.file}: the process that reads the bundle ended unexpectedly"

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"reached": int(reached)}:
                self.reached = reached
            case {"unpacked": True}:
                self.is_unpacked, self.reached = True, 0
            case {"report": dict(report)}:
                self.report = report
            case {"problem": str(problem)}:
                self.problem = problem
                self.is_of_disk = message.get("is_of_disk") is True

    def document(self) -> Document:
        """Return how far the reading is: ``phase`` is ``unpacking``, ``verifying``, ``sound``,
        ``damaged`` or ``unread``."""
        return {
            "file": str(self.file),
            "phase": self._phase(),
            "reached": self.reached,
            "problem": self.problem,
            "report": self.report,
        }

    def _phase(self) -> str:
        if self.is_of_disk:
            return "unread"
        if self.report is not None:
            return "sound" if self.report["sound"] else "damaged"
        if self.problem is not None:
            return "unread"
        return "verifying" if self.is_unpacked else "unpacking"
