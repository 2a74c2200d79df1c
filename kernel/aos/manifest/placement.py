"""Placement: which shard of a group has a cell (spec/groups.md, GR-1 to GR-6).

A group is a set of worlds, its shards, that run one manifest. Each cell is in one shard, which its
workflow and its key decide, so that a sender finds it without asking anyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from aos.manifest.limits import Range
from aos.manifest.schedules import SCHEDULE
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash
from aos.values.errors import quoted

SHARDS: Final = Range(low=2, high=1024)
"""The number of shards of a group."""

BEFORE_BAR: Final = "|"
"""The ``shard_by`` of text keys: the text before the first ``|``, or all of it without one."""

_BYTES_READ: Final = 8
"""Bytes of the content hash that choose the shard: for 1,024 shards, the modulus favours none by
more than one part in 2⁵⁴."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One world of a group: its index, from 0, and the number of shards."""

    index: int
    count: int


def shard_of_key(key: bytes, shards: int) -> int:
    """The shard of a key (GR-2): 0 to ``shards`` - 1. ``key`` is canonical CBOR: the key of a cell,
    or the part by which its workflow places it (``Placement.part``)."""
    return int.from_bytes(content_hash(key)[:_BYTES_READ], "big") % shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How the cells of one workflow are placed.

    Attributes:
        kind: ``key``: each cell is in the shard of its key. ``first``: all are in shard 0.
            ``each``: each shard has cells of its own, also under the same key.
        shard_by: The part of the key that decides: a field of a record, or ``BEFORE_BAR``. None for
            the whole key, and for the other kinds.
    """

    kind: Literal["key", "first", "each"]
    shard_by: str | None = None

    def __str__(self) -> str:
        if self.kind == "key":
            return "by its key" if self.shard_by is None else f"by {quoted(self.shard_by)}"
        return "in shard 0" if self.kind == "first" else "in each shard"

    def part(self, key: bytes) -> bytes:
        """The part of a key that decides, in canonical CBOR. ``key`` is valid for the workflow."""
        if self.shard_by is None:
            return key
        value: Any = decode_record(key)
        is_text = isinstance(value, str)
        return encode(value.partition(BEFORE_BAR)[0] if is_text else value[self.shard_by])

    def shard(self, key: bytes, shards: int) -> int | None:
        """The shard of the cell with this key; None if each shard has its own."""
        if self.kind == "each":
            return None
        return 0 if self.kind == "first" else shard_of_key(self.part(key), shards)


BY_KEY: Final = Placement(kind="key")
IN_FIRST: Final = Placement(kind="first")
IN_EACH: Final = Placement(kind="each")


def default_placement(workflow: str, *, is_keyed: bool) -> Placement:
    """The placement of a workflow that ``routing.shards`` does not list (GR-3)."""
    return BY_KEY if is_keyed and workflow != SCHEDULE else IN_FIRST


def placement_in_form(entry: Mapping[str, Any]) -> Placement:
    """The placement in an entry of ``routing.shards`` without findings."""
    return Placement(kind="key", shard_by=entry["shard_by"]) if "shard_by" in entry else IN_EACH
