"""A copy of a world that runs: what a test says of it is what ``aos adopt`` asks for (B-60)."""

from __future__ import annotations

import shutil
from pathlib import Path

from aos.host.transfer.adopting import adopt_world


def copied(source: Path, target: Path) -> Path:
    """Copy a world's folder, and adopt the copy: it has a journal of its own from here on."""
    shutil.copytree(source, target)
    adopt_world(target)
    return target
