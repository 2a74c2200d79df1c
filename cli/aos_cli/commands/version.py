"""``aos version``: like ``aos --version`` (spec/cli.md, C-47)."""

from __future__ import annotations

import aos
from aos_cli.output import line


def version() -> None:
    line(f"aos {aos.__version__}")
