"""The fenced blocks of the specification and the guides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cookbook.worlds import ROOT

SPEC: Final = ROOT / "spec"
_BLOCK: Final = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A block of a page, which is named by its path below ``spec/``."""

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, which names it in the tables of tests."""
        return self.text.partition("\n")[0].strip()

    def __str__(self) -> str:
        return f"{self.page}: {self.first[:60]}"


def pages() -> list[Path]:
    """The pages of the specification and its guides."""
    return sorted([*SPEC.glob("*.md"), *SPEC.glob("guides/*.md")])


def blocks_of(page: str) -> list[CodeBlock]:
    """The blocks of a page, in order, without the indent of a list."""
    return [
        CodeBlock(page, language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, text in _BLOCK.findall((SPEC / page).read_text("utf-8"))
    ]


def all_blocks() -> list[CodeBlock]:
    """The blocks of all pages."""
    return [block for page in pages() for block in blocks_of(str(page.relative_to(SPEC)))]
