"""The nonce and key of a world, which its id commits to (J-3)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.core.journal.identity import world_id
from aos.core.journal.records import Fork, Genesis
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldKey:
    """The nonce and the key of a world (J-3)."""

    nonce: bytes
    key: bytes

    @property
    def world(self) -> Hash:
        return world_id(self.nonce, self.key)

    @classmethod
    def of(cls, record: Genesis | Fork) -> WorldKey:
        """The world that begins with ``record``."""
        return cls(nonce=record.nonce, key=record.world_key)
