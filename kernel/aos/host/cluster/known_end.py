"""The latest end of the log that some node had: a log that ends before it has lost what was
acknowledged (spec/cluster.md, CL-85)."""

from __future__ import annotations

from typing import Final

from aos.errors import Damage, Pruned
from aos.store.log.logged_store import LogEnd, LoggedStore

ROW: Final = "log-known-end"
"""The name of the row, before that of the stream."""


class KnownEnd:
    """The latest end of ``stream`` in any beat that this node has seen, kept durably: after a
    restart, it must not own a world whose log has lost it."""

    def __init__(self, store: LoggedStore, stream: str) -> None:
        self._store = store
        self._row = f"{ROW}.{stream}"
        data = store.meta_get(self._row)
        self.end = None if data is None else LogEnd.from_bytes(data)
        """None if the store has it, or a later one."""

    def note(self, end: LogEnd) -> None:
        """Keep the end of another node, if it is later than this store's.

        Raises:
            Damage: This journal has another frame there.
        """
        if end.position <= self._store.end.position:
            self._check_frame(end)
        elif self.end is None or end.position > self.end.position:
            self._store.meta_put(self._row, end.to_bytes())
            self.end = end

    def is_ahead(self) -> bool:
        """Whether the log, as this node has read it, ends before an end that some node had.

        Raises:
            Damage: It has another frame there.
        """
        end = self.end
        if end is None:
            return False
        if self._store.end.position < end.position:
            return True
        self._check_frame(end)
        self.end = None
        return False

    def lost(self) -> Damage:
        """The error of a log that stays behind."""
        end = self.end or self._store.end
        return Damage(
            "the log has lost what was acknowledged",
            location=self._store.location,
            expected=f"a log that continues to position {end.position}, where a node of this world "
            f"had record {end.seq}",
            actual="one that ends before that",
            hint="do not start this node: bring the log back from the longest journal of a node",
        )

    def _check_frame(self, end: LogEnd) -> None:
        """Check that this journal has the frame with which another node's ends, or ended."""
        own_end = self._store.end
        if end.seq == 0 or end.frame == own_end.frame:
            return
        try:
            frame = self._store.frame_at(end.seq) if end.seq <= own_end.seq else None
        except Pruned:
            return
        if frame is None or frame.hash != end.frame:
            raise Damage(
                "the log has another history than a node of this world had",
                location=self._store.location,
                expected=f"frame {end.frame.hex()[:16]} with record {end.seq}, which a node had at "
                f"position {end.position} of the log",
                actual="no such record" if frame is None else f"frame {frame.hash.hex()[:16]}",
                hint="do not start this node: compare the journals of all nodes",
            )
