"""Floors are measured as everywhere, but not for as long."""

from __future__ import annotations

import pytest

from benchmarks import floor


@pytest.fixture(autouse=True)
def few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "GROUPS_MAX", 8)
