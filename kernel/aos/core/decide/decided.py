"""The result of every decision of the core: one record, and the blobs that belong to it.

The core decides an input (``admit``, ``settle``, ``control``), a step (``step``) or a receipt of
its own (``owed``). Deciding changes nothing; ``Kernel.append`` applies the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aos.core.journal.records import Record
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A record that follows the state, and the blobs to store with it."""

    record: Record
    """The next record of the journal. Nothing has been folded yet."""

    blobs: Mapping[Hash, bytes]
    """The values that the record names by hash. They become durable with the record's frame."""

    engine_text: str | None = None
    """The engine's own words for a fault, for people. They are in no record, because another
    version of the engine uses other words."""
