"""A report as one HTML file without script (spec/exports.md, EX-75, EX-76)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
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

_STYLE: Final = """
:root{color-scheme:light dark;--page:#fff;--text:#1c2024;--quiet:#5b6470;--line:#d9dee4;
--band:#f5f7f9;--good:#0a6b3d;--bad:#b3261e;--link:#0b5cad}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--text:#e6e9ec;--quiet:#a0a9b3;
--line:#343a41;--band:#1c2126;--good:#6fd39b;--bad:#ff8a80;--link:#8ab8f0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
main{max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.15rem;margin:2.25rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
p{margin:.5rem 0}
a{color:var(--link)}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;padding:0;margin:.5rem 0}
code{font:.875em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
time{white-space:nowrap}
.verdict{padding:.5rem .75rem;border-left:4px solid var(--quiet);background:var(--band)}
.verdict.good{border-color:var(--good);color:var(--good)}
.verdict.bad{border-color:var(--bad);color:var(--bad)}
dl{display:grid;grid-template-columns:minmax(9rem,16rem) minmax(0,1fr);gap:.25rem 1rem;
margin:.75rem 0}
dt{color:var(--quiet)}
dd{margin:0}
figure{margin:.75rem 0}
figcaption,caption{text-align:left;color:var(--quiet)}
details{margin:.75rem 0}
summary{color:var(--quiet);cursor:pointer}
figure ul,details ul{margin:.25rem 0;padding-left:1.25rem}
table{border-collapse:collapse;max-width:100%;margin:.75rem 0;font-size:.9375rem}
th,td{text-align:left;vertical-align:top;padding:.3rem 1.25rem .3rem 0;
border-bottom:1px solid var(--line)}
th{color:var(--quiet);font-weight:600;overflow-wrap:break-word}
.number{text-align:right;font-variant-numeric:tabular-nums;overflow-wrap:normal}
.more{color:var(--quiet)}
@media (max-width:48rem){
table{width:100%}
dl{display:block}
dd{margin:0 0 .5rem}
table,tbody,tr,td{display:block}
thead{display:none}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td{border:0;padding:.1rem 0}
td:empty{display:none}
td::before{content:attr(data-label) ": ";color:var(--quiet)}
.number{text-align:left}}
@media print{nav{display:none}main{max-width:none}}
"""

UNFOLDED_MAX: Final = 12
"""The longest list that is shown without a click, unless it is important."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
"""A time, which is not folded."""

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def html_page(report: ReportDocument) -> str:
    """Return the page. It loads nothing and runs nothing."""
    title = _text(title_of(report))
    page_chapters = chapters(report)
    links = "".join(
        f'<li><a href="#{chapter.name}">{_text(chapter.title)}</a></li>'
        for chapter in page_chapters
    )
    body = "\n".join(_chapter(chapter) for chapter in page_chapters)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n<nav><ul>{links}</ul></nav>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _chapter(chapter: Chapter) -> str:
    blocks = "\n".join(_block(block) for block in chapter.blocks)
    return f'<section id="{chapter.name}">\n<h2>{_text(chapter.title)}</h2>\n{blocks}\n</section>'


def _block(block: PageBlock) -> str:
    match block:
        case CheckVerdict(tone, text):
            return f'<p class="verdict {tone}">{_text(text)}</p>'
        case Paragraph(text):
            return f"<p>{_text(text)}</p>"
        case FactList(facts):
            rows = "".join(f"<dt>{_text(n)}</dt><dd>{_inline(v)}</dd>\n" for n, v in facts)
            return f"<dl>\n{rows}</dl>"
        case TextList():
            return _list(block)
        case TableBlock():
            return _table(block)
        case _:
            assert_never(block)


def _list(block: TextList) -> str:
    """A list; a long one is folded up, which needs no script."""
    items = "".join(f"<li>{_inline(line)}</li>\n" for line in block.lines)
    caption = _text(block.caption)
    if len(block.lines) > UNFOLDED_MAX and not block.is_important:
        caption = f"{caption} ({len(block.lines):,})"
        return f"<details><summary>{caption}</summary>\n<ul>\n{items}</ul></details>"
    return f"<figure><figcaption>{caption}</figcaption>\n<ul>\n{items}</ul></figure>"


def _table(table: TableBlock) -> str:
    heads = "".join(
        f'<th scope="col"{_class(table, column)}>{_text(name)}</th>'
        for column, name in enumerate(table.columns)
    )
    rows = "\n".join(_row(table, row) for row in table.rows)
    note = "" if table.left_out is None else f'\n<p class="more">{_text(table.left_out)}</p>'
    return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>{note}"


def _row(table: TableBlock, row: Sequence[str]) -> str:
    cells = "".join(
        f'<td data-label="{_text(table.columns[column])}"{_class(table, column)}>'
        f"{_inline(text)}</td>"
        for column, text in enumerate(row)
    )
    return f"<tr>{cells}</tr>"


def _class(table: TableBlock, column: int) -> str:
    return ' class="number"' if column in table.numbers else ""


def _inline(text: str) -> str:
    escaped = _text(text)
    if isinstance(text, Code) and text:
        return f"<code>{escaped}</code>"
    return f"<time>{escaped}</time>" if _TIME.fullmatch(text) else escaped


def _text(text: str) -> str:
    """Escape text for an element or for an attribute in quotes (EX-76)."""
    return escape(visible(text), quote=True)
