"""The values of members in the buckets, and of the wishes of operators (spec/cluster.md, CL-231).
Pure.

    AOS_BEATS
        _aos.member.NAME   ["aos/member/1", name, instance, standbys, [world, …], [member, …]]
        _aos.move          ["aos/move/1", member, world, node]
    AOS
        _aos.drain.NAME    ["aos/drain/1", name]
        _aos.owner.WORLD   ["aos/owner/1", name of the world, world, node]

No key signs them: a program that may write to the buckets can move worlds, and no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos.host.cluster.beat import INSTANCE_BYTES, NODE
from aos.host.cluster.signed_value import value_in
from aos.store.log.bucket import KEY, RESERVED
from aos.values.cbor import Value, encode, is_nat
from aos.values.digests import Hash, is_hash

MEMBERS: Final = f"{RESERVED}.member"
DRAINS: Final = f"{RESERVED}.drain"
PREFERENCES: Final = f"{RESERVED}.owner"
LAST_MOVE: Final = f"{RESERVED}.move"

WORLDS_MAX: Final = 1500
"""So many worlds a member takes a share of: its beat names them, and has at most 64 KiB."""

SEEN_MAX: Final = 100
"""So many members are in a beat."""

STANDBYS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBeat:
    """A sign of life of the process ``instance`` of a member. It has the keys of ``worlds``, was
    started for so many ``standbys``, and regards the members ``seen`` as living."""

    name: str
    instance: bytes
    standbys: int
    worlds: tuple[Hash, ...]
    seen: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """The value of the bucket."""
        worlds: list[Value] = list(self.worlds)
        seen: list[Value] = list(self.seen)
        return encode(["aos/member/1", self.name, self.instance, self.standbys, worlds, seen])


def read_member_beat(data: bytes) -> MemberBeat | None:
    """Read the beat of a member; None if the bytes are none."""
    match value_in(data):
        case [
            "aos/member/1", str(name), bytes(instance), standbys, list(worlds), list(seen),
        ] if (
            NODE.fullmatch(name)
            and len(instance) == INSTANCE_BYTES
            and is_nat(standbys)
            and standbys <= STANDBYS_MAX
            and len(worlds) <= WORLDS_MAX
            and len(seen) <= SEEN_MAX
        ):  # fmt: skip
            hashes = [
                Hash(world) for world in worlds if isinstance(world, bytes) and is_hash(world)
            ]
            names = [other for other in seen if isinstance(other, str) and NODE.fullmatch(other)]
            if (len(hashes), len(names)) != (len(worlds), len(seen)):
                return None
            return MemberBeat(
                name=name, instance=instance, standbys=standbys, worlds=tuple(hashes),
                seen=tuple(names),
            )  # fmt: skip
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The wish of an operator that a ``node`` owns the ``world`` that has this ``name``."""

    name: str
    world: Hash
    node: str

    @property
    def key(self) -> str:
        """Its key in the bucket ``AOS``."""
        return f"{PREFERENCES}.{self.name}"

    def to_bytes(self) -> bytes:
        """The value of the bucket."""
        return encode(["aos/owner/1", self.name, self.world, self.node])


def read_preference(data: bytes) -> Preference | None:
    """Read the wish of an operator; None if the bytes are none."""
    match value_in(data):
        case ["aos/owner/1", str(name), bytes(world), str(node)] if (
            KEY.fullmatch(name) and is_hash(world) and NODE.fullmatch(node)
        ):
            return Preference(name=name, world=Hash(world), node=node)
    return None


def member_key(member: str) -> str:
    """The key of a member's beat in the bucket of beats."""
    return f"{MEMBERS}.{member}"


def drain_key(member: str) -> str:
    """The key in the bucket ``AOS`` that says that a member drains."""
    return f"{DRAINS}.{member}"


def drain_value(member: str) -> bytes:
    """The value of that key."""
    return encode(["aos/drain/1", member])


def drained_member(data: bytes) -> str | None:
    """The member that a value says to drain; None if it is none."""
    match value_in(data):
        case ["aos/drain/1", str(name)] if NODE.fullmatch(name):
            return name
    return None


def move_value(member: str, world: Hash, node: str) -> bytes:
    """The value that says which member has begun the last move, and to which node."""
    return encode(["aos/move/1", member, world, node])
