"""Floors are measured as everywhere, but not for as long."""

from __future__ import annotations

import os

import pytest

from aos.fastcore.core_kind import CORE_VARIABLE
from benchmarks import floor


@pytest.fixture(autouse=True)
def kernel_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark chooses the kernel of all processes that it starts; the next test has that of the
    run again."""
    monkeypatch.setenv(CORE_VARIABLE, os.environ[CORE_VARIABLE])


@pytest.fixture(autouse=True)
def few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "GROUPS_MAX", 8)
