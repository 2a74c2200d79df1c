"""The program of a reader process: it makes documents that may take long (spec/node-api.md, N-114).

    python -m aos.node.reader_process WORLD

It reads requests on stdin and writes answers on stdout, each a length of 4 bytes (big-endian) and
JSON. It ends at the end of stdin.

    request  {"operation": …, "query": {…}, "work": {…} or null, "index": FOLDER or null,
              "seconds": the time of a list, or null}
    answer   {"status": 200, "document": {…}} or {"status": …, "problem": {…}}
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from aos.errors import AosError, Damage, Erased
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.host.machine_clock import now_ns
from aos.node.bodies import write_json
from aos.node.child_program import while_read
from aos.node.list_time import ListTime, timed
from aos.node.problems import Problem
from aos.node.reading import read_document
from aos.node.refusals import problem_of
from aos.private_memory import keep_memory_private
from aos.read.index.indexed_view import indexed
from aos.read.views.record_view import Document
from aos.read.views.view import Running, View

LENGTH_BYTES: Final = 4


async def serve(path: Path, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the end of ``requests``."""
    follower: Follower | None = None
    try:
        while (data := _next(requests)) is not None:
            request = json.loads(data)
            try:
                if "at" in request["query"]:
                    document = _past(path, request)
                else:
                    if follower is None:
                        new_follower = Follower(path, [])
                        await new_follower.start()
                        follower = new_follower
                    document = await _present(follower, request)
                answer: Document = {"status": 200, "document": document}
            except AosError as error:
                problem = problem_of(error, path, unknown=404)
                answer = {"status": problem.status, "problem": problem.document()}
            except Problem as problem:
                answer = {"status": problem.status, "problem": problem.document()}
            body = write_json(answer)
            answers.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
            answers.flush()
    finally:
        if follower is not None:
            follower.close()


def _next(requests: BinaryIO) -> bytes | None:
    header = requests.read(LENGTH_BYTES)
    if len(header) < LENGTH_BYTES:
        return None
    return requests.read(int.from_bytes(header, "big"))


async def _present(follower: Follower, request: dict[str, Any]) -> Document:
    await follower.advance_to()
    try:
        return _document(follower, request)
    except Erased:
        raise
    except Damage:
        # Parts of the snapshot that the state reads from may have been removed meanwhile, or the
        # index is damaged.
        await follower.restart()
        return _document(follower, {**request, "index": None})


def _document(follower: Follower, request: dict[str, Any]) -> Document:
    view = View(follower.state, follower.store, now_ns=now_ns())
    if request["seconds"] is not None:
        view = timed(view, ListTime(request["seconds"]))
    if request["work"] is not None:
        view.running = Running.from_json(request["work"])
    index = None if request["index"] is None else Path(request["index"])
    with indexed(view, index, follower.store):
        return read_document(view, request["operation"], request["query"])


def _past(path: Path, request: dict[str, Any]) -> Document:
    with open_reader(path, at=request["query"]["at"]) as reader:
        view = View(reader.state, reader.store, is_past=True)
        return read_document(view, request["operation"], request["query"])


if __name__ == "__main__":
    keep_memory_private()
    with while_read():
        asyncio.run(serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer))
