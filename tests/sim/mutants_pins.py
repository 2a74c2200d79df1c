"""Bugs in which instances run under another manifest than their own (K-70 to K-75)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from aos.core.decide import admit, fits, quiescence, step
from aos.core.snapshot import take as snapshot
from aos.core.state import eras, fold, version
from aos.core.state.eras import Era, Eras
from aos.manifest.effective import Effective
from aos.values.schema import Schema

Patch = pytest.MonkeyPatch


def _nothing_pinned(patch: Patch) -> None:
    for module in (version, fold, quiescence):
        patch.setattr(module, "stays", lambda *_: False)


def _never_left_behind(patch: Patch) -> None:
    for module in (admit, step):
        patch.setattr(module, "kept_of", lambda *_: ())


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
    patch.setattr(snapshot, "_options", lambda _: [])


def _nothing_filled_in(patch: Patch) -> None:
    for name in ("completed", "as_received"):
        patch.setattr(step, name, lambda _, data: data)


def _nothing_left_out(patch: Patch) -> None:
    patch.setattr(step, "as_received", fits.completed)


def _refused_for_a_null(patch: Patch) -> None:
    patch.setattr(Schema, "fitted", Schema.completed)


MUTANTS: Final[Sequence[tuple[str, Callable[[Patch], None]]]] = (
    ("an instance in flight is never pinned", _nothing_pinned),
    ("a finished instance runs under a manifest that its state does not fit", _never_left_behind),
    ("a pin forgets earlier manifests", _one_era),
    ("no workflow is upgraded in place", _never_in_place),
    ("a module gets states and events without new fields", _nothing_filled_in),
    ("a module gets null for new fields that its schema lacks", _nothing_left_out),
    ("an event is refused for new fields that are null", _refused_for_a_null),
    ("a snapshot forgets pinned instances", _lost_in_a_snapshot),
)
