"""Figures of flows -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.aims import Aim
from benchmarks.bench_world import STAGES
from benchmarks.flow.space import LEDGER, ROW
from benchmarks.markdown import about, table, times

Json = Mapping[str, Any]

NOT_MEASURED: Final = "not measured"
ROW_RATIOS: Final = {100: 1.5, 1_000: 5.0}
OPERATION_US: Final = 1.0
ITERATION_RATIO: Final = 1.2
SPACE_RATIO: Final = 3.0
SLEEPERS: Final = 1_000_000
SLEEPERS_MIB: Final = 150.0
RESTART_S: Final = 1.0
WOKEN_RATIO: Final = 0.5
MODULE_BYTES: Final = 60_000
MODULE: Final = "three steps, flow"

MIB: Final = 2**20


def flow_tables(found: Json) -> str:
    parts = [
        about(found),
        "### A turn of a flow",
        _turns("finished steps", found["rows"]),
        "### Three steps, a whole run",
        _runs(found["runs"]),
        "### A module alone",
        _sandbox(found["sandbox"]),
        "### A turn of a loop",
        _turns("iterations before", found["loops"]),
        "### Joins",
        _joins(found["joins"]),
        "### Bytes of the store",
        _space(found["space"]),
        "### Flows that sleep",
        _sleepers(found["sleepers"]),
        "### Size of a module",
        table(("module", "bytes"), [(name, f"{size:,}") for name, size in found["sizes"].items()]),
    ]
    return "\n\n".join(parts)


def _turns(title: str, rows: Sequence[Json]) -> str:
    head = (
        title, "turn µs", "ratio", "by the clock µs", "ratio", "admit", "step",
        "of which the sandbox", "seal", "commit",
    )  # fmt: skip
    return table(
        head,
        [
            (
                f"{each['size']:,}",
                f"{each['processor_us']:,.0f}",
                times(each["processor_ratio"]),
                f"{each['clock_us']:,.0f}",
                times(each["clock_ratio"]),
                *(f"{each['stages_us'][name]:,.0f}" for name in STAGES),
            )
            for each in rows
        ],
    )


def _runs(rows: Sequence[Json]) -> str:
    head = (
        "written as", "run µs", "rate against the reducer", "the same without commits", "admit",
        "step", "of which the sandbox", "seal", "commit",
    )  # fmt: skip
    return table(
        head,
        [
            (
                each["name"],
                f"{each['processor_us']:,.0f}",
                times(each["rate_ratio"]),
                times(each["rate_ratio_without_commits"]),
                *(f"{each['stages_us'][name]:,.0f}" for name in STAGES),
            )
            for each in rows
        ],
    )


def _sandbox(rows: Sequence[Json]) -> str:
    reducer = next(each for each in rows if each["size"] is None)
    return table(
        ("finished steps", "µs", "least", "against the reducer", "fuel"),
        [
            (
                "reducer" if each["size"] is None else f"{each['size']:,}",
                f"{each['us']:,.1f}",
                f"{each['least_us']:,.1f}",
                times(each["us"] / reducer["us"]),
                f"{each['fuel']:,}",
            )
            for each in rows
        ],
    )


def _joins(rows: Sequence[Json]) -> str:
    head = ("branches", "first turn ms", "an answer µs", "of which the sandbox", "whole ms")
    return table(
        head,
        [
            (
                f"{each['branches']:,}",
                f"{each['first_us'] / 1_000:,.1f}",
                f"{each['answer_us']:,.0f}",
                f"{each['sandbox_us']:,.0f}",
                f"{each['whole_us'] / 1_000:,.0f}",
            )
            for each in rows
        ],
    )


def _space(rows: Sequence[Json]) -> str:
    head = (
        "cell", "size", "bytes a turn, whole states", "with deltas", "turn µs, whole states",
        "with deltas", "commit µs, whole states", "with deltas",
    )  # fmt: skip
    return table(
        head,
        [
            (
                each["kind"],
                f"{each['size']:,}",
                *(
                    f"{each[form][name]:,.0f}"
                    for name in ("bytes", "processor_us", "commit_us")
                    for form in ("whole", "deltas")
                ),
            )
            for each in rows
        ],
    )


def _sleepers(found: Json) -> str:
    """Earlier results have one row, without a snapshot and without steps."""
    empty = found["empty"]
    head = (
        "flows", "made /s", "restart s", "memory MiB", "bytes a flow", "store bytes a flow",
        "steps of random ones /s",
    )  # fmt: skip
    return table(
        head,
        [
            (
                f"{world['flows']:,}",
                f"{world['make']['cells'] / world['make']['seconds']:,.0f}",
                f"{world['start']['seconds']:.2f}",
                f"{world['start']['rss_anon_mib']:,.0f}",
                f"{_more(world, empty, 'rss_anon_mib') * MIB:,.0f}",
                f"{_more(world, empty, 'store_bytes'):,.0f}",
                f"{world['woken']['rate']:,.0f}" if "woken" in world else "-",
            )
            for world in (found, *([found["few"]] if "few" in found else []))
        ],
    )


def _more(world: Json, empty: Json, name: str) -> float:
    """How much more each flow takes than a world without one."""
    more: float = (world["start"][name] - empty[name]) / world["flows"]
    return more


def flow_aims(found: Json | None) -> list[Aim]:
    return [
        *(_row(found, size, most) for size, most in ROW_RATIOS.items()),
        _operation(found),
        _iteration(found),
        *(_space_aim(found, kind) for kind in (ROW, LEDGER)),
        _module(found),
        *_of_sleepers(found),
    ]


def _row(found: Json | None, size: int, most: float) -> Aim:
    rows = {each["size"]: each for each in ([] if found is None else found["rows"])}
    ratio = rows[size]["processor_ratio"] if size in rows else None
    return Aim(
        what=f"a flow: a turn with {size:,} finished steps against one with 1",
        aim=f"at most {most:g} times",
        found=NOT_MEASURED if ratio is None else f"{ratio:.2f} times",
        is_met=None if ratio is None else ratio <= most,
    )


def operation_us(found: Json) -> float:
    """Return how much each finished operation adds to a turn in the sandbox, in µs."""
    rows = [each for each in found["sandbox"] if each["size"] is not None]
    first, last = rows[0], rows[-1]
    added_us: float = (last["us"] - first["us"]) / (last["size"] - first["size"])
    return added_us


def _operation(found: Json | None) -> Aim:
    each_us = None if found is None else operation_us(found)
    return Aim(
        what="a flow: a finished operation in each later turn, in the sandbox",
        aim=f"at most {OPERATION_US:g} µs",
        found=NOT_MEASURED if each_us is None else f"{each_us:.2f} µs",
        is_met=None if each_us is None else each_us <= OPERATION_US,
    )


def _iteration(found: Json | None) -> Aim:
    loops = [] if found is None else found["loops"]
    last = loops[-1] if loops else None
    words = f"{loops[-1]['size']:,} against {loops[0]['size']:,}" if loops else "100,000 against 10"
    return Aim(
        what=f"a flow: a turn of a loop, iteration {words}",
        aim=f"at most {ITERATION_RATIO:g} times",
        found=NOT_MEASURED if last is None else f"{last['processor_ratio']:.2f} times",
        is_met=None if last is None else last["processor_ratio"] <= ITERATION_RATIO,
    )


def _space_aim(found: Json | None, kind: str) -> Aim:
    rows = [] if found is None else [each for each in found["space"] if each["kind"] == kind]
    what = f"store bytes a turn, {kind}: the largest against the smallest size"
    if not rows:
        return Aim(what=what, aim=f"at most {SPACE_RATIO:g} times", found=NOT_MEASURED, is_met=None)
    small, large = rows[0], rows[-1]
    ratio = large["deltas"]["bytes"] / small["deltas"]["bytes"]
    return Aim(
        what=what,
        aim=f"at most {SPACE_RATIO:g} times",
        found=(
            f"{ratio:.2f} times: {large['deltas']['bytes']:,.0f} at {large['size']:,}, "
            f"{small['deltas']['bytes']:,.0f} at {small['size']:,}"
        ),
        is_met=ratio <= SPACE_RATIO,
    )


def _module(found: Json | None) -> Aim:
    size = None if found is None else found["sizes"][MODULE]
    return Aim(
        what="size of a module with a flow of three steps",
        aim=f"at most {MODULE_BYTES:,} bytes",
        found=NOT_MEASURED if size is None else f"{size:,} bytes",
        is_met=None if size is None else size <= MODULE_BYTES,
    )


def _of_sleepers(found: Json | None) -> list[Aim]:
    """A world of fewer flows meets no aim, and misses none."""
    sleepers = None if found is None else found["sleepers"]
    if sleepers is None or sleepers["flows"] < SLEEPERS:
        sleepers = None
    start = None if sleepers is None else sleepers["start"]
    ratio = None
    if sleepers is not None and "few" in sleepers:
        ratio = sleepers["woken"]["rate"] / sleepers["few"]["woken"]["rate"]
    return [
        Aim(
            what=f"memory of a process with {SLEEPERS:,} sleeping flows, after its start",
            aim=f"at most {SLEEPERS_MIB:g} MiB",
            found=NOT_MEASURED if start is None else f"{start['rss_anon_mib']:,.0f} MiB",
            is_met=None if start is None else start["rss_anon_mib"] <= SLEEPERS_MIB,
        ),
        Aim(
            what=f"start of a world with {SLEEPERS:,} sleeping flows, after a snapshot",
            aim=f"less than {RESTART_S:g} s",
            found=NOT_MEASURED if start is None else f"{start['seconds']:.2f} s",
            is_met=None if start is None else start["seconds"] < RESTART_S,
        ),
        Aim(
            what=f"steps of random ones of {SLEEPERS:,} sleeping flows, against few",
            aim=f"at least {WOKEN_RATIO:g} of the rate",
            found=NOT_MEASURED if ratio is None else f"{ratio:.2f} of the rate",
            is_met=None if ratio is None else ratio >= WOKEN_RATIO,
        ),
    ]
