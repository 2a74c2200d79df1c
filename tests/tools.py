"""How tests are chosen: a missing tool is skipped loudly, a long form is asked for."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip, saying what is not tested; with ``AOS_REQUIRE_TOOLS=1`` fail."""
    if os.environ.get("AOS_REQUIRE_TOOLS") == "1":
        pytest.fail(f"AOS_REQUIRE_TOOLS=1, and {what}")
    pytest.skip(f"SKIPPED FOR A MISSING TOOL: {what}")


def long_form() -> bool:
    """Whether tests run whole that otherwise run in part: ``AOS_LONG=1``."""
    return os.environ.get("AOS_LONG") == "1"
