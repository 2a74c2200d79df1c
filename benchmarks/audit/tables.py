"""Figures of an audit run -> its tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.aims import NOT_MEASURED, Aim
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

WITHOUT_BYTES: Final = 4096
"""Bytes of a proof without those of its record."""

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
    return "\n\n".join(
        [
            about(audit),
            "### Event logs",
            table(columns, rows),
            "### Shadow",
            table(by_replay, executed),
            "### Checkpoints and proofs",
            table(PROOF_COLUMNS, [_proof_row(audit, each) for each in ("few", "many")]),
        ]
    )


def audit_aims(audit: Json | None) -> list[Aim]:
    """Return the aims of a run, or of none."""
    return [
        *(_rate_aim(audit, form) for form in FORMS),
        *(_memory_aim(audit, form) for form in FORMS),
        _shadow_aim(audit),
        *_proof_aims(audit),
    ]


def _rate_aim(audit: Json | None, form: str) -> Aim:
    ratio = None if audit is None else share(audit, "large", form)
    return Aim(
        what=f"event log as {form}: rate against that of folding the journal",
        aim="at least 1/3 times",
        found=NOT_MEASURED if ratio is None else f"{ratio:.2f} times",
        is_met=None if ratio is None else ratio >= EXPORT_RATIO,
    )


def _memory_aim(audit: Json | None, form: str) -> Aim:
    growth = None
    if audit is not None:
        growth = added(audit, "large", form) - added(audit, "small", form)
    return Aim(
        what=f"event log as {form}: memory of a journal four times as long",
        aim=f"at most {GROWTH_MIB} MiB more",
        found=NOT_MEASURED if growth is None else f"{growth:.1f} MiB more",
        is_met=None if growth is None else growth <= GROWTH_MIB,
    )


def _shadow_aim(audit: Json | None) -> Aim:
    ratio = None if audit is None else share(audit, "small", "shadow", by="replay")
    return Aim(
        what="shadow: rate against replay, the same journal",
        aim=f"at least {SHADOW_RATIO:g} times",
        found=NOT_MEASURED if ratio is None else f"{ratio:.2f} times",
        is_met=None if ratio is None else ratio >= SHADOW_RATIO,
    )


def _proof_aims(audit: Json | None) -> list[Aim]:
    few = many = None
    if audit is not None:
        few, many = (_proven(audit, each) for each in ("few", "many"))
    size = None if many is None else many["without_bytes"]
    growth = None
    if few is not None and many is not None:
        growth = many["added_mib"] - few["added_mib"]
    return [
        Aim(
            what="proof of a record: its bytes without the record",
            aim=f"at most {WITHOUT_BYTES:,}",
            found=NOT_MEASURED if size is None else f"{size:,.0f}",
            is_met=None if size is None else size <= WITHOUT_BYTES,
        ),
        _flat_aim("proof of a record: time with many frames against few", few, many, "cpu_ms"),
        Aim(
            what="proof of a record: memory with many frames against few",
            aim=f"at most {GROWTH_MIB} MiB more",
            found=NOT_MEASURED if growth is None else f"{growth:.1f} MiB more",
            is_met=None if growth is None else growth <= GROWTH_MIB,
        ),
        _flat_aim(
            "checkpoint after 1,000 frames: time with many frames before them against few",
            few, many, "again_s",
        ),
    ]  # fmt: skip


def _flat_aim(
    what: str, few: Mapping[str, float] | None, many: Mapping[str, float] | None, name: str
) -> Aim:
    times = None if few is None or many is None else many[name] / few[name]
    return Aim(
        what=what,
        aim=f"at most {FLAT} times",
        found=NOT_MEASURED if times is None else f"{times:.1f} times",
        is_met=None if times is None else times <= FLAT,
    )


PROOF_COLUMNS: Final = [
    "frames", "first checkpoint, s", "after 1,000 more, s", "proof, ms", "bytes without its record",
    "memory of proofs, MiB",
]  # fmt: skip


def _proof_row(audit: Json, size: str) -> list[str]:
    found = _proven(audit, size)
    return [
        f"{audit['proofs'][size]['rounds'][-1]['frames']:,}",
        f"{audit['proofs'][size]['first']['cpu_s']:,.2f}",
        f"{found['again_s']:.3f}",
        f"{found['cpu_ms']:.1f}",
        f"{found['without_bytes']:,.0f}",
        f"{found['added_mib']:.1f}",
    ]


def _proven(audit: Json, size: str) -> dict[str, float]:
    rounds = audit["proofs"][size]["rounds"]
    return {
        "again_s": median([each["checkpoint"]["cpu_s"] for each in rounds]),
        "cpu_ms": median([each["proofs"]["cpu_ms"] for each in rounds]),
        "without_bytes": max(each["proofs"]["without_bytes"] for each in rounds),
        "added_mib": max(each["proofs"]["added_mib"] for each in rounds),
    }


def share(audit: Json, size: str, name: str, *, by: str = "fold") -> float:
    """Return the rate of a reader by that of another one, as the median of the rounds."""
    rounds = [each[size] for each in audit["rounds"]]
    return median([each[name]["rate"] / each[by]["rate"] for each in rounds])


def added(audit: Json, size: str, name: str) -> float:
    """Return the memory that a reader added at its peak, in MiB."""
    return max(float(each[size][name]["added_mib"]) for each in audit["rounds"])
