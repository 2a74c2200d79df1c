"""Records and lanes in one world in memory, with a model chain and a model Arweave that fail at
random: outages, lost and late answers, nodes that are behind, dropped and reorganised
transactions, strangers, crashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from aos.manifest.load import Loaded
from aos.testing import After, Fail, Timeout, World
from aos.testing.scripts import NEVER
from tests.gateway.evm.studio import Studio
from tests.gateway.reducers import inputs
from tests.gateway.reducers.inputs import ADMIN, GWEI, STUDIO, VALIDATOR, WORKER, Event, tag
from tests.gateway.reducers.model_chain import ModelChain, ModelNode, Transaction

CONF: Final = 3
POLICY: Final = inputs.POLICY | {
    "conf": CONF,
    "wait_ms": 4_000,
    "bump_after": 2,
    "retries": 2,
    "stall_cycles": 2,
    "arweave_wait_ms": 4_000,
}
SECOND: Final = inputs.SECOND
WORKFLOWS: Final = ("gw/work@1", "gw/score@1", "gw/epoch@1")
BLOCKS_MAX: Final = 12
"""Blocks that are mined at one time, however long ago the last one was."""


def data_hash(number: int) -> str:
    return "0x" + hashlib.sha256(f"work {number}".encode()).hexdigest()


def work(number: int) -> Event:
    hash = data_hash(number)
    key = f"{inputs.CHAIN}/{STUDIO}/{hash}"
    evidence = f"evidence {number}".encode()
    return inputs.work_requested(work=key, data_hash=hash, evidence=evidence, policy=POLICY)


def score(number: int, mode: str) -> Event:
    hash = data_hash(number)
    key = f"{inputs.CHAIN}/{STUDIO}/{hash}/{WORKER}/{VALIDATOR}"
    return inputs.score_requested(mode, score=key, data_hash=hash, policy=POLICY)


def epoch() -> Event:
    return inputs.epoch_requested(policy=POLICY)


EVERYTHING: Final = (
    work(1),
    work(2),
    score(1, "Direct"),
    score(2, "CommitReveal"),
    epoch(),
)


@dataclass
class ModelArweave:
    """Bundles by id: the item's content, and at which look it is confirmed."""

    looks: dict[str, int] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)

    def price(self, params: dict[str, Any]) -> Any:
        anchor = f"anchor-{len(self.looks)}"
        costs = str(params["bytes"])
        return {"anchor": anchor, "reward": costs, "balance": "1000000", "height": 1}

    def upload(self, params: dict[str, Any]) -> Any:
        item = "item-" + params["data"][-20:]
        bundle = f"{item} {params['anchor']}"
        fate = "Known" if bundle in self.looks else "Posted"
        self.looks.setdefault(bundle, 0)
        self.contents[bundle] = params["data"]
        return {"item": item, "bundle": bundle, "fate": tag(fate), "code": 200, "message": ""}

    def status(self, params: dict[str, Any]) -> Any:
        bundle = params["bundle"]
        if bundle not in self.looks:
            return {"fate": tag("NotFound")}
        self.looks[bundle] += 1
        if self.looks[bundle] < 2:
            return {"fate": tag("Pending", {"depth": 0})}
        at = {"depth": 3, "content": self.contents[bundle]}
        return {"fate": tag("Confirmed", at)}


