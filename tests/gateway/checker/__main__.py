"""Compare an exported world with the chain: ``python -m tests.gateway.checker BUNDLE --rpc URL``.

It prints each broken law with the work and the step, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.gateway.checker.check import Declared, chain_of, check
from tests.gateway.checker.history import read_history
from tests.gateway.checker.journal import read_bundle


class HttpRpc:
    """A node's JSON-RPC, in batches."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, calls: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        if not calls:
            return []
        batch = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in zip(itertools.count(), calls, strict=False)
        ]
        request = urllib.request.Request(
            self._url, json.dumps(batch).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = {each["id"]: each for each in json.load(answer)}
        for number, (method, _) in enumerate(calls):
            if "error" in found[number]:
                raise RuntimeError(f"{method}: {found[number]['error']}")
        return [found[number]["result"] for number in range(len(calls))]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.checker")
    parser.add_argument("bundle", type=Path, help="the world, from aos export")
    parser.add_argument("--rpc", required=True, metavar="URL", help="a node of the chain")
    parser.add_argument(
        "--stranger",
        action="append",
        default=[],
        metavar="HASH",
        help="a transaction that another holder of a lane's key has sent",
    )
    parser.add_argument("--deep-reorg", action="store_true", help="blocks at depth were taken back")
    given = parser.parse_args(arguments)
    history = read_history(read_bundle(given.bundle))
    declared = Declared(strangers=frozenset(given.stranger), is_deep_reorg=given.deep_reorg)
    found = check(history, chain_of(history, HttpRpc(given.rpc)), declared)
    lines = [*map(str, found), f"{len(history.steps)} steps, {len(found)} findings"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
