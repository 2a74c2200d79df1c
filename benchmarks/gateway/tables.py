"""Figures of the gateway -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.aims import NOT_MEASURED, Aim
from benchmarks.bench_world import STAGES
from benchmarks.figures import median, ratio
from benchmarks.markdown import about, table, times

Json = Mapping[str, Any]

LANE_RATE: Final = 0.4
SIGNERS: Final = 16
SIGNERS_RATE: Final = 12.0
WAITING: Final = 256
STEP_RATIO: Final = 3.0


def gateway_tables(found: Json) -> str:
    instant, signers = found["instant"], found["signers"]
    parts = [about(found), *(f"Not measured: {why}" for why in found["missing"])]
    if instant is not None:
        parts += ["### One lane on instant blocks", _instant(instant)]
    if signers is not None:
        parts += [f"### Signers, a block each {signers['block_s']:g} s", _signers(signers)]
    parts += [
        "### A step of a lane",
        _steps(found["steps"]),
        f"The module has {found['module_bytes']:,} bytes.",
    ]
    return "\n\n".join(parts)


def _instant(found: Json) -> str:
    lane, bare = _rates(found)
    against = times(_lane_ratio(found))
    rows = [
        ("one lane: a queue of scores", f"{lane:,.1f}", against),
        ("a bare client with the same requests", f"{bare:,.1f}", "1.00"),
    ]
    work = found["work"]
    text = (
        f"One work alone: {work['seconds']:.2f} s from its event until it is COMPLETED, of which "
        f"{work['chain_seconds']:.2f} s from its first request to the lane on (two transactions, "
        f"four views). Its upload waits for a block of the Arweave stub, one each "
        f"{found['arweave_ms']} ms. It writes {work['records']:,} records and "
        f"{work['journal_bytes']:,} bytes of journal."
    )
    return table(("sender", "transactions /s", "ratio"), rows) + "\n\n" + text


def _rates(found: Json) -> tuple[float, float]:
    """Median rates of the lane and of the bare client."""
    rounds = found["rounds"]
    return median([each["lane"] for each in rounds]), median([each["bare"] for each in rounds])


def _lane_ratio(found: Json) -> float:
    """The median of the rounds' own ratios: other work of the machine meets both in a round."""
    return median([each["lane"] / each["bare"] for each in found["rounds"]])


def _signers(found: Json) -> str:
    rows = []
    for count in _counts(found):
        same = [each for each in found["rows"] if each["signers"] == count]
        figures = [median([each[name] for each in same]) for name in ("seconds", "rate")]
        rows.append(
            (
                str(count),
                f"{same[0]['works']:,}",
                f"{figures[0]:.1f}",
                f"{figures[1]:.2f}",
                times(_signers_ratio(found, count)),
                f"{median([each['records'] for each in same]):,.0f}",
                f"{median([each['journal_bytes'] for each in same]):,.0f}",
                f"{median([each['store_bytes'] for each in same]):,.0f}",
            )
        )
    head = (
        "signers", "works", "s", "works /s", "ratio", "records a work", "bytes of journal a work",
        "bytes of the store a work",
    )  # fmt: skip
    return table(head, rows)


def _counts(found: Json) -> list[int]:
    return sorted({each["signers"] for each in found["rows"]})


def _signers_rate(found: Json, count: int) -> float | None:
    rates = [each["rate"] for each in found["rows"] if each["signers"] == count]
    return median(rates) if rates else None


def _signers_ratio(found: Json, count: int) -> float | None:
    return ratio(_signers_rate(found, count), _signers_rate(found, 1))


def _steps(rows: list[Json]) -> str:
    head = (
        "step", "requests that wait", "bytes of the queue", "kernel's thread µs", "ratio",
        *(f"of which the {name}" if name == "sandbox" else name for name in STAGES),
        "ratio with the commit",
    )  # fmt: skip
    return table(
        head,
        [
            (
                each["step"],
                f"{each['waiting']:,}",
                f"{each['queue_bytes']:,}",
                f"{each['kernel_us']:,.0f}",
                times(each["ratio"]),
                *(f"{each['stages_us'][name]:,.0f}" for name in STAGES),
                times(each["whole_ratio"]),
            )
            for each in rows
        ],
    )


def gateway_aims(found: Json | None) -> list[Aim]:
    instant, signers = (None, None) if found is None else (found["instant"], found["signers"])
    return [_lane(instant), _many(signers), _step([] if found is None else found["steps"])]


def _lane(found: Json | None) -> Aim:
    against = None if found is None else _lane_ratio(found)
    words = NOT_MEASURED
    if found is not None:
        lane, bare = _rates(found)
        words = f"{against:.2f} times: {lane:,.1f}/s and {bare:,.1f}/s"
    return Aim(
        what="one lane on instant blocks: transactions/s against a bare client",
        aim=f"at least {LANE_RATE:g} times",
        found=words,
        is_met=None if against is None else against >= LANE_RATE,
    )


def _many(found: Json | None) -> Aim:
    against = None if found is None else _signers_ratio(found, SIGNERS)
    words = NOT_MEASURED
    if found is not None and against is not None:
        many, one = (_signers_rate(found, count) for count in (SIGNERS, 1))
        words = f"{against:.1f} times: {many:.2f}/s and {one:.2f}/s"
    return Aim(
        what=f"{SIGNERS} signers at blocks of 1 s: works/s against one signer",
        aim=f"at least {SIGNERS_RATE:g} times",
        found=words,
        is_met=None if against is None else against >= SIGNERS_RATE,
    )


def _step(rows: list[Json]) -> Aim:
    full = [each for each in rows if each["waiting"] == WAITING]
    worst = max(full, key=lambda each: float(each["ratio"]), default=None)
    return Aim(
        what=f"a lane: its slowest step with {WAITING} requests waiting against none",
        aim=f"at most {STEP_RATIO:g} times",
        found=NOT_MEASURED if worst is None else f"{worst['ratio']:.2f} times: {worst['step']}",
        is_met=None if worst is None else worst["ratio"] <= STEP_RATIO,
    )
