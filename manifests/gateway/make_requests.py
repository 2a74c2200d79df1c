#!/usr/bin/env python3
"""Write works and scores as JSON lines for `aos send --jsonl`: equal arguments give equal lines.

    python manifests/gateway/make_requests.py --studio $STUDIO --signers $SIGNER,$SIGNER2 \\
        --works 10 --scores 5 > requests.jsonl

Each work has evidence of its own. Signers and epochs take turns. A score is of one of the works,
by a validator that is not its worker; half of the scores are committed first and revealed later.
The policy is for a fast local chain: short waits, few confirmations. `--only scores` writes the
scores alone: they can be sent later than their works.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from blake3 import blake3

CHAIN: Final = 31337
GWEI: Final = 10**9

POLICY: Final = {
    "conf": 2,
    "wait_ms": 1_000,
    "bump_after": 5,
    "max_fee": 200 * GWEI,
    "retries": 5,
    "retry_base_ms": 250,
    "retry_cap_ms": 2_000,
    "stall_base_ms": 3_000,
    "stall_cap_ms": 6_000,
    "stall_cycles": 100,
    "arweave_conf": 2,
    "arweave_wait_ms": 2_000,
}

SCHEMAS: Final = {"works": "gw/WorkRequested@1", "scores": "gw/ScoreRequested@1"}

Line = dict[str, Any]


def requests(
    *, studio: str, signers: Sequence[str], works: int, scores: int, epoch: int, epochs: int
) -> Iterator[Line]:
    """Yield the works, then the scores: at most one score for each work."""
    made = [
        _work(studio, signers[number % len(signers)], epoch + number % epochs, number)
        for number in range(works)
    ]
    for work in made:
        yield _line(SCHEMAS["works"], work, work["work"])
    for number, work in enumerate(made[:scores]):
        score = _score(work, signers, number)
        yield _line(SCHEMAS["scores"], score, score["score"])


def _work(studio: str, signer: str, epoch: int, number: int) -> Line:
    evidence = json.dumps({"work": number, "epoch": epoch, "words": "done " * (number + 1)})
    data_hash = f"0x{blake3(evidence.encode()).hexdigest()}"
    return {
        "work": f"{CHAIN}/{studio}/{data_hash}",
        "chain": CHAIN,
        "studio_address": studio,
        "epoch": epoch,
        "signer_address": signer,
        "data_hash": data_hash,
        "arweave": "main",
        "content_type": "application/json",
        "evidence": base64.b64encode(evidence.encode()).decode(),
        "policy": POLICY,
    }


def _score(work: Line, signers: Sequence[str], number: int) -> Line:
    """The validator follows the worker among the signers, and its admin follows the validator."""
    worker = work["signer_address"]
    place = signers.index(worker)
    validator, admin = (signers[(place + step) % len(signers)] for step in (1, 2))
    is_direct = number // len(signers) % 2 == 0
    return {
        "score": f"{work['work']}/{worker}/{validator}",
        **{name: work[name] for name in ("chain", "studio_address", "data_hash", "epoch")},
        "worker_address": worker,
        "signer_address": validator,
        "admin_address": admin,
        "scores": [60 + number % 40, 90],
        "mode": {"$tag": "Direct" if is_direct else "CommitReveal"},
        "policy": POLICY,
    }


def _line(schema: str, value: Line, key: str) -> Line:
    """With the submission id that `aos gateway create-work` uses, so that a second one by the
    command changes nothing."""
    return {"schema": schema, "value": value, "submission_id": f"gateway/{key}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--studio", required=True, metavar="A", help="address of the contract")
    parser.add_argument("--signers", required=True, metavar="A,B", help="addresses of the signers")
    parser.add_argument("--works", type=int, default=60)
    parser.add_argument("--scores", type=int, default=40, help="at most as many as works")
    parser.add_argument("--epoch", type=int, default=7, help="the first one")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--only", choices=SCHEMAS, help="default: both")
    given = vars(parser.parse_args())
    only = given.pop("only")
    signers = given.pop("signers").lower().split(",")
    given["studio"] = given["studio"].lower()
    for line in requests(signers=signers, **given):
        if only is not None and line["schema"] != SCHEMAS[only]:
            continue
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
