"""The chapters about what the world did and has still to do (spec/exports.md, EX-69, EX-70,
EX-73)."""

from __future__ import annotations

from aos.audit.lens.words import span_text, time_text
from aos.audit.report.page_layout import (
    Blocks,
    CheckVerdict,
    Code,
    FactList,
    PageBlock,
    Paragraph,
    TableBlock,
    as_text,
    left_out_of,
)
from aos.audit.report.report_part import ReportDocument
from aos.audit.views.record_view import cell_text
from aos.core.journal.vocabulary import STATUSES


def faults(report: ReportDocument) -> Blocks:
    found = report.get("faults") or {"total": 0, "counts": [], "list": [], "left_out": 0}
    if not found["total"]:
        return [Paragraph("No instance failed.")]
    counts = [as_text([each["workflow"], each["kind"], each["count"]]) for each in found["counts"]]
    rows = [
        as_text(
            [
                each["record"],
                time_text(each["at_ns"]),
                cell_text(each["cell"]),
                each["kind"],
                each["message"],
            ]
        )
        for each in found["list"]
    ]
    missing = left_out_of(found, "aos inspect journal --kind fault")
    return [
        TableBlock(["Workflow", "Fault", "Times"], counts, frozenset({2})),
        TableBlock(["Record", "Time", "Cell", "Fault", "Message"], rows, frozenset({0}), missing),
    ]


def effects(report: ReportDocument) -> Blocks:
    found = report.get("effects") or {"asked": {}, "answers": []}
    if not found["asked"] and not found["answers"]:
        return [Paragraph("No effect was requested.")]
    opened = report["open"].get("intents", {}).get("by_effect", {})
    asked = [
        as_text([effect, number, opened.get(effect, 0)])
        for effect, number in found["asked"].items()
    ]
    columns = [
        "Effect", "Executor", *STATUSES, "Not delivered", "After a retry", "Cost", "Run time",
    ]  # fmt: skip
    rows = [
        as_text(
            [
                each["effect"],
                each["executor"],
                *(each[status] for status in STATUSES),
                each["undelivered"],
                each["retried"],
                f"{each['cost_cents']:,} cents" if each["priced"] else None,
                span_text(each["took_ns"]) if each["took_ns"] else None,
            ]
        )
        for each in found["answers"]
    ]
    return [
        TableBlock(["Effect", "Requested", "Open"], asked, frozenset({1, 2})),
        TableBlock(columns, rows, frozenset(range(2, len(columns)))),
    ]


def attempts(report: ReportDocument) -> Blocks:
    found = report.get("attempts")
    if found is None:
        return []
    facts = [
        ("Attempts begun", f"{found['begun']:,}"),
        ("Lost", f"{found['lost']:,}"),
        ("Held", f"{found['held']:,}"),
        ("Parked", f"{found['parked']:,}"),
    ]
    lost = found["lost_ones"]
    rows = [
        as_text(
            [
                each["record"],
                time_text(each["at_ns"]),
                cell_text(each["cell"]),
                Code(each["intent"]),
                each["attempt"],
                each["problem"],
            ]
        )
        for each in lost["list"]
    ]
    columns = ["Record", "Time", "Cell", "Effect", "Attempt", "Problem"]
    missing = left_out_of(lost, "aos inspect journal --kind attempt")
    table = [TableBlock(columns, rows, frozenset({0, 4}), missing)] if rows else []
    intro = Paragraph(
        "Only effects that may run once, and retries, have attempts in the journal. It is unknown "
        "whether a lost attempt took effect."
    )
    return [intro, FactList(facts), *table]


def open_chapter(report: ReportDocument) -> Blocks:
    found = report["open"]
    if found["problem"] is not None:
        return [CheckVerdict("bad", f"The open work is unknown: {found['problem']}")]
    cells, intents, mail = found["cells"], found["intents"], found["mail"]
    statuses = ("running", "waiting", "completed", "failed", "idle")
    rows = [
        as_text([name, *(numbers[status] for status in statuses)])
        for name, numbers in cells["by_workflow"].items()
    ]
    by_effect = [as_text([name, number]) for name, number in intents["by_effect"].items()]
    oldest = intents["oldest_open_ns"]
    facts = [
        ("Cells", f"{cells['total']:,}"),
        ("Cells with mail to run", f"{cells['ready']:,}"),
        ("Mail queued", f"{mail['queued']:,}"),
        ("Mail behind faults", f"{mail['behind_faults']:,}"),
        ("Open effects", f"{intents['open']:,}"),
        ("Oldest open effect since", "" if oldest is None else time_text(oldest)),
        ("Effects that no cell waits for", f"{intents['abandoned']:,}"),
        ("Receipts that the kernel still owes", f"{found['owed']:,}"),
        ("Open proposals", f"{len(found['proposals']):,}"),
    ]
    blocks: list[PageBlock] = [FactList([each for each in facts if each[1]])]
    if rows:
        columns = ["Workflow", *statuses]
        blocks.append(TableBlock(columns, rows, frozenset(range(1, len(columns)))))
    if by_effect:
        blocks.append(TableBlock(["Effect", "Open"], by_effect, frozenset({1})))
    halted = [
        as_text([e["effect"], e["executor"], e["phase"], e["code"], e["count"]])
        for e in intents["halted"]
    ]
    if halted:
        columns = ["Effect", "Executor", "Phase", "Code", "Effects"]
        blocks.append(TableBlock(columns, halted, frozenset({4})))
    failed = [as_text([e["workflow"], e["kind"], e["count"]]) for e in found["failed"]["by"]]
    if failed:
        columns = ["Failed cells of workflow", "Fault", "Cells"]
        blocks.append(TableBlock(columns, failed, frozenset({2})))
    return blocks
