"""The chapters about what the world did and has still to do (spec/exports.md, EX-69, EX-70,
EX-73)."""

from __future__ import annotations

from aos.core.journal.vocabulary import STATUSES
from aos.prove.report.page_layout import (
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
from aos.prove.report.report_part import ReportDocument
from aos.read.lens.words import span_text, time_text
from aos.read.views.record_view import cell_text


def faults(report: ReportDocument) -> Blocks:
    part = report.get("faults") or {"total": 0, "counts": [], "list": [], "left_out": 0}
    if not part["total"]:
        return [Paragraph("No instance failed.")]
    counts = [
        as_text([entry["workflow"], entry["kind"], entry["count"]]) for entry in part["counts"]
    ]
    rows = [
        as_text(
            [
                fault["record"],
                time_text(fault["at_ns"]),
                cell_text(fault["cell"]),
                fault["kind"],
                fault["message"],
            ]
        )
        for fault in part["list"]
    ]
    missing = left_out_of(part, "aos inspect journal --kind fault")
    return [
        TableBlock(["Workflow", "Fault", "Times"], counts, frozenset({2})),
        TableBlock(["Record", "Time", "Cell", "Fault", "Message"], rows, frozenset({0}), missing),
    ]


def effects(report: ReportDocument) -> Blocks:
    part = report.get("effects") or {"asked": {}, "answers": []}
    if not part["asked"] and not part["answers"]:
        return [Paragraph("No effect was requested.")]
    open_counts = report["open"].get("intents", {}).get("by_effect", {})
    requests = [
        as_text([effect, number, open_counts.get(effect, 0)])
        for effect, number in part["asked"].items()
    ]
    columns = [
        "Effect", "Executor", *STATUSES, "Not delivered", "After a retry", "Cost", "Run time",
    ]  # fmt: skip
    rows = [
        as_text(
            [
                answer["effect"],
                answer["executor"],
                *(answer[status] for status in STATUSES),
                answer["undelivered"],
                answer["retried"],
                f"{answer['cost_cents']:,} cents" if answer["priced"] else None,
                span_text(answer["took_ns"]) if answer["took_ns"] else None,
            ]
        )
        for answer in part["answers"]
    ]
    return [
        TableBlock(["Effect", "Requested", "Open"], requests, frozenset({1, 2})),
        TableBlock(columns, rows, frozenset(range(2, len(columns)))),
    ]


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
    rows = [
        as_text(
            [
                attempt["record"],
                time_text(attempt["at_ns"]),
                cell_text(attempt["cell"]),
                Code(attempt["intent"]),
                attempt["attempt"],
                attempt["problem"],
            ]
        )
        for attempt in lost["list"]
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
    part = report["open"]
    if part["problem"] is not None:
        return [CheckVerdict("bad", f"The open work is unknown: {part['problem']}")]
    cells, intents, mail = part["cells"], part["intents"], part["mail"]
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
        ("Receipts that the kernel still owes", f"{part['owed']:,}"),
        ("Open proposals", f"{len(part['proposals']):,}"),
    ]
    blocks: list[PageBlock] = [FactList([fact for fact in facts if fact[1]])]
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
    failed = [as_text([e["workflow"], e["kind"], e["count"]]) for e in part["failed"]["by"]]
    if failed:
        columns = ["Failed cells of workflow", "Fault", "Cells"]
        blocks.append(TableBlock(columns, failed, frozenset({2})))
    return blocks
