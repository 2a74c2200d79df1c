"""The head and the figures of a world, read once for all of its live pages
(spec/page.md, PG-120)."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aos.audit.views.record_view import Document
from aos.core.state.state import State
from aos.page.page_world import PageWorld

FIGURES_S: Final = 0.25
"""Seconds between two readings of the figures of a world."""


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


class SharedFigures:
    """The figures of one world. However many pages ask, they are read every FIGURES_S at most, and
    counted again only after a new record."""

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
