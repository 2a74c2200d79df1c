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

BESIDE_BYTES: Final = 4096
"""A proof's bytes beside those of its record."""

FLAT: Final = 2
"""How many times as long something may take with a hundred times as many frames: more than noise,
and much less than what grows with them."""


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
            "### Checkpoints and proofs",
            table(PROOF_COLUMNS, [_proof_row(audit, each) for each in ("few", "many")]),
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
    few, many = (_proven(audit, each) for each in ("few", "many"))
    found += [
        ("a proof has 4 KiB beside its record", many["beside_bytes"] <= BESIDE_BYTES),
        ("time of a proof flat in the frames", many["cpu_ms"] <= FLAT * few["cpu_ms"]),
        ("memory of proofs flat in the frames", many["added_mib"] <= few["added_mib"] + GROWTH_MIB),
        ("a checkpoint costs what is new", many["again_s"] <= FLAT * few["again_s"]),
    ]
    return found


PROOF_COLUMNS: Final = [
    "frames", "first checkpoint, s", "after 1,000 more, s", "proof, ms", "bytes beside its record",
    "memory of proofs, MiB",
]  # fmt: skip


def _proof_row(audit: Json, size: str) -> list[str]:
    found = _proven(audit, size)
    return [
        f"{audit['proofs'][size]['rounds'][-1]['frames']:,}",
        f"{audit['proofs'][size]['first']['cpu_s']:,.2f}",
        f"{found['again_s']:.3f}",
        f"{found['cpu_ms']:.1f}",
        f"{found['beside_bytes']:,.0f}",
        f"{found['added_mib']:.1f}",
    ]


def _proven(audit: Json, size: str) -> dict[str, float]:
    rounds = audit["proofs"][size]["rounds"]
    return {
        "again_s": median([each["checkpoint"]["cpu_s"] for each in rounds]),
        "cpu_ms": median([each["proofs"]["cpu_ms"] for each in rounds]),
        "beside_bytes": max(each["proofs"]["beside_bytes"] for each in rounds),
        "added_mib": max(each["proofs"]["added_mib"] for each in rounds),
    }


def share(audit: Json, size: str, name: str, *, by: str = "fold") -> float:
    """Return the rate of a reader by that of another one, as the median of the rounds."""
    rounds = [each[size] for each in audit["rounds"]]
    return median([each[name]["rate"] / each[by]["rate"] for each in rounds])


def added(audit: Json, size: str, name: str) -> float:
    """Return the memory that a reader added at its peak, in MiB."""
    return max(float(each[size][name]["added_mib"]) for each in audit["rounds"])
