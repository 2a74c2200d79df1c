"""Server-sent events of the figures of a world, for pages that are live (spec/page.md, PG-120 to
PG-123).

event: figures                        after a change, at most one each FIGURES_S
id: 4711                              the record, for Last-Event-ID
data: {"record": 4711, "failed": 2, …}

event: alive                          after 15 s without another one
event: ended                          the world cannot be read any more
data: {"problem": "…"}

A stream has no queue: it reads the figures of the moment when the browser has taken those before.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.responses import Response

from aos.core.state.state import State
from aos.errors import AosError
from aos.node.bodies import ClientGoneError, write_json
from aos.node.problems import Problem
from aos.node.routes import EVENT_STREAM
from aos.node.sessions import Session, raced
from aos.page.page_world import PageWorld
from aos.read.views.record_view import Document

STREAMS_MAX: Final = 32
"""Streams that are open at the same time, half of the connections of a page (PG-22)."""

FIGURES_S: Final = 0.25
"""Seconds between two readings of the figures of a world."""

ALIVE_S: Final = 15.0
"""Seconds without an event after which a stream sends ``alive``."""

_SEQ: Final = re.compile("[0-9]{1,18}")
_COMMENT: Final = b":\n\n"
_ALIVE: Final = b"event: alive\ndata:\n\n"


class LiveStreams:
    """The streams of one page. ``sentence`` makes the sentence of an error that ends a stream."""

    def __init__(
        self, sentence: Callable[[AosError], str], *, streams_max: int = STREAMS_MAX
    ) -> None:
        self._sentence = sentence
        self._streams_max = streams_max
        self._figures: WeakKeyDictionary[PageWorld, SharedFigures] = WeakKeyDictionary()
        self.open = 0

    def figures_of(self, world: PageWorld) -> SharedFigures:
        """Return the figures that all live pages of a world share."""
        return self._figures.setdefault(world, SharedFigures(world))

    def stream(
        self, world: PageWorld, last_seq: int | None, session: AbstractContextManager[Session]
    ) -> LiveStream:
        """Return the answer with the stream of a world: the figures at once, unless they are those
        of record ``last_seq``, and again whenever they change.

        The answer raises Problem before its first byte if the streams are full (503).
        """
        return LiveStream(self, self._parts(self.figures_of(world), last_seq), session)

    def begin(self) -> None:
        """Count one more stream.

        Raises:
            Problem: There are too many (503).
        """
        if self.open >= self._streams_max:
            raise Problem(
                503, "live_pages_are_full",
                f"{self._streams_max} live pages are open already: close one, or load this page "
                "again to see what is new", retry_after_s=30,
            )  # fmt: skip
        self.open += 1

    async def _parts(self, figures: SharedFigures, last_seq: int | None) -> AsyncIterator[bytes]:
        """Yield events until the world cannot be read; the last one says why."""
        yield _COMMENT
        sent, sent_s = last_seq, time.monotonic()
        while True:
            try:
                document = await figures.now()
            except AosError as error:
                yield _event_bytes("ended", {"problem": self._sentence(error)})
                return
            except Problem as problem:
                yield _event_bytes("ended", {"problem": problem.detail})
                return
            if document["record"] != sent:
                yield _event_bytes("figures", document, id=document["record"])
                sent, sent_s = document["record"], time.monotonic()
            elif time.monotonic() - sent_s >= ALIVE_S:
                yield _ALIVE
                sent_s = time.monotonic()
            await asyncio.sleep(FIGURES_S)


class LiveStream(Response):
    """One stream: it ends with its session, with its world, or when the browser goes away. One that
    does not read is cut off (``aos.node.bounds``), and continues after the last event it took."""

    media_type = EVENT_STREAM

    def __init__(
        self,
        streams: LiveStreams,
        parts: AsyncIterator[bytes],
        session: AbstractContextManager[Session],
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._streams = streams
        self._parts = parts
        self._session = session

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "HEAD":
            await self._start(send)
            await send({"type": "http.response.body"})
            return
        with self._session as session:
            self._streams.begin()
            try:
                await self._start(send)
                try:
                    await raced(session, self._pump(send), receive)
                except Problem:
                    pass  # the answer has begun: the end of the connection is all that is left
                except ClientGoneError:
                    return
                await send({"type": "http.response.body"})
            finally:
                self._streams.open -= 1

    async def _start(self, send: Any) -> None:
        message: MutableMapping[str, Any] = {
            "type": "http.response.start", "status": 200, "headers": self.raw_headers,
        }  # fmt: skip
        await send(message)

    async def _pump(self, send: Any) -> None:
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})


def resumed(header: str | None, last_seq: int | None) -> int | None:
    """Return the record after which a browser continues: that of ``Last-Event-ID``, else
    ``last_seq``.

    Raises:
        Problem: The header is not the id of an event (400).
    """
    if header is None:
        return last_seq
    if not _SEQ.fullmatch(header):
        raise Problem(
            400, "last_event_id_is_invalid",
            f"Last-Event-ID: expected the id of an event of this stream, found {header[:40]!r}",
        )  # fmt: skip
    return int(header)


def _event_bytes(name: str, document: object, *, id: int | None = None) -> bytes:
    line = b"" if id is None else f"id: {id}\n".encode()
    return b"event: " + name.encode() + b"\n" + line + b"data: " + write_json(document) + b"\n\n"


class SharedFigures:
    """The head and the figures of one world, read once for all of its live pages (PG-120). However
    many pages ask, they are read every FIGURES_S at most, and counted again only after a new
    record."""

    def __init__(self, world: PageWorld) -> None:
        self._world = world
        self._reading = asyncio.Lock()
        self._read_s = -FIGURES_S
        self._state: State | None = None
        self._record = 0
        self._figures: Document = {}

    async def now(self) -> Document:
        """Return the figures of at most FIGURES_S ago.

        Raises:
            AosError, Problem: The world cannot be read (see ``PageWorld.read``).
        """
        async with self._reading:
            if time.monotonic() - self._read_s >= FIGURES_S:
                state = await self._world.read(lambda view: view.state)
                if state is not self._state or state.next_seq != self._record + 1:
                    self._state, self._figures = state, figures(state)
                    self._record = self._figures["record"]
                self._read_s = time.monotonic()
            return self._figures


def figures(state: State) -> Document:
    """Return ``{record, clock_ns, cells, failed, open, halted}``, counted as PG-7 counts them."""
    cells = state.cells
    return {
        "record": state.next_seq - 1,
        "clock_ns": state.clock_ns,
        "cells": len(cells),
        "failed": sum(cells.statuses(workflow)["failed"] for workflow in cells.shelves),
        "open": len(state.intents),
        "halted": sum(state.halt(state.intents[intent]) is not None for intent in state.halts),
    }
