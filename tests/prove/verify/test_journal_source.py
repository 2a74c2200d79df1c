"""A journal that is read whole (spec/audit.md, A-86; spec/exports.md, EX-61)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aos.errors import Damage
from aos.prove.verify.journal_source import source_of_store
from tests.host.rig import new_store


def test_a_journal_without_its_frames_is_damage() -> None:
    source = replace(source_of_store(new_store()), frames=lambda _first, _last: iter(()))

    with pytest.raises(Damage, match="the journal has no frame"):
        source.last_state()
