"""A report's document -> the chapters of its page (spec/exports.md, EX-74).

Everything that a page says is in the document: the chapters only choose words and an order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aos.prove.report import authority_chapters as authority
from aos.prove.report import check_chapters as check
from aos.prove.report import work_chapters as work
from aos.prove.report.page_layout import (
    Blocks,
    Chapter,
)
from aos.prove.report.report_part import ReportDocument


def chapters(report: ReportDocument) -> list[Chapter]:
    """Return all chapters of a report. One about something that the world has never had says so."""
    return [Chapter(name, title, make(report)) for name, title, make in CHAPTERS]


def title_of(report: ReportDocument) -> str:
    """Return the page's title."""
    return f"Audit of world {(report['world'] or 'unknown').removeprefix('blake3:')[:16]}"


CHAPTERS: Final[tuple[tuple[str, str, Callable[[ReportDocument], Blocks]], ...]] = (
    ("summary", "Result", check.summary),
    ("identity", "Identity and keys", check.identity),
    ("horizon", "Horizon and anchors", check.horizon),
    ("checks", "Checks", check.checks),
    ("manifests", "Manifests and authority", authority.manifests),
    ("governance", "Governance", authority.governance),
    ("executors", "Executors and their keys", authority.executors),
    ("commands", "Commands of operators", authority.commands),
    ("faults", "Faults", work.faults),
    ("effects", "Effects", work.effects),
    ("attempts", "Attempts", work.attempts),
    ("erased", "Erased values", authority.erased),
    ("open", "Open work", work.open_chapter),
)
"""The chapters in their order. A new section of a report is listed here."""
