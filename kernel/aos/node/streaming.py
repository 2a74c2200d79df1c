"""Server-sent events: the records of the journal, and the events that workflows emit
(spec/node-api.md, N-116, N-117).

A stream has no queue. It reads the next records from the store when the client has taken the ones
before, so that a slow client costs only its connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, TypeAlias

from aos.host.follower import Follower
from aos.node.bodies import write_json
from aos.node.calls import ApiCall, ApiStream
from aos.node.problems import Problem
from aos.node.routes import EVENT_STREAM
from aos.node.services import Services
from aos.node.webhooks import emitted, unknown_schemas
from aos.read.lens.ports import first_kept
from aos.read.views.journal_view import RecordReader, selection
from aos.read.views.view import View

COMMENT_S: Final = 15.0
"""Seconds without an event after which a stream sends a comment."""

WINDOW: Final = 128
"""Records that are read without a pause for other requests."""

_ID: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?")
_COMMENT: Final = b":\n\n"

Window: TypeAlias = Callable[[int, int], Iterator[bytes]]
"""The events of a stream between two records, both included."""


async def stream_journal(services: Services, call: ApiCall) -> ApiStream:
    """``GET /v1/journal/stream``."""
    await services.follower.advance_to()
    view = services.view()
    kinds = call.query.get("kind")
    selected = selection(
        view,
        kinds=tuple(kinds) if kinds else None,
        workflow=call.query.get("workflow"),
        key=call.query.get("key"),
    )
    resumed = _resumed(call)
    follower = services.follower
    await _caught_up(services, call, None if resumed is None else resumed[0] + 1)
    first = _first(
        follower, call, default=follower.seq + 1,
        resumed=None if resumed is None else resumed[0] + 1,
    )  # fmt: skip
    stream_view = View(services.follower.state, services.follower.store)
    if call.query.get("spelled", False):
        stream_view.spell()
        reader = RecordReader(stream_view.journal, stream_view.lens)
    else:
        reader = RecordReader(stream_view.journal, stream_view.full_lens)

    def window(start: int, last: int) -> Iterator[bytes]:
        for record in reader.forward(start, last, selection=selected):
            yield _event(str(record["seq"]), record["kind"], record)

    return ApiStream(parts=_parts(services.follower, first, window), media=EVENT_STREAM)


async def stream_feed(services: Services, call: ApiCall) -> ApiStream:
    """``GET /v1/feed``. The id of an event is the record of its step and its place in it."""
    await services.follower.advance_to()
    schemas = frozenset(call.query["schema"])
    stream_view = View(services.follower.state, services.follower.store)
    unknown = unknown_schemas(stream_view, schemas)
    if unknown:
        raise Problem(
            404, "schema_is_unknown", f"no manifest of this world has {min(unknown)[:200]!r}"
        )
    resumed = _resumed(call)
    await _caught_up(services, call, None if resumed is None else resumed[0])
    first = _first(
        services.follower, call, default=first_kept(services.follower.store),
        resumed=None if resumed is None else resumed[0],
    )  # fmt: skip
    cursor = resumed if resumed is not None and resumed[1] is not None else None

    def window(start: int, last: int) -> Iterator[bytes]:
        for seq, index, event in emitted(stream_view, schemas, start, last):
            if cursor is None or (seq, index) > (cursor[0], cursor[1] or 0):
                yield _event(f"{seq}.{index}", None, event)

    if resumed is not None and resumed[1] is None:
        first = max(first, resumed[0] + 1)
    return ApiStream(parts=_parts(services.follower, first, window), media=EVENT_STREAM)


def _resumed(call: ApiCall) -> tuple[int, int | None] | None:
    """The id after which a client continues."""
    header = call.headers.get(b"last-event-id")
    if header is None:
        return None
    match = _ID.fullmatch(header.decode("latin-1"))
    if match is None:
        raise Problem(
            400, "last_event_id_is_invalid",
            f"Last-Event-ID: expected the id of an event of this stream, found {header[:40]!r}",
        )  # fmt: skip
    return int(match[1]), None if match[2] is None else int(match[2])


async def _caught_up(services: Services, call: ApiCall, resumed: int | None) -> None:
    """Wait for the records before the first one of a stream, which another node had already
    (CL-208).

    Raises:
        Problem: This node does not have them in time (503).
        Unavailable: The owner, which knows how far the journal goes, does not answer.
    """
    before = (resumed if resumed is not None else call.query.get("from", 1)) - 1
    if not services.follows or await services.has_record(before, 0):
        return
    if before <= await services.link.fresh() and not await services.has_record(before):
        raise Problem(
            503, "node_is_behind",
            f"this node has not taken record {before} from the log yet (continue at another node)",
            retry_after_s=1,
        )  # fmt: skip


def _first(follower: Follower, call: ApiCall, *, default: int, resumed: int | None) -> int:
    """The record that a stream begins at. A stream has no genesis, record 0.

    Raises:
        Problem: It was pruned (410), or it is after the next record (404).
    """
    first: int = max(1, resumed if resumed is not None else call.query.get("from", default))
    oldest_seq = first_kept(follower.store)
    if first < oldest_seq:
        raise Problem(
            410, "record_was_pruned",
            f"record {first} was moved to an archive: the journal begins at record {oldest_seq}",
        )  # fmt: skip
    if first > follower.seq + 1:
        raise Problem(
            404, "record_is_unknown",
            f"record {first}: expected at most {follower.seq + 1}, the next one (the world may "
            "have been restored from an older backup)",
        )  # fmt: skip
    return first


async def _parts(follower: Follower, first: int, window: Window) -> AsyncIterator[bytes]:
    """Yield the events from record ``first`` on, for ever; a comment where there is none."""
    yield _COMMENT
    next_seq = first
    while True:
        await follower.advance_to()
        last = follower.seq
        while next_seq <= last:
            until = min(last, next_seq + WINDOW - 1)
            data = b"".join(window(next_seq, until))
            next_seq = until + 1
            if data:
                yield data
            else:
                await asyncio.sleep(0)
        if not await follower.wait_past(next_seq - 1, COMMENT_S):
            yield _COMMENT


def _event(id: str, kind: str | None, document: object) -> bytes:
    name = f"event: {kind}\n" if kind else ""
    return f"id: {id}\n{name}data: ".encode() + write_json(document) + b"\n\n"
