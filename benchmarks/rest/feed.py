"""Events -> durable records, as fast as the world takes them; nothing is kept of any of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import Final

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import EventInput
from aos.host.errors import Busy
from benchmarks.plan import BATCH
from benchmarks.world import World

CALLERS: Final = 3
PAUSE_S: Final = 0.002
QUIET_S: Final = 120.0


async def feed(world: World, events: Iterator[EventInput]) -> None:
    """Send all of ``events`` in batches, as ``aos send`` does; return when nothing is left to do.

    Raises:
        AssertionError: One was refused, a step failed, or the world ended.
    """
    await asyncio.gather(*(_caller(world, events) for _ in range(CALLERS)))
    is_quiet = await asyncio.to_thread(world.watch.engine.wait_quiet, QUIET_S)
    assert is_quiet, f"the world was still at work {QUIET_S:.0f} s after the last event"
    world.watch.check_alive()


async def settle(world: World) -> None:
    """Wait until no effect is open either: an executor works while the world is quiet.

    Raises:
        AssertionError: Effects are still open after ``QUIET_S``, or the world ended.
    """
    end_s = time.monotonic() + QUIET_S
    while count := world.watch.engine.stats().figures.open_intents:
        world.watch.check_alive()
        assert time.monotonic() < end_s, f"{count} effects are open after {QUIET_S:.0f} s"
        await asyncio.sleep(PAUSE_S)
    is_quiet = await asyncio.to_thread(world.watch.engine.wait_quiet, QUIET_S)
    assert is_quiet, f"the world was still at work {QUIET_S:.0f} s after its last receipt"
    world.watch.check_alive()


async def _caller(world: World, events: Iterator[EventInput]) -> None:
    while batch := list(itertools.islice(events, BATCH)):
        world.watch.check_alive()
        while True:
            try:
                answers = await asyncio.wrap_future(world.watch.engine.submit(batch))
            except Busy:
                await asyncio.sleep(PAUSE_S)
            else:
                break
        refused = [each for each in answers if not isinstance(each, Admitted)]
        assert not refused, f"{len(refused)} events were refused: {refused[0]}"
