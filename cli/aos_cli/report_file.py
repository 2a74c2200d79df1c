"""Write a report into a file (spec/cli.md, C-41c)."""

from __future__ import annotations

import json
from pathlib import Path

from aos.prove.report.report_part import ReportDocument
from aos.store.part_file import write_file


def page_of(report: ReportDocument) -> str:
    """The document itself as JSON."""
    return json.dumps(report, ensure_ascii=True, indent=2) + "\n"


def write_page(target: Path, page: str, *, force: bool) -> None:
    """Write a page; the file under its name is never incomplete.

    Raises:
        Refused: The file exists, and not ``force``.
        Unavailable: It cannot be written.
    """
    write_file(target, page.encode(), force=force)
