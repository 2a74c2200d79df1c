"""The command line in this process, as the tests of the commands have it, and toolchains."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.author.project import Project
from aos.author.toolchain import Console
from tests.author import fakes
from tests.cli.conftest import aos, plain

__all__ = ["aos", "plain"]


@pytest.fixture
def said() -> list[str]:
    """The lines that a build prints."""
    return []


@pytest.fixture
def console(said: list[str]) -> Console:
    return Console(report=said.append)


@pytest.fixture
def rust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolchain that has the target, and nothing else on the PATH."""
    folder = fakes.toolchain(tmp_path / "rust")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, rust: Path) -> Project:  # it is built with that
    return fakes.project(tmp_path / "shop")
