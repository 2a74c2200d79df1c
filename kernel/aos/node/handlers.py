"""The handler of each operation of the table (spec/node-api.md, N-101), health and readiness among
them (N-119a)."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from aos.core.decide.answers import Rule
from aos.errors import AosError, BadUsage
from aos.host.stamps import now_ns
from aos.host.transfer.adopting import origin_at
from aos.node import bodies, openapi
from aos.node.batches.batch_requests import (
    begin_batch,
    read_batch,
    read_batches,
    stop_batch,
)
from aos.node.calls import ApiCall, ApiReply, ApiStream
from aos.node.cluster_requests import read_cluster, read_cluster_check
from aos.node.events import command_schedule, create_schedule, send_events
from aos.node.leases.work import LeasedWork
from aos.node.metrics import metrics_text
from aos.node.operating import (
    apply_manifest,
    govern,
    make_snapshot,
    send_command,
    stage_module,
    try_manifest,
)
from aos.node.problems import Problem
from aos.node.reading import read_document
from aos.node.routes import TEXT
from aos.node.services import Services
from aos.node.steps.linear_requests import cancel_linear, start_linear, wake_linear
from aos.node.streaming import stream_feed, stream_journal
from aos.node.work_requests import (
    claim_tasks,
    heartbeat_tasks,
    not_ready,
    release_tasks,
    settle_tasks,
)
from aos.read.operations.operation import names_fields
from aos.read.operations.table import BY_NAME, OPERATIONS
from aos.read.views.clock_view import ahead_ns, ahead_text
from aos.read.views.journal_view import value_bytes
from aos.read.views.record_view import Document
from aos.read.views.view import Running, View, process_document, with_process, work_document

BEHIND_S: Final = 5.0
"""Seconds that the follower may be behind, and the kernel process silent."""

Handler: TypeAlias = Callable[[Services, ApiCall], Awaitable[ApiReply | ApiStream]]


async def _read(services: Services, call: ApiCall) -> ApiReply:
    """Every read request whose document is made from a view."""
    operation, query = BY_NAME[call.route.operation], call.query
    is_past = "at" in query
    running = await _running(services) if operation.asks_process and not is_past else None
    if names_fields(query):
        query = {**query, "aliases": services.index.settings}
    if operation.searched is not None and not is_past:
        await services.follower.advance_to()
        services.index.check_values(operation.searched(services.follower.state, query))
    if operation.takes_long(query):
        written = await services.readers.document_json(operation.name, query, running)
        if not operation.has_process:
            return ApiReply(json=written)
        document = json.loads(written)
    else:

        def make(view: View) -> Document:
            view.running = running
            return read_document(view, operation.name, query)

        document = await services.read(make)
    if operation.has_process:
        document = await _with_process(services, document, is_past=is_past)
    return ApiReply(document=document)


async def _running(services: Services) -> Running | None:
    try:
        return Running.of_answer(await services.link.work())
    except AosError:
        return None


async def _with_process(services: Services, document: Document, *, is_past: bool) -> Document:
    """Add the process that runs the world, and how the world came here, as the CLI does."""
    process = None
    if not is_past:
        try:
            status, work = await services.link.status(), await services.link.work()
        except AosError:
            pass
        else:
            process = process_document(status, work)
    origin = origin_at(services.folder.path)
    return with_process(document, process, origin and origin.value, path=None)


async def _read_blob(services: Services, call: ApiCall) -> ApiReply:
    await services.follower.advance_to()
    try:
        data = value_bytes(services.view(), call.query["value"])
    except BadUsage as problem:
        raise Problem(404, Rule.VALUE_IS_UNKNOWN.value, str(problem)) from None
    return ApiReply(data=data, media=bodies.BYTES)


async def _read_work(services: Services, _: ApiCall) -> ApiReply:
    return ApiReply(document=work_document(await services.link.work()))


async def _read_metrics(services: Services, _: ApiCall) -> ApiReply:
    return ApiReply(data=metrics_text(services), media=TEXT)


@cache
def _openapi_bytes(prefix: str) -> bytes:
    return openapi.text(prefix).encode()


async def _read_openapi(_services: Services, call: ApiCall) -> ApiReply:
    return ApiReply(data=_openapi_bytes(call.prefix), media=bodies.JSON)


def _for_workers(name: str) -> Handler:
    """The handler that calls the method ``name`` of ``services.work``."""

    async def handle(services: Services, call: ApiCall) -> ApiReply:
        work: LeasedWork | None = services.work
        if work is None:
            raise not_ready(services)
        arguments: tuple[Any, ...] = (call.caller,)
        if call.route.body is not None:
            arguments = (call.body, call.caller)
        return ApiReply(document=await getattr(work, name)(*arguments))

    return handle


async def answer_health(services: Services, _: ApiCall) -> ApiReply:
    """``GET /healthz``: the front answers (N-119a)."""
    place = services.link.place
    role, lag = (None, None) if place is None else (place.role, place.lag)
    return ApiReply(document={"ok": True, "role": role, "lag": lag})


async def answer_ready(services: Services, _: ApiCall) -> ApiReply:
    """``GET /readyz``: 200 if every condition is met, else 503 (N-119a)."""
    counters = services.counters
    heard_at = counters.heard_at
    is_heard = heard_at is not None and time.monotonic() - heard_at < BEHIND_S
    hands_out_work = services.work is not None or services.follows
    conditions = {
        "world_is_open": is_heard and hands_out_work,
        "follower_is_current": _lag_s(services) < BEHIND_S,
        "disk_has_room": counters.figures is None or counters.figures.no_room is None,
        "is_not_stopping": not services.sessions.is_stopping,
        "log_answers": (place := services.link.place) is None or place.reason is None,
    }
    are_met = all(conditions.values())
    headers = {} if are_met else {"retry-after": "1"}
    document = {
        **conditions,
        "clock_problem": _clock_problem(services),
        "role": None if place is None else place.role,
        "lag": None if place is None else place.lag,
        "owner": None if place is None else place.owner,
    }
    return ApiReply(document=document, status=200 if are_met else 503, headers=headers)


def _clock_problem(services: Services) -> str | None:
    """What to do about a journal clock that is ahead of this machine's. The node is ready all the
    same: it takes events, and no other node would do better."""
    found_ns = ahead_ns(services.follower.state.clock_ns, now_ns())
    return ahead_text(found_ns) if found_ns else None


def _lag_s(services: Services) -> float:
    """How far the follower is behind the durable head, in seconds of the journal's clock."""
    figures = services.counters.figures
    if figures is None or services.follower.seq >= figures.seq:
        return 0.0
    lag_ns: int = figures.clock_ns - services.follower.state.clock_ns
    return max(0.0, lag_ns / 1e9)


