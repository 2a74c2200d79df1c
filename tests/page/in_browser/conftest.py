"""One browser for the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.in_browser.chromium import Chromium, browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    with browser() as found:
        yield found
