"""Figures of the kernel interpreted and compiled -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from benchmarks.aims import FLOOR_RATIO, RESTART_S, Aim
from benchmarks.figures import median, ratio
from benchmarks.markdown import NOTHING, about, table, times

Json = Mapping[str, Any]
Figure: TypeAlias = Callable[[Json], float | None]

INTERPRETED: Final = "interpreted"
COMPILED: Final = "compiled"
LOADS: Final = (("many", 1), ("many", 64), ("hot", 64))


def compiled_tables(found: Json) -> str:
    words = (
        f"Medians of {found['options']['rounds']} rounds, both by turns in each. A cell says "
        "interpreted, compiled, and how many times as much that is."
    )
    return "\n\n".join([about(found), words, _rates(found), _journals(found)])


def _rates(found: Json) -> str:
    head = ("workload", "load", "in flight", "rate /s", "finished p50 ms", "floor ÷ rate")
    rows = []
    for workload in found["options"]["items"]:
        for load in LOADS:
            of = partial(_point, found, workload, load)
            rows.append(
                (
                    workload,
                    load[0],
                    str(load[1]),
                    _both(partial(of, _rate), ",.0f"),
                    _both(partial(of, _p50), ".1f"),
                    _both(partial(of, _floor), ".2f", compares=False),
                )
            )
    return table(head, rows)


def _journals(found: Json) -> str:
    head = ("workload", "records", "live items /s", "replay items /s", "restart s")
    rows = []
    for workload in found["options"]["items"]:
        of = partial(_journal, found, workload)
        rows.append(
            (
                workload,
                f"{of(_records, COMPILED) or 0:,.0f}",
                _both(partial(of, _live), ",.0f"),
                _both(partial(of, _replayed), ",.0f"),
                _both(partial(of, _restart), ".2f"),
            )
        )
    return table(head, rows)


def compiled_aims(found: Json | None) -> list[Aim]:
    """No aims where nothing was measured: the compiled form is an option."""
    if found is None:
        return []
    floors = {
        number: each
        for number in (1, 64)
        if (each := _point(found, "counter", ("many", number), _floor, COMPILED)) is not None
    }
    seconds = _journal(found, "counter", _restart, COMPILED)
    records = _journal(found, "counter", _records, COMPILED)
    return [
        Aim(
            what="counter: its floor's rate against its own; compiled",
            aim=f"at most {FLOOR_RATIO:g} times",
            found=", ".join(f"{each:.1f} at {n}" for n, each in floors.items()) or "not measured",
            is_met=max(floors.values()) <= FLOOR_RATIO if floors else None,
        ),
        Aim(
            what="restart, as far from a snapshot as can be; compiled",
            aim=f"less than {RESTART_S:g} s",
            found="not measured" if seconds is None else f"{seconds:.1f} s, {records:,.0f} records",
            is_met=None if seconds is None else seconds < RESTART_S,
        ),
    ]


def _point(
    found: Json, workload: str, load: tuple[str, int], figure: Figure, form: str
) -> float | None:
    """The median over the rounds."""
    return _median(
        [
            figure(point)
            for turn in found["turns"]
            if turn["form"] == form
            for world in turn["worlds"]
            if world["workload"] == workload
            for point in world["points"]
            if (point["cells"], point["in_flight"]) == load and not point["is_busy"]
        ]
    )


def _journal(found: Json, workload: str, figure: Figure, form: str) -> float | None:
    """The median over the rounds."""
    return _median(
        [
            figure(journal)
            for turn in found["turns"]
            if turn["form"] == form
            for journal in turn["journals"]
            if journal["workload"] == workload
        ]
    )


def _median(values: list[float | None]) -> float | None:
    there = [each for each in values if each is not None]
    return median(there) if there else None


def _both(figure: Callable[[str], float | None], form: str, *, compares: bool = True) -> str:
    before, after = figure(INTERPRETED), figure(COMPILED)
    words = [NOTHING if each is None else format(each, form) for each in (before, after)]
    return ", ".join([*words, times(ratio(after, before))] if compares else words)


def _rate(point: Json) -> float:
    return float(point["rate"])


def _p50(point: Json) -> float | None:
    found = point["finish_ms"]
    return None if found is None else float(found["p50"])


def _floor(point: Json) -> float | None:
    return ratio(point["floor"]["rate"], point["rate"])


def _records(journal: Json) -> float:
    return float(journal["replay"]["records"])


def _live(journal: Json) -> float:
    return float(journal["live"]["rate"])


def _replayed(journal: Json) -> float:
    return float(journal["items"] / journal["replay"]["seconds"])


def _restart(journal: Json) -> float:
    return float(journal["start"]["seconds"])
