"""What the host raises beside the kinds of ``aos.errors``.

Damage
└── WorldStopped   the running world could not go on; what is durable is whole      exit 3
Unavailable
├── Busy           the inbox or the pipeline is full; the same request may pass soon  exit 4
└── Stopping       the world is shutting down or has shut down                        exit 4
    └── NoRoomLeft     and its last records found no room on the disk (a NoRoom too)  exit 4
"""

from __future__ import annotations

from aos.errors import Damage, Unavailable
from aos.store.errors import NoRoom


class WorldStopped(Damage):
    """A commit failed, or the core met damage or a bug. The core is discarded.

    What was acknowledged is durable; what was not is lost, and nobody heard of it. Opening the
    world again continues from its durable head.
    """


class Busy(Unavailable):
    """The world has more to do than it may hold. Nothing was admitted."""


class Stopping(Unavailable):
    """The world stops. Nothing was admitted."""


class NoRoomLeft(NoRoom, Stopping):
    """The world stopped before there was room for its last records. Nobody has heard of them."""
