"""Processor time of a lane's steps, by how many requests wait in it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aos.values.cbor import Value
from aos_gateway.policy import policy_of
from benchmarks.bench_world import STAGES, BenchWorld, Turn
from benchmarks.figures import median
from benchmarks.gateway import MANIFEST

LANE: Final = "gw/signer@1"
CHAIN_ID: Final = 31337
STUDIO: Final = "0x" + "5a" * 20
GWEI: Final = 10**9

ARRIVES: Final = "a request arrives"
QUOTED: Final = "the quote is answered"
SUBMITTED: Final = "the submit is answered"
PENDING: Final = "a receipt is answered: pending"
SETTLED: Final = "a receipt is answered: settle and begin next"
KERNEL: Final = ("admit", "step", "seal")

STEPS: Final = (ARRIVES, QUOTED, SUBMITTED, PENDING, SETTLED)

Json = dict[str, Any]


def measure_lane_steps(folder: Path, waiting: Sequence[int], rounds: int) -> list[Json]:
    """Measure each step of lanes in which so many requests wait. The lanes are in one world, and
    alternate."""
    with BenchWorld(folder, MANIFEST) as world:
        lanes = {count: LaneUnderTest(world, number, count) for number, count in enumerate(waiting)}
        taken: dict[int, list[Mapping[str, Turn]]] = {count: [] for count in waiting}
        order = list(waiting)
        for number in range(rounds + 1):
            for at in range(len(order)):
                count = order[(at + number) % len(order)]
                taken[count].append(lanes[count].send_one())
        # The first round compiles the module and warms the caches.
        base = taken[order[0]][1:]
        return [
            _row(step, count, taken[count][1:], base) | {"queue_bytes": lanes[count].queue_bytes}
            for step in STEPS
            for count in order
        ]


class LaneUnderTest:
    """A lane in which ``waiting`` requests wait behind the one in flight, the last of which arrives
    while that is sent."""

    def __init__(self, world: BenchWorld, number: int, waiting: int) -> None:
        self._world = world
        self._signer = "0x" + number.to_bytes(20, "big").hex()
        self.key = f"{CHAIN_ID}/{self._signer}"
        self._numbers = itertools.count()
        self._nonces = itertools.count()
        for _ in range(max(1, waiting)):
            self._request()

    @property
    def queue_bytes(self) -> int:
        return len(self._world.state(LANE, self.key)["queue"])

    def _request(self) -> Turn:
        return self._world.send("gw/TxRequested@1", request(self.key, next(self._numbers)))

    def _answer(self, payload: Value) -> Turn:
        return self._world.answer(LANE, self.key, lambda _: payload)

    def send_one(self) -> Mapping[str, Turn]:
        """Send the transaction in flight, while one more request arrives. As many wait afterwards
        as before."""
        nonce = next(self._nonces)
        hash = "0x" + nonce.to_bytes(32, "big").hex()
        return {
            QUOTED: self._answer(quoted(nonce)),
            SUBMITTED: self._answer(submitted(hash)),
            PENDING: self._answer(fate(nonce, tag("Pending", {"depth": 1}))),
            ARRIVES: self._request(),
            SETTLED: self._answer(
                fate(nonce + 1, tag("Confirmed", {"hash": hash, "block": 9, "gas_used": 60_000}))
            ),
        }


def tag(name: str, value: Value = None) -> Value:
    return {"$tag": name} if value is None else {"$tag": name, "$value": value}


def quoted(nonce: int) -> Value:
    ready: Value = {"nonce": nonce, "gas": 90_000, "base_fee": GWEI, "tip": GWEI}
    return {"block": 8, "quote": tag("Ready", ready)}


def submitted(hash: str) -> Value:
    return {"hash": hash, "fate": tag("Accepted"), "code": None, "message": ""}


def fate(nonce_at_depth: int, found: Value) -> Value:
    return {"head": 9, "nonce_at_depth": nonce_at_depth, "fate": found}


def request(lane: str, number: int) -> Value:
    """A request as a work makes it: the transaction that submits it, and its guard."""
    data_hash = number.to_bytes(32, "big")
    owner = f"{CHAIN_ID}/{STUDIO}/0x{data_hash.hex()}"
    policy: Any = policy_of(bump_after=1_000)
    guard: Value = {"to": STUDIO, "data": bytes(4) + data_hash, "undone": bytes(32)}
    return {
        "lane": lane,
        "owner": tag("Work", owner),
        "request": 1,
        "to": STUDIO,
        "data": bytes(4) + data_hash + bytes(6 * 32),
        "value": "0",
        "guard": guard,
        "policy": policy,
    }


def _row(
    step: str,
    count: int,
    taken: Sequence[Mapping[str, Turn]],
    base: Sequence[Mapping[str, Turn]],
) -> Json:
    turns = [each[step] for each in taken]
    pairs = [(each, of[step]) for each, of in zip(turns, base, strict=True)]
    return {
        "step": step,
        "waiting": count,
        "kernel_us": median([kernel_us(each) for each in turns]),
        "ratio": median([kernel_us(each) / kernel_us(of) for each, of in pairs]),
        "whole_ratio": median([each.processor_us / of.processor_us for each, of in pairs]),
        "stages_us": {
            name: median([each.processor[name] / 1_000 for each in turns]) for name in STAGES
        },
    }


def kernel_us(turn: Turn) -> float:
    """Processor time of the kernel's thread. The commit is on another thread."""
    return sum(turn.processor[name] for name in KERNEL) / 1_000
