"""Write a report into a file (spec/cli.md, C-41c)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from aos.audit.report.report_part import ReportDocument
from aos.store.part_file import PartFile


def page_of(report: ReportDocument) -> str:
    """The document itself as JSON."""
    return json.dumps(report, ensure_ascii=True, indent=2) + "\n"


def write_page(target: Path, page: str, *, force: bool) -> None:
    """Write a page; the file under its name is never incomplete.

    Raises:
        Refused: The file exists, and not ``force``.
        Unavailable: It cannot be written.
    """
    with PartFile(target, force=force) as part:
        view = memoryview(page.encode())
        try:
            while view:
                view = view[os.write(part.fd, view) :]
        except OSError as error:
            raise part.failed(error) from error
        part.finish()
