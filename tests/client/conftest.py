"""The saga's world of the cookbook, made once and copied for each test, and a process that runs
it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.shell import in_silence, start
from tests.cookbook.worlds import executors, recipe
from tests.copies import copied


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trips") / "world"
    assert in_silence("init", path) == 0
    assert in_silence("apply", recipe("saga"), "--world", path) == 0
    return path


@pytest.fixture
def trips(template: Path, tmp_path: Path) -> Path:
    """A world that books trips. No process runs it."""
    return copied(template, tmp_path / "trips")


def start_trips(world: Path, *flags: str) -> subprocess.Popen[bytes]:
    """Start a process that runs the world with its executors. Ending it is up to the caller."""
    return start(
        "run", "--executors", executors("saga", "agencies"), *flags, "--world", world,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@contextmanager
def running_trips(world: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs the world. It may not listen yet, and is killed at the end."""
    process = start_trips(world)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
