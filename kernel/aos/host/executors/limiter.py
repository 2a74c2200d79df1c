"""Concurrency and rate of effects: when the next task of a group may begin (N-65).

Nothing here does I/O or reads a clock. Times are nanoseconds of one clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

GROUPS_KEPT: Final = 4096
"""Number of idle groups above which the limiter forgets those that restrict nothing any more."""

Group: TypeAlias = tuple[str, bytes]
"""(effect, canonical CBOR of the values by which its limit is divided): tasks of one group share
the concurrency and the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limit of one effect, for each value at the paths ``by`` of its params.

    At most ``concurrency`` tasks run at a time. With ``interval_ns`` above 0, one task may begin in
    each interval on average, and up to ``burst`` tasks together after a time without any.
    """

    concurrency: int | None = None
    interval_ns: int = 0
    burst: int = 1
    by: tuple[str, ...] = ()


@dataclass(slots=True)
class _Use:
    """``running`` tasks of a group; ``due_ns`` is when its rate is unused again."""

    running: int = 0
    due_ns: int = 0


class Limiter:
    """Counts the tasks of each group. A task without a group has no limit."""

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        self.limits = limits
        self._uses: dict[Group, _Use] = {}

    def ready_at(self, group: Group, now_ns: int) -> int | None:
        """When the next task of the group may begin: ``now_ns`` or later; None while all places of
        its concurrency are taken."""
        limit, use = self.limits[group[0]], self._uses.get(group)
        if use is None:
            return now_ns
        if limit.concurrency is not None and use.running >= limit.concurrency:
            return None
        return max(now_ns, use.due_ns - (limit.burst - 1) * limit.interval_ns)

    def begin(self, group: Group, now_ns: int) -> None:
        """Count a task that begins, whether or not it was ready."""
        if len(self._uses) >= GROUPS_KEPT and group not in self._uses:
            self._forget(now_ns)
        use = self._uses.setdefault(group, _Use())
        use.running += 1
        use.due_ns = max(now_ns, use.due_ns) + self.limits[group[0]].interval_ns

    def resume(self, group: Group) -> None:
        """Count a task that began before this limiter was made: it uses a place and no rate."""
        self._uses.setdefault(group, _Use()).running += 1

    def end(self, group: Group, *, has_begun: bool = True) -> None:
        """Free the place of a task; if it has not begun after all, its share of the rate too."""
        use = self._uses[group]
        use.running -= 1
        assert use.running >= 0, f"{group[0]} has ended more tasks than began"
        if not has_begun:
            use.due_ns -= self.limits[group[0]].interval_ns
        if not use.running and not self.limits[group[0]].interval_ns:
            del self._uses[group]

    def _forget(self, now_ns: int) -> None:
        idle = [key for key, use in self._uses.items() if not use.running and use.due_ns <= now_ns]
        for key in idle:
            del self._uses[key]
