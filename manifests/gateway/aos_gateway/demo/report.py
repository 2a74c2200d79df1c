"""The results of the gateway's demo, read from the world and printed: progress, outcomes, mischief,
a trace, and findings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from aos.errors import Unavailable
from aos.store.store import Store
from aos_cli.output import line, table
from aos_gateway.cells import cells_of
from aos_gateway.keys import LANE, WORK
from aos_gateway.rows import COMPLETED
from aos_gateway.world import gateway_of

TIMEOUT_S: Final = 30.0
LINE_MAX: Final = 180

TYPES: Final = ("work", "score", "epoch")

_WORK_SETTLED: Final = "emits gw/WorkTxSettled@1"

_TX_SETTLED: Final = b"TxSettled@1"
_CONFIRMED: Final = b"Confirmed"

_MISCHIEF: Final = {
    "lose": "replies lost",
    "cut": "replies cut in half",
    "fail_after": "requests carried out and answered with 500",
    "limit": "requests refused with 429",
    "delay": "replies delayed",
    "stale": "reads answered as of an earlier block",
    "drop": "transactions dropped from the pool",
    "unreachable": "requests while the node was dead",
}
"""The counters of the proxy."""

LAWS: Final = {
    "landed_twice": "no step has landed twice",
    "registered_twice": "the contract's lists have nothing twice",
    "not_landed": "every step of a COMPLETED record has landed",
    "landed_by_another": "every work is its signer's",
    "unexplained": "every transaction of a signer is explained by a record",
    "nonces": "the nonces of each signer are contiguous",
}
"""The laws of check.py."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of the gateway's records. ``rows`` are those of ``aos gateway list --json``."""

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


def show_outcomes(outcomes: Outcomes) -> None:
    counts = sorted(outcomes.counts().items(), key=lambda pair: TYPES.index(pair[0][0]))
    table(
        ["type", "state", "records"],
        [[kind, state, f"{number:,}"] for (kind, state), number in counts],
        right_aligned=("records",),
    )


def show_mischief(proxy: str, arweave: str, *, transactions: int, uploads: int) -> None:
    """Print how often each kind of mischief happened, and how often each thing was sent for it."""
    counts = _json_at(f"{proxy}/mischief")["counts"]
    posts = _json_at(f"{arweave}/stub/state")["posts"]
    mischief_rows = [
        [text, f"{counts[name]:,}"] for name, text in _MISCHIEF.items() if name in counts
    ]
    table(["mischief", "times"], mischief_rows, right_aligned=("times",))
    sent = counts["eth_sendRawTransaction"]
    line(f"  {transactions:,} transactions were sent {sent:,} times, {uploads:,} uploads {posts:,}")


def show_trace(lines: Sequence[str]) -> None:
    """Print a trace up to the settlement of the first transaction, with long values cut."""
    last = next((n for n, text in enumerate(lines) if _WORK_SETTLED in text), len(lines) - 1)
    for text in lines[:last]:
        line(f"  {text if len(text) <= LINE_MAX else f'{text[: LINE_MAX - 1]}…'}")
    line(f"  {lines[last]}")
    line(f"  … {len(lines) - last - 1:,} more lines: its other steps, and the lane's")


def show_figures(report: Mapping[str, Any]) -> None:
    names = ("blocks", "transactions", "steps", "reverted", "empty")
    table(
        ["in the chain", "number"],
        [[name, f"{report[name]:,}"] for name in names],
        right_aligned=("number",),
    )


def show_broken(findings: Sequence[Mapping[str, str]], law: str) -> int:
    """Print the findings of one law; return how many there are."""
    broken = [finding for finding in findings if finding["law"] == law]
    for finding in broken:
        line(f"  {finding['what']}: {finding['found']}", style="red")
    return len(broken)


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
    return sum(_TX_SETTLED in data and _CONFIRMED in data for data in records), head.seq


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


def _json_at(url: str) -> Any:
    try:
        return httpx.get(url, timeout=TIMEOUT_S, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as problem:
        raise Unavailable(f"{url}: expected JSON, found {problem}") from problem
