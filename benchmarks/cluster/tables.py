"""Figures of replicated worlds -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.aims import NOT_MEASURED, Aim
from benchmarks.figures import median, percentile, ratio
from benchmarks.markdown import NOTHING, about, table, times

Json = Mapping[str, Any]

EMBEDDED: Final = "AOS, embedded"
R1: Final = "AOS, R1: one server"
R3: Final = "AOS, R3: three servers"
ALONE: Final = "AOS, R3, no standby"
UNSAFE: Final = "AOS, R3, default sync (unsafe)"
RESTATE_CLUSTER: Final = "Restate, three nodes"

RESTATE_P50: Final = 1.0
RESTATE_RATE: Final = 1.5
EMBEDDED_RATE: Final = 0.5
KILL_MS: Final = 5_000
HANDOVER_MS: Final = 1_000
LAG_MS: Final = 100
CELLS: Final = 1_000_000
KILLS: Final = 30

_IN_FLIGHT: Final = (1, 64)
_PARTS: Final = {"owner": "owner and callers", "standby": "standby", "servers": "servers"}


def cluster_tables(figures: Json) -> str:
    parts = [about(figures), "### Three effects in a row", _rates(figures), _lag(figures)]
    parts += [f"{name}: {reason}" for name, reason in figures["missing"].items()]
    parts += ["### Shards", _shards(figures["shards"])] if figures.get("shards") else []
    takeovers, restate = figures.get("takeovers"), figures.get("restate")
    if takeovers is not None:
        parts += ["### When a process ends", _ends(takeovers, restate)]
        parts += [_elections(takeovers), _books(takeovers, restate), "All times, in ms, in order:"]
        parts.append(_all_times(takeovers, restate))
    return "\n\n".join(part for part in parts if part)


def _points(figures: Json, setup: str, in_flight: int) -> list[Json]:
    return [
        point
        for turn in figures["steady"]
        if turn["setup"] == setup
        for point in turn["points"]
        if point["in_flight"] == in_flight
    ]


def middle(figures: Json, setup: str, in_flight: int, name: str) -> float | None:
    """The median over the rounds: ``rate``, or ``p50`` and ``p99`` of start to finish in ms."""
    values = [
        point["rate"] if name == "rate" else (point["finish_ms"] or {}).get(name)
        for point in _points(figures, setup, in_flight)
    ]
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _processor(figures: Json, setup: str, part: str) -> float | None:
    """Median processor time of one run with 64 in flight, in ms."""
    values = [
        point["processor_ms"][part]
        for point in _points(figures, setup, _IN_FLIGHT[-1])
        if part in point["processor_ms"]
    ]
    return median(values) if values else None


def _rates(figures: Json) -> str:
    head = (
        "", *(f"{number} in flight: rate /s; p50, p99 ms" for number in _IN_FLIGHT),
        *(f"processor ms a run, 64 in flight: {words}" for words in _PARTS.values()), "all",
    )  # fmt: skip
    rows = []
    for setup in dict.fromkeys(turn["setup"] for turn in figures["steady"]):
        row = [setup]
        for in_flight in _IN_FLIGHT:
            rate, p50, p99 = (
                middle(figures, setup, in_flight, name) for name in ("rate", "p50", "p99")
            )
            is_known = rate is not None and p50 is not None and p99 is not None
            row.append(f"{rate:,.0f}; {p50:.1f}, {p99:.1f}" if is_known else NOTHING)
        used = [_processor(figures, setup, part) for part in _PARTS]
        row += [NOTHING if value is None else f"{value:.2f}" for value in used]
        row.append(f"{sum(value for value in used if value is not None):.2f}")
        rows.append(row)
    return table(head, rows)


def _lags(figures: Json) -> list[Json]:
    """The lag of each round with three servers that sync."""
    return [
        turn["lag_ms"]
        for turn in figures["steady"]
        if turn["setup"] == R3 and turn["lag_ms"] is not None
    ]


def _lag(figures: Json) -> str:
    lags = _lags(figures)
    if not lags:
        return ""
    p50, p99 = (median([lag[name] for lag in lags]) for name in ("p50", "p99"))
    return (
        f"With 64 in flight, the standby of R3 is behind the owner by {p50:.0f} ms (p50), "
        f"{p99:.0f} ms (p99)."
    )


def _shards(rows: Sequence[Json]) -> str:
    head = (
        "shards, three servers",
        "events acknowledged /s",
        "processor ms of the sender, an event",
    )
    return table(
        head,
        [(str(row["shards"]), f"{row['rate']:,.0f}", f"{row['sender_ms']:.2f}") for row in rows],
    )


def _ends(takeovers: Json, restate: Json | None) -> str:
    rows = [
        _times_row(f"owner of {takeovers['cells']:,} cells killed", takeovers["kills_ms"]),
        _times_row("owner stopped: planned hand-over", takeovers["handovers_ms"]),
        _times_row("moved by the command", takeovers["moves_ms"]),
        _times_row("stream leader killed", [row["silence_ms"] for row in takeovers["elections"]]),
    ]
    if restate is not None:
        rows.append(_times_row("Restate: partition leader killed", restate["kills_ms"]))
    head = ("without an acknowledgement, ms", "times", "least", "p50", "p99", "most")
    return table(head, rows)


def _times_row(name: str, values: Sequence[float]) -> tuple[str, ...]:
    if not values:
        return (name, "0", NOTHING, NOTHING, NOTHING, NOTHING)
    numbers = (min(values), median(values), percentile(values, 0.99), max(values))
    return (name, str(len(values)), *(f"{number:,.0f}" for number in numbers))


def _elections(takeovers: Json) -> str:
    rows = [
        (
            f"{row['elected_ms']:,.0f}", f"{row['silence_ms']:,.0f}",
            "yes" if row["is_same_owner"] else "no",
        )
        for row in takeovers["elections"]
    ]  # fmt: skip
    head = ("servers have another leader after, ms", "events acknowledged after, ms", "same owner")
    return table(head, rows) if rows else ""


def _books(takeovers: Json, restate: Json | None) -> str:
    rows = [_books_row("AOS", takeovers)]
    if restate is not None:
        rows.append(_books_row(RESTATE_CLUSTER, restate))
    return table(("", "acknowledged", "lost", "doubled"), rows)


def _books_row(name: str, books: Json) -> tuple[str, ...]:
    return (name, *(f"{books[key]:,}" for key in ("acknowledged", "lost", "doubled")))


def _all_times(takeovers: Json, restate: Json | None) -> str:
    rows = [
        ("owner killed", takeovers["kills_ms"]),
        ("stopped", takeovers["handovers_ms"]),
        ("moved", takeovers["moves_ms"]),
    ]
    if restate is not None:
        rows.append((f"{RESTATE_CLUSTER}, leader killed", restate["kills_ms"]))
    return "\n".join(
        f"- {name}: {', '.join(f'{value:,.0f}' for value in values) or NOTHING}"
        for name, values in rows
    )


def cluster_aims(figures: Json | None) -> list[Aim]:
    if figures is None:
        return []
    takeovers, restate = figures.get("takeovers"), figures.get("restate")
    aims = [_restate_p50(figures), _rate(figures, RESTATE_CLUSTER, RESTATE_RATE)]
    aims += [_rate(figures, EMBEDDED, EMBEDDED_RATE), _lag_aim(figures)]
    if takeovers is not None:
        aims += [
            _kill_aim(takeovers),
            _planned_aim("owner stopped, a planned hand-over", takeovers["handovers_ms"]),
            _planned_aim("moved by the command", takeovers["moves_ms"]),
            _leader_aim(takeovers),
        ]
        aims += [_against_restate(takeovers, restate), _books_aim(takeovers)]
    return aims


def _restate_p50(figures: Json) -> Aim:
    ours, theirs = (middle(figures, setup, 1, "p50") for setup in (R3, RESTATE_CLUSTER))
    found_ratio = ratio(ours, theirs)
    return Aim(
        what="three servers, 1 in flight: p50 against Restate's three nodes",
        aim=f"at most {RESTATE_P50:g} times",
        found=NOT_MEASURED
        if found_ratio is None
        else f"{times(found_ratio)} times: {ours:.1f} ms and {theirs:.1f} ms",
        is_met=None if found_ratio is None else found_ratio <= RESTATE_P50,
    )


def _rate(figures: Json, other: str, least: float) -> Aim:
    ours, theirs = (middle(figures, setup, 64, "rate") for setup in (R3, other))
    found_ratio = ratio(ours, theirs)
    return Aim(
        what=f"three servers, 64 in flight: rate against {other}",
        aim=f"at least {least:g} times",
        found=NOT_MEASURED
        if found_ratio is None
        else f"{times(found_ratio)} times: {ours:,.0f}/s and {theirs:,.0f}/s",
        is_met=None if found_ratio is None else found_ratio >= least,
    )


def _lag_aim(figures: Json) -> Aim:
    lags = _lags(figures)
    p99 = median([lag["p99"] for lag in lags]) if lags else None
    return Aim(
        what="lag of a standby, 64 in flight: p99",
        aim=f"less than {LAG_MS} ms",
        found=NOT_MEASURED if p99 is None else f"{p99:.0f} ms",
        is_met=None if p99 is None else p99 < LAG_MS,
    )


def _kill_aim(takeovers: Json) -> Aim:
    """It counts with a million cells and 30 kills alone."""
    values = takeovers["kills_ms"]
    is_whole = takeovers["cells"] >= CELLS and len(values) >= KILLS
    p99 = percentile(values, 0.99) if values else None
    return Aim(
        what=f"owner of a million cells killed, {KILLS} times: next acknowledged event, p99",
        aim=f"less than {KILL_MS:,} ms",
        found=NOT_MEASURED
        if p99 is None
        else f"{p99:,.0f} ms of {len(values)} with {takeovers['cells']:,} cells",
        is_met=p99 < KILL_MS if is_whole and p99 is not None else None,
    )


def _planned_aim(what: str, values: Sequence[float]) -> Aim:
    p99 = percentile(values, 0.99) if values else None
    return Aim(
        what=f"{what}: next acknowledged event, p99",
        aim=f"less than {HANDOVER_MS:,} ms",
        found=NOT_MEASURED if p99 is None else f"{p99:,.0f} ms of {len(values)}",
        is_met=None if p99 is None else p99 < HANDOVER_MS,
    )


def _leader_aim(takeovers: Json) -> Aim:
    rows = takeovers["elections"]
    same = sum(row["is_same_owner"] for row in rows)
    found = NOT_MEASURED
    if rows:
        silence, elected = (
            median([row[name] for row in rows]) for name in ("silence_ms", "elected_ms")
        )
        found = (
            f"{same} of {len(rows)}; acknowledged after {silence:,.0f} ms, the servers' election "
            f"{elected:,.0f} ms (p50)"
        )
    return Aim(
        what="stream leader killed: the same owner continues",
        aim="each time",
        found=found,
        is_met=same == len(rows) if rows else None,
    )


def _against_restate(takeovers: Json, restate: Json | None) -> Aim:
    ours = takeovers["kills_ms"]
    theirs = [] if restate is None else restate["kills_ms"]
    is_known = bool(ours) and bool(theirs)
    p99s = [percentile(values, 0.99) for values in (ours, theirs)] if is_known else []
    return Aim(
        what="owner killed: p99 against Restate's leader killed",
        aim="less",
        found=f"{p99s[0]:,.0f} ms and {p99s[1]:,.0f} ms" if is_known else NOT_MEASURED,
        is_met=p99s[0] < p99s[1] if is_known else None,
    )


def _books_aim(takeovers: Json) -> Aim:
    lost, doubled = takeovers["lost"], takeovers["doubled"]
    return Aim(
        what="events lost or doubled, of those acknowledged while processes were killed",
        aim="0 and 0",
        found=f"{lost:,} and {doubled:,} of {takeovers['acknowledged']:,}",
        is_met=lost == doubled == 0,
    )
