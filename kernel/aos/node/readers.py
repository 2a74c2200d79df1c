"""The reader processes of a front, two, each with one document at a time, and their program, which
makes documents that may take long (spec/node-api.md, N-114).

    python -m aos.node.readers WORLD

It reads requests on stdin and writes answers on stdout. It ends at the end of stdin.

    request  length (4 bytes, big-endian), JSON: {"operation": …, "query": {…}, "work": {…} or null,
             "index": FOLDER or null, "seconds": the time of a list, or null}
    answer   length (4 bytes), HTTP status (2 bytes), JSON: the document, or with a status that is
             not 200 the problem
"""

from __future__ import annotations

import asyncio
import gc
import json
import select
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final

from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, Damage, Erased
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.host.stamps import now_ns
from aos.node.bodies import write_json
from aos.node.child_program import kill, while_read
from aos.node.problems import Problem, problem_of
from aos.node.reading import ListTime, read_document, timed
from aos.private_memory import keep_memory_private
from aos.rare_collections import rare_collections
from aos.read.index.opened_index import OpenedIndex
from aos.read.index.world_index import indexed
from aos.read.views.record_view import Document
from aos.read.views.view import Running, View

READERS: Final = 2
DOCUMENT_S: Final = 30.0
"""Seconds that one document may take."""

REQUEST_HEAD: Final = Struct(">I")
"""The length of a request to a reader process."""

ANSWER_HEAD: Final = Struct(">IH")
"""The length of an answer, and its HTTP status."""

WAITING_MAX: Final = 16
"""Requests that may wait for a reader process."""

_ENDED: Final = "reader_has_ended"
_OK: Final = 200
_PART_BYTES_MAX: Final = 1 << 20

INDEX_S: Final = 10.0
"""Seconds without a request after which the index is closed: files that were removed take room as
long as they are open."""


