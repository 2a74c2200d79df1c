"""The fenced blocks of code of the specification and the guides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.cookbook.worlds import ROOT

SPEC: Final = ROOT / "spec"
BLOCK: Final = re.compile(r"^( *)```(\S*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class CodeBlock(NamedTuple):
    page: str
    line: int
    language: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def code_blocks() -> Iterator[CodeBlock]:
    for path in sorted(SPEC.rglob("*.md")):
        text = path.read_text("utf-8")
        for found in BLOCK.finditer(text):
            margin = len(found[1])
            code = "".join(line[margin:] or "\n" for line in found[3].splitlines(keepends=True))
            line = text.count("\n", 0, found.start()) + 1
            yield CodeBlock(str(path.relative_to(SPEC)), line, found[2], code)


def blocks_of(page: str, language: str) -> list[str]:
    """The blocks of a page in one language, in order."""
    return [each.code for each in code_blocks() if (each.page, each.language) == (page, language)]
