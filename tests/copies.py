"""Copy a world's folder for a test: a copy must be adopted before it runs (B-60)."""

from __future__ import annotations

import shutil
from pathlib import Path

from aos.host.transfer.adopting import adopt_world


def copied(source: Path, target: Path) -> Path:
    """Copy a world's folder, and adopt the copy: it has a journal of its own from here on."""
    shutil.copytree(source, target)
    adopt_world(target)
    return target
