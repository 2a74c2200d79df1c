"""Print the report of a shadow as text (spec/cli.md, C-149)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aos.read.lens.words import count, name_cell, short
from aos_cli.output import line

CELLS_SHOWN: Final = 10
PLACES_SHOWN: Final = 8
BLOCKERS_SHOWN: Final = 3
VALUE_CHARACTERS: Final = 400
"""How much of one side is shown. ``--json`` has all that the report has."""

Document = Mapping[str, Any]


def show_shadow(report: Document) -> None:
    """Print a report: differences, the effects of each side, and open ones."""
    range_text = f"from record {report['from']:,} to {report['to']:,}"
    if report["blocked"]:
        line(f"shadow: nothing could run, {range_text}", style="bold red")
        _show_blockers(report)
        return
    cells = report["cells"].values()
    different = sum(tally["different"] for tally in cells)
    total = different + sum(tally["same"] for tally in cells)
    if report["same"]:
        line(f"shadow: {count(total, 'cell')} the same, {range_text}", style="bold green")
    else:
        verb = "differs" if different == 1 else "differ"
        line(
            f"shadow: {different:,} of {count(total, 'cell')} {verb}, {range_text}",
            style="bold red",
        )
        for text in _counts(report):
            line(f"  {text}")
    _show_effects(report["effects"])
    _show_rest(report)
    _show_blockers(report)
    for cell_difference in report["differences"][:CELLS_SHOWN]:
        _show_cell(cell_difference)
    remaining = different - CELLS_SHOWN
    if remaining > 0:
        line(f"and {count(remaining, 'cell')} more (--json lists the first 100)")


def _counts(report: Document) -> Iterator[str]:
    classes = [(name, n) for name, n in report["by_class"].items() if n]
    yield "differences: " + ", ".join(f"{name} {n:,}" for name, n in sorted(classes))
    for workflow, tally in sorted(report["cells"].items()):
        if tally["different"]:
            yield f"{workflow}: {count(tally['different'], 'cell')}"


def _show_effects(effects: Document) -> None:
    recorded, shadow = effects["recorded"], effects["shadow"]
    for name in sorted({*recorded, *shadow}):
        shadow_counts, recorded_counts = (
            side.get(name, {"asked": 0}) for side in (shadow, recorded)
        )
        if shadow_counts != recorded_counts:
            line(f"  {name}: asked for {recorded_counts['asked']:,} times as recorded, "
                 f"{shadow_counts['asked']:,} in the shadow")  # fmt: skip


def _show_rest(report: Document) -> None:
    steps, answered, pending = report["steps"], report["answered"], report["pending"]
    alone = sum(answered.values())
    if alone:
        line(f"  {count(alone, 'effect')} of the shadow got an answer that is not in the journal")
    for n, text in (
        (steps["erased"], "not compared: a value that it needs was erased"),
        (steps["environmental"], "not compared: a fault of the machine"),
    ):
        if n:
            line(f"  {count(n, 'record')} {text}", style="yellow")
    if pending["recorded"] or pending["shadow"]:
        line(f"  open at the end: {count(pending['recorded'], 'effect')} as recorded, "
             f"{pending['shadow']:,} in the shadow")  # fmt: skip


def _show_blockers(report: Document) -> None:
    blockers = report["blockers"]
    if not blockers["total"]:
        return
    line(f"  an apply at record {report['from']:,} would have been blocked:", style="yellow")
    for blocker in blockers["first"][:BLOCKERS_SHOWN]:
        cell = name_cell(blocker["cell"]["workflow"], blocker["cell"]["key"])
        line(f"    {blocker['kind']}, {cell}: {blocker['detail']}", style="yellow")
    remaining = blockers["total"] - BLOCKERS_SHOWN
    if remaining > 0:
        line(f"    and {remaining:,} more", style="yellow")


def _show_cell(cell_difference: Document) -> None:
    cell, first, last = cell_difference["cell"], cell_difference["first"], cell_difference["last"]
    line(
        f"{name_cell(cell['workflow'], cell['key'])}: {', '.join(cell_difference['classes'])}",
        style="bold",
    )
    line(f"  first at record {first['record']:,}, on {first['on']}: {', '.join(first['classes'])}")
    for difference in first["differences"]:
        _show_difference(difference)
    sides: Sequence[tuple[str, Document | None]] = (
        ("recorded", last["recorded"]), ("shadow", last["shadow"]),
    )  # fmt: skip
    if last["recorded"] != last["shadow"]:
        line("  at the end")
        for name, side in sides:
            side_text = "no cell" if side is None else f"{side['status']} {_short(side['state'])}"
            line(f"    {name:<9}  {side_text}")


def _show_difference(difference: Document) -> None:
    if not difference["places"]:
        _show_both(difference["field"], difference["recorded"], difference["shadow"])
    for part in difference["places"][:PLACES_SHOWN]:
        path = difference["field"] + part["path"].removeprefix("$")
        _show_both(path, part["recorded"], part["shadow"])
    remaining = len(difference["places"]) - PLACES_SHOWN
    if remaining > 0:
        line(f"    {difference['field']}: and {count(remaining, 'place')} more")


def _show_both(path: str, recorded: object, shadow: object) -> None:
    line(f"    {path}")
    line(f"      recorded   {_short(recorded)}")
    line(f"      shadow     {_short(shadow)}")


def _short(value: object) -> str:
    return short(value, VALUE_CHARACTERS)
