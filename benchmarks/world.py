"""``run_world`` in this process, watched, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any, Final, Self

from aos.host.door.remote import ask_running
from aos.host.folder.folder import is_replicated
from aos.host.process import RunSettings, Started, run_world
from aos.host.world.snapshots import Every
from benchmarks.memory import rss_anon_mib
from benchmarks.watch import Watch, watching
from benchmarks.workloads import Load

START_S: Final = 900.0

Json = dict[str, Any]


class World:
    """While the block runs. ``every`` says when a snapshot is made by itself."""

    def __init__(self, path: Path, load: Load, *, every: Every | None = None) -> None:
        self.watch = Watch(load.finished)
        self._path = path
        self._load = load
        self._every = every
        self._started = asyncio.Event()
        self._stack = contextlib.ExitStack()
        self._seconds = 0.0
        self._before = 0

    async def __aenter__(self) -> Self:
        self._stack.enter_context(watching(self.watch))
        began = time.perf_counter()
        self._run = asyncio.create_task(
            run_world(
                self._path,
                RunSettings(
                    executors=self._load.executors,
                    handle_signals=False,
                    snapshot_every=self._every,
                    on_started=self._has_started,
                ),
            )
        )
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait(
            {self._run, started}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED
        )
        self._seconds = time.perf_counter() - began
        started.cancel()
        self.watch.is_over = self._run.done
        if not self._started.is_set():
            await self._end()
            raise RuntimeError("the world ended before it was started")
        # The record of this start is none of what is measured.
        await asyncio.to_thread(self._wait_for_start)
        return self

    def _wait_for_start(self) -> None:
        if is_replicated(self._path):
            return  # that record is there before the run of a term begins (CL-91)
        while self._last_seq() <= self._before and not self._run.done():
            time.sleep(0.001)

    def _has_started(self, started: Started) -> None:
        self._before = started.seq
        self._started.set()

    def _last_seq(self) -> int:
        # The store has a record a moment before the engine publishes it, and points count from
        # what is published.
        return self.watch.engine.stats().figures.seq

    def start(self) -> Json:
        """How the start went: seconds, what there was to read, and the memory after it."""
        return {
            "seconds": self._seconds,
            "records": self._last_seq(),
            "cells": self.watch.engine.stats().figures.cells,
            "rss_anon_mib": rss_anon_mib(),
            "store_bytes": self.store_bytes(),
        }

    def store_bytes(self) -> int:
        return self.watch.store.size_bytes()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A world that has ended by itself says why below.
        if not self._run.done():
            await asyncio.to_thread(ask_running, self._path, "stop")
        await self._end()

    async def _end(self) -> None:
        """Wait for the world's end. Raises the error that stopped it, even if others followed."""
        try:
            await self._run
        finally:
            self._stack.close()
