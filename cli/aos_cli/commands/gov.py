"""``aos gov``: propose manifests, show proposals, apply them (spec/cli.md, C-140 to C-144).

The other commands of the group read votes and notes (C-147), and build command lines, with the
functions of this module.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from aos.core.decide.answers import Refusal
from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import MODES
from aos.errors import BadUsage, Refused, either
from aos.host.apply.signed_governance import VoteFile, read_vote_file
from aos.host.checkpoints.named_files import read_named
from aos.host.folder.folder import read_key
from aos.manifest.load import Loaded
from aos.manifest.patch import Patch, read_patch
from aos.manifest.patching import apply_patch, patch_between
from aos.read.lens.words import count, time_text
from aos.read.operations.proposal_reads import READ_PROPOSAL, READ_PROPOSALS
from aos.shell_text import shell_text
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos_cli.apply_target import ApplyTarget, load_named
from aos_cli.apply_text import (
    FLOWS_DIVERGE,
    GROUPS_SHOWN,
    group_text,
    is_fine,
    refusal_text,
    show_changes,
    show_fates,
    show_flows,
    show_open_events,
    show_report,
)
from aos_cli.gov_world import governing, in_force, proposal_document, proposed
from aos_cli.open_writing import writing_to
from aos_cli.options import (
    DEFAULT_WORLD,
    Abi,
    AllowDiverged,
    Json,
    LeaveCells,
    NodeUrl,
    World,
    argument,
    number,
    option,
)
from aos_cli.output import fields, line, note, print_json, table, write
from aos_cli.reading_command import ReadingCall, printed, reading
from aos_cli.shadow_text import show_shadow

SEQ_END: Final = 1 << 63

PATCH_BYTES_MAX: Final = 16 << 20
VOTE_BYTES_MAX: Final = 16 << 20
"""A vote names the workflows that the manifest leaves, of which there may be many."""

Document = Mapping[str, Any]


def record(text: str) -> int:
    """Parse the number of a record. Raises ``typer.BadParameter``."""
    seq = number(text)
    if not 0 < seq < SEQ_END:
        raise typer.BadParameter(f"expected the number of a record, found {text!r}")
    return seq


N = Annotated[int, argument("N", "The record of the proposal.", parser=record)]


def patch(
    path: Annotated[Path, argument("PATH", "Manifest: a folder or one .air.json file.")],
    *,
    abi: Abi = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    loaded = load_named(path, abi)
    patch_document = patch_between(in_force(world, node), loaded.effective).to_json()
    if json:
        print_json(patch_document)
    else:
        write(json_text.dumps(patch_document, indent=2) + "\n")


def propose(
    path: Annotated[
        Path | None,
        argument(
            "[PATH]",
            "Manifest: a folder or one .air.json file. With --patch: where its modules are.",
        ),
    ] = None,
    *,
    patch_file: Annotated[
        Path | None, option("FILE", "Propose this change of the manifest.", "--patch")
    ] = None,
    mode: Annotated[
        str,
        option(
            "|".join(MODES),
            "How to apply it later, as of aos apply: strict (default), pin or migrate.",
        ),
    ] = STRICT,
    leave_cells: LeaveCells = False,
    text: Annotated[str | None, option("TEXT", "Why, for the journal.", "--note")] = None,
    key: Annotated[
        Path | None, option("FILE", "Secret key of an approver (default: the operator's).")
    ] = None,
    abi: Abi = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if mode not in MODES:
        raise BadUsage("--mode", expected=either(MODES), actual=repr(mode))
    check_note(text)
    signer = None if key is None else read_key(key)
    loaded, change = _proposed_manifest(path, patch_file, abi, world, node)
    report = ApplyTarget(world, node).apply(
        loaded, dry_run=True, mode=mode, leave_cells=leave_cells, show=0, allow_diverged=True
    )
    if node is None:
        with writing_to(world) as writer:
            answer = writer.propose(
                loaded, patch=change, key=signer, mode=mode, leave_cells=leave_cells, note=text
            ).answer
    else:
        with governing(node) as governor:
            answer = governor.propose(
                loaded, patch=change, key=signer, mode=mode, leave_cells=leave_cells, note=text
            )
    assert answer is not None, "it was submitted"
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    if json:
        names = ("manifest", "changes", "blockers", "groups", "fates", "flows", "open_events")
        print_json({"proposal": answer.seq, **{name: report[name] for name in names}})
        return
    show_changes(report["changes"])
    show_open_events(report["open_events"])
    show_fates(report["fates"])
    line(f"proposal {answer.seq}", style="bold")
    line(f"  {report['manifest']}")
    governance = in_force(world, node).governance
    if governance is not None and governance.shadow_records:
        # A shadow reads the journal in the folder.
        line(f"next: {command(world, 'shadow', answer.seq, '--record')}")
    else:
        line(f"next: {command(node or world, 'approve', answer.seq, '--key', 'FILE')}")


@reading(READ_PROPOSAL)
def show(call: ReadingCall, *, proposal: N) -> None:
    if call.query["report"] is not None:
        call.show(call.document(), show_shadow)
        return
    document = proposal_document(call.world, call.node, proposal)
    call.show(document, lambda row: show_one(row, call.node or call.world))


def apply(
    proposal: N,
    *,
    allow_diverged: AllowDiverged = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    loaded, mode, leaves = proposed(world, node, proposal)
    target = ApplyTarget(world, node, proposal)
    report = target.apply(
        loaded, dry_run=False, mode=mode, leave_cells=leaves, show=0,
        allow_diverged=allow_diverged,
    )  # fmt: skip
    is_stopped = target.is_stopped(report, allow_diverged=allow_diverged)
    if is_stopped:
        report["refused"] = {"rule": FLOWS_DIVERGE, "message": refusal_text(report["flows"])}
    is_applied = not is_stopped and is_fine(report)
    if json:
        print_json({"proposal": proposal, **report})
    else:
        show_report(report)
        show_flows(report["flows"], is_refused=False)
        if not is_applied:
            note(
                f"the votes stay: see {command(node or world, 'show', proposal)}, and try the same "
                "command again later"
            )
    return 0 if is_applied else Refused.exit_code


def _proposed_manifest(
    path: Path | None, file: Path | None, abi: str | None, world: Path, node: str | None
) -> tuple[Loaded, Patch | None]:
    """The manifest that is proposed, and the patch if the user gave one."""
    if path is None and file is None:
        raise BadUsage("expected PATH or --patch FILE")
    change = None if file is None else patch_at(file)
    if path is not None:
        return load_named(path, abi), change
    assert change is not None, "one of the two is there"
    return Loaded(effective=apply_patch(in_force(world, node), change), modules={}), change


def patch_at(file: Path) -> Patch:
    """Read a patch (C-140).

    Raises:
        BadUsage: The file cannot be read, or is not JSON.
        PatchInvalid: It is no patch.
    """
    return read_patch(_json_of(file, PATCH_BYTES_MAX))


def check_note(text: str | None) -> None:
    """Check the note of a proposal or vote. Raises: BadUsage: It is no text."""
    try:
        (text or "").encode()
    except UnicodeEncodeError as problem:
        raise BadUsage(f"--note: expected UTF-8 text, found {text!r:.80}") from problem


def vote_at(file: Path) -> VoteFile:
    """Read a vote (C-147). Raises: BadUsage: The file cannot be read, or is no vote."""
    value = _json_of(file, VOTE_BYTES_MAX)
    try:
        return read_vote_file(value)
    except BadUsage as problem:
        raise BadUsage(f"{file}: {problem}") from problem


def _json_of(file: Path, bytes_max: int) -> object:
    try:
        return parse_json(read_named(file, bytes_max).decode(), max_bytes=bytes_max)
    except UnicodeDecodeError as problem:
        raise BadUsage(f"{file}: expected JSON in UTF-8") from problem
    except ValueProblem as problem:
        raise BadUsage(f"{file}: {problem}") from problem


def command(world: Path | str, *words: object) -> str:
    """A command line of ``aos gov`` for this world, or for the one of a node's URL."""
    world_options = [] if world == DEFAULT_WORLD else ["--world", str(world)]
    if isinstance(world, str):
        world_options = ["--node", world]
    return shell_text(["aos", "gov", *words, *world_options])


