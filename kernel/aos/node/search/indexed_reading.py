"""The process of the search index, as the front uses it (spec/search.md, SE-20, SE-24)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aos.core.state.state import State
from aos.errors import BadUsage
from aos.manifest.linear_names import LINEAR
from aos.node.problems import Problem
from aos.node.search.indexed import SearchSettings
from aos.read.lens.lookup import find_workflow

WAITING_MAX: Final = 64
"""Requests that may wait for the index."""

ANSWER_S: Final = 30.0
PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 30.0
"""The first and the longest pause before the process is started again."""

_LENGTH_BYTES: Final = 4


class IndexedReading:
    """Keeps the process running, and asks it for documents. ``settings`` may be empty: then there
    is no process, and ``run`` is not called. Used from one event loop."""

    def __init__(self, path: Path, settings: SearchSettings, report: Callable[[str], None]) -> None:
        self.settings = settings
        self._path = path
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: deque[asyncio.Future[dict[str, Any]]] = deque()
        self._progress = "it is being opened"
        self._is_ready = False

    def has(self, state: State, operation: str, query: Mapping[str, Any]) -> bool:
        """Whether a list is of a workflow with an index, at the head."""
        return "at" not in query and _workflow_of(state, operation, query) in self.settings

    async def document(self, operation: str, query: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make a document from the index; None if the index does not have what it needs.

        Raises:
            Problem: The document's own; or the index is not built yet, or does not answer (503), or
                too many requests wait (429).
        """
        if not self._is_ready or self._process is None:
            raise Problem(
                503, "index_is_building", f"the search index: {self._progress} (try again)",
                retry_after_s=1,
            )  # fmt: skip
        if len(self._waiting) >= WAITING_MAX:
            raise Problem(
                429, "readers_are_busy", "too many lists wait already (try again in a moment)",
                retry_after_s=1,
            )  # fmt: skip
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        _send(self._process, {"operation": operation, "query": dict(query), "work": None})
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await asyncio.shield(future)
        except TimeoutError:
            self._kill()
            raise Problem(
                503, "document_takes_too_long",
                f"the search index has not answered after {ANSWER_S:g} s", retry_after_s=5,
            ) from None  # fmt: skip
        if answer["status"] == 0:
            return None
        if "problem" in answer:
            problem = answer["problem"]
            raise Problem(answer["status"], problem["rule"], problem["detail"])
        document: dict[str, Any] = answer["document"]
        return document

    async def run(self) -> None:
        """Run the process until cancelled; start it again when it ends."""
        pause_s = PAUSE_S
        while True:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aos.node.search.index_process", str(self._path),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                _send(self._process, {"settings": self.settings})
                if await self._read(self._process):
                    pause_s = PAUSE_S
            finally:
                await self._over()
            self._report("the process of the search index has ended; it is started again")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _read(self, process: asyncio.subprocess.Process) -> bool:
        """Take messages until the process ends; return whether it was ready."""
        was_ready = False
        assert process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                header = await process.stdout.readexactly(_LENGTH_BYTES)
                size = int.from_bytes(header, "big")
                message = json.loads(await process.stdout.readexactly(size))
                if "building" in message:
                    self._is_ready = False
                    self._progress = _progress(message["building"])
                elif "ready" in message:
                    self._is_ready = was_ready = True
                elif self._waiting:
                    future = self._waiting.popleft()
                    if not future.done():
                        future.set_result(message)
        return was_ready

    async def _over(self) -> None:
        """End the process, and answer those that wait for it."""
        process, self._process, self._is_ready = self._process, None, False
        self._progress = "it is started again"
        answer = {
            "status": 503,
            "problem": {"rule": "index_is_building", "detail": "the search index ended: try again"},
        }
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(answer)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _workflow_of(state: State, operation: str, query: Mapping[str, Any]) -> str | None:
    if operation in ("read_linear_instances", "read_linear_counts"):
        return LINEAR
    if operation not in ("read_cells", "read_cell_counts") or "workflow" not in query:
        return None
    try:
        return find_workflow(state, query["workflow"])
    except BadUsage:
        return None  # the document says so


def _progress(progress: Mapping[str, Any]) -> str:
    return (
        f"{progress['done']:,} of {progress['total']:,} cells of {progress['workflow']} are indexed"
    )


def _send(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> None:
    body = json.dumps(message).encode()
    assert process.stdin is not None
    # If the process has ended, its end is met by the reader.
    with contextlib.suppress(OSError):
        process.stdin.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
