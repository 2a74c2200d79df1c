"""One browser for the tests of a process, and a page of the shop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.in_browser.chromium import Chromium, browser
from tests.page.in_browser.page_process import served
from tests.page.part_worlds import part_worlds
from tests.page.shop import shop_world


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop_world(tmp_path_factory.mktemp("shop") / "shop")


@pytest.fixture(scope="session")
def kinds_origin(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of the shop and of worlds with what the shop does not have."""
    with served(shop, *part_worlds(tmp_path_factory.mktemp("parts"))) as found:
        yield found


@pytest.fixture(scope="session")
def shop_origin(shop: Path) -> Iterator[str]:
    with served(shop) as found:
        yield found
