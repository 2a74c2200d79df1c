"""What comes into the core from outside, and the messages that its makers sign.

The host stamps each input once and hands it to ``Kernel.admit``; nothing else enters the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.records import Principal
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash, digest

STATUSES: Final = ("ok", "error", "timeout", "canceled")
"""How an effect may end, as its receipt says."""

SEMANTICS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GenesisInput:
    nonce: bytes
    world_key: bytes
    operators: tuple[Principal, ...]
    signature: bytes

    @staticmethod
    def message(nonce: bytes, world_key: bytes, operators: tuple[Principal, ...]) -> bytes:
        """What the world key signs."""
        named: list[Value] = [[each.name, each.key] for each in operators]
        return encode(["aos/genesis/1", nonce, world_key, named, SEMANTICS])


def world_id(nonce: bytes, world_key: bytes) -> Hash:
    return digest("aos/world/1", nonce, world_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartInput:
    """What executes from here on: kernel and wasmtime versions, target, engine fingerprint."""

    host: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestInput:
    """An operator puts an effective manifest in force.

    ``serial`` is the number of manifest records before this one, so that a signed command is good
    once.
    """

    document: bytes
    principal: str
    serial: int
    signature: bytes

    @staticmethod
    def message(world: Hash, serial: int, document: Hash) -> bytes:
        """What the operator signs."""
        return encode(["aos/apply/1", world, serial, document])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInput:
    """A domain event; ``value`` is CBOR at the ingress gate."""

    schema: str
    value: bytes
    submission_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptInput:
    """An executor's signed word on how an intent ended.

    ``payload`` is canonical CBOR of the effect's receipt, or for another status than ``ok`` of
    ``sys/EffectError@1``; ``executor`` is a name of the manifest (``node`` for the world's own
    key), ``key_id`` the public key that signed.
    """

    intent: Hash
    effect: str
    attempt: int
    status: str
    payload: bytes
    started_ns: int
    finished_ns: int
    executor: str
    key_id: bytes
    signature: bytes
    cost_cents: int | None = None

    def message(self, world: Hash) -> bytes:
        """What the executor signs."""
        return receipt_message(
            world=world,
            intent=self.intent,
            effect=self.effect,
            executor=self.executor,
            key_id=self.key_id,
            attempt=self.attempt,
            status=self.status,
            payload=content_hash(self.payload),
            started_ns=self.started_ns,
            finished_ns=self.finished_ns,
            cost_cents=self.cost_cents,
        )


def receipt_message(
    *,
    world: Hash,
    intent: Hash,
    effect: str,
    executor: str,
    key_id: bytes,
    attempt: int,
    status: str,
    payload: Hash,
    started_ns: int,
    finished_ns: int,
    cost_cents: int | None,
) -> bytes:
    """The bytes under a receipt's signature; ``payload`` is the content hash of the payload."""
    body: dict[str | int, Value] = {
        "world": world,
        "intent": intent,
        "effect": effect,
        "executor": executor,
        "key_id": key_id,
        "attempt": attempt,
        "status": status,
        "payload": payload,
        "started_ns": started_ns,
        "finished_ns": finished_ns,
    }
    if cost_cents is not None:
        body["cost_cents"] = cost_cents
    return encode(["aos/receipt/1", body])


Input: TypeAlias = GenesisInput | StartInput | ManifestInput | EventInput | ReceiptInput
