"""A group of replicated worlds that is named by its address: ``--world nats://HOST,…/NAME``
(spec/cluster.md, CL-300 to CL-305).

Each command goes to the owners of the shards. The place of a shard is its own address, which
``writing_to`` opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.errors import Unavailable
from aos.host.cluster.addressed_group import (
    AddressedGroup,
    AddressedGroupWriter,
    find_addressed_group,
)
from aos.host.door.group_writer import GroupWriter
from aos.host.door.writer import Writer
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.values.digests import Hash
from aos_cli.addressed_world import open_at_address, retry_at_address
from aos_cli.open_writing import chosen_credentials, chosen_timeout_s, patience, writing_to
from aos_cli.options import address_of


def group_at(world: Path) -> AddressedGroup | None:
    """The group at an address; None if the address is that of a world, or ``world`` is a folder.
    Raises as ``find_addressed_group``."""
    address = address_of(world)
    if address is None:
        return None
    return find_addressed_group(NatsAddress.parse(address), NatsAccess.read(chosen_credentials()))


def receiver_at(world: Path) -> Writer | GroupWriter:
    """Open the world or the group at an address, to send events. Raises as ``group_at``."""
    group, address = group_at(world), address_of(world)
    assert address is not None, "an address"
    if group is None:
        return open_at_address(address)
    return AddressedGroupWriter(
        group, NatsAccess.read(chosen_credentials()), busy_s=chosen_timeout_s(), patience=patience
    )


def control_of_intent(
    group: AddressedGroup, action: str, intent: Hash, *, status: str | None, payload: bytes | None
) -> Answer:
    """Send a command about an effect to one shard after the other, until one has it (CL-304).
    Return the last answer.

    Raises:
        Unavailable: No shard that answers has it, and one does not answer.
        AosError: As ``Writer.control``.
    """
    silent: Unavailable | None = None
    answer: Answer | None = None
    for index in range(group.shards):
        try:
            with writing_to(group.location(index)) as writer:
                answer = writer.control(action, intent=intent, status=status, payload=payload)
        except Unavailable as problem:
            silent = silent or problem
            continue
        if not (isinstance(answer, Refusal) and answer.rule is Rule.INTENT_IS_NOT_OPEN):
            return answer
    if silent is not None or answer is None:
        assert silent is not None, "a group has shards"
        raise silent
    return answer


def retry_in_shards(group: AddressedGroup, intents: Sequence[Hash]) -> list[Hash]:
    """Ask the owner of each shard to run held and parked effects again; return those that run.

    Raises:
        Unavailable: A shard does not answer, and not all of them run.
    """
    silent: Unavailable | None = None
    retried: list[Hash] = []
    for index in range(group.shards):
        left = [intent for intent in intents if intent not in retried]
        if not left:
            break
        try:
            retried += retry_at_address(group.location(index), left)
        except Unavailable as problem:
            silent = silent or problem
    if silent is not None and len(retried) < len(intents):
        raise silent
    return retried
