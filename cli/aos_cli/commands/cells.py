"""``aos cells``: resume, unpin, end and remove instances (spec/cli.md, C-26 to C-26c)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos.core.decide.answers import Answer, Refusal
from aos.core.journal.inputs import END, REMOVE, RETRY, SKIP, UNPIN
from aos.core.journal.vocabulary import TERMINAL
from aos.errors import BadUsage, Refused
from aos.read.lens.words import count
from aos.read.views.view import check_word
from aos_cli import chosen_cells
from aos_cli.cell_names import NamedCell
from aos_cli.cells_end import Order, carry_out
from aos_cli.chosen_cells import Answered, command_each
from aos_cli.node_option import NodeUrl
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, flag, option
from aos_cli.output import line, note, print_json

REFUSALS_SHOWN: Final = 10

WorkflowName = Annotated[
    str | None, argument("WORKFLOW", "The workflow's name, or a unique part of it.")
]
Key = Annotated[str | None, argument("KEY", "The instance's key, as JSON or as plain text.")]


OneWorkflow = Annotated[str, argument("WORKFLOW", "The workflow's name, or a unique part of it.")]
Keys = Annotated[
    list[str] | None, argument("KEY", "The instances' keys, as JSON or as plain text.")
]
Pattern = Annotated[
    str | None,
    option("GLOB", "Instances whose key matches, as text: * is any text, ? a character."),
]
Reason = Annotated[str | None, option("TEXT", "The reason, for the journal (at most 1,024 bytes).")]
DryRun = Annotated[bool, flag("--dry-run", "List the instances and their work; change nothing.")]


def retry(
    name: WorkflowName = None,
    key: Key = None,
    *,
    skip: Annotated[
        bool, flag("--skip", "Drop the failed entry and resume with the next one.")
    ] = False,
    all_failed: Annotated[
        bool, flag("--all-failed", "Retry every failed cell, the earliest failure first.")
    ] = False,
    workflow: Annotated[
        str | None, option("NAME", "With --all-failed: only cells of this workflow.")
    ] = None,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> int:
    _check_choice("retry", "--all-failed", name, workflow, is_all=all_failed)
    cells = (
        chosen_cells.failed(world, node, workflow)
        if name is None
        else chosen_cells.cell_by_key(world, node, name, key)
    )
    return _command_cells(
        world, node, SKIP if skip else RETRY, cells, is_one=name is not None, json=json
    )


def unpin(
    name: WorkflowName = None,
    key: Key = None,
    *,
    all_pinned: Annotated[bool, flag("--all-pinned", "Unpin every pinned cell.")] = False,
    workflow: Annotated[
        str | None, option("NAME", "With --all-pinned: only cells of this workflow.")
    ] = None,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> int:
    _check_choice("unpin", "--all-pinned", name, workflow, is_all=all_pinned)
    cells = (
        chosen_cells.pinned(world, node, workflow)
        if name is None
        else chosen_cells.cell_by_key(world, node, name, key)
    )
    return _command_cells(world, node, UNPIN, cells, is_one=name is not None, json=json)


def end(
    workflow: OneWorkflow,
    keys: Keys = None,
    *,
    status: Annotated[
        str,
        option(
            "|".join(TERMINAL),
            "Status of the ended instances: completed (default) or failed.",
            "--as",
        ),
    ] = "completed",
    why: Reason = None,
    pattern: Pattern = None,
    is_all: Annotated[bool, flag("--all", "Every instance that has not ended.")] = False,
    dry_run: DryRun = False,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> int:
    check_word("status to end with", status, TERMINAL)
    order = Order(
        action=END,
        status=status,
        reason=why,
        workflow=workflow,
        keys=tuple(keys or ()),
        pattern=pattern,
        is_all=is_all,
    )
    return carry_out(world, node, order, dry_run=dry_run, json=json)


def remove(
    workflow: OneWorkflow,
    keys: Keys = None,
    *,
    why: Reason = None,
    pattern: Pattern = None,
    is_all: Annotated[bool, flag("--all", "Every instance of the workflow.")] = False,
    dry_run: DryRun = False,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> int:
    order = Order(
        action=REMOVE,
        status=None,
        reason=why,
        workflow=workflow,
        keys=tuple(keys or ()),
        pattern=pattern,
        is_all=is_all,
    )
    return carry_out(world, node, order, dry_run=dry_run, json=json)


def _check_choice(
    command: str, all_option: str, name: str | None, workflow: str | None, *, is_all: bool
) -> None:
    """Raise BadUsage unless a command line names one cell, or all of them in one way."""
    if is_all == (name is not None) or (workflow is not None and not is_all):
        raise BadUsage(
            f"cells {command}: expected WORKFLOW KEY, or {all_option} with an optional --workflow "
            f"NAME (see aos cells {command} --help)"
        )


def _command_cells(
    world: Path,
    node: str | None,
    action: str,
    cells: list[NamedCell],
    *,
    is_one: bool,
    json: bool,
) -> int:
    """Send the command for each cell, print the answers, and return the exit code."""
    outcomes = command_each(world, node, action, cells, doing="retrying")
    refused = [outcome for outcome in outcomes if isinstance(outcome.answer, Refusal)]
    if is_one and refused:
        raise Refused(_message(refused[0].answer))
    if json:
        print_json(_document(outcomes, action))
    elif is_one:
        _show(outcomes[0], action)
    else:
        _show_all(outcomes, action)
    return Refused.exit_code if refused else 0


def _document(outcomes: list[Answered], action: str) -> dict[str, object]:
    refused = sum(isinstance(outcome.answer, Refusal) for outcome in outcomes)
    return {
        "action": action,
        "admitted": len(outcomes) - refused,
        "refused": refused,
        "cells": [
            {
                **outcome.cell.document,
                "seq": None if isinstance(outcome.answer, Refusal) else outcome.answer.seq,
                "refused": {"rule": outcome.answer.rule.value, "message": outcome.answer.message}
                if isinstance(outcome.answer, Refusal)
                else None,
            }
            for outcome in outcomes
        ],
    }


def _message(answer: Answer) -> str:
    assert isinstance(answer, Refusal)
    return answer.message


_HOW: Final = {
    RETRY: "with the entry that failed",
    SKIP: "after the entry that failed",
    UNPIN: "under the manifest in force",
}


def _show(outcome: Answered, action: str) -> None:
    assert not isinstance(outcome.answer, Refusal)
    manner = _HOW[action]
    line(f"{outcome.cell.text} resumes {manner} (record {outcome.answer.seq:,})")


def _show_all(outcomes: list[Answered], action: str) -> None:
    if not outcomes:
        line("no cell is pinned" if action == UNPIN else "no cell has failed")
        return
    seqs = [outcome.answer.seq for outcome in outcomes if not isinstance(outcome.answer, Refusal)]
    refused = [outcome for outcome in outcomes if isinstance(outcome.answer, Refusal)]
    for outcome in refused[:REFUSALS_SHOWN]:
        note(f"aos: {outcome.cell.text}: {_message(outcome.answer)}", style="red")
    if len(refused) > REFUSALS_SHOWN:
        note(f"and {len(refused) - REFUSALS_SHOWN:,} more were refused (--json lists them all)")
    records_text = ""
    if seqs:
        records_text = (
            f" (record {seqs[0]:,})"
            if len(seqs) == 1
            else f" (records {seqs[0]:,} to {seqs[-1]:,})"
        )
    verb = "resumes" if len(seqs) == 1 else "resume"
    parts = [f"{count(len(seqs), 'cell')} of {len(outcomes):,} {verb}"]
    if refused:
        parts.append(f"{len(refused):,} refused")
    line(", ".join(parts) + records_text)
