"""The outcomes of the gateway's records, and the progress of a world, read from its journal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.store.store import Store
from aos_cli.gateway.cells import cells_of
from aos_cli.gateway.keys import LANE, WORK
from aos_cli.gateway.rows import COMPLETED
from aos_cli.gateway.world import gateway_of

_SETTLED: Final = b"TxSettled@1"
_CONFIRMED: Final = b"Confirmed"

TYPES: Final = ("work", "score", "epoch")


def confirmed_after(store: Store, seq: int) -> tuple[int, int]:
    """The number of transactions that were confirmed after record ``seq``, and the last record
    counted.

    The step of a lane that settles a request as confirmed holds both words; searching for them is
    far cheaper than decoding.
    """
    head = store.head()
    if head is None or head.seq <= seq:
        return 0, seq
    frames = store.frames(seq + 1, head.seq)
    records = (data for frame in frames for data in frame.records)
    return sum(_SETTLED in data and _CONFIRMED in data for data in records), head.seq


@dataclass(frozen=True, slots=True)
class Outcomes:
    """``rows`` are those of ``aos gateway list --json``."""

    rows: Sequence[dict[str, Any]]

    @classmethod
    def read(cls, file: Path) -> Outcomes:
        return cls(json.loads(file.read_text("utf-8"))["rows"])

    def counts(self) -> Counter[tuple[str, str]]:
        """How many records ended how: by type and by state, with the code of a failure."""
        return Counter(
            (row["type"], row["state"] if row["state"] == COMPLETED else _with_code(row))
            for row in self.rows
            if row["type"] != LANE.name
        )

    def completed(self, kind: str) -> int:
        return self.counts()[kind, COMPLETED]

    @property
    def lanes(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["type"] == LANE.name]

    @property
    def faults(self) -> list[str]:
        return [row["key"] for row in self.rows if row["fault"] is not None]


def _with_code(row: dict[str, Any]) -> str:
    return f"{row['state']} ({row['code']})" if row["code"] else str(row["state"])


def first_in_its_lane(world: Path) -> str | None:
    """The key of a work whose transaction was the first of its signer, so that it waited for none:
    of these, the one that was published most often. None if no transaction has landed."""
    with gateway_of(world) as view:
        states = [(cell.key.text, cell.state) for cell in cells_of(view, WORK)]
    sent = {
        key: len(state["attempts"])
        for key, state in states
        if state is not None and any(attempt["nonce"] == 0 for attempt in state["attempts"])
    }
    return max(sorted(sent), key=lambda key: sent[key], default=None)
