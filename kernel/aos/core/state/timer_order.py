"""The timers above the base, by the time at which they are due (spec/state.md, SN-16).

The base has its own timers in this order, in a map. These are the timers of cells that are in the
layers above it. The time of a timer is in its params, which may be a blob, so the timer gets its
key when someone asks for the order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from aos.values.digests import Hash

_ENDED_MAX: Final = 64
"""Rows of timers that have ended, beyond as many as there are timers."""


class TimerOrder:
    """Timers by their key in the map ``timers`` (SN-15). It may have some that are not above the
    base any more."""

    __slots__ = ("_keys", "_rows")

    def __init__(self) -> None:
        self._keys: dict[Hash, Hash | None] = {}
        """The key of each timer, None until it is needed."""
        self._rows: list[tuple[Hash, Hash]] = []
        """(key, timer), ascending, also of some that have ended."""

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, timer: Hash) -> None:
        self._keys.setdefault(timer, None)

    def remove(self, intent: Hash) -> None:
        """Remove an intent, which may be another one than a timer."""
        self._keys.pop(intent, None)

    def keep(self, is_above: Callable[[Hash], bool]) -> None:
        """Remove the timers that are not above the base any more."""
        self._keys = {timer: key for timer, key in self._keys.items() if is_above(timer)}
        # A timer that comes back gets another row.
        self._rows = [row for row in self._rows if row[1] in self._keys]

    def after(
        self, after: Hash | None, is_above: Callable[[Hash], bool], key_of: Callable[[Hash], Hash]
    ) -> Iterator[tuple[Hash, Hash]]:
        """Yield the timers above the base whose key is greater than ``after``, in its order, each
        after its key. Nothing may be added or removed meanwhile. Raises what ``key_of`` raises."""
        self._place(is_above, key_of)
        rows = self._rows
        start = 0 if after is None else bisect_right(rows, after, key=_key)
        for index in range(start, len(rows)):
            key, timer = rows[index]
            if self._keys.get(timer) == key and is_above(timer):
                yield key, timer

    def _place(self, is_above: Callable[[Hash], bool], key_of: Callable[[Hash], Hash]) -> None:
        unplaced = [timer for timer, key in self._keys.items() if key is None]
        keys = {timer: key_of(timer) for timer in unplaced if is_above(timer)}
        self._keys.update(keys)
        for timer in unplaced:
            if timer not in keys:
                del self._keys[timer]
        rows = self._rows
        if len(rows) + len(keys) > 2 * len(self._keys) + _ENDED_MAX:
            rows = [(key, timer) for timer, key in self._keys.items() if key is not None]
        else:
            rows = rows + [(key, timer) for timer, key in keys.items()]
        if keys or len(rows) != len(self._rows):
            rows.sort()
            self._rows = rows


def _key(row: tuple[Hash, Hash]) -> Hash:
    return row[0]
