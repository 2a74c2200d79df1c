"""The deliveries of a world to one target that wait for an answer (spec/world-send.md, WS-30 to
WS-33). Nothing here does I/O or reads a clock.

The deliveries of an instance are a lane: only its first one may be sent, so they arrive in order.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from aos.core.journal.records import CellId
from aos.host.door.deliveries import WorldDelivery
from aos.host.door.protocol import MIB
from aos.host.door.work_messages import WORK_ITEMS_MAX
from aos.host.executors.task import Task

REQUEST_BYTES: Final = MIB
"""Bytes of events in a request. One event may be larger."""

_DOUBLINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds before a delivery is sent again: the ``first_s``, then twice as long each time, up to
    ``longest_s``."""

    first_s: float = 1.0
    longest_s: float = 60.0

    def after(self, tries: int) -> float:
        """The pause after so many tries that had a pause."""
        return min(self.first_s * 2.0 ** min(tries, _DOUBLINGS_MAX), self.longest_s)


@dataclass(slots=True, eq=False)
class Sending:
    """A task with its event. ``since_ns`` is when its request was sent, or when it is sent again
    because of ``problem``. It ``is_over`` once its outcome is on its way into the journal.

    If the target is a group, the journal has the ``shard`` for which it is, or that it is for each
    of them (``is_for_each``), as the number of the ``attempt`` (WS-41). ``judged_by`` is the
    manifest under which a shard has refused it once, and ``payload`` the receipt of the first of
    several shards.
    """

    task: Task
    to: str
    delivery: WorldDelivery
    attempt: int
    shard: int | None = None
    is_for_each: bool = False
    judged_by: bytes | None = None
    payload: bytes | None = None
    started_ns: int = 0
    since_ns: int = 0
    tries: int = 0
    problem: str | None = None
    is_on_way: bool = False
    is_over: bool = False
    is_canceled: bool = False

    @property
    def cell(self) -> CellId:
        return self.task.workflow, self.task.cell_key


@dataclass(slots=True, eq=False)
class DeliveryQueue:
    """The deliveries to the world ``to``. Times in seconds are those of one clock that its user
    reads.

    After a request without an answer, nothing is sent before ``open_s``, because of ``problem``;
    ``until_ns`` is the same in wall time, and ``tries`` counts such requests in a row.
    """

    to: str
    open_s: float = 0.0
    until_ns: int = 0
    tries: int = 0
    problem: str | None = None
    _lanes: dict[CellId, deque[Sending]] = field(default_factory=dict)
    _due: list[tuple[float, int, int, Sending]] = field(default_factory=list)
    """The first of each lane by the time at which it may be sent, then in the order of opening."""

    def __len__(self) -> int:
        """The number of lanes."""
        return len(self._lanes)

    def add(self, sending: Sending) -> bool:
        """Add the newest delivery of its lane; return whether it is the first."""
        lane = self._lanes.setdefault(sending.cell, deque())
        lane.append(sending)
        return len(lane) == 1

    def plan(self, sending: Sending, at_s: float) -> None:
        """Let the first delivery of a lane be sent from ``at_s`` on."""
        heapq.heappush(self._due, (at_s, sending.task.opened_seq, id(sending), sending))

    def remove(self, sending: Sending) -> Sending | None:
        """Remove a delivery that is over; return the first of its lane if it is another one now."""
        lane = self._lanes[sending.cell]
        was_first = lane[0] is sending
        lane.remove(sending)
        if not lane:
            del self._lanes[sending.cell]
            return None
        return lane[0] if was_first else None

    def next_s(self) -> float:
        """When the next delivery may be sent. There is a lane, and nothing is on its way."""
        return max(self._due[0][0], self.open_s)

    def take(self, now_s: float) -> list[Sending]:
        """Take the deliveries of the next request; none before ``next_s``."""
        sendings: list[Sending] = []
        size = 0
        while self._due and len(sendings) < WORK_ITEMS_MAX:
            due_s, _, _, sending = self._due[0]
            if not sending.is_over:
                size += len(sending.delivery.value)
                if max(due_s, self.open_s) > now_s or (sendings and size > REQUEST_BYTES):
                    break
                sendings.append(sending)
            heapq.heappop(self._due)
        return sendings
