"""One world on disk with the puppet's manifest in force, made once and copied for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from tests.copies import copied
from tests.host.puppet import manifest


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "world"
    init_world(path, executors=["shop"])
    with open_writer(path) as writer:
        applied = writer.apply(manifest())
        assert isinstance(applied.answer, Admitted), applied.answer
    return path


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "world")
