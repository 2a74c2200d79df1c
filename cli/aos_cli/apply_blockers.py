"""Show what blocks a manifest, in groups, and what to do about it (spec/cli.md, C-21)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aos.core.decide.answers import Blocker
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.limits import LIMITS
from aos.host.apply.ways_out import Group, WaysOut, groups
from aos.manifest.effective import Effective
from aos_cli.cell_names import cell_document, cell_text
from aos_cli.output import note

GROUPS_SHOWN: Final = 20

_MEANINGS: Final[Mapping[str, str]] = {
    STRICT: "every instance continues on the new version",
    MIGRATE: "the new modules convert the stored states, all or none",
    PIN: "instances in flight, and finished ones that do not fit, stay with their version",
}

Command = Callable[[str, bool], Sequence[str]]
"""The words of the command that applies the manifest in a mode, and with ``--leave-cells``."""

MigrationCommand = Callable[[str], Sequence[str]]
"""The words of the command that writes the skeleton of a workflow's migration."""


def show_blockers(blockers: Sequence[Blocker], manifest: Effective | None) -> None:
    """Print one line for each group, with a count and examples if it has several blockers."""
    found = groups(blockers)
    for each in found[:GROUPS_SHOWN]:
        note(f"  {_group_text(each, manifest)}")
    if len(found) > GROUPS_SHOWN:
        note(f"  and {len(found) - GROUPS_SHOWN} more groups (--json lists them all)")
    if len(blockers) >= LIMITS.blockers:
        note(f"  these are the first {len(blockers):,}; there may be more")


def _group_text(group: Group, manifest: Effective | None) -> str:
    if group.count == 1:
        cell = group.examples[0] if group.examples else (group.workflow, b"")
        return f"{cell_text(cell, manifest)}: {group.kind}, {group.detail}"
    names = ", ".join(cell_text(each, manifest) for each in group.examples)
    such = f", such as {names}" if names else ""
    return f"{group.workflow}: {group.count:,} times {group.kind}{such}; the first: {group.detail}"


def show_ways_out(ways: WaysOut, command: Command, migration: MigrationCommand) -> None:
    """Print the commands that would work now, and what else the manifest could declare."""
    for mode in ways.modes:
        words = shlex.join(command(mode, ways.leaves_cells))
        note(f"would work now: {words}  ({_MEANINGS[mode]})")
    if ways.in_place:
        names = ", ".join(ways.in_place)
        note(
            f'would work now: the same command, if the manifest declares upgrade: "in_place" for '
            f"{names}  (their instances continue with the new module at their next step)"
        )
    for workflow in ways.to_migrate:
        words = shlex.join(migration(workflow))
        note(
            f"to convert the stored states of {workflow}: {words}  (writes the skeleton of a "
            "migration; complete it, build, and apply with --mode migrate)"
        )


def groups_document(
    blockers: Sequence[Blocker], manifest: Effective | None
) -> list[dict[str, object]]:
    return [
        {
            "workflow": each.workflow,
            "kind": each.kind,
            "count": each.count,
            "examples": [cell_document(cell, manifest) for cell in each.examples],
            "detail": each.detail,
        }
        for each in groups(blockers)
    ]


def ways_document(
    ways: WaysOut | None, command: Command, migration: MigrationCommand
) -> dict[str, object] | None:
    if ways is None:
        return None
    return {
        "modes": [
            {"mode": mode, "command": list(command(mode, ways.leaves_cells))} for mode in ways.modes
        ],
        "in_place": list(ways.in_place),
        "to_migrate": list(ways.to_migrate),
        "migrations": [
            {"workflow": each, "command": list(migration(each))} for each in ways.to_migrate
        ],
    }
