"""Print the report of an apply or of a dry run (spec/cli.md, C-21).

A report has the changes of the manifest, its blockers in groups and the ways out, the flows in
progress that the manifest would continue or stop (C-21a), and stored states before and after a
migration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.limits import LIMITS
from aos.host.apply.apply import (
    FAILED,
    FATES,
    GOES_ON,
    IN_PLACE,
    KEPT,
    LEFT,
    MIGRATED,
    PINNED,
    WAITED_FOR,
)
from aos.host.apply.dry_run import ApplyReport
from aos.read.lens.words import compact, count, name_cell
from aos.shell_text import shell_text
from aos_cli.output import line, note

ALIKE_SHOWN: Final = 8
"""Most added, or removed, definitions of one kind that are listed one by one."""

GROUPS_SHOWN: Final = 20
FLOWS_SHOWN: Final = 10
FLOWS_DIVERGE: Final = "flows_diverge"

_FATES: Final = {
    GOES_ON: "at rest (continue on the new version)",
    PINNED: "in flight (finish on their version)",
    KEPT: "at rest (stay on their version: their state does not fit the new one)",
    IN_PLACE: "in flight (continue on the new version at their next step)",
    MIGRATED: "converted by the new module",
    WAITED_FOR: "in flight (must end first)",
    FAILED: "failed (use the new version when retried)",
    LEFT: "kept without a workflow",
}

_STYLES: Final = {"+": "green", "-": "red", "~": "yellow"}

_MODE_MEANINGS: Final[Mapping[str, str]] = {
    STRICT: "every instance continues on the new version",
    MIGRATE: "the new modules convert the stored states, all or none",
    PIN: "instances in flight, and finished ones that do not fit, stay with their version",
}

Document = Mapping[str, Any]
"""A part of the report of an apply (H-71b)."""

Gate = Mapping[str, Any]
"""The flows of a report (A-90)."""

Command = Callable[[str, bool], Sequence[str]]
"""The words of the command that applies the manifest in a mode, and with ``--leave-cells``."""

MigrationCommand = Callable[[str], Sequence[str]]
"""The words of the command that writes the skeleton of a workflow's migration."""


def is_fine(report: ApplyReport) -> bool:
    """Whether the manifest is in force now, or could be applied after a dry run."""
    if report["refused"] is not None:
        return False
    return bool(report["in_force"]) or not report["blockers"]


def show_report(report: ApplyReport) -> None:
    """Print the changes of a manifest, and whether it is in force now or what is in its way."""
    show_changes(report["changes"])
    show_open_events(report["open_events"])
    many = len(report["blockers"])
    if report["applied"]:
        line(f"applied as record {report['seq']}", style="bold")
        line(f"  {report['manifest']}")
    elif report["in_force"]:
        line("already in force")
        line(f"  {report['manifest']}")
    elif report["refused"] is not None:
        note(f"aos: refused: {report['refused']['message']}", style="red")
        show_blockers(report["groups"], many)
    elif many:
        show_fates(report["fates"])
        blocked = "1 blocker" if many == 1 else f"{many} blockers"
        note(f"aos: it could not be applied now: {blocked}", style="red")
        show_blockers(report["groups"], many)
    else:
        show_fates(report["fates"])
        line("it could be applied now (this was a dry run: nothing has changed)")


def show_fates(fates: Mapping[str, Mapping[str, int]] | None) -> None:
    """Print how many instances of each workflow a dry run would affect, and in which way."""
    if not fates:
        return
    line("instances", style="bold")
    for name, counts in sorted(fates.items()):
        parts = [f"{counts[fate]:,} {_FATES[fate]}" for fate in FATES if counts.get(fate)]
        line(f"  {name}: {', '.join(parts)}")


def show_changes(changes: Mapping[str, Any]) -> None:
    """Print the changes of a report."""
    sections: Sequence[tuple[str, Sequence[str]]] = [
        ("definitions", _definition_lines(changes["definitions"])),
        ("routes", changes["routes"]),
        ("shards of a group", changes["placements"]),
        ("limits", changes["limits"]),
        ("plans", changes["plans"]),
        ("schedules", changes["schedules"]),
        ("authority: permissions and keys", changes["authority"]),
    ]
    for title, lines in sections:
        if lines:
            line(title, style="bold")
            for text in lines:
                line(f"  {text}", style=_STYLES.get(text[0]))
    if changes["routes_reordered"]:
        line("routes are in another order: events fan out in the order of the manifest")
    if not any(changes.values()):
        line("nothing changes")


def _definition_lines(changes: Sequence[str]) -> list[str]:
    """One line per definition; more than ``ALIKE_SHOWN`` added or removed ones share a line."""
    lines: list[str] = []
    for (word, sign), group in groupby(changes, key=lambda change: (change.split()[1], change[0])):
        group_lines = list(group)
        if sign == "~" or len(group_lines) <= ALIKE_SHOWN:
            lines += group_lines
        else:
            lines.append(f"{sign} {len(group_lines)} {word}s (--json lists them)")
    return lines


def show_open_events(events: Sequence[Mapping[str, str]]) -> None:
    """Warn of events that workflows emit and that anyone may send (C-21c)."""
    if not events:
        return
    note(
        "warning: workflows emit these events, and anyone who may send events can send them, too "
        "(list the events that are accepted from outside in routing.ingress of the manifest)",
        style="yellow",
    )
    for event in events:
        note(f"  {event['event']}, emitted by {event['workflow']}")


