"""Each world of these tests has both kernels, which must agree in every call (CR-16)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fastcore.paired_kernel import paired


@pytest.fixture(autouse=True)
def _both_kernels() -> Iterator[None]:
    with paired():
        yield
