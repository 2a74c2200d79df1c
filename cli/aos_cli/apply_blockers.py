"""Show what blocks a manifest, in groups, and what to do about it (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aos.audit.views.record_view import name_cell
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.limits import LIMITS
from aos.shell_text import shell_text
from aos_cli.output import note

GROUPS_SHOWN: Final = 20

_MEANINGS: Final[Mapping[str, str]] = {
    STRICT: "every instance continues on the new version",
    MIGRATE: "the new modules convert the stored states, all or none",
    PIN: "instances in flight, and finished ones that do not fit, stay with their version",
}

Document = Mapping[str, Any]
"""A part of the report of an apply (H-71b)."""

Command = Callable[[str, bool], Sequence[str]]
"""The words of the command that applies the manifest in a mode, and with ``--leave-cells``."""

MigrationCommand = Callable[[str], Sequence[str]]
"""The words of the command that writes the skeleton of a workflow's migration."""


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
        note(f"would work now: {words}  ({_MEANINGS[mode]})")
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
