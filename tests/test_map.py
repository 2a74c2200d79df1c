"""README.md and ARCHITECTURE.md are short, and the paths that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BYTES_MAX = 12_000
WORDS_MAX = 1_200
BASES = (ROOT, ROOT / "kernel" / "aos", ROOT / "cli")


def test_the_map_is_at_most_12_kilobytes() -> None:
    """Details belong to the page of spec/ about the thing, or to a docstring."""
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= BYTES_MAX


def test_the_readme_has_at_most_1200_words() -> None:
    """``aos --help`` lists the commands, and the guides are in spec/guides."""
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= WORDS_MAX


def test_every_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)

    assert [link for link in links if not (ROOT / link).exists()] == []


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
