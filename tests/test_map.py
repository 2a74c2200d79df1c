"""ARCHITECTURE.md names every module of the kernel and the command line, each once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOTS = (ROOT / "kernel" / "aos", ROOT / "cli" / "aos_cli")
TEMPLATES = ROOT / "kernel" / "aos" / "authoring" / "templates"
"""Files of the projects that ``aos new`` creates: no modules of ours."""

_HEADING = re.compile(r"### `(?P<folder>[\w/]+)`")
_ROW = re.compile(r"\| `(?P<name>\w+\.py)` \| (?P<phrase>.+) \|")


def section() -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("\n## Every module\n")
    return rest.partition("\n## ")[0]


def rows() -> list[tuple[str, str]]:
    """(path of a module, its phrase) of every row, under the folder of its heading."""
    found: list[tuple[str, str]] = []
    folder = ""
    for line in section().splitlines():
        if heading := _HEADING.fullmatch(line):
            folder = heading["folder"]
        elif row := _ROW.fullmatch(line):
            found.append((f"{folder}/{row['name']}", row["phrase"]))
    return found


def modules() -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for root in ROOTS
        for path in root.rglob("*.py")
        if path.name != "__init__.py" and not path.is_relative_to(TEMPLATES)
    }


def test_every_module_has_one_row_in_the_table_of_its_package() -> None:
    named = Counter(path for path, _ in rows())

    assert sorted(modules() - set(named)) == [], "add a row for each to ARCHITECTURE.md"
    assert sorted(set(named) - modules()) == [], "there is no such module: remove its row"
    assert [path for path, times in named.items() if times > 1] == [], "keep one row of each"


def test_every_folder_has_one_heading() -> None:
    headings = Counter(_HEADING.findall(section()))

    assert set(headings) == {str(Path(path).parent) for path in modules()}
    assert max(headings.values()) == 1


@pytest.mark.parametrize(("path", "phrase"), rows())
def test_a_phrase_is_short(path: str, phrase: str) -> None:
    assert len(phrase) <= 72, f"{path}: {len(phrase)} characters, expected at most 72"


def test_the_map_names_no_file_that_is_not_there() -> None:
    """Paths from the root of the repository, from ``kernel/aos`` or from ``cli``."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").replace(section(), "")
    missing = [
        path
        for named in re.findall(r"`([\w./{},*-]+\.(?:py|md))`", text)
        if "/" in named
        for path in expanded(named)
        if not any(list(base.glob(path)) for base in (ROOT, ROOTS[0], ROOT / "cli"))
    ]

    assert missing == []


def expanded(path: str) -> list[str]:
    """``a/{b,c}.py`` -> ``a/b.py`` and ``a/c.py``."""
    before, brace, rest = path.partition("{")
    if not brace:
        return [path]
    names, _, after = rest.partition("}")
    return [f"{before}{name.strip()}{after}" for name in names.split(",")]
