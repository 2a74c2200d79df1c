"""Every replay of these tests is decided again by each kernel."""

from __future__ import annotations

import pytest

from aos.prove.replay.replay import replay
from tests.fastcore.owned_kernel import OPENERS


@pytest.fixture(autouse=True, params=OPENERS)
def _core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert replay.__kwdefaults__ is not None
    monkeypatch.setitem(replay.__kwdefaults__, "opens", OPENERS[request.param])
