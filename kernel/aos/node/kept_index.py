"""The index of a world that a process of its own keeps (spec/index.md, IX-62 to IX-65)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aos.node.child_program import kill
from aos.node.problems import Problem
from aos.read.index.cached_index import index_cache
from aos.read.index.index_file import Report
from aos.read.index.indexed_workflows import SearchSettings

INDEXED_RECORDS: Final = 10_000
"""Records from which on a world has an index: fewer are read as fast without one. One with values
is kept from the first record on."""

SHARE: Final = 100
SHARE_WITH_KERNEL: Final = 40
"""Maximum share of one processor for the process, in percent: alone, and with a kernel process."""

BEHIND_MAX: Final = 5_000
"""Records, and cells, that an index which was whole may lack, and still answer."""

LOOK_S: Final = 1.0
"""Interval of looks at a small world, in seconds."""

PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 30.0
"""The first and the longest pause before the process is started again."""


CLOSE_S: Final = 3.0
"""Seconds in which the process writes the index to the disk at its end."""


class KeptIndex:
    """Runs the process, and tells how far its index is. Used from one event loop.

    ``records`` returns the number of records of the world. With ``index_folder`` None, the index is
    in the machine's cache; where there is no cache, there is no index. ``settings`` are the names
    of ``node.toml``: the index in ``index_folder`` has their values.
    """

    def __init__(
        self,
        world: Path,
        records: Callable[[], int],
        report: Report,
        *,
        index_folder: Path | None = None,
        share: int = SHARE,
        settings: SearchSettings | None = None,
    ) -> None:
        self.settings: SearchSettings = settings or {}
        self._world = world
        self._records = records
        self._report = report
        self._index_folder = index_folder
        self._share = share
        self._progress: dict[str, Any] = {}
        self._was_whole = False
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the index once it answers; None until then. The records that a running
        world is ahead of it are read on by its readers."""
        return Path(self._progress["folder"]) if self._may_answer() else None

    def check_values(self, workflow: str | None) -> None:
        """Check that a list can be made: one of a workflow with values does not read every cell
        while they are written. None is a list of all workflows.

        Raises:
            Problem: The values are not there yet (503).
        """
        if workflow not in self.settings:
            return
        if self._may_answer() and self._progress.get("values") is None:
            return
        raise Problem(
            503, "index_is_building", f"the search index: {self._how_far()} (try again)",
            retry_after_s=1,
        )  # fmt: skip

    def _how_far(self) -> str:
        progress = self._progress
        if progress.get("values") is not None:
            workflow, done, total = progress["values"]
            return f"{done:,} of {total:,} cells of {workflow} are indexed"
        if progress.get("record") is not None:
            return f"{progress['record']:,} of {progress['last']:,} records are indexed"
        return str(progress.get("problem") or "it is being opened")

    def _may_answer(self) -> bool:
        progress = self._progress
        if "folder" not in progress:
            return False
        if progress["record"] is None:
            return True
        behind = max(progress["last"] - progress["record"], progress["cells_left"])
        return behind == 0 or (self._was_whole and behind <= BEHIND_MAX)

    def document(self) -> dict[str, Any] | None:
        """How far the index is, ``{record, last, is_whole, problem}``; None if there is none: the
        world is small, or the machine has no cache."""
        progress = self._progress
        if not progress:
            return None
        return {
            "record": progress.get("record"),
            "last": progress.get("last"),
            "is_whole": self._may_answer(),
            "problem": progress.get("problem"),
        }

    def start(self) -> None:
        """Begin to keep the index in a task of the running loop."""
        if self._task is None:
            self._task = asyncio.create_task(self.run())

    async def close(self) -> None:
        """End the process."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(self) -> None:
        """Run the process until this is canceled; start it again when it ends."""
        words = self._words()
        if words is None:
            return
        while not self.settings and self._records() < INDEXED_RECORDS:  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(LOOK_S)
        pause_s = PAUSE_S
        while True:
            self._progress = {"record": 0, "last": self._records()}
            with contextlib.suppress(OSError):
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "aos.node.index_process", *words,
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                self._process = process
                try:
                    if await self._listen(process):
                        pause_s = PAUSE_S
                finally:
                    self._progress = {}
                    await _ended(process)
            self._progress = {"problem": "the process that keeps the index has ended"}
            self._report("the process that keeps the index has ended; it is started again")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _words(self) -> list[str] | None:
        target = self._index_folder or index_cache()
        if target is None:
            return None
        search = [] if self._index_folder is None else [json.dumps(self.settings)]
        return [str(self._world), str(target), str(self._share), *search]

    async def _listen(self, process: asyncio.subprocess.Process) -> bool:
        """Take what the process tells until it ends; return whether its index was whole."""
        self._was_whole = False
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._progress = json.loads(line)
            self._was_whole = self._may_answer()
        return self._was_whole


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let the process close its index, which takes a moment; kill it after that."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await process.wait()
    except TimeoutError:
        await kill(process)
