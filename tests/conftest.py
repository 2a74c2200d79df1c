"""For every test: compiled modules of this run are kept apart from the node's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start inherit it."""
    config.stash[_FOLDER] = Path(tempfile.mkdtemp(prefix="aos-test-modules-"))
    os.environ["AOS_CACHE_DIR"] = str(config.stash[_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)
