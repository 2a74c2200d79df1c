"""A test that lacks a tool is skipped loudly, or fails where all tools must be there (CI)."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip, saying what is not tested; with ``AOS_REQUIRE_TOOLS=1`` fail."""
    if os.environ.get("AOS_REQUIRE_TOOLS") == "1":
        pytest.fail(f"AOS_REQUIRE_TOOLS=1, and {what}")
    pytest.skip(f"SKIPPED FOR A MISSING TOOL: {what}")
