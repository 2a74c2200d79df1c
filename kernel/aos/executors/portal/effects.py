"""The effect: an event for another world, which takes it once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aos.core.decide.answers import Admitted, Duplicate, Rule
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.executors.portal.destinations import VARIABLE, Destinations, read_worlds
from aos.executors.portal.portal_errors import busy, not_running, rejected, unanswered
from aos.executors.portal.portal_message import destination, message
from aos.host.door.remote import NotSent
from aos.host.errors import Busy
from aos.values.cbor import encode
from aos.worker import EffectContext, Executors, effect

CONCURRENCY: Final = 64
ATTEMPTS: Final = 8
BACKOFF_MS: Final = 1000
TIMEOUT_S: Final = 90
"""More than one answer of a world may take (60 s)."""


@effect(
    "sys/portal.send@1",
    concurrency=CONCURRENCY,
    attempts=ATTEMPTS,
    timeout_s=TIMEOUT_S,
    backoff_ms=BACKOFF_MS,
)
async def send(params: Mapping[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """Send one event to another world; return once it is durable there (AG-85)."""
    assert isinstance(ctx.resource, Destinations)
    name, sent = destination(params), message(params, ctx)
    link = ctx.resource.link(name)
    try:
        [answer] = await link.send([sent.event], None)
    except NotSent:
        raise not_running(name) from None
    except Busy:
        raise busy(name) from None
    except (Unavailable, Damage):
        raise unanswered(name) from None
    except (Refused, BadUsage) as problem:
        raise rejected(f"world {name}: {problem}") from None
    if not isinstance(answer, Admitted | Duplicate):
        if answer.rule is Rule.WORLD_IS_BUSY:
            raise busy(name)
        raise rejected(f"world {name}: {answer.rule.value}: {answer.message}")
    return {
        "status": "ok",
        "message_id": sent.id,
        "dest_world": params["dest_world"],
        "enqueued_seq": encode(answer.seq),
    }


@asynccontextmanager
async def open_destinations() -> AsyncIterator[Destinations]:
    """The worlds of ``AOS_PORTAL_WORLDS``. Connects to none.

    Raises:
        BadUsage: The variable is malformed.
    """
    destinations = Destinations(read_worlds(os.environ.get(VARIABLE, "")))
    try:
        yield destinations
    finally:
        await destinations.close()


portal = Executors("portal", (send,), setup=open_destinations)
