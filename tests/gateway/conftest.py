"""One site for all tests of a process: starting its node, stub and first world takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.matrix.site import Site
from tests.gateway.real_chain import require_anvil


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require_anvil()
    with Site(tmp_path_factory.mktemp("site"), Path(os.environ["AOS_CACHE_DIR"])) as site:
        yield site
