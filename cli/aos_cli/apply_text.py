"""Print what a manifest changes, and what became of it (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from aos.host.apply.forecast import (
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
from aos.host.apply.report import ApplyReport
from aos_cli.apply_blockers import show_blockers
from aos_cli.output import line, note

ALIKE_SHOWN: Final = 8
"""Most added, or removed, definitions of one kind that are listed one by one."""

_FATES: Final = {
    GOES_ON: "at rest, next on the new version",
    PINNED: "in flight, pinned to their version",
    KEPT: "at rest, kept on their version (their state does not fit the new one)",
    IN_PLACE: "in flight, on the new version at their next step",
    MIGRATED: "taken over by the new module",
    WAITED_FOR: "in flight, to be waited for",
    FAILED: "failed, on the new version when they are retried",
    LEFT: "left without their workflow",
}

_STYLES: Final = {"+": "green", "-": "red", "~": "yellow"}


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
        ("definitions", _definitions(changes["definitions"])),
        ("routes", changes["routes"]),
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


def _definitions(changes: Sequence[str]) -> list[str]:
    """One line per definition; more than ``ALIKE_SHOWN`` added or removed ones share a line."""
    lines: list[str] = []
    for (word, sign), group in groupby(changes, key=lambda change: (change.split()[1], change[0])):
        group_lines = list(group)
        if sign == "~" or len(group_lines) <= ALIKE_SHOWN:
            lines += group_lines
        else:
            lines.append(f"{sign} {len(group_lines)} {word}s (--json lists them)")
    return lines
