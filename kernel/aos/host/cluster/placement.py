"""Which members should have a world (spec/cluster.md, CL-233). Pure.

All members compute the same placement from the same view. Two that differ in their views move
worlds to and fro; the log alone decides which node writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aos.values.digests import Hash, digest

DOMAIN: Final = "aos/place/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A living member: the ``worlds`` whose keys it has, and how many ``standbys`` it was started
    for."""

    name: str
    worlds: frozenset[Hash]
    standbys: int = 1
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPlacement:
    """The node that should own a world, None for any, and the members that should have a node of
    it, the owner first if it is a member."""

    owner: str | None
    members: tuple[str, ...]


def weight(world: Hash, member: str) -> Hash:
    """The number by which a member is chosen for a world: the greatest one owns it."""
    return digest(DOMAIN, world, member)


def place(
    world: Hash,
    members: Iterable[MemberView],
    *,
    preferred: str | None = None,
    is_outside: bool = False,
) -> WorldPlacement:
    """Place a world on the living ``members``. ``preferred`` is the node to which an operator has
    moved it; with ``is_outside``, that is the living node of no member."""
    candidates = [member for member in members if world in member.worlds and not member.is_draining]
    if not candidates:
        return WorldPlacement(owner=None, members=())
    count = 1 + max(member.standbys for member in candidates)
    names = sorted(
        (member.name for member in candidates),
        key=lambda name: (name == preferred, weight(world, name)),
        reverse=True,
    )
    if preferred is not None and is_outside:
        return WorldPlacement(owner=preferred, members=tuple(names[: count - 1]))
    return WorldPlacement(owner=names[0], members=tuple(names[:count]))
