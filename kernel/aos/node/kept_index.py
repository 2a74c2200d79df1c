"""The index of a world that a process of its own keeps, and the program of this process
(spec/index.md, IX-62 to IX-65).

    python -m aos.node.kept_index WORLD CACHE SHARE
    python -m aos.node.kept_index WORLD FOLDER SHARE SEARCH

It follows the world and writes its index: in a folder of the cache of indexes, or with SEARCH in
FOLDER itself. SEARCH is the section ``search`` of ``node.toml`` as JSON: the values that the index
has, too. SHARE is its maximum share of one processor, in percent. It ends at the end of stdin, and
reports its progress on stdout as lines of JSON, a few each second:

    {"folder": …, "record": …, "last": …, "cells_left": …, "values": …}
    {"problem": …}    there is no index now; the program retries later

``values`` is null, or the workflow whose values are written, the cells that are done, and all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, Damage, Pruned
from aos.host.follower import Follower
from aos.node.child_program import end_of_stdin, kill, tell, while_read
from aos.node.problems import Problem
from aos.private_memory import keep_memory_private
from aos.read.index.cached_index import folder_for, index_cache, make_room, remove_old_index
from aos.read.index.index_file import Report
from aos.read.index.indexed_workflows import SearchSettings
from aos.read.index.world_index import IndexProgress, WorldIndex

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

NICE: Final = 10
"""It leaves the processor to what people and the kernel wait for."""

NEW_RECORDS_LOOK_S: Final = 0.1
"""Interval of looks for new records once the index is whole, in seconds."""

OTHER_S: Final = 1.0
"""Interval of looks whether another process still writes the index, in seconds."""

AGAIN_S: Final = 30.0
"""Pause after a problem, such as a full disk, in seconds."""

TOLD_S: Final = 0.25
"""Interval at which an index that is not whole reports how far it is, in seconds."""


class KeptIndex:
    """Runs the process, and reports how far its index is. Used from one event loop.

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
                    sys.executable, *QUICK_PROGRAM, "aos.node.kept_index", *words,
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
        """Take the reports of the process until it ends; return whether its index was whole."""
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


class IndexProcess:
    """Keeps the index of ``world`` until it is canceled: in the cache ``target``, or with
    ``settings`` in this folder."""

    def __init__(
        self, world: Path, target: Path, *, share: float, settings: SearchSettings | None
    ) -> None:
        self._follower = Follower(world)
        self._target = target
        self._settings = settings
        self._pause = 1 / share - 1

    async def run(self) -> None:
        """Raises AosError if the world cannot be read."""
        await self._follower.start()
        try:
            while True:
                await self._keep_index()
        finally:
            self._follower.close()

    async def _keep_index(self) -> None:
        """Keep the index until a problem; return after a pause."""
        index: WorldIndex | None = None
        try:
            folder = self._folder()
            while index is None:
                index = WorldIndex.open(
                    folder, self._follower.store, _report, settings=self._settings
                )
                if index is None:
                    # The other one reports nothing to this process; readers look how far it is.
                    tell({"folder": str(folder), "record": None})
                    await asyncio.sleep(OTHER_S)
            if self._settings is None:
                make_room(self._target, keep=folder)
            await self._advanced(index, folder)
        except (Damage, Pruned) as error:
            # The file is read again as after a crash. If the journal is damaged, its follower says.
            if index is not None:
                index.abandon()
                index = None
            tell({"problem": str(error)})
            await self._follower.restart()
        except AosError as error:
            tell({"problem": str(error)})
        finally:
            if index is not None:
                index.close()
        await asyncio.sleep(AGAIN_S)

    def _folder(self) -> Path:
        if self._settings is None:
            return folder_for(self._target, self._follower.store)
        remove_old_index(self._target)
        return self._target

    async def _advanced(self, index: WorldIndex, folder: Path) -> None:
        reported: IndexProgress | None = None
        told_s = time.monotonic()
        while True:
            began_s = time.process_time()
            if not index.numbers_cells:
                await self._follower.advance_to()
            is_whole = index.advance(self._follower.state)
            now_s = time.monotonic()
            progress = index.progress(self._follower.state)
            if progress != reported and (is_whole or now_s - told_s >= TOLD_S):
                reported, told_s = progress, now_s
                tell({"folder": str(folder), **asdict(progress)})
            took_s = time.process_time() - began_s
            await asyncio.sleep(max(self._pause * took_s, NEW_RECORDS_LOOK_S if is_whole else 0))


def _report(text: str) -> None:
    sys.stderr.write(f"aos: {text}\n")
    sys.stderr.flush()


async def main(writer: IndexProcess) -> None:
    """Run until the end of stdin."""
    running = asyncio.ensure_future(writer.run())
    ending = asyncio.ensure_future(end_of_stdin().wait())
    await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if running.done():
        running.result()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


if __name__ == "__main__":
    keep_memory_private()
    # Ctrl-C reaches the whole group of a terminal; the end of stdin ends this process in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    world_path, target_path, percent, *search = sys.argv[1:]
    try:
        with while_read():
            asyncio.run(
                main(
                    IndexProcess(
                        Path(world_path),
                        Path(target_path),
                        share=int(percent) / 100,
                        settings=json.loads(search[0]) if search else None,
                    )
                )
            )
    except AosError as error:
        _report(f"the index: {error}")
        sys.exit(error.exit_code)
