"""A cache of its own for a test (spec/sandbox.md, S-52)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind


def use_own_cache(monkeypatch: pytest.MonkeyPatch, folder: Path | None) -> None:
    """Name an empty cache in the environment, or none.

    Neither has the compiled code of the second kernel, and each process that was told to use that
    kernel would compile it for seconds: the environment names the reference, too.
    """
    monkeypatch.setenv("AOS_CACHE_DIR", str(folder or ""))
    monkeypatch.setenv(CORE_VARIABLE, CoreKind.PYTHON.value)
