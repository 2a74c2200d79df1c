"""Transactions of one lane against a bare client, works of many signers against one, one work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from chain import Chain, Settings

from aos_gateway.policy import policy_of
from benchmarks.figures import median
from benchmarks.gateway.bare_client import BareClient
from benchmarks.gateway.gateway_world import NS_PER_S, Batch, GatewayWorld
from benchmarks.gateway.loads import WORKER, score, submit_work, work

LANE, BARE = 0, 1
"""The accounts of the two by turns: the first one's lane, and the bare client's."""

TRANSACTIONS: Final = 2
"""Of a score, and of a work."""

BLOCK_S: Final = 1.0
ARWEAVE_MS: Final = 100
MANY_UPLOADS_ARWEAVE_MS: Final = 3_000
"""Blocks of Arweave. An anchor is valid for 50 of them, and many works that are created together
have all been priced before the last one is uploaded."""

CONF: Final = 1
BATCH_S: Final = 300.0
WARM_SCORES: Final = 4

INSTANT: Final = Settings(
    block_time=None, automine=True, keeps_state=False, arweave_block_ms=ARWEAVE_MS
)

Json = dict[str, Any]


def measure_instant(folder: Path, *, scores: int, works: int, rounds: int) -> Json:
    """On a chain that mines each transaction at once: ``scores`` by one lane and by a bare client,
    by turns, and then ``works`` one after the other."""
    folder.mkdir()
    with (
        Chain.up(folder / "chain", INSTANT) as chain,
        GatewayWorld(folder / "gateway", chain) as world,
        BareClient(chain, chain.accounts[BARE]) as bare,
    ):
        found = []
        # The first of each opens connections and compiles.
        for number, count in enumerate([WARM_SCORES, *[scores] * rounds]):
            lane_s = _lane(chain, world, number, count)
            bare_s = _bare(chain, bare, number, count)
            found.append({"lane": _rate(count, lane_s), "bare": _rate(count, bare_s)})
        batches = [_one_work(chain, world, number) for number in range(works + 1)]
    return {
        "scores": scores,
        "rounds": found[1:],
        "work": _work_row(batches[1:]),
        "arweave_ms": ARWEAVE_MS,
    }


def _rate(scores: int, seconds: float) -> float:
    return scores * TRANSACTIONS / seconds


def _lane(chain: Chain, world: GatewayWorld, round: int, scores: int) -> float:
    names = [f"lane {round} {number}" for number in range(scores)]
    for name in names:
        submit_work(chain, name)
    policy = policy_of(conf=CONF)
    requests = [score(chain, name, chain.accounts[LANE], policy) for name in names]
    return world.run(requests, timeout_s=BATCH_S).seconds


def _bare(chain: Chain, bare: BareClient, round: int, scores: int) -> float:
    hashes = [submit_work(chain, f"bare {round} {number}") for number in range(scores)]
    worker = chain.accounts[WORKER].address
    began = time.perf_counter()
    for each in hashes:
        bare.score(each, worker)
    return time.perf_counter() - began


def _one_work(chain: Chain, world: GatewayWorld, number: int) -> Batch:
    policy = policy_of(conf=CONF, arweave_conf=1)
    request = work(chain, f"work {number}", chain.accounts[LANE], policy)
    return world.run([request], timeout_s=BATCH_S)


def _work_row(batches: Sequence[Batch]) -> Json:
    lives = [life for batch in batches for life in batch.lives]
    return {
        "works": len(lives),
        "seconds": median([batch.seconds for batch in batches]),
        "chain_seconds": median([(life.ended_ns - life.asked_ns) / NS_PER_S for life in lives]),
        "records": median([batch.records for batch in batches]),
        "journal_bytes": median([batch.journal_bytes for batch in batches]),
    }


def measure_signers(
    folder: Path, *, signers: Sequence[int], works: int, rounds: int, block_s: float
) -> Json:
    """On a chain with a block each ``block_s``: so many works of each signer, by turns with each
    number of signers. Each turn has a new world."""
    folder.mkdir()
    rows = []
    settings = Settings(
        block_time=block_s, keeps_state=False, arweave_block_ms=MANY_UPLOADS_ARWEAVE_MS
    )
    with Chain.up(folder / "chain", settings) as chain:
        for round in range(rounds):
            for count in signers:
                with GatewayWorld(folder / f"{count}-{round}", chain) as world:
                    rows.append(_signers_row(chain, world, count, round, works))
    return {"block_s": block_s, "conf": CONF, "rows": rows}


def _signers_row(chain: Chain, world: GatewayWorld, count: int, round: int, works: int) -> Json:
    """From the first request to a lane until the last work is COMPLETED: the evidence that comes
    first is not what signers have to do with."""
    policy = policy_of(conf=CONF, arweave_conf=1)
    requests = [
        work(chain, f"{count} signers {round} {number}", chain.accounts[number % count], policy)
        for number in range(works * count)
    ]
    batch = world.run(requests, timeout_s=BATCH_S)
    first_ns = min(life.asked_ns for life in batch.lives)
    last_ns = max(life.ended_ns for life in batch.lives)
    return {
        "signers": count,
        "round": round,
        "works": len(requests),
        "seconds": (last_ns - first_ns) / NS_PER_S,
        "rate": len(requests) * NS_PER_S / (last_ns - first_ns),
        "records": batch.records / len(requests),
        "journal_bytes": batch.journal_bytes / len(requests),
        "store_bytes": batch.store_bytes / len(requests),
    }
