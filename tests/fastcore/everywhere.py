"""A pytest plugin: the fast core follows all kernels and restarts of any tests.

pytest -p tests.fastcore.everywhere tests/core tests/flow
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fastcore.deciding import deciding
from tests.fastcore.lockstep import followed


@pytest.fixture(autouse=True)
def _in_lockstep() -> Iterator[None]:
    with deciding(), followed():
        yield
