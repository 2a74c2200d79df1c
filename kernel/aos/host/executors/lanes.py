"""The lane of a task, and the group of its limit, by values of its params (M-5a, AG-85a, N-65).

The tasks of a lane run one at a time, in the order of opening.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from aos.host.executors.limiter import Group, Limit
from aos.manifest.effective import Effect
from aos.values.cbor import Value, encode
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


def group_of(effect: Effect, params: bytes, limit: Limit) -> Group:
    """The group of a task with these params, whose effect has this limit. Reads the params only if
    the limit is divided by values of them."""
    return effect.name, values_at(effect, params, limit.by) if limit.by else b""


def values_at(effect: Effect, params: bytes, paths: tuple[str, ...]) -> bytes:
    """The effect's name and the values at ``paths`` of its params, as canonical CBOR."""
    value = effect.params.from_record(params)
    return encode([effect.name, *(_at(value, path) for path in paths)])


def _at(value: Value, path: str) -> Value:
    try:
        return value_at(value, path)
    except ValueProblem:
        return None