class ModelWorld:
    """``calm`` ends all mischief: from then on every answer is right and comes in time."""

    def __init__(self, source: Loaded, seed: int, *, replay: bool = False) -> None:
        self.random = Random(seed)
        self.world = World(source, seed=str(seed), replay=replay)
        self.chain = ModelChain(Studio(reveal_delay=30, reveal_window=10**9))
        self.arweave = ModelArweave()
        self.is_calm, self.is_down = False, False
        self.strangers = 0
        self.canceled: set[str] = set()
        self.mined_ns = self.world.now_ns
        self._evm("evm/call@1", lambda node, params: node.call(params))
        self._evm("evm/tx.quote@1", lambda node, params: node.quote(params))
        self._evm("evm/tx.submit@1", lambda node, params: node.submit(params))
        self._evm("evm/tx.receipt@1", lambda node, params: node.receipt(params))
        for name, answer in (
            ("arweave/quote@1", self.arweave.price),
            ("arweave/upload@1", self.arweave.upload),
            ("arweave/status@1", self.arweave.status),
        ):
            self._arweave(name, answer)
        self._mine()

    # Executors

    def _evm(self, effect: str, act: Callable[[ModelNode, dict[str, Any]], Any]) -> None:
        def script(params: dict[str, Any]) -> object:
            self._mine()
            behind = self.random.random() < 0.2 and not self.is_calm
            lag = self.random.randint(1, CONF) if behind else 0
            answer = self._answer(lambda: act(ModelNode(self.chain, lag), params))
            return self._late(answer, params.get("wait_ms", 0))

        self.world.on(effect, script)

    def _arweave(self, effect: str, act: Callable[[dict[str, Any]], Any]) -> None:
        def script(params: dict[str, Any]) -> object:
            return self._late(self._answer(lambda: act(params)), params.get("wait_ms", 0))

        self.world.on(effect, script)

    def _answer(self, act: Callable[[], Any]) -> object:
        """The answer, or what the caller gets instead of it; perhaps all the same it has
        happened."""
        kind = 1.0 if self.is_calm else self.random.random()
        if self.is_down and not self.is_calm:
            return Fail("unavailable", "down", retryable=True)
        if kind < 0.06:
            return Fail("unavailable", "before", retryable=True)
        answer = act()
        if kind < 0.12:
            return Fail("unavailable", "after", retryable=True)
        if kind < 0.15:
            return Timeout("lost")
        if kind < 0.16:
            return NEVER  # until the next crash
        return Fail("block_unknown", "", retryable=True) if answer is None else answer

    def _late(self, answer: object, wait_ms: int) -> object:
        """The executor waits as long as there is nothing to tell."""
        is_open = isinstance(answer, dict) and answer.get("fate", {}).get("$tag") in (
            "Pending",
            "NotFound",
        )
        return After(f"{wait_ms if is_open else 80}ms", answer)

    def _mine(self) -> None:
        """A block for every two seconds that have passed."""
        now = self.world.now_ns
        for _ in range(min(BLOCKS_MAX, (now - self.mined_ns) // (2 * SECOND) + 1)):
            self.chain.mine(time=now // SECOND)
        self.mined_ns = now

    # Mischief

    def trouble(self) -> None:
        """One thing that happens."""
        acts: list[Callable[[], object]] = [
            self._outage,
            self._reorganise,
            self.chain.pool.clear,
            self._stranger,
            self._price,
            self.world.restart,
            self._crash,
            self._order,
            self._order_lane,
        ]
        self.random.choice(acts)()
        self.world.advance(f"{self.random.choice([100, 900, 5_000, 30_000])}ms")

    def _reorganise(self) -> None:
        self.chain.reorganise(self.random.randint(1, CONF - 1), keep=self.random.random() < 0.5)

    def _crash(self) -> None:
        """After one of the next steps, while answers are on their way."""
        self.world.crash_after(self.world.steps + self.random.randint(1, 6))

    def _outage(self) -> None:
        self.is_down = not self.is_down

    def _price(self) -> None:
        self.chain.base_fee = self.random.choice([5, 10, 30, 80]) * GWEI

    def _stranger(self) -> None:
        """Another holder of a key takes its next nonce."""
        self.strangers += 1
        signer = self.random.choice([WORKER, VALIDATOR, ADMIN])
        nonce = self.chain.nonce(signer)
        data = f"stranger {self.strangers}".encode()
        to = inputs.STRANGER
        self.chain.mine(Transaction(signer, nonce, to, data, "0", 1, 10**12, 10**11))

    def _order(self) -> None:
        what = self.random.choice(["Park", "Resume", "Resume", "Reconcile", "Reconcile"])
        if self.random.random() < 0.05:
            what = "Cancel"
        for cell in self.records():
            if self.random.random() < 0.5:
                self.order(cell, what)

    def _order_lane(self) -> None:
        what = self.random.choice(["Park", "Resume", "Resume", "Reconcile"])
        for cell in self.world.cells("gw/signer@1"):
            self.order(cell, what)

    def order(self, cell: Any, what: str) -> None:
        name, field = {
            "gw/work@1": ("Work", "work"),
            "gw/score@1": ("Score", "score"),
            "gw/epoch@1": ("Epoch", "epoch_key"),
            "gw/signer@1": ("Lane", "lane"),
        }[cell.workflow]
        if what == "Cancel":
            self.canceled.add(cell.key)
        value = {field: cell.key, "what": tag(what), "why": ""}
        self.world.send(f"gw/{name}Command@1", value)
        self.world.run()

    # The end

    def calm(self) -> None:
        """All works again, and the operator resumes everything until nothing is left to do."""
        self.is_calm, self.is_down = True, False
        self.chain.base_fee = 10 * GWEI
        self.world.crash_after(0)
        self.world.restart()  # effects without an answer are requested again
        for _ in range(12):
            for cell in self.world.cells():
                self.order(cell, "Resume")
            self.world.finish("30d")
            if all(cell.status in ("completed", "failed") for cell in self.records()):
                return
            self._give_up()
        raise AssertionError(f"it does not end:\n{self.world.trace()}")

    def _give_up(self) -> None:
        """Cancel what waits for works that will never be submitted."""
        works = [each for each in self.records() if each.workflow == "gw/work@1"]
        lost = {each.state["input"]["data_hash"] for each in works if each.status == "failed"}
        for record in self.records():
            code = (record.state["error"] or {"code": None})["code"]
            is_lost = record.state["input"]["data_hash"] in lost or len(lost) == len(works)
            if is_lost and code in ("WORK_NOT_SUBMITTED", "EPOCH_EMPTY"):
                self.order(record, "Cancel")

    def records(self) -> list[Any]:
        return [cell for cell in self.world.cells() if cell.workflow in WORKFLOWS]

    def lanes(self) -> list[Any]:
        return self.world.cells("gw/signer@1")
