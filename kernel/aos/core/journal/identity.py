"""Ids and digests: worlds, intents, idempotency keys, submissions, events, entropy.

Each is a digest with a domain of its own (spec/kernel.md, K-10 and K-20 to K-24).
"""

from __future__ import annotations

import re
from typing import Final

from aos.core.journal.records import CellId, Stamp
from aos.values.cbor import encode
from aos.values.digests import Hash, derive, digest, hash_text, parse_hash
from aos.values.errors import ValueProblem

ENTROPY_BYTES: Final = 64

DELIVERY_PREFIX: Final = "aos:"
"""The beginning of a delivery's submission id. No other event may have such an id."""

_DELIVERY_ID: Final = re.compile(rf"{DELIVERY_PREFIX}([a-z0-9]+:[0-9a-f]+):(.+)", re.DOTALL)


def intent_hash(
    *,
    world: Hash,
    cell: CellId,
    workflow_hash: Hash,
    seq: int,
    index: int,
    effect: str,
    effect_hash: Hash,
    params_hash: Hash,
    key: str | bytes | None,
) -> Hash:
    """Hash the requester (world, workflow, key), the place (step, index) and the effect."""
    workflow, instance = cell
    return digest(
        "aos/intent/1",
        world, workflow, workflow_hash, instance, seq, index, effect, effect_hash, params_hash, key,
    )  # fmt: skip


def idempotency_key(*, world: Hash, cell: CellId, effect: str, key: str | bytes, scope: str) -> str:
    """The key by which an executor runs an effect once, if the module requested one."""
    workflow, instance = cell if scope == "cell" else (None, None)
    return hash_text(digest("aos/idempotency/1", world, workflow, instance, effect, key))


def submission_hash(schema: str, value: Hash) -> Hash:
    """Hash a submission; two under one id are the same if these hashes are equal."""
    return digest("aos/submission/1", schema, value)


def delivery_id(source: Hash, idempotency_key: str) -> str:
    """The submission id of an event that another world delivers (spec/world-send.md, WS-20)."""
    return f"{DELIVERY_PREFIX}{hash_text(source)}:{idempotency_key}"


def read_delivery_id(submission_id: str | None) -> tuple[Hash, str] | None:
    """Return the source and the idempotency key of a delivery; None for the id of another event."""
    match = _DELIVERY_ID.fullmatch(submission_id or "")
    if match is None:
        return None
    try:
        return parse_hash(match[1]), match[2]
    except ValueProblem:
        return None


def event_hash(schema: str, value: bytes) -> Hash:
    return digest("aos/event/1", schema, value)


def step_entropy(stamp: Stamp, cell: CellId, seq: int) -> bytes:
    """64 bytes that differ for every delivery and never change again. Public, never a secret."""
    workflow, key = cell
    material = encode([stamp.entropy, workflow, key, seq])
    return derive("aos/entropy/1", material, ENTROPY_BYTES)


def world_id(nonce: bytes, world_key: bytes) -> Hash:
    return digest("aos/world/1", nonce, world_key)
