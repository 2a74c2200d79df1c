"""``aos gov shadow``: what a proposal would have done to recorded history (spec/cli.md, C-149a)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from aos.core.decide.answers import Refusal
from aos.core.journal.governing import REPORT
from aos.core.journal.shadow_report import ReportInvalid, read_report_head
from aos.core.journal.vocabulary import MODES, word_of
from aos.errors import BadUsage, Damage, Refused
from aos.host.folder.folder import read_key
from aos.manifest.effective import Effective
from aos.prove.verify.journal_source import JournalSource
from aos.prove.whatif.shadow_state import Proposed
from aos.read.views.proposal_view import proposal as proposal_of
from aos.read.views.proposal_view import read_report
from aos.values.digests import Hash, content_hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos_cli.commands.gov import N, check_note, command
from aos_cli.commands.shadow import (
    All,
    Answers,
    For,
    FromRecord,
    ShadowOptions,
    ToRecord,
    make_shadow,
)
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, World, flag, option
from aos_cli.output import line, print_json
from aos_cli.shadow_text import show_shadow


def shadow(
    proposal: N,
    *,
    first: FromRecord = None,
    last: ToRecord = None,
    is_all: All = False,
    for_ns: For = None,
    answers: Answers = None,
    record: Annotated[
        bool, flag("--record", "Journal the report, so that approvers can name it.")
    ] = False,
    check: Annotated[
        str | None, option("HASH", "Make this journaled report again, and compare the two.")
    ] = None,
    key: Annotated[
        Path | None,
        option("FILE", "With --record: the secret key of an approver (default: the operator's)."),
    ] = None,
    text: Annotated[
        str | None, option("TEXT", "With --record: a note for the journal.", "--note")
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    options = ShadowOptions(first=first, last=last, is_all=is_all, for_ns=for_ns, answers=answers)
    if not record and (key is not None or text is not None):
        raise BadUsage("--key and --note go with --record: nothing else is signed here")
    if check is not None:
        if record or options != ShadowOptions(answers=answers):
            raise BadUsage("--check goes with --answers alone: the report says its own range")
        return _check(proposal, _hash(check), answers, world, json=json)
    check_note(text)
    signer = None if key is None else read_key(key)
    report = _make_report(proposal, options, world)
    document = read_report(report)
    if json:
        seq = None
        if record:
            seq = _journal(proposal, report, signer, text, world)
        print_json({"proposal": proposal, **document, **({"record": seq} if record else {})})
    else:
        show_shadow(document)
        if record:
            seq = _journal(proposal, report, signer, text, world)
            line(f"report {document['hash']}: record {seq}", style="bold")
            approve_command = command(
                world, "approve", proposal, "--seen", document["hash"], "--key", "FILE"
            )
            line(f"next: {approve_command}")
    return 0 if document["same"] else Refused.exit_code


def _make_report(proposal: int, options: ShadowOptions, world: Path) -> bytes:
    """Raises: BadUsage: There is no such proposal, or its manifest is not kept."""
    options.check()
    with looking_at(world) as view:
        row = proposal_of(view, proposal)
    base, document, mode = row["base"], row["document"], word_of(MODES, row["mode"])
    if base is None or document is None or mode is None:
        raise BadUsage(
            f"proposal {proposal}: its record was pruned, so its manifest is not known any more"
        )
    leaves = tuple(row["leaves"])

    def proposed(source: JournalSource) -> Proposed:
        manifest = Effective.from_document(source.blob(parse_hash(document)))
        return Proposed(effective=manifest, mode=mode, leaves=leaves)

    return make_shadow(
        world, None, options, proposed, {}, base=parse_hash(base), around=proposal,
        records=row.get("shadow_records") or 0,
    )  # fmt: skip


def _journal(proposal: int, report: bytes, key: Any, text: str | None, world: Path) -> int:
    """Journal a report, and return its record."""
    with writing_to(world) as writer:
        answer = writer.govern(REPORT, proposal, key=key, report=report, note=text)
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer.seq


def _check(proposal: int, hash: Hash, answers: Path | None, world: Path, *, json: bool) -> int:
    """Make a report again. Exit 0 if it is what this journal gives, else 1."""
    with looking_at(world) as view:
        try:
            journaled_report = view.journal.blob(hash)
            head = read_report_head(journaled_report)
        except Damage as problem:
            raise BadUsage("--check: there is no such report", actual=hash_text(hash)) from problem
        except ReportInvalid as problem:
            raise BadUsage(f"--check: {hash_text(hash)} is no report: {problem}") from problem
    options = ShadowOptions(first=head.first, last=head.last, answers=answers)
    new_report = _make_report(proposal, options, world)
    is_true = new_report == journaled_report
    new_hash = content_hash(new_report)
    if json:
        print_json(
            {"proposal": proposal, "report": hash_text(hash), "again": hash_text(new_hash),
             "same": is_true}
        )  # fmt: skip
    elif is_true:
        line(f"report {hash_text(hash)} is what this journal gives", style="bold green")
    else:
        line(f"report {hash_text(hash)} is not what this journal gives", style="bold red")
        line(f"  expected {hash_text(new_hash)}")
        line("  (a report that was made with --answers needs the same file)")
    return 0 if is_true else Refused.exit_code


def _hash(text: str) -> Hash:
    try:
        return parse_hash(text)
    except ValueProblem as problem:
        raise BadUsage(f"--check: {problem.message}") from problem
