"""The limits that affect the core's decisions: their defaults and permitted ranges.

They are part of the effective manifest and its hash (spec/manifest.md, M-40 to M-43), so that nodes
with different local settings compute the same. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Self

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
HOUR_NS: Final = 3600 * 10**9
DAY_NS: Final = 24 * HOUR_NS

_LEFT_OUT: Final = -1
"""The value of a limit that a document leaves out. No limit is negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The range that an author may set, both ends included."""

    low: int
    high: int

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """Base of both kinds of limits: conversion to and from complete documents.

    The limits in ``LATER`` were added after the first documents were written. A document has them
    only if they differ from their default, so that old documents keep their bytes and hash.
    """

    LATER: ClassVar[frozenset[str]] = frozenset()

    def to_document(self) -> dict[str, int]:
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in self.LATER or getattr(self, field.name) != field.default
        }

    @classmethod
    def from_document(cls, document: Mapping[str, int]) -> Self:
        """Inverse of ``to_document``. Raises ValueError unless it has exactly the known fields."""
        field_names = {field.name for field in fields(cls)}
        odd = (field_names - cls.LATER - set(document)) | (set(document) - field_names)
        if odd:
            text = ", ".join(sorted(odd))
            raise ValueError(f"limits must have exactly the known fields; these differ: {text}")
        for field in fields(cls):
            if field.name in cls.LATER and document.get(field.name, _LEFT_OUT) == field.default:
                raise ValueError(f"limits: {field.name} has its default, where it is left out")
        return cls(**document)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits(_Limits):
    """Limits of one step of a workflow."""

    fuel: int = 10**9
    memory_bytes: int = 64 * MIB
    output_bytes: int = MIB
    state_bytes: int = MIB
    effects: int = 64
    events: int = 256
    keys: int | None = None
    """Requested idempotency keys that are remembered for one instance of the workflow; None: as
    many as the world's ``instance_keys``."""

    LATER = frozenset({"keys"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldLimits(_Limits):
    """Limits of a whole world, and of the work that one root cause may start."""

    event_bytes: int = MIB
    cascade_depth: int = 256
    cascade_steps: int = 10_000
    mailbox: int = 100_000
    """Entries that wait in one cell's mailbox."""
    instance_intents: int = 10_000
    """Open intents of one instance."""
    open_intents: int = 1_000_000
    """Open intents of the world."""
    dedup_ns: int = 7 * DAY_NS
    """How long a submission id is remembered, in ns of window time."""
    dedup_step_ns: int | None = None
    """The most ns by which one record advances the window time; None: as far as it advances the
    journal clock, as in documents that were made before this limit was added."""
    dedup_rows: int = 10_000_000
    instance_keys: int = 10_000
    """Requested idempotency keys that are remembered for one instance, unless its workflow sets
    ``keys``."""
    abandoned_intents: int = 100_000
    """Number of intents of faulted instances that are remembered, to answer late receipts."""
    stream_bytes: int = 64 * KIB
    """Payload of one stream frame."""
    stream_rate: int = 100
    """Stream frames of one intent in a second of journal time."""
    stream_frames: int = 100_000
    """Stream frames of one intent in all."""

    LATER = frozenset({"stream_bytes", "stream_rate", "stream_frames", "dedup_step_ns"})


FRESH_WORLD_LIMITS: Final = WorldLimits(dedup_step_ns=HOUR_NS)
"""The limits of a world whose author sets none, in a document that this release makes (M-43a)."""


STEP_RANGES: Final[Mapping[str, Range]] = {
    "fuel": Range(low=1, high=10**12),
    "memory_bytes": Range(low=64 * KIB, high=GIB),
    "output_bytes": Range(low=1, high=16 * MIB),
    "state_bytes": Range(low=1, high=16 * MIB),
    "effects": Range(low=0, high=1024),
    "events": Range(low=0, high=4096),
    "keys": Range(low=1, high=1_000_000),
}

WORLD_RANGES: Final[Mapping[str, Range]] = {
    "event_bytes": Range(low=4 * KIB, high=16 * MIB),
    "cascade_depth": Range(low=1, high=100_000),
    "cascade_steps": Range(low=1, high=10_000_000),
    "mailbox": Range(low=1, high=10_000_000),
    "instance_intents": Range(low=1, high=1_000_000),
    "open_intents": Range(low=1, high=100_000_000),
    "dedup_ns": Range(low=1, high=366 * DAY_NS),
    "dedup_step_ns": Range(low=1, high=366 * DAY_NS),
    "dedup_rows": Range(low=1, high=1_000_000_000),
    "instance_keys": Range(low=1, high=1_000_000),
    "abandoned_intents": Range(low=1, high=100_000_000),
    "stream_bytes": Range(low=0, high=16 * MIB),
    "stream_rate": Range(low=1, high=1_000_000),
    "stream_frames": Range(low=0, high=1_000_000_000),
}

EFFECT_RANGES: Final[Mapping[str, Range]] = {
    "attempts": Range(low=1, high=100),
    "base_ms": Range(low=1, high=3_600_000),
    "cap_ms": Range(low=1, high=86_400_000),
    "timeout_ms": Range(low=1, high=86_400_000),
}
"""Ranges of a defeffect's ``retry`` and ``timeout_ms``, in milliseconds."""
