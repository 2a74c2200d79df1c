"""The chapters about the journal and its checks (spec/exports.md, EX-65, EX-74)."""

from __future__ import annotations

from aos.prove.report.page_layout import (
    RECORD,
    TIME,
    Blocks,
    CheckVerdict,
    Code,
    Column,
    FactList,
    PageBlock,
    Paragraph,
    code,
    counted,
    left_out,
    left_out_of,
    number,
    table,
    table_if_any,
)
from aos.prove.report.report_part import ReportDocument
from aos.read.lens.words import count, time_text


def summary(report: ReportDocument) -> Blocks:
    horizon = report["horizon"]
    blocks: list[PageBlock] = [_verify_verdict(report), *_replay_verdict(report)]
    if report["problem"] is not None:
        blocks.append(
            CheckVerdict(
                "bad", f"This report ends with record {report['seq']:,}: {report['problem']}"
            )
        )
    if horizon["first"] is not None:
        blocks.append(
            FactList(
                [
                    ("World", Code(report["world"])),
                    ("Records", f"{horizon['first']:,} to {horizon['last']:,}"),
                    ("Time", _period(horizon)),
                ]
            )
        )
    return blocks


def _period(horizon: ReportDocument) -> str:
    first = horizon["first_ns"]
    end = time_text(horizon["clock_ns"])
    return end if first is None else f"{time_text(first)} to {end}"


def _verify_verdict(report: ReportDocument) -> CheckVerdict:
    verified = report["verify"]
    if verified["sound"]:
        return CheckVerdict("good", f"Verify: sound to record {verified['seq']:,}.")
    total = len(verified["findings"]) + verified["left_out"]
    return CheckVerdict(
        "bad", f"Verify: {count(total, 'finding')}. The journal or a value is damaged."
    )


def _replay_verdict(report: ReportDocument) -> list[CheckVerdict]:
    replayed = report["replay"]
    if replayed is None:
        return [CheckVerdict("plain", "Replay: not run (aos audit --replay).")]
    if replayed["identical"]:
        return [CheckVerdict("good", f"Replay: byte-identical to record {replayed['seq']:,}.")]
    return [CheckVerdict("bad", f"Replay: {replayed['message']}")]


def identity(report: ReportDocument) -> Blocks:
    part = report.get("identity") or {}
    genesis = part.get("genesis")
    blocks: list[PageBlock] = []
    if genesis is None:
        blocks.append(Paragraph("The genesis is not among the records of this report."))
    else:
        facts = [
            ("Created", time_text(genesis["at_ns"])),
            ("World at its genesis", Code(genesis["world"])),
            ("Key of the world", Code(genesis["world_key"])),
            ("Semantics", str(genesis["semantics"])),
            *_operators(genesis),
        ]
        blocks.append(FactList(facts))
    for fork in (part.get("forks") or {}).get("list", ()):
        blocks.append(Paragraph(f"Record {fork['seq']:,} is a fork:"))
        facts = [
            ("Forked", time_text(fork["at_ns"])),
            ("From world", Code(fork["parent"])),
            ("After record", f"{fork['at']:,}"),
            ("World since then", Code(fork["world"])),
            ("Key of the world", Code(fork["world_key"])),
            ("Open effects", f"{fork['open_work']}"),
            *_operators(fork),
        ]
        blocks.append(FactList(facts))
    hosts = part.get("hosts", ())
    if hosts:
        blocks.append(Paragraph(f"{count(part['starts'], 'start')} of a process:"))
        blocks.append(table([number("First record", "first"), Column("Versions", "host")], hosts))
    return blocks


def _operators(of: ReportDocument) -> list[tuple[str, str]]:
    return [
        (f"Operator {operator['name']}", Code(operator["public_key"]))
        for operator in of["operators"]
    ]


def horizon(report: ReportDocument) -> Blocks:
    horizon, anchors = report["horizon"], report["anchors"]
    blocks: list[PageBlock] = []
    pruned = horizon["pruned"]
    if pruned is not None:
        text = (
            f"Records 2 to {pruned['to']:,} were pruned. This report describes the records after "
            f"them, and continues from the snapshot {pruned['snapshot']}."
        )
        blocks.append(Paragraph(text))
    head = anchors["head"]
    if head is not None:
        facts = [
            ("Records", f"{horizon['first'] or 0:,} to {horizon['last']:,}"),
            ("Frames", f"{head['frames']:,}"),
            ("Hash of the last frame", Code(head["frame"])),
            ("Log root", Code(head["log_root"])),
            ("Signature of the world's key", Code(head["signature"])),
        ]
        blocks.append(FactList(facts))
    blocks.append(
        Paragraph(
            "These values fix every record before them. Compare them with values that were kept "
            "elsewhere: a holder of the world's key could have cut or rewritten the journal, and "
            "this report alone cannot show that."
        )
    )
    if horizon["kinds"]:
        blocks.append(counted("Kind of record", "Records", horizon["kinds"]))
    snapshots = anchors["snapshots"] or {"list": [], "left_out": 0}
    columns = [RECORD, number("State after record", "at"), TIME, code("Snapshot", "document")]
    missing = left_out_of(snapshots, "aos inspect journal --kind snapshot")
    return blocks + table_if_any(columns, snapshots["list"], missing)


def checks(report: ReportDocument) -> Blocks:
    verified = report["verify"]
    blocks: list[PageBlock] = [_verify_verdict(report)]
    facts = [
        ("Signatures checked", f"{verified['signatures']:,}"),
        ("Values that fit their schemas", f"{verified['values']:,}"),
        ("Values missing because they were erased", f"{verified['erased']:,}"),
        ("Stamps behind the journal's clock", f"{verified['stamps_behind']:,}"),
    ]
    blocks.append(FactList(facts))
    columns = [
        Column("Finding", "kind"), number("Frame", "frame"), number("Record", "record"),
        Column("Problem", "message"),
    ]  # fmt: skip
    missing = left_out(verified["left_out"], "aos verify --json")
    blocks += table_if_any(columns, verified["findings"], missing)
    blocks += _replay_verdict(report)
    replay = report["replay"]
    if replay is not None and replay["identical"]:
        facts = [
            ("Steps executed again", f"{replay['steps']:,}"),
            ("Receipts checked again", f"{replay['receipts']:,}"),
            ("Faults of the machine, taken as recorded", f"{replay['environmental']:,}"),
            ("Records taken as recorded because a value was erased", f"{replay['erased']:,}"),
            ("Root of the state", Code(replay["state_root"])),
        ]
        blocks.append(FactList(facts))
    return blocks
