"""The shards of a group: their manifests, and the shard of a cell or an event (spec/groups.md).

A sender finds the shard with ``shard_of_event``, a reader with ``shard_of_cell``. Both need the
manifest of any shard, or of none, and the number of shards, which never changes.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from aos.errors import BadUsage
from aos.manifest.effective import Effective, typed_view
from aos.manifest.group_rules import group_findings
from aos.manifest.placement import SHARDS, shard_of_key
from aos.values.cbor import decode_record, encode
from aos.values.errors import ValueProblem

__all__ = [
    "EVERY", "ShardOfEvent", "group_findings", "shard_of_cell", "shard_of_event", "shard_of_key",
    "with_shard", "without_shard",
]  # fmt: skip

EVERY: Final = "every"
"""The event goes to each shard, each of which admits it (GR-22)."""

ShardOfEvent: TypeAlias = int | Literal["every"]


def with_shard(manifest: Effective, index: int, shards: int) -> Effective:
    """The manifest of one shard of a group (GR-10): ``manifest`` with ``shard``. Its manifest hash
    is that of all shards. ``group_findings`` says whether a group can have it.

    Raises:
        BadUsage: The number of shards or the index is out of range.
    """
    if shards not in SHARDS or not 0 <= index < shards:
        raise BadUsage(
            "the shard of a manifest",
            expected=f"{SHARDS.low} to {SHARDS.high} shards and an index from 0",
            actual=f"shard {index} of {shards}",
        )
    return typed_view(encode({**_parts(manifest), "shard": [index, shards]}))


def without_shard(manifest: Effective) -> Effective:
    """The manifest that each shard of the group has, to compare those of two shards."""
    parts = _parts(manifest)
    parts.pop("shard", None)
    return typed_view(encode(parts))


def _parts(manifest: Effective) -> dict[Any, Any]:
    parts: Any = decode_record(manifest.document)
    return dict(parts)


def shard_of_cell(manifest: Effective, workflow: str, key: bytes, shards: int) -> int | None:
    """The shard that has the cell of ``workflow`` with this key, in canonical CBOR (empty for an
    unkeyed workflow). None if each shard has one.

    Raises:
        KeyError: The manifest does not have the workflow.
    """
    return manifest.workflows[workflow].placement.shard(key, shards)


def shard_of_event(manifest: Effective, schema: str, value: bytes, shards: int) -> ShardOfEvent:
    """The shard to which a sender gives an event: ``value`` is CBOR at the ingress gate.

    It is the shard of the first cell that the event reaches and that is in one shard (GR-20). If
    each cell that it reaches is in each shard, the event goes to every shard. An event that reaches
    no cell goes to shard 0, and so does one that is not valid: its kernel names the broken rule.
    """
    event_schema = manifest.schemas.get(schema)
    routes = manifest.routes(schema)
    if event_schema is None or not routes:
        return 0
    try:
        bytes_max = manifest.limits.event_bytes
        _, event = event_schema.from_ingress_value(value, max_bytes=bytes_max)
        keys = [route.key(event) for route in routes]
    except ValueProblem:
        return 0
    for route, key in zip(routes, keys, strict=True):
        shard = shard_of_cell(manifest, route.workflow, key, shards)
        if shard is not None:
            return shard
    return EVERY
