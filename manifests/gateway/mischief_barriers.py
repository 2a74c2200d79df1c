"""Barriers: the next request of a method stops at a place, until a test lets it continue.

So a test can kill a worker exactly before its transaction is sent, after that, or after the reply.
"""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass, field
from typing import Final

HELD_S: Final = 120.0
"""After this time a held request is let go, so that a failed test does not hang."""


class Place(enum.Enum):
    BEFORE_FORWARD = "before-forward"
    """The node has not seen the request."""

    AFTER_FORWARD = "after-forward"
    """The node has answered; the client has no reply."""

    AFTER_REPLY = "after-reply"
    """The client has its reply. Its next request on this connection waits."""


@dataclass(slots=True, eq=False)
class Barrier:
    """One stop. It applies once, to the next request of its method."""

    name: str
    method: str
    place: Place
    reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _is_lost: bool = False

    def wait(self, seconds: float = 30.0) -> bool:
        """Wait until a request has come here. Return whether one has."""
        return self.reached.wait(seconds)

    def release(self, *, lose: bool = False) -> None:
        """Let the request continue; with ``lose``, close its connection instead.

        At BEFORE_FORWARD, a lost request never reaches the node.
        """
        self._is_lost = lose
        self._released.set()

    def hold(self) -> bool:
        """Stop the request here until its release. Return whether it may continue."""
        self.reached.set()
        return self._released.wait(HELD_S) and not self._is_lost


class Barriers:
    """The barriers of a proxy, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Barrier] = []
        self._all: dict[str, Barrier] = {}

    def add(self, method: str, place: Place) -> Barrier:
        with self._lock:
            barrier = Barrier(f"barrier-{len(self._all) + 1}", method, place)
            self._waiting.append(barrier)
            self._all[barrier.name] = barrier
            return barrier

    def get(self, name: str) -> Barrier:
        """Raises: ValueError: There is none of this name."""
        try:
            return self._all[name]
        except KeyError:
            raise ValueError(f"unknown barrier {name}") from None

    def taken(self, method: str) -> Barrier | None:
        """Take the oldest barrier that waits for a request of this method."""
        with self._lock:
            for barrier in self._waiting:
                if barrier.method == method:
                    self._waiting.remove(barrier)
                    return barrier
            return None

    def release_all(self) -> None:
        with self._lock:
            self._waiting.clear()
            for barrier in self._all.values():
                barrier.release(lose=True)

    def names(self, *, reached: bool) -> list[str]:
        return [each.name for each in self._all.values() if each.reached.is_set() is reached]
