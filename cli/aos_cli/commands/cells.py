"""``aos cells``: resume, unpin, end and remove instances (spec/cli.md, C-26 to C-26c)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from aos.core.decide.answers import Admitted, Answer, Refusal
from aos.core.journal.inputs import END, REMOVE, RETRY, SKIP, UNPIN
from aos.core.journal.vocabulary import TERMINAL
from aos.errors import BadUsage, Refused
from aos.host.package_checks import OWN_COMMANDS
from aos.read.lens.words import count
from aos.read.views.view import check_word
from aos_cli import chosen_cells
from aos_cli.chosen_cells import Answered, ChosenCell, command_each
from aos_cli.in_shards import Keys as CellKeys
from aos_cli.in_shards import with_cells
from aos_cli.open_writing import NamedCell
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, argument, flag, option
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

CELLS_SHOWN: Final = 20


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
    action = SKIP if skip else RETRY

    def run(world: Path, _keys: CellKeys) -> int:
        cells = (
            chosen_cells.failed(world, node, workflow)
            if name is None
            else chosen_cells.cell_by_key(world, node, name, key)
        )
        return _command_cells(world, node, action, cells, is_one=name is not None, json=json)

    return with_cells(world, node, name, [key], run, json=json)


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

    def run(world: Path, _keys: CellKeys) -> int:
        cells = (
            chosen_cells.pinned(world, node, workflow)
            if name is None
            else chosen_cells.cell_by_key(world, node, name, key)
        )
        return _command_cells(world, node, UNPIN, cells, is_one=name is not None, json=json)

    return with_cells(world, node, name, [key], run, json=json)


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
    order = EndOrder(
        action=END,
        status=status,
        reason=why,
        workflow=workflow,
        keys=tuple(keys or ()),
        pattern=pattern,
        is_all=is_all,
    )
    return _in_worlds(world, node, order, dry_run=dry_run, json=json)


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
    order = EndOrder(
        action=REMOVE,
        status=None,
        reason=why,
        workflow=workflow,
        keys=tuple(keys or ()),
        pattern=pattern,
        is_all=is_all,
    )
    return _in_worlds(world, node, order, dry_run=dry_run, json=json)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOrder:
    """The operator's command, and the instances that it is for."""

    action: str
    status: str | None
    reason: str | None
    workflow: str
    keys: tuple[str, ...]
    pattern: str | None
    is_all: bool

    @property
    def is_one(self) -> bool:
        return self.pattern is None and not self.is_all and len(self.keys) < 2

    def check(self) -> None:
        ways = (bool(self.keys), self.pattern is not None, self.is_all)
        if sum(ways) > 1:
            raise BadUsage(
                f"cells {self.action}: expected WORKFLOW KEY…, or WORKFLOW with --pattern GLOB or "
                f"with --all (see aos cells {self.action} --help)"
            )


def _in_worlds(world: Path, node: str | None, order: EndOrder, *, dry_run: bool, json: bool) -> int:
    """Carry out an order on a world, or on the shards of a group that have its instances."""
    is_keyed = order.pattern is None and not order.is_all

    def run(world: Path, keys: CellKeys) -> int:
        named = tuple(key for key in keys if key is not None)
        return carry_out(world, node, replace(order, keys=named), dry_run=dry_run, json=json)

    keys = (order.keys or (None,)) if is_keyed else order.keys
    return with_cells(world, node, order.workflow, keys, run, json=json)


def carry_out(world: Path, node: str | None, order: EndOrder, *, dry_run: bool, json: bool) -> int:
    """List the instances, or end them and print the answers; return the exit code."""
    order.check()
    if dry_run:
        chosen_cells.must_have_journal(world, "--dry-run")
    instances = _instances_of(world, node, order)
    if dry_run:
        _list_instances(order, instances, json=json)
        return 0
    ended = command_each(
        world,
        node,
        order.action,
        [instance.cell for instance in instances],
        doing="ending",
        status=order.status,
        reason=order.reason,
    )
    refused = [outcome.answer for outcome in ended if isinstance(outcome.answer, Refusal)]
    if order.is_one and refused:
        raise Refused(refused[0].message)
    if json:
        print_json(_end_document(order, ended))
    else:
        _show_end(order, ended)
    return Refused.exit_code if refused else 0


# The instances


def _instances_of(world: Path, node: str | None, order: EndOrder) -> list[ChosenCell]:
    """The named instances, or those of a pattern or of the whole workflow that are not over."""
    if order.pattern is None and not order.is_all:
        return chosen_cells.keyed(world, node, order.workflow, order.keys or (None,))
    return chosen_cells.matching(
        world, node, order.workflow, order.pattern, ended=order.action == REMOVE
    )


