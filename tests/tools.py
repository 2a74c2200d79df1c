"""How tests are chosen: a missing tool is skipped loudly, a long form is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, NoReturn

import pytest

TRIES: Final = 4


def missing(what: str) -> NoReturn:
    """Skip, saying what is not tested; with ``AOS_REQUIRE_TOOLS=1`` fail."""
    if os.environ.get("AOS_REQUIRE_TOOLS") == "1":
        pytest.fail(f"AOS_REQUIRE_TOOLS=1, and {what}")
    pytest.skip(f"SKIPPED FOR A MISSING TOOL: {what}")


def long_form() -> bool:
    """Whether tests run whole that otherwise run in part: ``AOS_LONG=1``."""
    return os.environ.get("AOS_LONG") == "1"


def takes_less_than(seconds: float, act: Callable[[], object]) -> bool:
    """Whether an act takes less than so many seconds: one of a few tries, as any single one may
    take longer on a busy machine."""
    for _ in range(TRIES):
        began_s = time.monotonic()
        act()
        if time.monotonic() - began_s < seconds:
            return True
    return False
