"""Workers that have lost a lease and have not been heard since (N-52b)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from aos.node.leases.schemas import WAIT_MS_MAX

Holder = TypeVar("Holder", bound=Hashable)

_WAIT_NS: Final = WAIT_MS_MAX * 10**6


class SilentWorkers(Generic[Holder]):
    """The holders of leases that are lost. A claim of one that waits gets nothing until it is
    heard: it was made before the loss, and its worker may be stopped.

    Every claim that waited at the loss is over a minute later, so older losses are forgotten.
    """

    def __init__(self) -> None:
        self._lost_ns: OrderedDict[Holder, int] = OrderedDict()

    def __contains__(self, holder: object) -> bool:
        return holder in self._lost_ns

    def lost(self, holder: Holder, now_ns: int) -> None:
        """A lease of a worker is lost."""
        self._lost_ns[holder] = now_ns
        self._lost_ns.move_to_end(holder)
        while next(iter(self._lost_ns.values())) < now_ns - _WAIT_NS:
            self._lost_ns.popitem(last=False)

    def end_silence(self, holder: Holder) -> bool:
        """A worker has sent a request. Returns whether it was silent before."""
        return self._lost_ns.pop(holder, None) is not None
