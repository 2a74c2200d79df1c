"""A pytest plugin: the second kernel follows all kernels and restarts of any tests.

pytest -p tests.fastcore.everywhere tests/core tests/flow
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.fastcore.deciding import deciding
from tests.fastcore.lockstep import followed

ALONE: Final = {
    "test_a_patch_that_people_read_and_that_leads_elsewhere_is_found",
    "test_a_shadow_tells_what_version_2_would_have_done",
    "test_a_record_that_cannot_be_written_is_not_folded",
}
"""Tests that write into the reference's state, which no record does, or whose input has text that
no record can hold, for which the kernels have other exceptions (spec/core.md, CR-19a)."""


@pytest.fixture(autouse=True)
def _in_lockstep(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.function.__name__ in ALONE:
        yield
        return
    with deciding(), followed():
        yield
