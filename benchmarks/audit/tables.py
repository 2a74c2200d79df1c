"""Figures of an audit run -> its tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.figures import median
from benchmarks.markdown import about, table

Json = Mapping[str, Any]

EXPORT_RATIO: Final = 1 / 3
"""The share of the fold rate that the export of OCEL must reach."""

GROWTH_MIB: Final = 8
"""Memory that the export of the longer journal may need in addition, four times as long."""

FORMS: Final = ("json", "sqlite")

EXECUTED: Final = ("replay", "shadow")
"""Readers that run modules, on the shorter journal alone."""

SHADOW_RATIO: Final = 1 / 2
"""The share of the replay rate that a shadow must reach."""


def audit_tables(audit: Json) -> str:
    """Return the tables of a run."""
    rows = []
    for size in ("small", "large"):
        for name in ("fold", *FORMS):
            rounds = [each[size][name] for each in audit["rounds"]]
            rows.append(
                [
                    "fold" if name == "fold" else f"OCEL, {name}",
                    f"{rounds[0]['records']:,}",
                    f"{median([each['rate'] for each in rounds]):,.0f}",
                    f"{share(audit, size, name):.2f}",
                    f"{max(each['added_mib'] for each in rounds):,.1f}",
                ]
            )
    executed = []
    for name in EXECUTED:
        rounds = [each["small"][name] for each in audit["rounds"]]
        executed.append(
            [
                name,
                f"{rounds[0]['records']:,}",
                f"{median([each['rate'] for each in rounds]):,.0f}",
                f"{share(audit, 'small', name, by='replay'):.2f}",
                f"{max(each['added_mib'] for each in rounds):,.1f}",
            ]
        )
    by_replay = ["runs", "records", "records/s of CPU", "of the replay", "memory, MiB"]
    columns = ["reads", "records", "records/s of CPU", "of the fold", "memory, MiB"]
    verdicts = [f"- {text}: {'met' if is_met else 'missed'}" for text, is_met in aims_of(audit)]
    return "\n\n".join(
        [
            about(audit),
            "### Event logs",
            table(columns, rows),
            "### Shadow",
            table(by_replay, executed),
            "\n".join(verdicts),
        ]
    )


def aims_of(audit: Json) -> list[tuple[str, bool]]:
    """Return each aim with whether it is met."""
    found = []
    for form in FORMS:
        ratio = share(audit, "large", form)
        found.append((f"OCEL as {form} at a third of the fold rate", ratio >= EXPORT_RATIO))
        growth = added(audit, "large", form) - added(audit, "small", form)
        found.append((f"flat memory of OCEL as {form}", growth <= GROWTH_MIB))
    ratio = share(audit, "small", "shadow", by="replay")
    found.append(("a shadow at half of the replay rate", ratio >= SHADOW_RATIO))
    return found


def share(audit: Json, size: str, name: str, *, by: str = "fold") -> float:
    """Return the rate of a reader by that of another one, as the median of the rounds."""
    rounds = [each[size] for each in audit["rounds"]]
    return median([each[name]["rate"] / each[by]["rate"] for each in rounds])


def added(audit: Json, size: str, name: str) -> float:
    """Return the memory that a reader added at its peak, in MiB."""
    return max(float(each[size][name]["added_mib"]) for each in audit["rounds"])