def _list_instances(order: EndOrder, instances: list[ChosenCell], *, json: bool) -> None:
    """Print the instances that the command would end."""
    missing = [instance.cell.text for instance in instances if instance.status is None]
    if missing:
        names = ", ".join(missing[:REFUSALS_SHOWN])
        raise Refused(f"there is no such cell: {names}: no event has reached it, or it was deleted")
    mail = sum(instance.mail for instance in instances)
    open_ones = sum(instance.open_effects for instance in instances)
    if json:
        rows = [
            {
                **instance.cell.document,
                "status": instance.status,
                "dropped": instance.mail,
                "abandoned": instance.open_effects,
            }
            for instance in instances
        ]
        print_json({**_end_head(order), "dry_run": True, "total": len(instances), "cells": rows})
        return
    would = "would be removed" if order.action == REMOVE else f"would end as {order.status}"
    line(f"{count(len(instances), 'instance')} {would}: {_work_on_instances(open_ones, mail)}")
    for instance in instances[:CELLS_SHOWN]:
        text = f"{instance.status}, {_work_on_instances(instance.open_effects, instance.mail)}"
        line(f"  {instance.cell.text} · {text}")
    if len(instances) > CELLS_SHOWN:
        line(f"  and {len(instances) - CELLS_SHOWN:,} more (--json lists them all)")
    for workflow in sorted(
        {instance.cell.workflow for instance in instances} & OWN_COMMANDS.keys()
    ):
        note(f"{workflow} belongs to a package: what still runs ends by {OWN_COMMANDS[workflow]}")


def _work_on_instances(open_ones: int, mail: int) -> str:
    return f"{count(open_ones, 'open effect')}, {count(mail, 'event')} in the mailbox"


# The commands


def _end_head(order: EndOrder) -> dict[str, object]:
    return {"action": order.action, "status": order.status, "why": order.reason}


def _end_document(order: EndOrder, ended: list[Answered]) -> dict[str, object]:
    refused = sum(isinstance(outcome.answer, Refusal) for outcome in ended)
    return {
        **_end_head(order),
        "dry_run": False,
        "admitted": len(ended) - refused,
        "refused": refused,
        "cells": [{**outcome.cell.document, **_end_result(outcome.answer)} for outcome in ended],
    }


def _end_result(answer: Answer) -> dict[str, object]:
    if isinstance(answer, Admitted):
        return {
            "seq": answer.seq,
            "dropped": answer.dropped,
            "abandoned": answer.abandoned,
            "refused": None,
        }
    assert isinstance(answer, Refusal), "a command has no duplicate"
    refused = {"rule": answer.rule.value, "message": answer.message}
    return {"seq": None, "dropped": None, "abandoned": None, "refused": refused}


def _show_end(order: EndOrder, ended: list[Answered]) -> None:
    if not ended:
        has = "" if order.action == REMOVE else " that has not ended"
        line(f"{order.workflow} has no such instance{has}")
        return
    admitted = [outcome for outcome in ended if isinstance(outcome.answer, Admitted)]
    answers = [outcome.answer for outcome in ended if isinstance(outcome.answer, Admitted)]
    refused = [
        (outcome.cell, outcome.answer) for outcome in ended if isinstance(outcome.answer, Refusal)
    ]
    for cell, answer in refused[:REFUSALS_SHOWN]:
        note(f"aos: {cell.text}: {answer.message}", style="red")
    if len(refused) > REFUSALS_SHOWN:
        note(f"and {len(refused) - REFUSALS_SHOWN:,} more were refused (--json lists them all)")
    verb = "removed" if order.action == REMOVE else f"ended as {order.status}"
    who = admitted[0].cell.text if order.is_one else count(len(admitted), "instance")
    text = f"{who} {verb}"
    if refused:
        text += f", {len(refused):,} refused"
    if answers:
        text += _end_records([admission.seq for admission in answers])
    line(text)
    open_ones = sum(admission.abandoned for admission in answers)
    mail = sum(admission.dropped for admission in answers)
    if open_ones:
        line(f"  {count(open_ones, 'open effect')} canceled: no instance waits for a receipt")
        note("a canceled effect may have run already; only its executor can tell")
    if mail:
        line(f"  {count(mail, 'event')} in the mailbox dropped")


def _end_records(seqs: list[int]) -> str:
    first, last = seqs[0], seqs[-1]
    return f" (record {first:,})" if len(seqs) == 1 else f" (records {first:,} to {last:,})"
