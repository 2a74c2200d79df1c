"""Figures of a node -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.aims import AOS, RESTATE, Aim
from benchmarks.figures import median, ratio
from benchmarks.markdown import NOTHING, about, table, times

Json = Mapping[str, Any]

EVENTS_RATE: Final = 1.5
EVENTS_P50: Final = 0.75
BATCH_RATE: Final = 2.0
CLAIM_RATIO: Final = 3.0
CORE_RATE: Final = 0.85
FRONT_MIB: Final = 150.0
DBOS_RATE: Final = 5.0
TABLE_RATE: Final = 0.75
TABLE: Final = "PostgreSQL, a bare table"
DBOS: Final = "DBOS, a queue"


def node_tables(found: Json) -> str:
    parts = [
        about(found),
        "### Events over HTTP",
        _events(found),
        *(f"{name}: {why}" for name, why in found["missing"].items()),
        "### Tasks of workers elsewhere",
        _tasks(found),
        "### The front",
        _front(found),
    ]
    return "\n\n".join(parts)


def _middle(found: Json, system: str, wait: str, cells: str, in_flight: int) -> tuple[float, float]:
    """Median rate and median p50 of all rounds; zeros without any."""
    wanted = (system, wait, cells, in_flight)
    points = [
        each
        for each in found["events"]
        if (each["system"], each["wait"], each["cells"], each["in_flight"]) == wanted
    ]
    if not points:
        return 0.0, 0.0
    return (
        median([each["rate"] for each in points]),
        median([each["finish_ms"]["p50"] for each in points if each["finish_ms"]]),
    )


def _events(found: Json) -> str:
    loads = list(
        dict.fromkeys(
            (each["system"], each["wait"], each["cells"], each["in_flight"])
            for each in found["events"]
        )
    )
    rows = []
    for system, wait, cells, number in loads:
        rate, p50 = _middle(found, system, wait, cells, number)
        theirs = _middle(found, RESTATE, "ran", cells, number)[0] if system == AOS else 0.0
        rows.append(
            (
                f"{system}, {wait}" if system == AOS else system, cells, str(number),
                f"{rate:,.0f}", f"{p50:.2f}", times(ratio(rate, theirs)),
            )
        )  # fmt: skip
    rate = median([each["rate"] for each in found["batches"]])
    rows.append((f"{AOS}, batches of 100, durable", "fresh", "4", f"{rate:,.0f}", NOTHING, NOTHING))
    head = ("system", "keys", "in flight", "events /s", "p50 ms", f"rate to {RESTATE}")
    return table(head, rows)


def _tasks(found: Json) -> str:
    rows = []
    for most in sorted({each["most"] for each in found["tasks"]}):
        same = [each for each in found["tasks"] if each["most"] == most]
        rate = median([each["rate"] for each in same])
        rows.append((str(same[0]["workers"]), str(most), f"{same[0]['tasks']:,}", f"{rate:,.0f}"))
    for name, number, rate in _queues(found):
        rows.append((name, number, "", f"{rate:,.0f}"))
    durable, claimed = _claims(found)
    text = (
        f"From sending an event to the claim of its task by a worker that waits: {claimed:.2f} ms "
        f"(p50); to the answer that the event is durable: {durable:.2f} ms."
    )
    return (
        table(("workers", "most a claim or transaction", "tasks", "settled /s"), rows)
        + "\n\n"
        + text
    )


def _queues(found: Json) -> list[tuple[str, str, float]]:
    """(name, rows of a transaction, rate) of the queues in PostgreSQL."""
    rounds = found["queues"]
    if not rounds:
        return []
    numbers = [each["most"] for each in rounds[0]["table"]]
    return [
        *(
            (TABLE, str(most), median([each["table"][place]["rate"] for each in rounds]))
            for place, most in enumerate(numbers)
        ),
        (DBOS, NOTHING, median([each["dbos"] for each in rounds])),
    ]


def _task_ratio(found: Json, most: int, name: str) -> float | None:
    """Our rate of tasks to that of another queue."""
    ours = median([each["rate"] for each in found["tasks"] if each["most"] == most])
    theirs = [
        rate for other, number, rate in _queues(found) if (other, number) in (
            (name, str(most)), (name, NOTHING),
        )
    ]  # fmt: skip
    return ratio(ours, theirs[0] if theirs else None)


def _claims(found: Json) -> tuple[float, float]:
    return (
        median([each["durable_ms"] for each in found["claims"]]),
        median([each["claimed_ms"] for each in found["claims"]]),
    )


def _core(found: Json) -> tuple[float, float]:
    """The core's own rate with a front and streams, and without."""
    rates = [
        median([each["rate"] for each in found["core"] if each["http"] is http])
        for http in (True, False)
    ]
    return rates[0], rates[1]


