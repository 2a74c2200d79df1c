"""The folder ``manifests/gateway``: a checkout has it above this package, a wheel in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aos_cli.demo.files import find_folder

SHIPPED: Final = Path("shipped", "manifests", "gateway")


def gateway_folder(names: Sequence[str]) -> Path:
    """Find the folder that has all files of ``names``. Raises Unavailable as ``find_folder``."""
    package = Path(__file__).resolve().parent
    return find_folder((package.parent, package / SHIPPED), names)
