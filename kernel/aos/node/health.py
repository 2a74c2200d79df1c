"""Health and readiness of a front (spec/node-api.md, N-119a)."""

from __future__ import annotations

import time
from typing import Final

from aos.audit.views.clock_view import ahead_ns, ahead_text
from aos.host.machine_clock import now_ns
from aos.node.calls import ApiCall, ApiReply
from aos.node.services import Services

BEHIND_S: Final = 5.0
"""Seconds that the follower may be behind, and the kernel process silent."""


async def answer_health(_services: Services, _: ApiCall) -> ApiReply:
    """``GET /healthz``: the front answers."""
    return ApiReply(document={"ok": True})


async def answer_ready(services: Services, _: ApiCall) -> ApiReply:
    """``GET /readyz``: 200 if every condition is met, else 503."""
    counters = services.counters
    heard_at = counters.heard_at
    is_open = heard_at is not None and time.monotonic() - heard_at < BEHIND_S
    conditions = {
        "world_is_open": is_open,
        "follower_is_current": _lag_s(services) < BEHIND_S,
        "disk_has_room": counters.figures is None or counters.figures.no_room is None,
        "is_not_stopping": not services.sessions.is_stopping,
    }
    are_met = all(conditions.values())
    headers = {} if are_met else {"retry-after": "1"}
    document = {**conditions, "clock_problem": _clock_problem(services)}
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
