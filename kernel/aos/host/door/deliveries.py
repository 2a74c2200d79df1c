"""Deliveries of events between worlds, as messages on the socket (spec/world-send.md, WS-10 to
WS-14).

    {"op": "deliver", "world": hash, "source": hash, "nonce": bytes, "key": bytes,
     "name": text?, "items": [{"key": text, "opened_ns": nat, "schema": text, "value": bytes,
                "signature": bytes}]}

``world`` is the target, ``source`` the world that sends. Nonce and key make the id of the source
(J-3), so only that world can sign a delivery in its name. A replicated world gives the name under
which it is registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.identity import delivery_id, world_id
from aos.core.journal.signing import is_signed
from aos.errors import BadUsage, Refused
from aos.host.door.delivery_targets import DeliverySources
from aos.host.door.work_messages import read_items
from aos.host.world.deliveries import DeliveryInput
from aos.message_fields import Message, field
from aos.values.cbor import Value, encode, is_nat
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker.outcome import check_names, read_hash

_FIELDS: Final = frozenset({"key", "opened_ns", "schema", "value", "signature"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDelivery:
    """An event on its way to another world. ``idempotency_key`` is that of the intent to send it,
    and ``opened_ns`` the time at which this intent was opened."""

    idempotency_key: str
    opened_ns: int
    schema: str
    value: bytes

    def message(self, source: Hash, target: Hash) -> bytes:
        """The bytes that the key of the source signs (WS-11)."""
        value = content_hash(self.value)
        return encode(
            [
                "aos/deliver/1", target, source, self.idempotency_key, self.opened_ns, self.schema,
                value,
            ]
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySender:
    """A world as the source of deliveries. ``nonce`` is that of the record that began it, ``name``
    the one under which targets find it, if they need one."""

    world: Hash
    nonce: bytes
    key: SigningKey
    name: str | None = None

    def fields(self, target: Hash) -> dict[str, Value]:
        """The fields of a request that are the same for all its items."""
        return {
            "world": target,
            "source": self.world,
            "nonce": self.nonce,
            "key": bytes(self.key.verify_key),
            **({} if self.name is None else {"name": self.name}),
        }

    def item(self, delivery: WorldDelivery, target: Hash) -> dict[str | int, Value]:
        """Sign and encode one delivery."""
        return {
            "key": delivery.idempotency_key,
            "opened_ns": delivery.opened_ns,
            "schema": delivery.schema,
            "value": delivery.value,
            "signature": self.key.sign(delivery.message(self.world, target)).signature,
        }


async def read_deliveries(
    request: Message, *, world: Hash, sources: DeliverySources | None
) -> Sequence[DeliveryInput]:
    """Decode the deliveries of a request to ``world``, and check that a neighbour has signed them.

    Raises:
        BadUsage: A field is missing or of another type, or there are too many items.
        Refused: This process takes no deliveries, or the source or a signature is not valid.
        AosError: As ``DeliverySources.check``.
    """
    if sources is None:
        raise Refused(
            "this world takes no deliveries",
            expected="a process that knows its neighbours",
            hint="aos run --neighbours, aos node --neighbours or aos node --worlds DIR",
        )
    source, public_key = _read_source(request, world=world)
    name = field(request, "name", str) if "name" in request else None
    await sources.check(source, public_key, name)

    def read(item: Message) -> DeliveryInput:
        delivery, signature = _read_item(item)
        if not is_signed(delivery.message(source, world), signature, public_key):
            raise Refused(f"the signature is not that of world {hash_text(source)}")
        return DeliveryInput(
            schema=delivery.schema,
            value=delivery.value,
            submission_id=delivery_id(source, delivery.idempotency_key),
            opened_ns=delivery.opened_ns,
        )

    return read_items(request, read)


def _read_source(request: Message, *, world: Hash) -> tuple[Hash, bytes]:
    """The id and the public key of the world that delivers."""
    target, source = read_hash(request, "world"), read_hash(request, "source")
    nonce, public_key = field(request, "nonce", bytes), field(request, "key", bytes)
    if target != world:
        raise Refused(
            "the delivery is for another world",
            expected=hash_text(world),
            actual=hash_text(target),
        )
    if world_id(nonce, public_key) != source:
        raise Refused(f"the key is not that of world {hash_text(source)}")
    return source, public_key


def _read_item(item: Message) -> tuple[WorldDelivery, bytes]:
    check_names(item, _FIELDS)
    opened_ns = field(item, "opened_ns", int)
    if not is_nat(opened_ns):
        raise BadUsage(f"opened_ns: expected 0 to 2^64 - 1, found {opened_ns}")
    delivery = WorldDelivery(
        idempotency_key=field(item, "key", str),
        opened_ns=opened_ns,
        schema=field(item, "schema", str),
        value=field(item, "value", bytes),
    )
    return delivery, field(item, "signature", bytes)
