"""A real node for tests: anvil, through ``chain.py``. Without anvil, these tests are skipped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from anvil import AnvilMissing, find_anvil
from chain import Chain, Settings

from tests.gateway import GATEWAY
from tests.tools import missing

INSTANT = Settings(block_time=None, automine=True, has_arweave=False)
"""A block for every transaction, and none without."""

MANUAL = Settings(block_time=None, has_arweave=False)
"""Blocks only when the test mines them."""


def chain_up(folder: Path, settings: Settings = INSTANT) -> Chain:
    """Start a chain, or skip the test for want of anvil."""
    require_anvil()
    return Chain.up(folder, settings)


def require_anvil() -> Path:
    try:
        return find_anvil()
    except AnvilMissing as problem:
        missing(f"no transaction is sent to a real node: {problem}")


def require_solc() -> None:
    if shutil.which("node") is None or not (GATEWAY / "tools/node_modules/solc").is_dir():
        missing("the contract is not compiled again: run `make gateway-tools` (needs Node.js)")


def environment(**changes: str) -> dict[str, str]:
    """The environment of a program that a test starts."""
    return {**os.environ, **changes}
