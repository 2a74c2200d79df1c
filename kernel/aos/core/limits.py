"""How much the core lists, holds in memory and writes at a time, in one frozen value.

No world can choose them: each one runs with ``LIMITS``. Tests pass smaller ones to the ``State``
that they make, so that a few cells reach a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of the core that no manifest sets.

    ``deliveries``, ``chunk``, ``page_bytes`` and ``page_items`` determine bytes that are hashed: a
    fault and its message, and the documents of snapshots. They keep these values in every world, as
    a journal that was written under other values would not replay. The others change no byte of a
    journal.
    """

    deliveries: int = 16_384
    """Mailboxes that one event, or all events of one step, may reach."""

    blockers: int = 1000
    """Reasons that the refusal of a manifest lists; a world may have a million."""

    delta_bytes: int = 64 * 1024 * 1024
    """Bytes of states that the deltas keep in memory. Above this, the oldest states move to the
    blob store until half of the bound is left. Their cells stay as dirty as they were."""

    spill_bytes: int = 512 * 1024
    """The most that one frame spills, because its senders wait until it is durable. A frame that
    packs more than this spills as much as it packs, so that the deltas do not grow."""

    slice_cells: int = 4096
    """Cells of a migration that go into the index of their workflow together."""

    kept_bytes: int = 4 * 1024 * 1024
    """Bytes of a migration's blobs that are in memory before the host makes them durable."""

    chunk: int = 4096
    """Sequences of one chunk of the dedup window: its events, with ids of 36 bytes, take some
    400 KB at most."""

    chunks_held: int = 8
    """Chunks of the dedup window that stay in memory once they were read."""

    page_bytes: int = 64 * 1024
    """A page of a snapshot's open work ends with the item that reaches this size."""

    page_items: int = 1024
    """A page of a snapshot's open work has at most so many items."""

    snapshot_format: int = 2
    """The format of the snapshots that are taken where no journal names another, and of the layers
    of a world without a snapshot. With 2, cells that only wait may leave memory (SN-14)."""


LIMITS: Final = Limits()
