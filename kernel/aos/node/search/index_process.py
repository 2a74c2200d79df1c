"""The program that keeps the search index, and makes the documents that it answers
(spec/search.md, SE-20 to SE-26).

    python -m aos.node.search.index_process WORLD

It reads requests on stdin and writes messages on stdout, each a length of 4 bytes (big-endian) and
JSON. It ends at the end of stdin.

    request  {"settings": {…}}, the first one; then as those of a reader process
    message  {"building": {"workflow": …, "done": …, "total": …}}: nothing is answered now
             {"ready": true}: it is built
             {"status": 200, "document": {…}}, {"status": …, "problem": {…}}
             {"status": 0}: the index does not have it
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from aos.errors import AosError, Damage, Erased
from aos.host.follower import Follower
from aos.host.machine_clock import now_ns
from aos.node.bodies import write_json
from aos.node.problems import Problem
from aos.node.reading import read_document
from aos.node.refusals import problem_of
from aos.node.search.following_index import FollowingIndex
from aos.node.search.search_index import SearchIndex
from aos.private_memory import keep_memory_private
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.read.where.attributes import Attribute
from aos.read.where.counting import CountedCells
from aos.read.where.matching import CellPage, CellQuery

LENGTH_BYTES: Final = 4
SYNC_S: Final = 0.25
"""Seconds between two commits while records come."""

NICE: Final = 5
"""It leaves the processor to the kernel process where there is not enough for both."""


class _NotIndexed(Exception):  # no error: the caller reads every cell instead
    """A query names something that is not indexed."""


class _Finder:
    """The index for a view; it never reads every cell."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage:
        page = self._index.page(query, limit=limit, offset=offset)
        if page is None:
            raise _NotIndexed
        return page

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells:
        counted_cells = self._index.count(query, by, limit)
        if counted_cells is None:
            raise _NotIndexed
        return counted_cells


class _Serving:
    def __init__(self, path: Path, answers: BinaryIO, settings: Any) -> None:
        self._path = path
        self._answers = answers
        self._is_building = True
        self._following = FollowingIndex(path, settings, self._building, _report)
        self._follower = Follower(path, [self._following])

    async def run(self, requests: asyncio.StreamReader) -> None:
        await self._follower.start()
        try:
            request = asyncio.ensure_future(_next(requests))
            while True:
                await self._advance()
                self._following.commit(self._follower)
                await asyncio.wait({request}, timeout=SYNC_S)
                while request.done():
                    data = request.result()
                    if data is None:
                        return
                    self._write(await self._answer(json.loads(data)))
                    request = asyncio.ensure_future(_next(requests))
                    await asyncio.sleep(0)
        finally:
            self._following.close()
            self._follower.close()

    async def _advance(self) -> SearchIndex:
        await self._follower.advance_to()
        index = self._following.advance(self._follower)
        if self._is_building:
            self._is_building = False
            self._following.commit(self._follower)
            self._write({"ready": True})
        return index

    async def _answer(self, request: dict[str, Any]) -> Document:
        try:
            try:
                document = await self._document(request)
            except Erased:
                raise
            except Damage:
                # Parts of the snapshot that the state reads from may have been removed meanwhile.
                await self._follower.restart()
                document = await self._document(request)
        except _NotIndexed:
            return {"status": 0}
        except AosError as error:
            problem = problem_of(error, self._path, unknown=404)
            return {"status": problem.status, "problem": problem.document()}
        except Problem as problem:
            return {"status": problem.status, "problem": problem.document()}
        return {"status": 200, "document": document}

    async def _document(self, request: dict[str, Any]) -> Document:
        index = await self._advance()
        view = View(self._follower.state, self._follower.store, now_ns=now_ns())
        view.finder = _Finder(index)
        return read_document(view, request["operation"], request["query"])

    def _building(self, workflow: str, done_cells: int, total: int) -> None:
        self._is_building = True
        self._write({"building": {"workflow": workflow, "done": done_cells, "total": total}})

    def _write(self, message: Document) -> None:
        body = write_json(message)
        self._answers.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
        self._answers.flush()


async def _next(requests: asyncio.StreamReader) -> bytes | None:
    try:
        header = await requests.readexactly(LENGTH_BYTES)
        return await requests.readexactly(int.from_bytes(header, "big"))
    except asyncio.IncompleteReadError:
        return None


def _report(text: str) -> None:
    sys.stderr.write(f"aos node: {text}\n")
    sys.stderr.flush()


async def serve(path: Path, answers: BinaryIO) -> None:
    """Keep the index, and answer requests until the end of stdin."""
    requests = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(requests)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    first = await _next(requests)
    if first is not None:
        await _Serving(path, answers, json.loads(first)["settings"]).run(requests)


if __name__ == "__main__":
    keep_memory_private()
    os.nice(NICE)
    try:
        asyncio.run(serve(Path(sys.argv[1]), sys.stdout.buffer))
    except BrokenPipeError:
        # The front is gone. Python would write the rest of the answer at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AosError, OSError, sqlite3.Error) as error:
        _report(f"the search index: {error}")
        sys.exit(1)
