"""A report's document -> the chapters of its page (spec/exports.md, EX-74).

Everything that a page says is in the document: the chapters only choose words and an order. Here
are those about the journal and its checks (EX-65), and about what the world did and has still to do
(EX-69, EX-70, EX-73); ``authority_chapters`` has those about who may do what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aos.core.journal.vocabulary import STATUSES
from aos.prove.report import authority_chapters as authority
from aos.prove.report.page_layout import (
    RECORD,
    TIME,
    Blocks,
    Chapter,
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
from aos.read.lens.words import count, span_text, time_text
from aos.read.views.record_view import cell_text

CELL: Final = Column("Cell", lambda entry: cell_text(entry["cell"]))


def summary(report: ReportDocument) -> Blocks:
    horizon = report["horizon"]
    blocks: list[PageBlock] = [
        _verify_verdict(report),
        *_replay_verdict(report),
        *_servers_verdict(report),
    ]
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


def _servers_verdict(report: ReportDocument) -> list[CheckVerdict]:
    """Of a replicated world whose folder was compared with its log."""
    compared = report.get("servers")
    if compared is None:
        return []
    if compared["equal"]:
        text = f"Servers: the log has the same frames to record {compared['seq']:,}."
        return [CheckVerdict("good", text)]
    return [CheckVerdict("bad", f"Servers: {compared['problem']}")]


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
            ("Kernel that decided again", replay.get("core", "python")),
            ("Kernel that wrote the last records", replay.get("written_by", "python")),
            ("Steps executed again", f"{replay['steps']:,}"),
            ("Receipts checked again", f"{replay['receipts']:,}"),
            ("Faults of the machine, taken as recorded", f"{replay['environmental']:,}"),
            ("Records taken as recorded because a value was erased", f"{replay['erased']:,}"),
            ("Root of the state", Code(replay["state_root"])),
        ]
        blocks.append(FactList(facts))
    return blocks


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


def chapters(report: ReportDocument) -> list[Chapter]:
    """Return all chapters of a report. One about something that the world has never had says so."""
    return [Chapter(name, title, make(report)) for name, title, make in CHAPTERS]


def title_of(report: ReportDocument) -> str:
    """Return the page's title."""
    return f"Audit of world {(report['world'] or 'unknown').removeprefix('blake3:')[:16]}"


CHAPTERS: Final[tuple[tuple[str, str, Callable[[ReportDocument], Blocks]], ...]] = (
    ("summary", "Result", summary),
    ("identity", "Identity and keys", identity),
    ("horizon", "Horizon and anchors", horizon),
    ("checks", "Checks", checks),
    ("manifests", "Manifests and authority", authority.manifests),
    ("governance", "Governance", authority.governance),
    ("executors", "Executors and their keys", authority.executors),
    ("commands", "Commands of operators", authority.commands),
    ("faults", "Faults", faults),
    ("effects", "Effects", effects),
    ("attempts", "Attempts", attempts),
    ("erased", "Erased values", authority.erased),
    ("open", "Open work", open_chapter),
)
"""The chapters in their order. A new section of a report is listed here."""