def _front(found: Json) -> str:
    served, alone = _core(found)
    memory = found["memory"]
    rows = [
        ("events that the world runs /s, with a front and 20 open streams", f"{served:,.0f}"),
        ("without a front", f"{alone:,.0f}"),
        (f"memory of the front with {memory['cells']:,} cells, MiB", f"{memory['before_mib']:.0f}"),
        (f"after {memory['records']:,} records, MiB", f"{memory['after_mib']:.0f}"),
    ]
    return table(("measured", "figure"), rows)


def node_aims(found: Json | None) -> list[Aim]:
    if found is None:
        return []
    ours = _middle(found, AOS, "ran", "fresh", 64)[0]
    theirs = _middle(found, RESTATE, "ran", "fresh", 64)[0]
    rate = ratio(ours, theirs)
    p50 = ratio(
        _middle(found, AOS, "ran", "fresh", 1)[1], _middle(found, RESTATE, "ran", "fresh", 1)[1]
    )
    single = _middle(found, AOS, "durable", "fresh", 64)[0]
    batches = ratio(median([each["rate"] for each in found["batches"]]), single)
    durable, claimed = _claims(found)
    claim = ratio(claimed, durable)
    core = ratio(*_core(found))
    dbos, bare = _task_ratio(found, 16, DBOS), _task_ratio(found, 1, TABLE)
    memory = max(found["memory"]["before_mib"], found["memory"]["after_mib"])
    return [
        Aim(
            what=f"HTTP events, 64 in flight, rate to {RESTATE}",
            aim=f"at least {EVENTS_RATE} times",
            found=times(rate), is_met=None if rate is None else rate >= EVENTS_RATE,
        ),
        Aim(
            what=f"HTTP events, 1 in flight, p50 to {RESTATE}", aim=f"at most {EVENTS_P50} times",
            found=times(p50), is_met=None if p50 is None else p50 <= EVENTS_P50,
        ),
        Aim(
            what="HTTP batches of 100 to single events", aim=f"at least {BATCH_RATE:.0f} times",
            found=times(batches), is_met=None if batches is None else batches >= BATCH_RATE,
        ),
        Aim(
            what="tasks by 64 workers, 16 a claim, to DBOS", aim=f"at least {DBOS_RATE:.0f} times",
            found=times(dbos), is_met=None if dbos is None else dbos >= DBOS_RATE,
        ),
        Aim(
            what="tasks by 64 workers, 1 a claim, to a bare table",
            aim=f"at least {TABLE_RATE} times",
            found=times(bare), is_met=None if bare is None else bare >= TABLE_RATE,
        ),
        Aim(
            what="sent to claimed, p50 to a durable send", aim=f"at most {CLAIM_RATIO:.0f} times",
            found=times(claim), is_met=None if claim is None else claim <= CLAIM_RATIO,
        ),
        Aim(
            what="the core's rate with a front and 20 streams", aim=f"at least {CORE_RATE} times",
            found=times(core), is_met=None if core is None else core >= CORE_RATE,
        ),
        Aim(
            what="memory of the front",
            aim=f"at most {FRONT_MIB:.0f} MiB", found=f"{memory:.0f} MiB",
            is_met=memory <= FRONT_MIB,
        ),
    ]  # fmt: skip
