"""The registration of a replicated world in the bucket ``AOS``: where its log and its newest base
are (spec/cluster.md, CL-103 to CL-106).

    key     the name of the world
    value   canonical array ["aos/registration/1", name, world, stream, base, signature]
    base    null, or [stream, position, seq, frame]

A world that was taken out of the servers has one element more before the signature: the node whose
folder it is in now, with a number, as ``NODE/HEX`` (CL-159).

The key of the world signs the array without the signature. So a program that can only publish
cannot send a node to another log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from aos.core.journal.signing import SIGNATURE_BYTES
from aos.errors import Damage, Refused
from aos.host.cluster.signed_value import SignedValue
from aos.store.log.bucket import KEY, Bucket, BucketConflict
from aos.store.log.logged_store import LogEnd
from aos.values.cbor import Value, decode_record, is_nat
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

FORM: Final = "aos/registration/1"
GROUP_FORM: Final = "aos/group/1"
"""The form of the registration of a group, which is in the same bucket (CL-260)."""

STREAM: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
"""The form of the name of a stream: it is a part of subjects of requests to the servers."""


class NameOfGroup(Refused):
    """The name is that of a group, and not of a world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRef:
    """A base: the rows of a store that had the log to ``end``, in a ``stream`` of its own."""

    stream: str
    end: LogEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRegistration(SignedValue):
    """The ``world`` that has this ``name``, its log, and its newest base; None before the first.
    ``taken_by`` is None, unless the world was taken out of the servers."""

    name: str
    world: Hash
    stream: str
    base: BaseRef | None = None
    taken_by: str | None = None

    @property
    def embedded_at(self) -> str | None:
        """The node whose folder has the world; None, unless it was taken out of the servers."""
        return None if self.taken_by is None else self.taken_by.partition("/")[0]

    def _fields(self) -> list[Value]:
        base = self.base
        row: Value = (
            None if base is None else [base.stream, base.end.position, base.end.seq, base.end.frame]
        )
        taken_by: list[Value] = [] if self.taken_by is None else [self.taken_by]
        return [FORM, self.name, self.world, self.stream, row, *taken_by]


class RegistrationEntry(NamedTuple):
    """A registration with the revision of its value in the bucket."""

    registration: WorldRegistration
    revision: int


def read_registration(data: bytes) -> WorldRegistration:
    """Read a value of the bucket. Its signature is not checked.

    Raises:
        NameOfGroup: It is the registration of a group.
        Damage: The bytes are no registration.
    """
    try:
        value = decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"the registration of a world is not canonical CBOR: {problem}") from problem
    match value:
        case [str(form), str(name), bytes(world), str(stream), row, *taken, bytes(signature)] if (
            form == FORM
            and KEY.fullmatch(name)
            and len(world) == HASH_BYTES
            and STREAM.fullmatch(stream)
            and len(signature) == SIGNATURE_BYTES
        ):
            match taken:
                case []:
                    taken_by = None
                case [str(node)]:
                    taken_by = node
                case _:
                    raise _no_registration()
            return WorldRegistration(
                name=name, world=Hash(world), stream=stream, base=_base(row), taken_by=taken_by,
                signature=signature,
            )  # fmt: skip
        case [str(form), str(name), *_] if form == GROUP_FORM:
            raise NameOfGroup(
                "a group has this name",
                location=f"{name:.200}",
                expected="the name of a world",
                hint=f"name a shard of the group, such as {name:.200}-000",
            )
    raise _no_registration()


def _base(row: Value) -> BaseRef | None:
    match row:
        case None:
            return None
        case [str(stream), position, seq, bytes(frame)] if (
            STREAM.fullmatch(stream)
            and is_nat(position)
            and is_nat(seq)
            and len(frame) == HASH_BYTES
        ):
            return BaseRef(stream=stream, end=LogEnd(position=position, seq=seq, frame=Hash(frame)))
    raise _no_registration()


def _no_registration() -> Damage:
    return Damage(
        "the registration of a world cannot be read",
        expected=f"[{FORM}, name, world, stream, base, signature]",
        actual="something else",
        hint="an operator of the servers or another program has changed the bucket AOS",
    )


def find_registration(bucket: Bucket, name: str) -> RegistrationEntry | None:
    """Return the registration under a name; None if there is none.

    Raises:
        NameOfGroup: A group has the name.
        Damage: The value is no registration of that name.
        BucketUnreachable: The bucket does not answer.
    """
    entry = bucket.get(name)
    if entry is None:
        return None
    registration = read_registration(entry.value)
    if registration.name != name:
        raise _no_registration()
    return RegistrationEntry(registration, entry.revision)


def registered(bucket: Bucket, name: str, world_key: bytes) -> RegistrationEntry:
    """Return the registration under a name, which the key of the world has signed (CL-104).

    Raises:
        Refused: There is none, or it is that of another world.
        Damage, BucketUnreachable: As ``find_registration``.
    """
    entry = find_registration(bucket, name)
    if entry is None:
        raise Refused(
            "no world is registered under this name",
            location=name,
            hint="check the name and the servers, or make the world: aos init DIR --store URL",
        )
    if not entry.registration.is_of(world_key):
        raise Refused(
            "the registration under this name is not signed by the key of this world",
            location=name,
            expected="the name of the world whose key is here",
            actual=f"the world {entry.registration.world.hex()[:16]}",
            hint="use another name, or the keys of that world",
        )
    return entry


def check_in_servers(registration: WorldRegistration) -> None:
    """Check that a world is still a replicated one. Raises: Refused: A node has taken it out."""
    if registration.taken_by is not None:
        raise Refused(
            "the world was taken out of the servers: it is embedded in the folder of one node",
            location=registration.name,
            expected="a replicated world",
            actual=f"one that node {registration.embedded_at} has",
            hint="make it replicated again there (aos adopt --store URL), then join it",
        )


def register(bucket: Bucket, registration: WorldRegistration, revision: int = 0) -> int:
    """Write a signed registration in the place of the one with this revision; 0 means that the name
    is free. Return the new revision. One that is there already is not written again.

    Raises:
        Refused: The name has another registration, or another revision. Nothing was written.
        BucketUnreachable: It is unknown whether it was written: call again.
    """
    value = registration.to_bytes()
    try:
        if revision:
            return bucket.replace(registration.name, value, revision)
        return bucket.create(registration.name, value)
    except BucketConflict:
        entry = bucket.get(registration.name)
        if entry is not None and entry.value == value:
            return entry.revision  # by an earlier attempt that had no answer (CL-52)
        raise Refused(
            "another program has registered this name",
            location=registration.name,
            hint="use another name, or see which world has it: aos cluster status",
        ) from None
