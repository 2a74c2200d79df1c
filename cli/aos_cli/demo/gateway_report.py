"""Print the results of the gateway's demo: outcomes, mischief, a trace, and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx

from aos.errors import Unavailable
from aos_cli.demo.gateway_outcomes import TYPES, Outcomes
from aos_cli.output import line, table

TIMEOUT_S: Final = 30.0
LINE_MAX: Final = 180
_SETTLED: Final = "emits gw/WorkTxSettled@1"

_WRONG: Final = {
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
    mischief_rows = [[text, f"{counts[name]:,}"] for name, text in _WRONG.items() if name in counts]
    table(["mischief", "times"], mischief_rows, right_aligned=("times",))
    sent = counts["eth_sendRawTransaction"]
    line(f"  {transactions:,} transactions were sent {sent:,} times, {uploads:,} uploads {posts:,}")


def show_trace(lines: Sequence[str]) -> None:
    """Print a trace up to the settlement of the first transaction, with long values cut."""
    last = next((n for n, text in enumerate(lines) if _SETTLED in text), len(lines) - 1)
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


def _json_at(url: str) -> Any:
    try:
        return httpx.get(url, timeout=TIMEOUT_S, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as problem:
        raise Unavailable(f"{url}: expected JSON, found {problem}") from problem
