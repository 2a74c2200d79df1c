"""Remove what nothing needs from the store of a node that follows (spec/cluster.md, CL-114;
spec/state.md, RT-20 to RT-24).

It is done between two entries of the log, in the node's thread. A value that an entry names while a
marking is open stays, whether or not the store had it before. An entry with a snapshot ends the
marking: the parts of the snapshot are not all looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from aos.errors import Unavailable
from aos.host.cluster.following import EntryIntake
from aos.host.world.collecting import Arrivals, Begun, parts
from aos.store.rows import Forget


class StandbyCollecting:
    """The markings of a node that follows, as ``Markings``. For any thread. ``between`` calls a
    function between two entries; its future raises Unavailable if the node does not follow."""

    def __init__(self, between: Callable[[Callable[[EntryIntake], int]], Future[int]]) -> None:
        self._between = between
        self._token = 0
        self._marking: tuple[Arrivals, int] | None = None
        """That of ``_token``: the arrivals of the intake with which it began, and its token there.
        """

    def begin(self) -> Begun:
        """Begin a marking: keep every value that arrives from now on. It replaces an earlier one.

        Raises:
            Unavailable: The node follows no more, or not yet.
        """

        def act(intake: EntryIntake) -> int:
            self._token += 1
            self._marking = intake.arrivals, intake.arrivals.begin()
            kernel = intake.world.kernel
            return intake.world.thread.call(lambda: kernel.base)

        base = self._between(act).result()
        return Begun(token=self._token, base=base)

    def keep_open(self, token: int) -> None:
        """As ``Markings.keep_open``."""
        arrivals, own_token = self._of(token)
        arrivals.keep_open(own_token)

    def forget(self, token: int, rows: Forget) -> Future[int]:
        """As ``Markings.forget``. The future raises Unavailable if the marking was given up."""

        def act(intake: EntryIntake) -> int:
            arrivals, own_token = self._of(token)
            if arrivals is not intake.arrivals:
                raise _over()
            gone = 0
            for part in list(parts(rows)) or [Forget()]:
                with arrivals.taking(own_token, part.blobs) as blobs:
                    gone += intake.store.forget(replace(part, blobs=blobs))
            intake.removed_blobs()
            return gone

        return self._between(act)

    def end(self, token: int) -> None:
        """As ``Markings.end``."""
        if token == self._token and self._marking is not None:
            arrivals, own_token = self._marking
            arrivals.end(own_token)

    def _of(self, token: int) -> tuple[Arrivals, int]:
        if token != self._token or self._marking is None:
            raise _over()
        return self._marking


def _over() -> Unavailable:
    return Unavailable("the marking is over, or another one began (try again)")