HANDLERS: Final[Mapping[str, Handler]] = {
    "send_events": send_events,
    "start_linear": start_linear,
    "wake_linear": wake_linear,
    "cancel_linear": cancel_linear,
    "create_schedule": create_schedule,
    "command_schedule": command_schedule,
    "begin_batch": begin_batch,
    "read_batches": read_batches,
    "read_batch": read_batch,
    "stop_batch": stop_batch,
    "read_cluster": read_cluster,
    "read_cluster_check": read_cluster_check,
    **{operation.name: _read for operation in OPERATIONS if operation.document is not None},
    "read_blob": _read_blob,
    "read_work": _read_work,
    "stream_journal": stream_journal,
    "stream_feed": stream_feed,
    "send_command": send_command,
    "stage_module": stage_module,
    "try_manifest": try_manifest,
    "apply_manifest": apply_manifest,
    "govern": govern,
    "make_snapshot": make_snapshot,
    "claim_tasks": claim_tasks,
    "heartbeat_tasks": heartbeat_tasks,
    "settle_tasks": settle_tasks,
    "report_progress": _for_workers("progress"),
    "release_tasks": release_tasks,
    "list_tasks": _for_workers("list"),
    "retry_tasks": _for_workers("retry"),
    "reclaim_tasks": _for_workers("reclaim"),
    "answer_health": answer_health,
    "answer_ready": answer_ready,
    "read_metrics": _read_metrics,
    "read_openapi": _read_openapi,
}
