"""Errors of the host, in addition to those of ``aos.errors``.

Damage
└── WorldStopped   the running world could not continue; durable data is whole      exit 3
Unavailable
├── Busy           the inbox or the pipeline is full; the same request may pass soon  exit 4
└── Stopping       the world is shutting down or has shut down                        exit 4
    ├── NoRoomLeft     and its last records found no room on the disk (a NoRoom too)  exit 4
    └── NotOwner       another node of a replicated world owns it now                 exit 4
"""

from __future__ import annotations

from aos.errors import Damage, Unavailable
from aos.store.errors import NoRoom


class WorldStopped(Damage):
    """A commit failed, or the core met damage or a bug. The core is discarded (H-25, H-26).

    Everything acknowledged is durable; only inputs without an answer may be lost. Opening the world
    again continues from its durable head.
    """


class Busy(Unavailable):
    """The inbox is full, or the disk has no room, or the log of a replicated world does not answer.
    Nothing was admitted."""

    is_unsent = True


def nothing_durable(no_room: str) -> str:
    """The text of ``Busy`` for a world that finds no room on its disk, or whose log does not
    answer."""
    return f"nothing can be made durable now, so nothing is admitted: {no_room}"


class Stopping(Unavailable):
    """The world is stopping. Nothing was admitted."""

    is_unsent = True


class NoRoomLeft(NoRoom, Stopping):
    """The world stopped before there was room for its last records, which no one has seen."""

    is_unsent = False


class NotOwner(Stopping):
    """Another node owns the replicated world now. Whether an input without an answer was admitted
    is not known (CL-93)."""

    is_unsent = False
