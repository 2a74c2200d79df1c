"""The program that keeps the index of a world (spec/index.md, IX-62 to IX-65).

    python -m aos.node.index_process WORLD CACHE SHARE
    python -m aos.node.index_process WORLD FOLDER SHARE SEARCH

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
from dataclasses import asdict
from pathlib import Path
from typing import Final

from aos.errors import AosError, Damage, Pruned
from aos.host.follower import Follower
from aos.node.child_program import end_of_stdin, tell, while_read
from aos.private_memory import keep_memory_private
from aos.read.index.cached_index import folder_for, make_room, remove_old_index
from aos.read.index.indexed_workflows import SearchSettings
from aos.read.index.world_index import IndexProgress, WorldIndex

NICE: Final = 10
"""It leaves the processor to what people and the kernel wait for."""

LOOK_S: Final = 0.1
"""Interval of looks for new records once the index is whole, in seconds."""

OTHER_S: Final = 1.0
"""Interval of looks whether another process still writes the index, in seconds."""

AGAIN_S: Final = 30.0
"""Pause after a problem, such as a full disk, in seconds."""

TOLD_S: Final = 0.25
"""Interval at which an index that is not whole tells how far it is, in seconds."""


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
                    # The other one tells nothing; readers find out themselves how far it is.
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
            await asyncio.sleep(max(self._pause * took_s, LOOK_S if is_whole else 0))


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