class Readers:
    """Starts reader processes when they are needed, and ends one that takes too long."""

    def __init__(
        self,
        path: Path,
        *,
        seconds: float = DOCUMENT_S,
        waiting_max: int = WAITING_MAX,
        index: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """``index`` returns the folder of an index that answers, or None."""
        self._path = path
        self._index = index
        self.seconds = seconds
        self._waiting_max = waiting_max
        self._waiting = 0
        self._free = asyncio.Semaphore(READERS)
        self._idle: list[asyncio.subprocess.Process] = []

    async def document(
        self,
        operation: str,
        query: Mapping[str, Any],
        running: Running | None,
        *,
        list_s: float | None = None,
    ) -> dict[str, Any]:
        """As ``document_json``, but the document itself."""
        document: dict[str, Any] = json.loads(
            await self.document_json(operation, query, running, list_s=list_s)
        )
        return document

    async def document_json(
        self,
        operation: str,
        query: Mapping[str, Any],
        running: Running | None,
        *,
        list_s: float | None = None,
    ) -> bytes:
        """Make a document in a reader process, as ``write_json`` writes it; a list within
        ``list_s`` seconds. A process that ends while it reads an index is followed by one that does
        not.

        Raises:
            Problem: The document's own; or too many requests wait (429), or the document takes too
                long (503), or the process ended (500).
        """
        if self._waiting >= self._waiting_max:
            raise Problem(
                429, "readers_are_busy", "too many long reads wait already (try again in a moment)",
                retry_after_s=1,
            )  # fmt: skip
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        index = self._index()
        request = {
            "operation": operation,
            "query": query,
            "work": None if running is None else running.to_json(),
            "index": None if index is None else str(index),
            "seconds": list_s,
        }
        try:
            return await self._ask_process(request)
        except Problem as problem:
            if problem.rule != _ENDED or index is None:
                raise
            return await self._ask_process({**request, "index": None})
        finally:
            self._free.release()

    async def _ask_process(self, request: Mapping[str, Any]) -> bytes:
        process = self._idle.pop() if self._idle else await self._started()
        return await self._ask(process, request)

    async def _started(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, *QUICK_PROGRAM, "aos.node.readers", str(self._path),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def _ask(self, process: asyncio.subprocess.Process, request: Mapping[str, Any]) -> bytes:
        is_whole = False
        try:
            async with asyncio.timeout(self.seconds):
                status, data = await _exchange(process, json.dumps(request).encode())
            is_whole = True
        except TimeoutError:
            raise Problem(
                503, "document_takes_too_long",
                f"the document was not ready after {self.seconds:g} s (ask for less: a filter, a "
                "smaller limit)", retry_after_s=5,
            ) from None  # fmt: skip
        except (OSError, asyncio.IncompleteReadError):
            raise Problem(
                500, _ENDED, "the process that reads the world ended unexpectedly"
            ) from None
        finally:
            if is_whole:
                self._idle.append(process)
            else:
                await kill(process)
        if status != _OK:
            problem = json.loads(data)
            raise Problem(status, problem["rule"], problem["detail"])
        return data

    async def close(self) -> None:
        """End the processes."""
        while self._idle:
            await kill(self._idle.pop())


async def _exchange(process: asyncio.subprocess.Process, body: bytes) -> tuple[int, bytes]:
    """The status and the JSON of an answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(REQUEST_HEAD.pack(len(body)) + body)
    await process.stdin.drain()
    size, status = ANSWER_HEAD.unpack(await process.stdout.readexactly(ANSWER_HEAD.size))
    parts = []
    while size:
        part = await process.stdout.readexactly(min(size, _PART_BYTES_MAX))
        parts.append(part)
        size -= len(part)
    return status, b"".join(parts)


async def serve(path: Path, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the end of ``requests``."""
    follower: Follower | None = None
    index = OpenedIndex()
    try:
        while (data := _next(requests, index)) is not None:
            request = json.loads(data)
            try:
                if "at" in request["query"]:
                    document = _past(path, request)
                else:
                    if follower is None:
                        new_follower = Follower(path, [])
                        await new_follower.start()
                        follower = new_follower
                        gc.freeze()
                    document = await _present(follower, index, request)
                status = 200
            except AosError as error:
                problem = problem_of(error, path, unknown=404)
                status, document = problem.status, problem.document()
            except Problem as problem:
                status, document = problem.status, problem.document()
            body = write_json(document)
            answers.write(ANSWER_HEAD.pack(len(body), status))
            answers.write(body)
            answers.flush()
    finally:
        index.close()
        if follower is not None:
            follower.close()


def _next(requests: BinaryIO, index: OpenedIndex) -> bytes | None:
    # Without a request, no byte is in the buffer: the next one is sent after its answer.
    if not select.select([requests], [], [], INDEX_S)[0]:
        index.close()
    head = requests.read(REQUEST_HEAD.size)
    if len(head) < REQUEST_HEAD.size:
        return None
    [size] = REQUEST_HEAD.unpack(head)
    return requests.read(size)


async def _present(follower: Follower, index: OpenedIndex, request: dict[str, Any]) -> Document:
    await follower.advance_to()
    try:
        return _document(follower, index, request)
    except Erased:
        raise
    except Damage:
        # Parts of the snapshot that the state reads from may have been removed meanwhile, or the
        # index is damaged.
        await follower.restart()
        return _document(follower, index, {**request, "index": None})


def _document(follower: Follower, index: OpenedIndex, request: dict[str, Any]) -> Document:
    view = View(follower.state, follower.store, now_ns=now_ns())
    if request["seconds"] is not None:
        view = timed(view, ListTime(request["seconds"]))
    if request["work"] is not None:
        view.running = Running.from_json(request["work"])
    folder = None if request["index"] is None else Path(request["index"])
    with indexed(view, folder, follower.store, index):
        return read_document(view, request["operation"], request["query"])


def _past(path: Path, request: dict[str, Any]) -> Document:
    with open_reader(path, at=request["query"]["at"]) as reader:
        view = View(reader.state, reader.store, is_past=True)
        return read_document(view, request["operation"], request["query"])


if __name__ == "__main__":
    keep_memory_private()
    with rare_collections(), while_read():
        asyncio.run(serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer))
