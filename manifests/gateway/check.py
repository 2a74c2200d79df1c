#!/usr/bin/env python3
"""Compare the records of a world with the blocks of its chain, and report each difference.

    aos gateway list --limit 1000 --json > rows.json
    python manifests/gateway/check.py --rpc URL --studio $STUDIO rows.json

It reads every block of the chain, and of the world nothing but this list. It uses no code of AOS.
One JSON object is printed: `blocks`, `transactions`, `steps` (transactions that did a step of a
record), `reverted`, `empty` (of a signer to itself, which cancel or fill a nonce), and `findings`
`[{law, what, found}]`. The laws:

- `landed_twice`: no step of a record has two successful transactions;
- `registered_twice`: no work and no validator is twice in the contract's lists;
- `not_landed`: a COMPLETED record has a successful transaction for each of its steps;
- `landed_by_another`: those of a COMPLETED work are of its signer;
- `unexplained`: every transaction of a lane's signer does a step of a record, or is empty;
- `nonces`: the nonces of a lane's signer are 0, 1, 2 and so on, without a gap.

Exit codes: 0 no finding; 1 findings, or the node did not answer; 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from landed_transactions import Deed, Landed, NodeError, Transaction

STEPS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "work": (("submitWork", "registerWork"),),
    "score": (
        ("submitScore", "registerValidator"),
        ("commitScore", "revealScore", "registerValidator"),
    ),
    "epoch": (("closeEpoch",),),
}
"""The functions that the steps of a record call. A score has one of two modes."""

Row = Mapping[str, Any]
Doers = Mapping[Deed, Sequence[Transaction]]


class Finding(NamedTuple):
    """A law that is broken, where, and by what."""

    law: str
    what: str
    found: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rpc", required=True, metavar="URL", help="a node of the chain")
    parser.add_argument("--studio", required=True, metavar="A", help="address of the contract")
    parser.add_argument("rows", type=Path, help="the output of aos gateway list --json")
    given = parser.parse_args(arguments)
    rows = json.loads(given.rows.read_text("utf-8"))["rows"]
    try:
        report = compared(rows, Landed(given.rpc, given.studio))
    except NodeError as problem:
        sys.stderr.write(f"check.py: {problem}\n")
        return 1
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if report["findings"] else 0


def compared(rows: Sequence[Row], chain: Landed) -> dict[str, Any]:
    """The report that ``main`` prints."""
    transactions = chain.transactions()
    found = [*findings(rows, transactions), *registered_twice(chain, transactions)]
    return {
        "blocks": chain.head + 1,
        "transactions": len(transactions),
        "steps": sum(each.is_success and each.deed is not None for each in transactions),
        "reverted": sum(not each.is_success for each in transactions),
        "empty": sum(each.is_empty for each in transactions),
        "findings": [each._asdict() for each in found],
    }


def findings(rows: Sequence[Row], transactions: Sequence[Transaction]) -> Iterator[Finding]:
    """Every difference between a world's records and lanes and the transactions of the chain."""
    landed: dict[Deed, list[Transaction]] = defaultdict(list)
    for each in transactions:
        if each.is_success and each.deed is not None:
            landed[each.deed].append(each)
    for deed, doers in landed.items():
        if len(doers) > 1:
            hashes = ", ".join(each.hash for each in doers)
            yield Finding("landed_twice", f"{deed.key} {deed.function}", hashes)
    for row in rows:
        if row["type"] in STEPS and row["state"] == "COMPLETED":
            yield from _of_completed(row, landed)
    keys = {row["key"] for row in rows}
    for signer in sorted(row["signer"] for row in rows if row["type"] == "lane"):
        yield from _of_signer([each for each in transactions if each.sender == signer], keys)


def _of_completed(row: Row, landed: Doers) -> Iterator[Finding]:
    key, modes = row["key"], STEPS[row["type"]]
    steps = next((each for each in modes if Deed(key, each[0]) in landed), modes[0])
    for function in steps:
        doers = landed.get(Deed(key, function), ())
        if not doers:
            yield Finding("not_landed", f"{key} {function}", "no successful transaction")
        for each in doers:
            if row["type"] == "work" and each.sender != row["signer"]:
                yield Finding("landed_by_another", f"{key} {function}", each.sender)


def _of_signer(own: Sequence[Transaction], keys: set[str]) -> Iterator[Finding]:
    for number, each in enumerate(own):
        if each.nonce != number:
            yield Finding("nonces", f"{each.sender} nonce {number}", f"nonce {each.nonce}")
        if not each.is_empty and (each.deed is None or each.deed.key not in keys):
            yield Finding("unexplained", f"{each.sender} nonce {each.nonce}", each.hash)


def registered_twice(chain: Landed, transactions: Sequence[Transaction]) -> Iterator[Finding]:
    """Ask the contract itself: both of its lists grow with each registration."""
    for key, times in Counter(chain.registered_works()).items():
        if times > 1:
            yield Finding("registered_twice", f"{key} registerWork", f"{times} times")
    called = [each.deed for each in transactions if each.deed is not None]
    scores = sorted({each.key for each in called if each.function == "registerValidator"})
    for key, times in chain.validator_registrations(scores):
        if times > 1:
            yield Finding("registered_twice", f"{key} registerValidator", f"{times} times")


if __name__ == "__main__":
    sys.exit(main())
