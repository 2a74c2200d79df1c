"""A report as Markdown (spec/exports.md, EX-75, EX-76)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, assert_never

from aos.prove.report.chapters import chapters, title_of
from aos.prove.report.page_layout import (
    Chapter,
    CheckVerdict,
    Code,
    FactList,
    PageBlock,
    Paragraph,
    TableBlock,
    TextList,
    visible,
)
from aos.prove.report.report_part import ReportDocument

_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>|~&!#]")
"""Characters that could begin markup in a line of text."""

_LINK: Final = re.compile(r"(?i):(?=//)|www\.|mailto:|xmpp:|@")
"""Text around which some readers make a link although nothing marks one."""


def markdown_page(report: ReportDocument) -> str:
    """Return the page as CommonMark with tables."""
    parts = [f"# {_text(title_of(report))}", *(_chapter(chapter) for chapter in chapters(report))]
    return "\n\n".join(parts) + "\n"


def _chapter(chapter: Chapter) -> str:
    return "\n\n".join([f"## {_text(chapter.title)}", *(_block(block) for block in chapter.blocks)])


def _block(block: PageBlock) -> str:
    match block:
        case CheckVerdict(_, text):
            return f"**{_text(text)}**"
        case Paragraph(text):
            return _text(text)
        case FactList(facts):
            return "\n".join(f"- {_text(name)}: {_inline(value)}" for name, value in facts)
        case TextList(caption, lines):
            return "\n".join([f"{_text(caption)}:\n", *(f"- {_inline(line)}" for line in lines)])
        case TableBlock():
            return _table(block)
        case _:
            assert_never(block)


def _table(table: TableBlock) -> str:
    rule = ["---:" if column in table.numbers else "---" for column in range(len(table.columns))]
    lines = [
        _row([_text(heading) for heading in table.columns]),
        _row(rule),
        *(_row([_inline(text) for text in row]) for row in table.rows),
    ]
    note = "" if table.left_out is None else f"\n\n{_text(table.left_out)}"
    return "\n".join(lines) + note


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inline(text: str) -> str:
    """Return a value. Code, and text that could become a link, goes between backticks."""
    if not text:
        return ""
    visible_text = visible(text)
    if isinstance(text, Code) or _LINK.search(visible_text):
        return _code(visible_text)
    return _text(text)


def _code(text: str) -> str:
    """A code span. Its fence is longer than every run of backticks in it; a table takes ``|`` for
    the end of a cell even there."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or text.startswith(" ") else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")


def _text(text: str) -> str:
    """Text with every sign of markup escaped."""
    escaped = _SPECIAL.sub(lambda match: f"\\{match[0]}", visible(text))
    escaped = _LINK.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", escaped)
    # At the beginning of a line, these would begin a list or underline a heading.
    return re.sub(r"^(\d{0,9}(?=[.)])|(?=[-+=]))(.)", r"\1\\\2", escaped.strip())