def show_list(document: Document) -> None:
    """Print one line for each proposal (C-142)."""
    rows = document["proposals"]
    table(
        ["proposal", "status", "by", "at", "mode", "approvals", "note"],
        [
            [
                str(row["proposal"]),
                row["status"],
                row["principal"] or "",
                _time_or_blank(row["at_ns"]),
                row["mode"] or "",
                _approvals_text(row),
                row["note"] or "",
            ]
            for row in rows
        ],
        right_aligned=("proposal",),
    )
    note(count(len(rows), "proposal"))


def show_one(proposal: Document, world: Path | str) -> None:
    """Print a proposal with its votes, its changes and what it still needs (C-143)."""
    fields(
        [
            ("proposal", str(proposal["proposal"])),
            ("status", proposal["status"]),
            *((name, text) for name, text in _head_fields(proposal) if text),
        ]
    )
    for row in proposal["votes"]:
        line(f"{row['approver']}: {row['vote']}, in record {row['seq']}{_vote_remarks(row)}")
    for row in proposal["reports"]:
        line(f"report {row['hash']}, of {count(row['records'] or 0, 'record')}")
    if proposal["changes"] is None:
        line("its changes are not kept")
    else:
        show_changes(proposal["changes"])
    if proposal["missing"] is not None:
        show_fates(proposal["fates"])
        obstacles = list(_obstacles(proposal, world))
        line("before it can be applied" if obstacles else "nothing blocks it", style="bold")
        for text in obstacles:
            line(f"  {text}")
        if not obstacles:
            line(f"next: {command(world, 'apply', proposal['proposal'])}")


