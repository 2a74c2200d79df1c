"""The facts known at the current record while a journal is checked, and the list of findings.

One ``Checking`` is shared by all parts of a pass over the records: ``contents``, ``open_work`` and
``recorded_values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aos.core.journal.records import Fork, Genesis
from aos.core.journal.signing import Executors, is_signed
from aos.manifest.effective import Effective
from aos.prove.verify.findings import FindingKind
from aos.values.digests import Hash

SIGNATURES_KEPT: Final = 256
"""How many results of signature checks are cached: the receipts of a batch share one signature."""

Add = Callable[[FindingKind, str], None]
"""Adds a finding about the current record."""


@dataclass(slots=True)
class Counts:
    records: int = 0
    events: int = 0
    receipts: int = 0
    kernel_receipts: int = 0
    streams: int = 0
    attempts: int = 0
    controls: int = 0
    manifests: int = 0
    steps: int = 0
    faults: int = 0
    intents: int = 0
    signatures: int = 0
    blob_bytes: int = 0
    modules: int = 0
    values: int = 0
    erased: int = 0
    stamps_behind: int = 0


@dataclass(slots=True)
class Checking:
    """The facts known at the current record. ``add`` reports a finding about it; ``later`` returns
    an ``Add`` that still reports on this record when others are checked.

    ``genesis`` is the record that this world begins with: its genesis, or the last fork.
    ``revoked`` holds all keys that the manifests so far have revoked, ``manifests`` the manifests
    by the record that put each in force. ``clock_ns`` is the journal clock.
    """

    world: Hash
    add: Add
    later: Callable[[], Add]
    counts: Counts = field(default_factory=Counts)
    genesis: Genesis | Fork | None = None
    effective: Effective | None = None
    manifests: dict[int, Effective] = field(default_factory=dict)
    revoked: frozenset[bytes] = frozenset()
    clock_ns: int = 0
    _is_signed: Callable[[bytes, bytes, bytes], bool] = field(
        default_factory=lambda: lru_cache(SIGNATURES_KEPT)(is_signed)
    )

    @property
    def executors(self) -> Executors:
        """Return the executors of the manifest in force."""
        return self.effective.executors if self.effective else None

    def signature(self, message: bytes, signature: bytes, key: bytes, signer: str) -> None:
        """Count a signature, and report it if it is not ``key``'s over ``message``."""
        self.counts.signatures += 1
        if not self._is_signed(message, signature, key):
            self.add(FindingKind.SIGNATURE_WRONG, f"the signature is not {signer}")

    def signature_of_one(
        self, message: bytes, signature: bytes, keys: Iterable[bytes], signer: str
    ) -> bool:
        """Count a signature that one of several keys may have made; report it if none has, and
        return whether one has."""
        self.counts.signatures += 1
        if any(self._is_signed(message, signature, key) for key in keys):
            return True
        self.add(FindingKind.SIGNATURE_WRONG, f"the signature is not {signer}")
        return False
