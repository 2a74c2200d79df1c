"""The chapters about who may do what, and who did (spec/exports.md, EX-66 to EX-68, EX-71,
EX-72)."""

from __future__ import annotations

from typing import Final

from aos.prove.report.page_layout import (
    RECORD,
    TIME,
    Blocks,
    Code,
    Column,
    FactList,
    PageBlock,
    Paragraph,
    TextList,
    code,
    left_out,
    left_out_of,
    number,
    table,
    table_if_any,
)
from aos.prove.report.report_part import ReportDocument
from aos.read.lens.words import count, time_text


def manifests(report: ReportDocument) -> Blocks:
    part = report.get("manifests") or {"total": 0, "list": [], "left_out": 0}
    blocks: list[PageBlock] = [Paragraph(f"{count(part['total'], 'manifest')} came into force.")]
    missing = left_out_of(part, "aos inspect journal --kind manifest")
    if missing is not None:
        blocks.append(Paragraph(missing))
    for manifest in part["list"]:
        facts = [
            ("Record", f"{manifest['seq']:,}"),
            ("Time", time_text(manifest["at_ns"])),
            ("Manifest", Code(manifest["hash"])),
            ("Applied by", manifest["principal"]),
            ("Mode", manifest["mode"]),
        ]
        if manifest["proposal"] is not None:
            facts.append(("Approved proposal", f"record {manifest['proposal']:,}"))
        if manifest["leaves"]:
            facts.append(("Removed workflows that still have cells", ", ".join(manifest["leaves"])))
        facts += [
            (f"Migrated {moved['workflow']}", count(moved["cells"], "cell"))
            for moved in manifest["migrated"]
        ]
        blocks.append(FactList(facts))
        blocks.append(
            TextList("Changes of authority", manifest["authority"] or ["none"], is_important=True)
        )
        blocks.append(TextList("Other changes", manifest["changes"] or ["none"]))
    return blocks


def governance(report: ReportDocument) -> Blocks:
    part = report.get("governance") or {"in_force": None, "total": 0, "list": [], "left_out": 0}
    blocks: list[PageBlock] = []
    in_force = part["in_force"]
    if in_force is None:
        blocks.append(
            Paragraph(
                "No manifest in force names approvers: an operator alone applies the next one."
            )
        )
    else:
        facts = [("Quorum", f"{in_force['quorum']} of {len(in_force['approvers'])} approvers")]
        facts += [
            (f"Approver {approver['name']}", Code(approver["public_key"]))
            for approver in in_force["approvers"]
        ]
        if in_force["shadow_records"]:
            records = count(in_force["shadow_records"], "record")
            facts.append(("An approval needs a shadow report of", records))
        blocks.append(FactList(facts))
    missing = left_out_of(part, "aos inspect journal --kind governance")
    if missing is not None:
        blocks.append(Paragraph(missing))
    statuses = {
        open_proposal["record"]: open_proposal["status"]
        for open_proposal in report["open"].get("proposals", ())
    }
    for proposal in part["list"]:
        blocks += _proposal(proposal, statuses.get(proposal["record"]))
    return blocks


def _proposal(proposal: ReportDocument, status: str | None) -> Blocks:
    if proposal["applied_by"] is not None:
        result = f"applied by record {proposal['applied_by']:,}"
    else:
        result = status or "closed without being applied"
    facts = [
        ("Proposal", f"record {proposal['record']:,}"),
        ("Time", time_text(proposal["at_ns"])),
        ("Proposed by", proposal["principal"]),
        ("Manifest", Code(proposal["document"] or "")),
        ("Replaces", Code(proposal["base"] or "")),
        ("Mode", proposal["mode"]),
        ("Result", result),
    ]
    if proposal["note"]:
        facts.append(("Note", proposal["note"]))
    columns = [
        RECORD, TIME, Column("Action", "action"), Column("By", "principal"),
        Column("Shadow report", lambda act: Code(act["report"] or act["seen"] or "")),
        Column("Note", "note"),
    ]  # fmt: skip
    missing = left_out(proposal["acts_left_out"], "aos inspect journal --kind governance")
    return [FactList(facts), *table_if_any(columns, proposal["acts"], missing)]


_KEY_STATES: Final = {
    "signs": "signs now",
    "retired": "retired",
    "revoked": "revoked",
    "gone": "no longer named",
    "world": "the world's own key",
}


def executors(report: ReportDocument) -> Blocks:
    entries = report.get("executors") or []
    if not entries:
        return [Paragraph("No manifest named an executor, and none signed a receipt.")]
    keys = [{"name": executor["name"], **key} for executor in entries for key in executor["keys"]]
    columns = [
        Column("Executor", "name"), code("Key", "key"),
        Column("State", lambda key: _KEY_STATES[key["state"]]), number("Named by record", "first"),
        number("Receipts", "receipts"), number("Stream frames", "frames"),
        number("Last signed record", "last_signed"),
    ]  # fmt: skip
    powers = [
        TextList(f"{executor['name']} may sign for", executor["effects"])
        for executor in entries
        if executor["effects"]
    ]
    return [table(columns, keys), *powers]


def commands(report: ReportDocument) -> Blocks:
    part = report.get("commands") or {"total": 0, "counts": [], "list": [], "left_out": 0}
    if not part["total"]:
        return [Paragraph("No operator gave a command.")]
    counts = [
        Column("Operator", "principal"), Column("Action", "action"), number("Commands", "count"),
    ]  # fmt: skip
    columns = [number("Record", "seq"), TIME, Column("Command", "summary")]
    missing = left_out_of(part, "aos inspect journal --kind control")
    return [table(counts, part["counts"]), table(columns, part["list"], missing)]


def erased(report: ReportDocument) -> Blocks:
    part = report.get("erased") or {"total": 0, "list": [], "left_out": 0}
    if not part["total"]:
        return [Paragraph("No value was erased.")]
    by = Column("By", lambda erasure: erasure["principal"] or "the fork")
    missing = left_out_of(part, "aos inspect journal --kind control")
    return [table([RECORD, TIME, by, code("Value", "value")], part["list"], missing)]
