"""The chapters about who may do what, and who did (spec/exports.md, EX-66 to EX-68, EX-71,
EX-72)."""

from __future__ import annotations

from typing import Final

from aos.audit.lens.words import count, time_text
from aos.audit.report.page_layout import (
    Blocks,
    Code,
    FactList,
    PageBlock,
    Paragraph,
    TableBlock,
    TextList,
    as_text,
    left_out,
    left_out_of,
)
from aos.audit.report.report_part import ReportDocument


def manifests(report: ReportDocument) -> Blocks:
    found = report.get("manifests") or {"total": 0, "list": [], "left_out": 0}
    blocks: list[PageBlock] = [Paragraph(f"{count(found['total'], 'manifest')} came into force.")]
    missing = left_out_of(found, "aos inspect journal --kind manifest")
    if missing is not None:
        blocks.append(Paragraph(missing))
    for each in found["list"]:
        facts = [
            ("Record", f"{each['seq']:,}"),
            ("Time", time_text(each["at_ns"])),
            ("Manifest", Code(each["hash"])),
            ("Applied by", each["principal"]),
            ("Mode", each["mode"]),
        ]
        if each["proposal"] is not None:
            facts.append(("Approved proposal", f"record {each['proposal']:,}"))
        if each["leaves"]:
            facts.append(("Removed workflows that still have cells", ", ".join(each["leaves"])))
        facts += [
            (f"Migrated {moved['workflow']}", count(moved["cells"], "cell"))
            for moved in each["migrated"]
        ]
        blocks.append(FactList(facts))
        blocks.append(
            TextList("Changes of authority", each["authority"] or ["none"], is_important=True)
        )
        blocks.append(TextList("Other changes", each["changes"] or ["none"]))
    return blocks


def governance(report: ReportDocument) -> Blocks:
    found = report.get("governance") or {"in_force": None, "total": 0, "list": [], "left_out": 0}
    blocks: list[PageBlock] = []
    in_force = found["in_force"]
    if in_force is None:
        blocks.append(
            Paragraph(
                "No manifest in force names approvers: an operator alone applies the next one."
            )
        )
    else:
        facts = [("Quorum", f"{in_force['quorum']} of {len(in_force['approvers'])} approvers")]
        facts += [
            (f"Approver {each['name']}", Code(each["public_key"])) for each in in_force["approvers"]
        ]
        if in_force["shadow_records"]:
            records = count(in_force["shadow_records"], "record")
            facts.append(("An approval needs a shadow report of", records))
        blocks.append(FactList(facts))
    missing = left_out_of(found, "aos inspect journal --kind governance")
    if missing is not None:
        blocks.append(Paragraph(missing))
    statuses = {each["record"]: each["status"] for each in report["open"].get("proposals", ())}
    for each in found["list"]:
        blocks += _proposal(each, statuses.get(each["record"]))
    return blocks


def _proposal(found: ReportDocument, status: str | None) -> Blocks:
    if found["applied_by"] is not None:
        result = f"applied by record {found['applied_by']:,}"
    else:
        result = status or "closed without being applied"
    facts = [
        ("Proposal", f"record {found['record']:,}"),
        ("Time", time_text(found["at_ns"])),
        ("Proposed by", found["principal"]),
        ("Manifest", Code(found["document"] or "")),
        ("Replaces", Code(found["base"] or "")),
        ("Mode", found["mode"]),
        ("Result", result),
    ]
    if found["note"]:
        facts.append(("Note", found["note"]))
    rows = [
        as_text(
            [
                each["record"],
                time_text(each["at_ns"]),
                each["action"],
                each["principal"],
                Code(each["report"] or each["seen"] or ""),
                each["note"],
            ]
        )
        for each in found["acts"]
    ]
    columns = ["Record", "Time", "Action", "By", "Shadow report", "Note"]
    missing = left_out(found["acts_left_out"], "aos inspect journal --kind governance")
    table = [TableBlock(columns, rows, frozenset({0}), missing)] if rows else []
    return [FactList(facts), *table]


_KEY_STATES: Final = {
    "signs": "signs now",
    "retired": "retired",
    "revoked": "revoked",
    "gone": "no longer named",
    "world": "the world's own key",
}


def executors(report: ReportDocument) -> Blocks:
    found = report.get("executors") or []
    if not found:
        return [Paragraph("No manifest named an executor, and none signed a receipt.")]
    rows = [
        as_text(
            [
                executor["name"],
                Code(key["key"]),
                _KEY_STATES[key["state"]],
                key["first"],
                key["receipts"],
                key["frames"],
                key["last_signed"],
            ]
        )
        for executor in found
        for key in executor["keys"]
    ]
    columns = [
        "Executor", "Key", "State", "Named by record", "Receipts", "Stream frames",
        "Last signed record",
    ]  # fmt: skip
    powers = [
        TextList(f"{each['name']} may sign for", each["effects"])
        for each in found
        if each["effects"]
    ]
    return [TableBlock(columns, rows, frozenset({3, 4, 5, 6})), *powers]


def commands(report: ReportDocument) -> Blocks:
    found = report.get("commands") or {"total": 0, "counts": [], "list": [], "left_out": 0}
    if not found["total"]:
        return [Paragraph("No operator gave a command.")]
    counts = [
        as_text([each["principal"], each["action"], each["count"]]) for each in found["counts"]
    ]
    rows = [
        as_text([each["seq"], time_text(each["at_ns"]), each["summary"]]) for each in found["list"]
    ]
    missing = left_out_of(found, "aos inspect journal --kind control")
    return [
        TableBlock(["Operator", "Action", "Commands"], counts, frozenset({2})),
        TableBlock(["Record", "Time", "Command"], rows, frozenset({0}), missing),
    ]


def erased(report: ReportDocument) -> Blocks:
    found = report.get("erased") or {"total": 0, "list": [], "left_out": 0}
    if not found["total"]:
        return [Paragraph("No value was erased.")]
    rows = [
        as_text(
            [
                each["record"],
                time_text(each["at_ns"]),
                each["principal"] or "the fork",
                Code(each["value"]),
            ]
        )
        for each in found["list"]
    ]
    missing = left_out_of(found, "aos inspect journal --kind control")
    return [TableBlock(["Record", "Time", "By", "Value"], rows, frozenset({0}), missing)]