def show_blockers(groups: Sequence[Document], count: int) -> None:
    """Print one line for each group, with a count and examples if it has several blockers."""
    for group in groups[:GROUPS_SHOWN]:
        note(f"  {group_text(group)}")
    if len(groups) > GROUPS_SHOWN:
        note(f"  and {len(groups) - GROUPS_SHOWN} more groups (--json lists them all)")
    if count >= LIMITS.blockers:
        note(f"  these are the first {count:,}; there may be more")


def group_text(group: Document) -> str:
    """One group of blockers as a line."""
    names = [cell_text(cell) for cell in group["examples"]]
    if group["count"] == 1:
        name = names[0] if names else group["workflow"]
        return f"{name}: {group['kind']}, {group['detail']}"
    examples = f", such as {', '.join(names)}" if names else ""
    return (
        f"{group['workflow']}: {group['count']:,} times {group['kind']}{examples}; "
        f"the first: {group['detail']}"
    )


def cell_text(cell: Document) -> str:
    """A cell of a report as text, such as ``shop/order@1 ord-1``."""
    return name_cell(cell["workflow"], cell["key"])


def show_ways_out(ways: Document, command: Command, migration: MigrationCommand) -> None:
    """Print the commands that would work now, and what else the manifest could declare."""
    for mode in ways["modes"]:
        words = shell_text(command(mode, ways["leaves_cells"]))
        note(f"would work now: {words}  ({_MODE_MEANINGS[mode]})")
    if ways["in_place"]:
        names = ", ".join(ways["in_place"])
        note(
            f'would work now: the same command, if the manifest declares upgrade: "in_place" for '
            f"{names}  (their instances continue with the new module at their next step)"
        )
    for workflow in ways["to_migrate"]:
        words = shell_text(migration(workflow))
        note(
            f"to convert the stored states of {workflow}: {words}  (writes the skeleton of a "
            "migration; complete it, build, and apply with --mode migrate)"
        )


def ways_document(
    ways: Document | None, command: Command, migration: MigrationCommand
) -> dict[str, object] | None:
    """The ways out, with the commands to type."""
    if ways is None:
        return None
    return {
        "modes": [
            {"mode": mode, "command": list(command(mode, ways["leaves_cells"]))}
            for mode in ways["modes"]
        ],
        "in_place": ways["in_place"],
        "to_migrate": ways["to_migrate"],
        "migrations": [
            {"workflow": workflow, "command": list(migration(workflow))}
            for workflow in ways["to_migrate"]
        ],
    }


def refusal_text(gate: Gate) -> str:
    """Return why the manifest is refused, in one sentence."""
    return (
        f"the new code does not fit the history of {len(gate['diverge']):,} of "
        f"{count(gate['checked'], 'flow')} in progress"
    )


def show_flows(gate: Gate, *, is_refused: bool) -> None:
    """Print how many flows in progress continue, and those that the new code would stop, or, if it
    is applied all the same, will stop (C-21a)."""
    stopped = gate["diverge"]
    if gate["go_on"]:
        line(f"{count(gate['go_on'], 'flow')} in progress: they continue on the new version")
    if is_refused:
        note(f"aos: refused: {refusal_text(gate)}", style="red")
    elif stopped:
        note(f"{count(len(stopped), 'flow')} in progress: the next step ends with a fault")
    for flow in stopped[:FLOWS_SHOWN]:
        note(f"  {_stopped_text(flow)}")
    if len(stopped) > FLOWS_SHOWN:
        note(f"  and {len(stopped) - FLOWS_SHOWN:,} more (--json lists them all)")


def show_advice(command: str) -> None:
    """Print what to do about flows that diverge; ``command`` applies the same manifest."""
    note("either keep the old form for flows in progress, with cx.version in the code")
    note(
        'or let them end on their own code: leave out upgrade = "in_place" in the new version, and '
        f"{command} --mode pin"
    )
    note(
        f"or {command} --allow-diverged: each of them stops with a fault at its next step, until "
        "code that fits its history is applied and aos flow resume continues it"
    )


def _stopped_text(flow: Mapping[str, Any]) -> str:
    cell = cell_text(flow["cell"])
    if flow["expected"] is None and flow["path"] is None:
        return f"{cell}: {flow['fault']['kind']}: {flow['fault']['message']}"
    path = flow["path"] or "its end"
    return f"{cell}: at {path} the history has {flow['expected']}, the new code {flow['found']}"


def show_states(states: Sequence[Mapping[str, Any]]) -> None:
    """Print each state of a report before and after a migration, and the places that differ:
    ``aos apply --dry-run --show`` (C-21)."""
    if states:
        line("states, those that fail first", style="bold")
    for state in states:
        line(f"  {cell_text(state['cell'])}")
        line(f"    before   {compact(state['before'])}")
        if state["fault"] is not None:
            fault = state["fault"]
            line(f"    fails    {fault['kind']}: {fault['message']}", style="red")
            continue
        line(f"    after    {compact(state['after'])}")
        for change in state["changed"]:
            was, now = compact(change["before"]), compact(change["after"])
            line(f"    changed  {change['path']}: {was} -> {now}", style="yellow")
