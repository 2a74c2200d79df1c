"""The errors that only a store raises.

Unavailable
├── NoRoom          the file system is full; the same group may be appended again
├── Deposed         another node of a replicated world writes its log
└── WorldIsHeld     another process writes this world: ``holder``
Damage
└── CommitFailed    a commit failed for another reason; reopen the world from its durable head
"""

from __future__ import annotations

from dataclasses import dataclass

from aos.errors import Damage, Unavailable


class NoRoom(Unavailable):
    """There was too little room to commit. Nothing of the group is visible (ST-4).

    Attributes:
        needed_bytes: Bytes that the group needs at least.
        free: Bytes that the file system had left after the attempt.
    """

    def __init__(self, message: str, *, needed_bytes: int, free: int) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.free = free


class Deposed(Unavailable):
    """Frames of another writer count in the log: this one no longer owns the world."""


class CommitFailed(Damage):
    """A commit failed for another reason than a full disk. Nothing of the group is visible (ST-4).

    This store takes no more writes: close it and open it again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that a world's lock file names. ``since`` is UTC, RFC 3339.

    ``pid`` counts in ``namespace``, the inode of a pid namespace: in another one, this number is
    another process. ``runs`` is whether it runs the world, and so keeps the lock until it is told
    to stop. Either is None if the file does not say so.
    """

    pid: int
    host: str
    since: str
    namespace: int | None = None
    runs: bool | None = None


class WorldIsHeld(Unavailable):
    """Another process, or another place in this one, writes this world.

    Attributes:
        holder: That process; None if the lock file does not name one (yet).
    """

    def __init__(self, message: str, *, holder: Holder | None) -> None:
        super().__init__(message)
        self.holder = holder
