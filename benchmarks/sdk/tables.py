"""Figures of the SDKs -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.aims import Aim
from benchmarks.markdown import about, table, times

Json = Mapping[str, Any]

TITLES: Final = {"counter": "A keyed counter", "steps": "Three effects in a row"}
RUST: Final = "Rust SDK"
COUNTER_BYTES: Final = 40_000
WHOLE_STEP_MOST: Final = 1.15


def sdk_tables(found: Json) -> str:
    parts = [about(found)]
    for workload, title in TITLES.items():
        rows = [each for each in found["variants"] if each["workload"] == workload]
        parts += [f"### {title}", _table(rows)]
    parts += ["### A step as the kernel decides it", _whole_table(found.get("whole_steps", []))]
    return "\n\n".join(parts)


def _whole_table(rows: Sequence[Json]) -> str:
    return table(
        ("workflow", "Rust SDK, µs a step", "AgentOS ABI, µs a step", "against the Rust SDK"),
        [
            (
                TITLES[each["workload"]],
                f"{each['ours_us']:.1f}",
                f"{each['theirs_us']:.1f}",
                times(each["against_ours"]),
            )
            for each in rows
        ],
    )


def _table(rows: list[Json]) -> str:
    head = (
        "module", "size bytes", "fuel a step", "µs a step", "least", "against by hand",
        "input bytes", "output bytes",
    )  # fmt: skip
    return table(
        head,
        [
            (
                each["name"],
                f"{each['bytes']:,}",
                f"{each['fuel']:,.0f}",
                f"{each['step_us']:.1f}",
                f"{each['step_us_least']:.1f}",
                times(each["against_by_hand"]),
                f"{each['input_bytes']:,.0f}",
                f"{each['output_bytes']:,.0f}",
            )
            for each in rows
        ],
    )


def sdk_aims(found: Json | None) -> list[Aim]:
    rows = [] if found is None else found["variants"]
    sizes = [
        each["bytes"] for each in rows if (each["workload"], each["name"]) == ("counter", RUST)
    ]
    whole = [] if found is None else found.get("whole_steps", [])
    worst = max((each["against_ours"] for each in whole), default=None)
    return [
        Aim(
            what="a step of a module of AgentOS against one of the Rust SDK",
            aim=f"at most {WHOLE_STEP_MOST:g} times",
            found="not measured" if worst is None else f"{worst:.2f} times",
            is_met=None if worst is None else worst <= WHOLE_STEP_MOST,
        ),
        Aim(
            what="size of a counter with the Rust SDK",
            aim=f"less than {COUNTER_BYTES:,} bytes",
            found=f"{sizes[0]:,} bytes" if sizes else "not measured",
            is_met=sizes[0] < COUNTER_BYTES if sizes else None,
        ),
    ]
