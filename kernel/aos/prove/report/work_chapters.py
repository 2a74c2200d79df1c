"""The chapters about what the world did and has still to do (spec/exports.md, EX-69, EX-70,
EX-73)."""

from __future__ import annotations

from typing import Final

from aos.core.journal.vocabulary import STATUSES
from aos.prove.report.page_layout import (
    RECORD,
    TIME,
    Blocks,
    CheckVerdict,
    Column,
    FactList,
    PageBlock,
    Paragraph,
    code,
    counted,
    left_out_of,
    number,
    table,
    table_if_any,
)
from aos.prove.report.report_part import ReportDocument
from aos.read.lens.words import span_text, time_text
from aos.read.views.record_view import cell_text

CELL: Final = Column("Cell", lambda entry: cell_text(entry["cell"]))


def faults(report: ReportDocument) -> Blocks:
    part = report.get("faults") or {"total": 0, "counts": [], "list": [], "left_out": 0}
    if not part["total"]:
        return [Paragraph("No instance failed.")]
    missing = left_out_of(part, "aos inspect journal --kind fault")
    fault = Column("Fault", "kind")
    return [
        table([Column("Workflow", "workflow"), fault, number("Times", "count")], part["counts"]),
        table([RECORD, TIME, CELL, fault, Column("Message", "message")], part["list"], missing),
    ]


def effects(report: ReportDocument) -> Blocks:
    part = report.get("effects") or {"asked": {}, "answers": []}
    if not part["asked"] and not part["answers"]:
        return [Paragraph("No effect was requested.")]
    open_counts = report["open"].get("intents", {}).get("by_effect", {})
    requests = [
        {"effect": effect, "total": total, "open": open_counts.get(effect, 0)}
        for effect, total in part["asked"].items()
    ]
    effect = Column("Effect", "effect")
    return [
        table([effect, number("Requested", "total"), number("Open", "open")], requests),
        table([effect, *_ANSWERS], part["answers"]),
    ]


_ANSWERS: Final = (
    Column("Executor", "executor"),
    *(number(status, status) for status in STATUSES),
    number("Not delivered", "undelivered"),
    number("After a retry", "retried"),
    Column(
        "Cost",
        lambda answer: f"{answer['cost_cents']:,} cents" if answer["priced"] else None,
        is_number=True,
    ),
    Column(
        "Run time",
        lambda answer: span_text(answer["took_ns"]) if answer["took_ns"] else None,
        is_number=True,
    ),
)


def attempts(report: ReportDocument) -> Blocks:
    part = report.get("attempts")
    if part is None:
        return []
    facts = [
        ("Attempts begun", f"{part['begun']:,}"),
        ("Lost", f"{part['lost']:,}"),
        ("Held", f"{part['held']:,}"),
        ("Parked", f"{part['parked']:,}"),
    ]
    lost = part["lost_ones"]
    columns = [
        RECORD, TIME, CELL, code("Effect", "intent"), number("Attempt", "attempt"),
        Column("Problem", "problem"),
    ]  # fmt: skip
    missing = left_out_of(lost, "aos inspect journal --kind attempt")
    intro = Paragraph(
        "Only effects that may run once, and retries, have attempts in the journal. It is unknown "
        "whether a lost attempt took effect."
    )
    return [intro, FactList(facts), *table_if_any(columns, lost["list"], missing)]


def open_chapter(report: ReportDocument) -> Blocks:
    part = report["open"]
    if part["problem"] is not None:
        return [CheckVerdict("bad", f"The open work is unknown: {part['problem']}")]
    cells, intents, mail = part["cells"], part["intents"], part["mail"]
    statuses = ("running", "waiting", "completed", "failed", "idle")
    by_workflow = [{"workflow": name, **numbers} for name, numbers in cells["by_workflow"].items()]
    oldest = intents["oldest_open_ns"]
    facts = [
        ("Cells", f"{cells['total']:,}"),
        ("Cells with mail to run", f"{cells['ready']:,}"),
        ("Mail queued", f"{mail['queued']:,}"),
        ("Mail behind faults", f"{mail['behind_faults']:,}"),
        ("Open effects", f"{intents['open']:,}"),
        ("Oldest open effect since", "" if oldest is None else time_text(oldest)),
        ("Effects that no cell waits for", f"{intents['abandoned']:,}"),
        ("Receipts that the kernel still owes", f"{part['owed']:,}"),
        ("Open proposals", f"{len(part['proposals']):,}"),
    ]
    blocks: list[PageBlock] = [FactList([fact for fact in facts if fact[1]])]
    columns = [Column("Workflow", "workflow"), *(number(status, status) for status in statuses)]
    blocks += table_if_any(columns, by_workflow)
    if intents["by_effect"]:
        blocks.append(counted("Effect", "Open", intents["by_effect"]))
    columns = [
        Column("Effect", "effect"), Column("Executor", "executor"), Column("Phase", "phase"),
        Column("Code", "code"), number("Effects", "count"),
    ]  # fmt: skip
    blocks += table_if_any(columns, intents["halted"])
    columns = [
        Column("Failed cells of workflow", "workflow"), Column("Fault", "kind"),
        number("Cells", "count"),
    ]  # fmt: skip
    return blocks + table_if_any(columns, part["failed"]["by"])
