"""Figures of linear plans and of the search index -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks.aims import NOT_MEASURED, Aim
from benchmarks.figures import median, ratio
from benchmarks.markdown import NOTHING, about, spread, table, times

Json = Mapping[str, Any]

TABLES: Final = "PostgreSQL, the source's two tables"
QUEUE: Final = "DBOS, a queue of workflows"
ONE, MANY = 1, 16
TABLES_RATE: Final = 0.75
QUEUE_RATE: Final = 2.0
LIST_RATIO: Final = 5.0
CORE_RATE: Final = 0.9


def linear_tables(found: Json) -> str:
    parts = [
        about(found),
        *(f"Not measured: {why}" for why in found["missing"]),
        "### Plans of five plan steps",
        _plans(found),
        _journal(found),
        "### Steps of the modules",
        _modules(found["modules"], found["replays"]),
        "### Lists by attribute",
        _lists(found["lists"]),
        _core(found["core"]),
    ]
    return "\n\n".join(parts)


def _plans(found: Json) -> str:
    rows = []
    for most, pace in _loads(found["plans"]):
        ours, theirs = (_rate(found[name], most, pace) for name in ("plans", "tables"))
        for name, system in (("plans", "AOS"), ("tables", TABLES)):
            rate = _rate(found[name], most, pace)
            if rate is not None:
                against = times(ratio(ours, theirs)) if name == "plans" else NOTHING
                rates = (f"{rate:,.0f}", against) if pace is None else (NOTHING, NOTHING)
                waited = spread(_waited(found[name], most, pace))
                rows.append((system, str(most), _starts(pace), *rates, waited))
    queued = _queue_rate(found)
    if queued is not None:
        rows.append((QUEUE, NOTHING, _starts(None), f"{queued:,.0f}", NOTHING, NOTHING))
    head = (
        "system", "most a claim", "instances start", "plan steps /s", "rate to the tables",
        "READY to claimed p50, p99 ms",
    )  # fmt: skip
    return table(head, rows)


def _starts(pace: float | None) -> str:
    return "all before" if pace is None else f"{pace:g} a second"


def _loads(rows: Sequence[Json]) -> list[tuple[int, float | None]]:
    return list(dict.fromkeys((each["most"], each["pace"]) for each in rows))


def _same(rows: Sequence[Json], most: int, pace: float | None) -> list[Json]:
    return [each for each in rows if (each["most"], each["pace"]) == (most, pace)]


def _rate(rows: Sequence[Json], most: int, pace: float | None = None) -> float | None:
    """The median over the rounds."""
    return _median(each["rate"] for each in _same(rows, most, pace))


def _queue_rate(found: Json) -> float | None:
    return _median(each["rate"] for each in found["queue"])


def _waited(rows: Sequence[Json], most: int, pace: float | None) -> Json:
    spreads = [each["ready_to_claimed_ms"] for each in _same(rows, most, pace)]
    return {name: median([each[name] for each in spreads]) for name in ("p50", "p99")}


def _median(values: Any) -> float | None:
    there = list(values)
    return median(there) if there else None


def _journal(found: Json) -> str:
    figures = []
    for most in (each for each, pace in _loads(found["plans"]) if pace is None):
        same = _same(found["plans"], most, None)
        journal, store = (
            median([each[name] for each in same]) for name in ("journal_bytes", "store_bytes")
        )
        figures.append(f"{journal:,.0f} bytes of journal with {most} a claim (store: {store:,.0f})")
    return f"A plan step writes {' and '.join(figures)}."


def _modules(found: Json, replays: Sequence[Json]) -> str:
    rows = [
        (
            each["step"], f"{each['turns']:,}", f"{each['kernel_us']:,.0f}",
            f"{each['sandbox_us']:,.0f}",
        )
        for each in found["steps"]
    ]  # fmt: skip
    sizes = ", ".join(f"`{name}` has {size:,} bytes" for name, size in found["bytes"].items())
    again = median([each["step_us"] for each in replays])
    head = ("event and step", "measured", "kernel's thread µs", "of which the sandbox")
    return f"{table(head, rows)}\n\n{sizes}. A replay takes {again:,.0f} µs for each step."


def _lists(found: Json) -> str:
    index, rows = found["index"], []
    for system, each in (("AOS, an index of three attributes", index), (
        "PostgreSQL, a table with three indexes", found["table"],
    )):  # fmt: skip
        if each is not None:
            rows.append(
                (
                    system, f"{found['cells']:,}", str(each["rows"]), f"{each['ms']['p50']:.2f}",
                    f"{each['ms']['p99']:.2f}",
                )
            )  # fmt: skip
    text = (
        f"The index was built in {index['built_s']:,.0f} s; it has "
        f"{index['bytes'] / (1 << 20):,.0f} MiB."
    )
    return f"{table(('list', 'cells', 'rows', 'p50 ms', 'p99 ms'), rows)}\n\n{text}"


def _core(rows: Sequence[Json]) -> str:
    indexed, plain = _core_rates(rows)
    found = times(ratio(indexed, plain))
    return (
        f"The core runs {indexed:,.0f} events a second with three attributes indexed, and "
        f"{plain:,.0f} without an index: {found} times."
    )


def _core_rates(rows: Sequence[Json]) -> tuple[float, float]:
    """With an index, and without."""
    indexed, plain = (
        median([each["rate"] for each in rows if each["has_index"] is has_index])
        for has_index in (True, False)
    )
    return indexed, plain


def linear_aims(found: Json | None) -> list[Aim]:
    return [_tables_aim(found), _queue_aim(found), _lists_aim(found), _core_aim(found)]


def _tables_aim(found: Json | None) -> Aim:
    ours, theirs = (
        (None, None) if found is None else (_rate(found["plans"], ONE), _rate(found["tables"], ONE))
    )
    return _at_least(
        "plan steps by 64 workers, 1 a claim: rate to the source's tables on PostgreSQL",
        TABLES_RATE, ours, theirs,
    )  # fmt: skip


def _queue_aim(found: Json | None) -> Aim:
    ours, theirs = (
        (None, None) if found is None else (_rate(found["plans"], MANY), _queue_rate(found))
    )
    return _at_least("plan steps by 64 workers, 16 a claim: rate to DBOS", QUEUE_RATE, ours, theirs)


def _core_aim(found: Json | None) -> Aim:
    ours, theirs = (None, None) if found is None else _core_rates(found["core"])
    return _at_least(
        "the core's rate with three attributes indexed to that without", CORE_RATE, ours, theirs
    )


def _at_least(what: str, least: float, ours: float | None, theirs: float | None) -> Aim:
    return _compared(
        what, f"at least {least:g} times", ours, theirs,
        is_met=lambda against: against >= least,
        words=lambda one, other: f"{one:,.0f}/s and {other:,.0f}/s",
    )  # fmt: skip


def _lists_aim(found: Json | None) -> Aim:
    ours, theirs = (
        (None, None)
        if found is None
        else (_p99(found["lists"]["index"]), _p99(found["lists"]["table"]))
    )
    return _compared(
        "a list by attribute of a million cells: p99 to a table of PostgreSQL",
        f"at most {LIST_RATIO:g} times", ours, theirs,
        is_met=lambda against: against <= LIST_RATIO,
        words=lambda one, other: f"{one:.2f} ms and {other:.2f} ms",
    )  # fmt: skip


def _p99(found: Json | None) -> float | None:
    return None if found is None else found["ms"]["p99"]


def _compared(
    what: str,
    aim: str,
    ours: float | None,
    theirs: float | None,
    *,
    is_met: Callable[[float], bool],
    words: Callable[[float, float], str],
) -> Aim:
    against = ratio(ours, theirs)
    if against is None or ours is None or theirs is None:
        return Aim(what=what, aim=aim, found=NOT_MEASURED, is_met=None)
    found = f"{against:.2f} times: {words(ours, theirs)}"
    return Aim(what=what, aim=aim, found=found, is_met=is_met(against))
