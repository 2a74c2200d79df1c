"""Lanes: tasks of an effect that run one at a time, in the order of opening (M-5a, AG-85a)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, TypeAlias

from aos.manifest.effective import Effect
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from aos.values.errors import ValueProblem
from aos.values.schema import value_at

Lane: TypeAlias = bytes
"""Canonical CBOR of an effect's name and the values at its lane's paths; of ``IN_ORDER`` then the
cell."""


IN_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "sys/portal.send@1": ("dest_universe", "dest_world"),
}
"""Built-in effects that have a lane for each cell and the values at these paths: messages of a cell
to a world arrive in the order in which the cell sent them (AG-85a)."""


def has_lanes(effect: Effect) -> bool:
    """Whether tasks of an effect are in lanes."""
    return bool(effect.lane) or effect.name in IN_ORDER


def lane_of(effect: Effect, params: bytes, workflow: str, cell_key: bytes) -> Lane | None:
    """The lane of a task with these params, of this cell; None if the effect has no lanes.

    A path that leads through an absent option has the value null there.
    """
    if effect.lane:
        return values_at(effect, params, effect.lane)
    paths = IN_ORDER.get(effect.name)
    if paths is None:
        return None
    return values_at(effect, params, paths) + encode([workflow, cell_key])


def values_at(effect: Effect, params: bytes, paths: tuple[str, ...]) -> bytes:
    """The effect's name and the values at ``paths`` of its params, as canonical CBOR."""
    value = effect.params.from_record(params)
    return encode([effect.name, *(_at(value, path) for path in paths)])


def _at(value: Value, path: str) -> Value:
    try:
        return value_at(value, path)
    except ValueProblem:
        return None


class Lanes:
    """The open tasks of each lane. The first of a lane may run; the others wait for its end."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, OrderedDict[Hash, None]] = {}

    def add(self, lane: Lane | None, intent: Hash) -> None:
        """Queue an open task; tasks are added in the order of opening."""
        if lane is not None:
            self._lanes.setdefault(lane, OrderedDict())[intent] = None

    def is_first(self, lane: Lane | None, intent: Hash) -> bool:
        """Whether the task is the first of its lane, or has none."""
        return lane is None or next(iter(self._lanes[lane])) == intent

    def remove(self, lane: Lane | None, intent: Hash) -> Hash | None:
        """Remove a task that has ended. Return the task that is first now, if it was not before."""
        if lane is None:
            return None
        tasks = self._lanes[lane]
        was_first = next(iter(tasks)) == intent
        del tasks[intent]
        if not tasks:
            del self._lanes[lane]
            return None
        return next(iter(tasks)) if was_first else None
