"""The shadow report over most records and the patch, for the page of a proposal
(spec/page.md, PG-92)."""

from __future__ import annotations

from typing import Any, Final

from aos.audit.lens.lens import as_json
from aos.audit.views.record_view import Document
from aos.errors import AosError
from aos.node.problems import Problem
from aos.page.page_world import PageWorld, if_readable

PATCH_BYTES_MAX: Final = 64 * 1024
"""A longer patch is not shown; its bytes can be downloaded."""


async def proposal_parts(world: PageWorld, proposal: Document) -> dict[str, object]:
    """Return the ``report`` over most records, or the ``report_problem`` for which it cannot be
    shown, and the ``patch``; each is None if there is none."""
    report = problem = None
    reports = [candidate for candidate in proposal["reports"] if candidate["records"] is not None]
    if reports:
        widest = max(reports, key=lambda candidate: (candidate["records"], candidate["seq"]))
        query = {"proposal": proposal["proposal"], "report": widest["hash"]}
        try:
            report = await world.document("read_proposal", query)
        except (AosError, Problem) as error:
            problem = str(error)
    return {"report": report, "report_problem": problem, "patch": await _patch(world, proposal)}


async def _patch(world: PageWorld, proposal: Document) -> Any:
    if proposal["patch"] is None:
        return None
    data = await if_readable(world.bytes_of(proposal["patch"]))  # it may be erased, or collected
    return None if data is None or len(data) > PATCH_BYTES_MAX else as_json(None, data)
