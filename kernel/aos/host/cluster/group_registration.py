"""The registration of a group in the bucket ``AOS``: the worlds of its shards (spec/cluster.md,
CL-260 to CL-262).

    key     the name of the group; its shards have the names NAME-000, NAME-001, …
    value   canonical array ["aos/group/1", name, [world, …], signature]

The one world key of the group signs the array without the signature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from aos.core.journal.signing import SIGNATURE_BYTES
from aos.errors import Damage, Refused
from aos.host.cluster.registration import GROUP_FORM, read_registration
from aos.host.cluster.signed_value import SignedValue
from aos.host.folder.group import SHARDS_MAX, SHARDS_MIN, shard_name
from aos.store.log.bucket import Bucket, BucketConflict
from aos.store.log.nats_address import NatsAddress
from aos.values.cbor import Value, decode_record
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

_SHARDS: Final = range(SHARDS_MIN, SHARDS_MAX + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRegistration(SignedValue):
    """The group that has this ``name``, and the ``worlds`` of its shards, by index."""

    name: str
    worlds: tuple[Hash, ...]

    def shard_names(self) -> list[str]:
        """The names under which the shards are registered, in order."""
        return [f"{self.name}-{shard_name(index)}" for index in range(len(self.worlds))]

    def _fields(self) -> list[Value]:
        return [GROUP_FORM, self.name, list(self.worlds)]


def shard_address(group: NatsAddress, index: int) -> NatsAddress:
    """The address of a shard of the group at an address."""
    return replace(group, name=f"{group.name}-{shard_name(index)}")


def check_shard_world(location: str, *, expected: Hash, actual: Hash) -> None:
    """Raise Damage if another world than that of the group is registered for one of its shards.
    ``location`` is the name or the address of the shard."""
    if actual != expected:
        raise Damage(
            "another world is registered in the place of this shard",
            location=location,
            expected=expected.hex(),
            actual=actual.hex(),
            hint="an operator of the servers or another program has changed the bucket AOS",
        )


def find_group_registration(bucket: Bucket, name: str) -> GroupRegistration | None:
    """Return the registration of the group with a name; None if no world and no group has it. Its
    signature is not checked.

    Raises:
        Refused: The name is that of a world.
        Damage: The value is no registration of that name.
        BucketUnreachable: The bucket does not answer.
    """
    entry = bucket.get(name)
    if entry is None:
        return None
    try:
        value = decode_record(entry.value)
    except ValueProblem as problem:
        raise Damage(f"the registration of a group is not canonical CBOR: {problem}") from problem
    match value:
        case [str(form), str(own_name), list(worlds), bytes(signature)] if (
            form == GROUP_FORM
            and own_name == name
            and len(worlds) in _SHARDS
            and all(isinstance(world, bytes) and len(world) == HASH_BYTES for world in worlds)
            and len(signature) == SIGNATURE_BYTES
        ):
            ids = tuple(Hash(world) for world in worlds if isinstance(world, bytes))
            return GroupRegistration(name=name, worlds=ids, signature=signature)
        case [str(form), *_] if form == GROUP_FORM:
            raise Damage(
                "the registration of a group cannot be read",
                location=name,
                expected=f"[{GROUP_FORM}, name, worlds, signature]",
                hint="an operator of the servers or another program has changed the bucket AOS",
            )
    registration = read_registration(entry.value)
    raise Refused(
        "a world has this name",
        location=name,
        expected="the name of a group, or one that is free",
        actual=f"world {registration.world.hex()[:16]}",
        hint="use another name",
    )


def registered_group(bucket: Bucket, name: str, world_key: bytes) -> GroupRegistration:
    """Return the registration of a group, which its world key has signed.

    Raises:
        Refused: There is none, or another key has signed it, or it is that of a world.
        Damage, BucketUnreachable: As ``find_group_registration``.
    """
    group = find_group_registration(bucket, name)
    if group is None:
        raise Refused("no group is registered under this name", location=name)
    if not group.is_of(world_key):
        raise Refused(
            "the registration of this group is not signed by the world key that is here",
            location=name,
            expected="the keys of a shard of this group",
            hint="use another name, or the keys of that group",
        )
    return group


def register_group(bucket: Bucket, registration: GroupRegistration) -> None:
    """Write the signed registration of a group whose name is free. One that is there already is not
    written again.

    Raises:
        Refused: The name has another registration. Nothing was written.
        BucketUnreachable: It is unknown whether it was written: call again.
    """
    value = registration.to_bytes()
    try:
        bucket.create(registration.name, value)
    except BucketConflict:
        entry = bucket.get(registration.name)
        if entry is None or entry.value != value:
            raise Refused(
                "another program has registered this name",
                location=registration.name,
                hint="use another name, or see which world has it: aos cluster status",
            ) from None
