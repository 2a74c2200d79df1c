"""Compare the figures of AOS and its peers with the goals. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.cores import SECOND
from benchmarks.figures import median, ratio

Json = Mapping[str, Any]

AOS: Final = "AOS"
AOS_REFERENCE: Final = "AOS, reference kernel"
AOS_FLOW: Final = "AOS, flow"
RESTATE: Final = "Restate, TypeScript"
RESTATE_AS_SHIPPED: Final = f"{RESTATE}, as shipped"

HOT_RATE: Final = 5_000
COUNTER_RATE: Final = 25_000
FOLD_RATE: Final = 500_000
REPLAY_STEPS: Final = 20_000
FLOOR_RATIO: Final = 3.0
FLAT_RATIO: Final = 1.3
RESTATE_RATES: Final = {RESTATE: 2.5, RESTATE_AS_SHIPPED: 5.0}
RESTATE_P50: Final = 0.45
FLOW_RATE: Final = 0.8
FLOW_P50: Final = 0.75
RESTART_S: Final = 2.0
RESTART_EVENTS: Final = 1_000_000


NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """``found`` is in words; ``is_met`` is None where nothing was measured."""

    what: str
    aim: str
    found: str
    is_met: bool | None


def aims(bench: Json | None, peers: Json | None) -> list[Aim]:
    worlds, journals, restarts = (
        of_core([] if bench is None else bench[name], SECOND)
        for name in ("worlds", "journals", "restarts")
    )
    rates = [*(_restate_rate(peers, system) for system in RESTATE_RATES), _restate_p50(peers)]
    rates += [*(_flow_rate(peers, number) for number in (1, 64)), _flow_p50(peers)]
    rates += [_counter(worlds), _hot(worlds), _floor(worlds), _flat(worlds)]
    rates += [_replay(journal) for journal in journals]
    rates += [_replay_steps(journals), _fold(worlds), _restart(restarts)]
    return rates


def of_core(rows: Sequence[Json], core: str) -> list[Json]:
    """The figures of one kernel. Those of a run that measured another one alone are of none."""
    return [row for row in rows if row["core"] == core]


def points_of(
    worlds: Sequence[Json], workload: str, *, size: int | None = None, **wanted: Any
) -> list[Json]:
    """Points of a workload whose fields are as ``wanted``; of one size, or of the smallest."""
    sizes = sorted(each["size"] for each in worlds if each["workload"] == workload)
    if not sizes:
        return []
    of = sizes[0] if size is None else size
    return [
        point
        for world in worlds
        if world["workload"] == workload and world["size"] == of
        for point in world["points"]
        if all(point[name] == value for name, value in wanted.items())
    ]


def peer_figure(peers: Json, system: str, cells: str, in_flight: int, name: str) -> float | None:
    """The median over the rounds: ``rate``, or ``p50`` and ``p99`` of start to finish."""
    found = [
        point["rate"] if name == "rate" else (point["finish_ms"] or {}).get(name)
        for turn in peers["turns"]
        if turn["system"] == system
        for point in turn["points"]
        if point["cells"] == cells and point["in_flight"] == in_flight
    ]
    there = [each for each in found if each is not None]
    return median(there) if there else None


def _restate_rate(peers: Json | None, system: str) -> Aim:
    ours, theirs = _pair(peers, AOS, 64, "rate", against=system)
    times, least = ratio(ours, theirs), RESTATE_RATES[system]
    return Aim(
        what=f"three effects, 64 in flight: rate against {system}",
        aim=f"{least:g} times",
        found=_nothing(times, lambda x: f"{x:.2f} times: {ours:,.0f}/s and {theirs:,.0f}/s"),
        is_met=None if times is None else times >= least,
    )


def _restate_p50(peers: Json | None) -> Aim:
    ours, theirs = _pair(peers, AOS, 1, "p50")
    found = ratio(ours, theirs)
    return Aim(
        what="three effects, 1 in flight: p50 against Restate (TypeScript)",
        aim=f"{RESTATE_P50:g} times",
        found=_nothing(found, lambda x: f"{x:.2f} times: {ours:.1f} ms and {theirs:.1f} ms"),
        is_met=None if found is None else found <= RESTATE_P50,
    )


def _flow_rate(peers: Json | None, in_flight: int) -> Aim:
    flow, reducer = _pair(peers, AOS_FLOW, in_flight, "rate", against=AOS)
    found = ratio(flow, reducer)
    return Aim(
        what=f"three effects, {in_flight} in flight: rate of a flow against a reducer",
        aim=f"{FLOW_RATE:g} times",
        found=_nothing(found, lambda x: f"{x:.2f} times: {flow:,.0f}/s and {reducer:,.0f}/s"),
        is_met=None if found is None else found >= FLOW_RATE,
    )


def _flow_p50(peers: Json | None) -> Aim:
    flow, theirs = _pair(peers, AOS_FLOW, 1, "p50")
    found = ratio(flow, theirs)
    return Aim(
        what="three effects, 1 in flight: p50 of a flow against Restate (TypeScript)",
        aim=f"{FLOW_P50:g} times",
        found=_nothing(found, lambda x: f"{x:.2f} times: {flow:.1f} ms and {theirs:.1f} ms"),
        is_met=None if found is None else found <= FLOW_P50,
    )


def _pair(
    peers: Json | None, system: str, in_flight: int, name: str, *, against: str = RESTATE
) -> tuple[float | None, float | None]:
    if peers is None:
        return None, None
    return (
        peer_figure(peers, system, "fresh", in_flight, name),
        peer_figure(peers, against, "fresh", in_flight, name),
    )


def _counter(worlds: Sequence[Json]) -> Aim:
    points = points_of(worlds, "counter", cells="many", is_busy=False, in_flight=64)
    rate = points[0]["rate"] if points else None
    return _at_least("counter, 64 in flight", COUNTER_RATE, rate, " events/s")


def _hot(worlds: Sequence[Json]) -> Aim:
    found = points_of(worlds, "counter", cells="hot", is_busy=False)
    best = max((each["rate"] for each in found), default=None)
    return _at_least("a hot cell: counter, its best rate", HOT_RATE, best, " events/s")


def _floor(worlds: Sequence[Json]) -> Aim:
    found = points_of(worlds, "counter", cells="many", is_busy=False)
    ratios = {each["in_flight"]: ratio(each["floor"]["rate"], each["rate"]) for each in found}
    there = {number: each for number, each in ratios.items() if each is not None}
    worst = max(there.values(), default=None)
    words = ", ".join(f"{each:.1f} at {number}" for number, each in there.items())
    return Aim(
        what="counter: its floor's rate against its own, by how many are in flight",
        aim=f"at most {FLOOR_RATIO:g} times",
        found=words or "not measured",
        is_met=None if worst is None else worst <= FLOOR_RATIO,
    )


def _flat(worlds: Sequence[Json]) -> Aim:
    sizes = sorted(each["size"] for each in worlds if each["workload"] == "counter")
    rates: dict[int, float] = {}
    for size in sizes:
        for each in points_of(
            worlds, "counter", size=size, cells="many", is_busy=False, in_flight=64
        ):
            rates[size] = each["rate"]
    spread = ratio(max(rates.values()), min(rates.values())) if len(rates) > 1 else None
    words = ", ".join(f"{rate:,.0f}/s of {size:,}" for size, rate in rates.items())
    return Aim(
        what="counter, 64 in flight: best rate against worst, by cells of the world",
        aim=f"at most {FLAT_RATIO:g} times",
        found=_nothing(spread, lambda x: f"{x:.2f} times: {words}"),
        is_met=None if spread is None else spread <= FLAT_RATIO,
    )


def _replay(journal: Json) -> Aim:
    items, replay, live = journal["items"], journal["replay"], journal["live"]
    again, first = items / replay["seconds"], live["rate"]
    return Aim(
        what=f"{journal['workload']}: replay against live, the same journal",
        aim="at least 1 times",
        found=f"{again / first:.2f} times: {again:,.0f}/s and {first:,.0f}/s",
        is_met=again >= first,
    )


def _replay_steps(journals: Sequence[Json]) -> Aim:
    """Of the workload that replays most steps."""
    rate = max(
        (journal["replay"]["steps"] / journal["replay"]["seconds"] for journal in journals),
        default=None,
    )
    return _at_least("replay: its best rate", REPLAY_STEPS, rate, " steps/s")


def _fold(worlds: Sequence[Json]) -> Aim:
    """Of the restart that reads most records: a short one is mostly the start of the process."""
    start = max((world["start"] for world in worlds), key=_records, default=None)
    rate = None if start is None else start["records"] / start["seconds"]
    return _at_least("restart: records read", FOLD_RATE, rate, "/s")


def _records(start: Json) -> int:
    records: int = start["records"]
    return records


def _restart(restarts: Sequence[Json]) -> Aim:
    restart = restarts[0] if restarts else None
    seconds = None if restart is None else restart["start"]["seconds"]
    is_enough = restart is not None and restart["events"] >= RESTART_EVENTS
    return Aim(
        what="restart after 1,000,000 events",
        aim=f"less than {RESTART_S:g} s",
        found="not measured" if restart is None else f"{seconds:.1f} s after {restart['events']:,}",
        is_met=seconds < RESTART_S if is_enough and seconds is not None else None,
    )


def _at_least(what: str, least: int, rate: float | None, unit: str) -> Aim:
    """The aim of a rate, which is None where it was not measured."""
    return Aim(
        what=what,
        aim=f"{least:,}{unit}",
        found=_nothing(rate, lambda x: f"{x:,.0f}{unit}"),
        is_met=None if rate is None else rate >= least,
    )


def _nothing(found: float | None, words: Any) -> str:
    return "not measured" if found is None else words(found)