def _head_fields(proposal: Document) -> Iterator[tuple[str, str]]:
    yield "by", proposal["principal"] or ""
    yield "at", _time_or_blank(proposal["at_ns"])
    yield "in the place of", proposal["base"] or ""
    yield "manifest", proposal["document"] or ""
    yield "patch", proposal["patch"] or ""
    yield "mode", proposal["mode"] or ""
    yield "leaves", ", ".join(proposal["leaves"] or ())
    yield "note", proposal["note"] or ""
    if proposal["quorum"] is not None:
        yield "quorum", f"{proposal['quorum']} of {', '.join(proposal['approvers'])}"


def _obstacles(proposal: Document, world: Path | str) -> Iterator[str]:
    """The obstacles that are left before the proposal can be applied."""
    missing = proposal["missing"]
    if missing["report"] and missing["approvals"]:
        yield (
            f"approvals name a shadow report of {count(proposal['shadow_records'], 'record')}, and "
            f"there is none yet ({command(world, 'shadow', proposal['proposal'], '--record')})"
        )
    if missing["approvals"]:
        vote = command(world, "approve", proposal["proposal"], "--key", "FILE")
        approvals_text = count(missing["approvals"], "more approval")
        voters = either(missing["from"]) if missing["from"] else "no one"
        yield f"expected {approvals_text}, of {voters} ({vote})"
    groups = proposal["groups"]
    yield from (group_text(group) for group in groups[:GROUPS_SHOWN])
    if len(groups) > GROUPS_SHOWN:
        yield f"and {len(groups) - GROUPS_SHOWN} more groups (--json lists them all)"
    if proposal["flows"]["diverge"]:
        yield refusal_text(proposal["flows"])


def _approvals_text(proposal: Document) -> str:
    if proposal["quorum"] is None or "votes" not in proposal:
        return ""
    approvals = [vote for vote in proposal["votes"] if vote["vote"] == "approve"]
    return f"{len(approvals)} of {proposal['quorum']}"


def _vote_remarks(vote: Document) -> str:
    report_text = "" if vote["seen"] is None else f", has seen {vote['seen']}"
    return report_text + ("" if vote["note"] is None else f": {vote['note']}")


def _time_or_blank(ns: int | None) -> str:
    return "" if ns is None else time_text(ns)


list_proposals = printed(READ_PROPOSALS, show_list)
