"""ARCHITECTURE.md is short, and the paths that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BYTES_MAX = 12_000
BASES = (ROOT, ROOT / "kernel" / "aos", ROOT / "cli")


def test_the_map_is_at_most_12_kilobytes() -> None:
    """Details belong to the page of spec/ about the thing, or to a docstring."""
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= BYTES_MAX


def test_the_map_names_no_file_that_is_not_there() -> None:
    """Paths from the root of the repository, from ``kernel/aos`` or from ``cli``."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = [
        path
        for named in re.findall(r"`([\w./{},*-]+(?:\.(?:py|md)|/))`", text)
        if "/" in named
        for path in expanded(named)
        if not any(list(base.glob(path)) for base in BASES)
    ]

    assert missing == []


def expanded(path: str) -> list[str]:
    """``a/{b,c}.py`` -> ``a/b.py`` and ``a/c.py``."""
    before, brace, rest = path.partition("{")
    if not brace:
        return [path]
    names, _, after = rest.partition("}")
    return [f"{before}{name.strip()}{after}" for name in names.split(",")]
