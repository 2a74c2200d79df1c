"""The worlds of a page that are open: at most a few (spec/page.md, PG-107).

An open world has its state in memory, and up to two reader processes and one that keeps its index.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from aos.page.page_world import PageWorld

OPEN_MAX: Final = 16
"""Worlds that a page keeps open."""


class OpenWorlds:
    """Closes the world that was used least recently when one too many is open. Used from one event
    loop.

    A world in use is never closed, so that more than ``open_max`` are open while more are in use.
    """

    def __init__(self, open_max: int = OPEN_MAX) -> None:
        self._open_max = open_max
        self._order: OrderedDict[PageWorld, None] = OrderedDict()
        """The worlds that were used, the least recent first."""

    @contextlib.asynccontextmanager
    async def using(self, world: PageWorld, *, is_brief: bool = False) -> AsyncIterator[None]:
        """Keep a world open inside the block, once a read has opened it. With ``is_brief`` it does
        not count as used, so it is closed before others."""
        if world not in self._order:
            self._order[world] = None
            self._order.move_to_end(world, last=False)
        if not is_brief:
            self._order.move_to_end(world)
        world.uses += 1
        try:
            await self._make_room()
            yield
        finally:
            world.uses -= 1
            await self._make_room()

    async def _make_room(self) -> None:
        """Close worlds that are not in use until there are few enough. One in use counts as open,
        because a read will open it."""
        for world in tuple(self._order):
            if (
                sum(candidate.is_open or candidate.uses > 0 for candidate in self._order)
                <= self._open_max
            ):
                return
            if world.is_open and not world.uses:
                await world.close_unused()
