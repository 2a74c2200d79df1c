"""For every test: compiled modules of this run are kept apart from the node's own, and a test that
hangs ends its process with the stacks of all threads instead of holding up the run."""

from __future__ import annotations

import faulthandler
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import long_form

HANGS_S = 900.0 if long_form() else 300.0
"""Some ten times what the slowest test takes beside others."""

STDERR = 2
"""As a number: what stands under its name while a test runs has none."""

RUST_STD = Path(__file__).parents[1] / "modules" / "target" / "rust-std"

_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start inherit it."""
    config.stash[_FOLDER] = Path(tempfile.mkdtemp(prefix="aos-test-modules-"))
    # Rust's library for WASM, where it has to be built, is built once for all processes and runs.
    RUST_STD.mkdir(parents=True, exist_ok=True)
    (config.stash[_FOLDER] / "rust-std").symlink_to(RUST_STD)
    os.environ["AOS_CACHE_DIR"] = str(config.stash[_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    faulthandler.dump_traceback_later(HANGS_S, exit=True, file=STDERR)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
