"""Print the report of a shadow as text (spec/cli.md, C-149)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aos.audit.lens.words import count, short
from aos.audit.views.record_view import name_cell
from aos_cli.output import line

CELLS_SHOWN: Final = 10
PLACES_SHOWN: Final = 8
BLOCKERS_SHOWN: Final = 3
VALUE_CHARACTERS: Final = 400
"""How much of one side is shown. ``--json`` has all that the report has."""

Found = Mapping[str, Any]


def show_shadow(found: Found) -> None:
    """Print a report: differences, the effects of each side, and open ones."""
    where = f"from record {found['from']:,} to {found['to']:,}"
    if found["blocked"]:
        line(f"shadow: nothing could run, {where}", style="bold red")
        _show_blockers(found)
        return
    cells = found["cells"].values()
    different = sum(each["different"] for each in cells)
    total = different + sum(each["same"] for each in cells)
    if found["same"]:
        line(f"shadow: {count(total, 'cell')} the same, {where}", style="bold green")
    else:
        verb = "differs" if different == 1 else "differ"
        line(f"shadow: {different:,} of {count(total, 'cell')} {verb}, {where}", style="bold red")
        for text in _counts(found):
            line(f"  {text}")
    _show_effects(found["effects"])
    _show_rest(found)
    _show_blockers(found)
    for each in found["differences"][:CELLS_SHOWN]:
        _show_cell(each)
    more = different - CELLS_SHOWN
    if more > 0:
        line(f"and {count(more, 'cell')} more (--json lists the first 100)")


def _counts(found: Found) -> Iterator[str]:
    classes = [(name, n) for name, n in found["by_class"].items() if n]
    yield "differences: " + ", ".join(f"{name} {n:,}" for name, n in sorted(classes))
    for workflow, each in sorted(found["cells"].items()):
        if each["different"]:
            yield f"{workflow}: {count(each['different'], 'cell')}"


def _show_effects(effects: Found) -> None:
    recorded, shadow = effects["recorded"], effects["shadow"]
    for name in sorted({*recorded, *shadow}):
        ours, theirs = (each.get(name, {"asked": 0}) for each in (shadow, recorded))
        if ours != theirs:
            line(f"  {name}: asked for {theirs['asked']:,} times as recorded, {ours['asked']:,} in "
                 "the shadow")  # fmt: skip


def _show_rest(found: Found) -> None:
    steps, answered, pending = found["steps"], found["answered"], found["pending"]
    alone = sum(answered.values())
    if alone:
        line(f"  {count(alone, 'effect')} of the shadow got an answer that is not in the journal")
    for n, what in (
        (steps["erased"], "not compared: a value that it needs was erased"),
        (steps["environmental"], "not compared: a fault of the machine"),
    ):
        if n:
            line(f"  {count(n, 'record')} {what}", style="yellow")
    if pending["recorded"] or pending["shadow"]:
        line(f"  open at the end: {count(pending['recorded'], 'effect')} as recorded, "
             f"{pending['shadow']:,} in the shadow")  # fmt: skip


def _show_blockers(found: Found) -> None:
    blockers = found["blockers"]
    if not blockers["total"]:
        return
    line(f"  an apply at record {found['from']:,} would have been blocked:", style="yellow")
    for each in blockers["first"][:BLOCKERS_SHOWN]:
        cell = name_cell(each["cell"]["workflow"], each["cell"]["key"])
        line(f"    {each['kind']}, {cell}: {each['detail']}", style="yellow")
    more = blockers["total"] - BLOCKERS_SHOWN
    if more > 0:
        line(f"    and {more:,} more", style="yellow")


def _show_cell(found: Found) -> None:
    cell, first, last = found["cell"], found["first"], found["last"]
    line(f"{name_cell(cell['workflow'], cell['key'])}: {', '.join(found['classes'])}", style="bold")
    line(f"  first at record {first['record']:,}, on {first['on']}: {', '.join(first['classes'])}")
    for each in first["differences"]:
        _show_difference(each)
    sides: Sequence[tuple[str, Found | None]] = (
        ("recorded", last["recorded"]), ("shadow", last["shadow"]),
    )  # fmt: skip
    if last["recorded"] != last["shadow"]:
        line("  at the end")
        for name, side in sides:
            what = "no cell" if side is None else f"{side['status']} {_short(side['state'])}"
            line(f"    {name:<9}  {what}")


def _show_difference(found: Found) -> None:
    if not found["places"]:
        _show_both(found["field"], found["recorded"], found["shadow"])
    for place in found["places"][:PLACES_SHOWN]:
        path = found["field"] + place["path"].removeprefix("$")
        _show_both(path, place["recorded"], place["shadow"])
    more = len(found["places"]) - PLACES_SHOWN
    if more > 0:
        line(f"    {found['field']}: and {count(more, 'place')} more")


def _show_both(path: str, recorded: object, shadow: object) -> None:
    line(f"    {path}")
    line(f"      recorded   {_short(recorded)}")
    line(f"      shadow     {_short(shadow)}")


def _short(value: object) -> str:
    return short(value, VALUE_CHARACTERS)
