"""Bugs in which instances run under another manifest than their own (K-70 to K-75)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from aos.core.decide import quiescence
from aos.core.snapshot import take as snapshot
from aos.core.state import eras, fold, version
from aos.core.state.eras import Era, Eras
from aos.manifest.effective import Effective

Patch = pytest.MonkeyPatch


def _nobody_pinned(patch: Patch) -> None:
    for module in (version, fold, quiescence):
        patch.setattr(module, "stays", lambda *_: False)


def _one_era(patch: Patch) -> None:
    real = Eras.begin

    def begin(self: Eras, era: Era, effective: Effective, read: Any, *, pins: bool) -> None:
        real(self, era, effective, read, pins=pins and len(self.all) < 1)

    patch.setattr(Eras, "begin", begin)


def _never_in_place(patch: Patch) -> None:
    real = eras.era_of
    patch.setattr(
        fold, "era_of", lambda seq, manifest: Era(seq, real(seq, manifest).manifest, frozenset())
    )


def _lost_in_a_snapshot(patch: Patch) -> None:
    patch.setattr(snapshot, "_more", lambda _: [])


MUTANTS: Final[Sequence[tuple[str, Callable[[Patch], None]]]] = (
    ("what is in flight takes any manifest", _nobody_pinned),
    ("a pin forgets the manifests before", _one_era),
    ("nobody is upgraded in place", _never_in_place),
    ("a snapshot forgets who is pinned", _lost_in_a_snapshot),
)
