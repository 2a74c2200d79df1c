"""The manifests that instances of a world may still run under (spec/kernel.md, K-72).

A strict apply requires that nothing is in flight, so every instance continues under the new
manifest. A pinning apply leaves instances under earlier manifests. So each manifest since the last
strict apply is an *era*; the last era is the one in force. A strict apply forgets all earlier eras.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.ports import BlobReader
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.values.digests import Hash

KEPT_MAX: Final = 16
"""Number of manifests kept decoded; others are read again when an instance needs them."""


ManifestOf: TypeAlias = Callable[[bytes], Effective]
"""Reads the document of a manifest: ``judge`` in the journal of another world, which may be forged,
``Effective.from_document`` in that of the own world, which has judged it."""


@dataclass(frozen=True, slots=True)
class Era:
    """A manifest, the record that put it in force, and the workflows whose instances took it at
    their next step although they were in flight (K-75)."""

    seq: int
    manifest: Hash
    in_place: frozenset[str]


class Eras:
    """The eras of a world, the oldest first; none before its first manifest."""

    __slots__ = ("_manifests", "_read", "all", "manifest_of")

    def __init__(
        self,
        eras: tuple[Era, ...] = (),
        read: BlobReader | None = None,
        *,
        manifest_of: ManifestOf = Effective.from_document,
    ) -> None:
        self.all = eras
        self.manifest_of = manifest_of
        self._read = read
        self._manifests: OrderedDict[Hash, Effective] = OrderedDict()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Eras) and self.all == other.all

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def is_one(self) -> bool:
        """Whether all instances run under the manifest in force."""
        return len(self.all) < 2

    def begin(self, era: Era, effective: Effective, read: BlobReader, *, pins: bool) -> None:
        """Put another manifest in force. Unless it ``pins``, forget the earlier eras."""
        self.all = (*self.all, era) if pins else (era,)
        self._read = read
        self._keep(era.manifest, effective)

    def at(self, seq: int) -> Effective:
        """The manifest of the era that record ``seq`` began.

        Raises:
            Damage: It cannot be read.
        """
        hash = next(era.manifest for era in self.all if era.seq == seq)
        effective = self._manifests.get(hash)
        if effective is None:
            if self._read is None:
                raise Damage(
                    f"the manifest of record {seq} cannot be read: no reader of blobs was given"
                )
            effective = self.manifest_of(self._read(hash))
            self._keep(hash, effective)
        return effective

    def _keep(self, hash: Hash, effective: Effective) -> None:
        self._manifests[hash] = effective
        while len(self._manifests) > KEPT_MAX:
            self._manifests.popitem(last=False)


def era_of(seq: int, effective: Effective) -> Era:
    """The era that begins with ``effective``, which record ``seq`` puts in force."""
    in_place = frozenset(
        name for name, workflow in effective.workflows.items() if workflow.upgrade == "in_place"
    )
    return Era(seq, effective.hash, in_place)
