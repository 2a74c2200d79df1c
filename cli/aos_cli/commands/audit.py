"""``aos audit``: write a report about a world that a person reads (spec/cli.md, C-41c)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage, Damage
from aos.fastcore.core_kind import CoreKind
from aos.host.folder.folder import WorldFolder, open_folder
from aos.prove.replay.replay_report import Divergence, ReplayReport
from aos.prove.replay.replay_store import replay_bundle, replay_store, verify_bundle
from aos.prove.replay.second_opinion import (
    ReplayCores,
    core_of_bundle,
    core_of_store,
    second_core,
)
from aos.prove.report.audit_report import audit_report
from aos.prove.report.html_page import html_page
from aos.prove.report.markdown_page import markdown_page
from aos.prove.report.report_part import ReportDocument
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.journal_source import source_of_bundle, source_of_store
from aos.prove.verify.verify_world import verify_world
from aos.store.bundle.reader import open_bundle
from aos_cli.core_option import chosen_core
from aos_cli.log_comparing import Servers, compared_with_log
from aos_cli.options import DEFAULT_WORLD, Bundle, Json, World, flag, option
from aos_cli.output import Advance, line, note, print_json, progress, write
from aos_cli.replay_start import until_interrupted
from aos_cli.report_file import page_of, write_page
from aos_cli.servers import Creds

PAGES: Final[dict[str, Callable[[ReportDocument], str]]] = {
    ".html": html_page,
    ".md": markdown_page,
    ".json": page_of,
}


def audit(
    file: Bundle = None,
    *,
    out: Annotated[
        Path | None,
        option(
            "REPORT",
            "Write the report to this file: .html, .md or .json by its suffix (default: "
            "Markdown on stdout).",
        ),
    ] = None,
    with_replay: Annotated[bool, flag("--replay", "Also execute the whole journal again.")] = False,
    force: Annotated[bool, flag("--force", "Replace REPORT if it exists.")] = False,
    servers: Servers = False,
    creds: Creds = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if file is not None and servers:
        raise BadUsage("--servers goes with the folder of a node: a bundle has no servers")
    if out is not None and out.suffix not in PAGES:
        raise BadUsage(
            "--out",
            location=str(out),
            expected="one of " + ", ".join(PAGES),
            actual=repr(out.suffix),
        )
    core = chosen_core(None) if with_replay else None
    report = (
        _of_world(open_folder(world), core, with_replay=with_replay)
        if file is None
        else _of_bundle(file, core, with_replay=with_replay)
    )
    if servers and report["world"] is not None:
        report["servers"] = compared_with_log(world, creds).to_document()
    if out is not None:
        write_page(out, PAGES[out.suffix](report), force=force)
    if json:
        print_json(report)
    elif out is None:
        write(markdown_page(report))
    else:
        _show(report, out)
    return Damage.exit_code if _is_damaged(report) else 0


def _of_world(folder: WorldFolder, named: CoreKind | None, *, with_replay: bool) -> ReportDocument:
    with progress("verifying") as advance:
        verified = verify_world(folder.path, on_progress=lambda seq: advance(seq, 0))
    # This process would die of reading such a file.
    if any(finding.kind is FindingKind.STORE_UNREADABLE for finding in verified.findings):
        return audit_report(None, verified)
    with folder.open_store(readonly=True) as store:
        replayed, cores = None, None
        if with_replay:
            cores = _cores(named, core_of_store(store))
            core = cores.core
            replayed = _replayed(
                lambda tell: replay_store(
                    store, core=core, on_progress=lambda seq: tell(seq, verified.seq)
                )
            )
        with progress("reading the journal") as advance:
            return audit_report(
                source_of_store(store),
                verified,
                replayed,
                cores,
                on_progress=lambda seq: advance(seq, verified.seq),
            )


def _of_bundle(file: Path, named: CoreKind | None, *, with_replay: bool) -> ReportDocument:
    with progress("verifying") as advance:
        verified = verify_bundle(file, on_progress=lambda seq: advance(seq, 0))
    try:
        bundle = open_bundle(file)
    except Damage:
        return audit_report(None, verified)
    with bundle:
        replayed, cores = None, None
        if with_replay:
            cores = _cores(named, core_of_bundle(bundle))
            core = cores.core
            replayed = _replayed(lambda tell: replay_bundle(bundle, core=core, on_progress=tell))
        with progress("reading the journal") as advance:
            return audit_report(
                source_of_bundle(bundle),
                verified,
                replayed,
                cores,
                on_progress=lambda seq: advance(seq, verified.seq),
            )


def _cores(named: CoreKind | None, written_by: str) -> ReplayCores:
    return ReplayCores(core=named or second_core(written_by), written_by=written_by)


def _replayed(run: Callable[[Advance], ReplayReport]) -> ReplayReport | Damage:
    """The report of a replay, or why there is none."""
    try:
        with progress("replaying") as advance:
            return until_interrupted(run, advance)
    except (Divergence, Damage) as problem:
        return problem


def _is_damaged(report: ReportDocument) -> bool:
    replay = report["replay"]
    is_replayed = replay is None or replay["identical"]
    is_equal = report.get("servers", {"equal": True})["equal"]
    return not (
        report["verify"]["sound"] and is_replayed and is_equal and report["problem"] is None
    )


def _show(report: ReportDocument, out: Path) -> None:
    if _is_damaged(report):
        note(f"aos: the report names damage: {out}", style="red")
    else:
        line(f"audited to record {report['seq']:,}: {out}", style="bold")
