"""The program of a reader process: it makes documents that may take long (spec/node-api.md, N-114).

    python -m aos.node.reader_process WORLD

It reads requests on stdin and writes answers on stdout. A request is a length of 4 bytes and JSON;
an answer is a length of 4 bytes, an HTTP status of 2 bytes, and JSON: the document with 200, else
the problem. Lengths and statuses are big-endian. It ends at the end of stdin.

    request  {"operation": …, "query": {…}, "work": {…} or null, "index": FOLDER or null,
              "seconds": the time of a list, or null}
"""

from __future__ import annotations

import asyncio
import gc
import json
import select
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from aos.errors import AosError, Damage, Erased
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.host.stamps import now_ns
from aos.node.bodies import write_json
from aos.node.child_program import while_read
from aos.node.problems import Problem, problem_of
from aos.node.readers import ANSWER_HEAD, REQUEST_HEAD
from aos.node.reading import ListTime, read_document, timed
from aos.private_memory import keep_memory_private
from aos.read.index.opened_index import OpenedIndex
from aos.read.index.world_index import indexed
from aos.read.views.record_view import Document
from aos.read.views.view import Running, View

GC_THRESHOLDS: Final = (50_000, 20, 100)
"""A document has no cycles: looking for some among the objects of a state takes longer than it."""

INDEX_S: Final = 10.0
"""Seconds without a request after which the index is closed: files that were removed take room as
long as they are open."""


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
    gc.set_threshold(*GC_THRESHOLDS)
    with while_read():
        asyncio.run(serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer))
