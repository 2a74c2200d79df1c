"""``evm/tx.receipt@1`` on random chains: a final fate is never wrong (EV-60).

Blocks, drops, replacements and reorganisations above the depth are random. Each single read is
answered by a node with any head of the last blocks, also by one that has only a replaced block, and
receipts come late. A naive oracle sees the whole chain.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.worker import EffectFailed
from aos_gateway.evm.json_rpc import RpcError
from tests.gateway.evm import stage
from tests.gateway.evm.fake_chain import Block, PoolRefusal
from tests.gateway.evm.fake_node import FakeNode
from tests.gateway.evm.stage import CLOSE_EPOCH, SIGNER, SUBMIT_WORK, direct, funded

FINAL: Final = ("Confirmed", "Reverted", "Canceled", "Foreign")
HEADS: Final = 8
"""A node behind the URL is at most so many blocks behind, counted as they were mined."""


class World:
    """A lane at nonce 0 on a random chain. ``finality`` counts confirmations, as ``conf`` does."""

    def __init__(self, seed: int, *, conf: int, data: bytes, knows_hashes: bool) -> None:
        self.random = random.Random(seed)
        self.node = funded(FakeNode())
        self.chain = self.node.chain
        self.chain.is_automining = False
        self.node.rpc.knows_block_hashes = knows_hashes
        self.node.rpc.finality = 3
        self.conf = conf
        self.deep = conf or self.node.rpc.finality + 1
        self.data = data
        self.effects = direct(self.node)
        self.hashes: list[str] = []
        self.fee = 3 * stage.GWEI
        self.chain.mine(self.random.randrange(3))
        self.answering = self.chain.head

    async def act(self) -> None:
        action = self.random.choice(
            [self.send, self.send, self.mine, self.mine, self.mine, self.drop, self.reorg]
        )
        await action()

    async def send(self) -> None:
        """Publish with nonce 0: ours, ours with a lost hash, a cancel, or a stranger's."""
        self.fee = self.fee * 5 // 4
        fees = {"max_fee": self.fee, "max_tip": self.fee // 3}
        kind = self.random.choice(["ours", "ours", "lost", "cancel", "stranger", "same"])
        changes = {
            "cancel": stage.empty(**fees),
            "stranger": {"to": stage.THIRD, "data": b"", "value": "7", **fees},
        }.get(kind, {"data": self.data, **fees})
        receipt = await self.effects.submit(**changes)
        if kind in ("ours", "cancel") and receipt["hash"] not in self.hashes:
            self.hashes.append(receipt["hash"])

    async def mine(self) -> None:
        self.chain.mine(self.random.randrange(1, 3))

    async def drop(self) -> None:
        for hash in list(self.chain.pool):
            if self.random.random() < 0.5:
                self.chain.drop(hash)

    async def reorg(self) -> None:
        depth = min(self.deep - 1, self.chain.head.number)
        if depth:
            self.chain.reorg(self.random.randrange(1, depth + 1), keep=self.random.random() < 0.6)

    def be_mischievous(self) -> None:
        self.answering = self.chain.head
        self.node.rpc.choose_head = self._any_head

    def _any_head(self, method: str) -> Block:
        if method == "eth_getTransactionReceipt" and self.random.random() < 0.2:
            return next(iter(self.chain.blocks.values()))  # the receipt is not there yet
        if self.random.random() < 0.4:  # otherwise the node of the last read answers
            heads = list(self.chain.blocks.values())[-HEADS:]
            self.answering = self.random.choice([*heads, self.chain.head, self.chain.head])
        return self.answering

    def be_honest(self) -> None:
        self.node.rpc.choose_head = lambda _method: self.chain.head

    async def look(self) -> tuple[str, Any]:
        return await self.effects.fate(
            *self.hashes, data=self.data, conf=self.conf, since=0, wait_ms=0
        )

    def truth(self) -> tuple[str, str, int] | None:
        """The fate of nonce 0 by the whole chain; None while it is not consumed at depth."""
        deep = self.chain.head.at(max(0, self.chain.head.number - self.deep + 1))
        assert deep is not None
        for block in deep.ancestors():
            for receipt in block.receipts:
                transaction = receipt.transaction
                if (transaction.sender, transaction.nonce) != (SIGNER, 0):
                    continue
                content = (transaction.to, transaction.data, transaction.value)
                if content == (stage.STUDIO, self.data, 0):
                    arm = "Confirmed" if receipt.is_success else "Reverted"
                else:
                    arm = "Canceled" if content == (SIGNER, b"", 0) else "Foreign"
                return arm, transaction.hash, block.number
        return None


async def play(world: World, look: Callable[[], Any], steps: int) -> int:
    """Act and look. Returns how many looks saw a final fate, which the oracle has checked."""
    finals = 0
    for _ in range(steps):
        world.be_honest()
        await world.act()
        world.be_mischievous()
        try:
            arm, value = await look()
        except EffectFailed as error:
            assert error.code == "unavailable"  # noqa: PT017
            continue
        if arm in FINAL:
            assert (arm, value["hash"], value["block"]) == world.truth()
            finals += 1
    return finals


@given(
    seed=st.integers(0, 2**32),
    conf=st.sampled_from([0, 1, 2, 3]),
    data=st.sampled_from([SUBMIT_WORK, CLOSE_EPOCH]),
    knows_hashes=st.booleans(),
)
def test_a_final_fate_is_that_of_the_whole_chain(
    seed: int, conf: int, data: bytes, *, knows_hashes: bool
) -> None:
    async def story() -> None:
        world = World(seed, conf=conf, data=data, knows_hashes=knows_hashes)
        await play(world, world.look, 12)

        # Liveness: once the node is honest and the block is deep, one look knows the fate.
        world.be_honest()
        world.chain.mine(world.deep)
        truth = world.truth()
        arm, value = await world.look()
        if truth is None:
            assert arm in ("Pending", "NotFound")
        else:
            assert (arm, value["hash"], value["block"]) == truth

    asyncio.run(story())


def test_random_chains_have_final_fates_of_each_kind_under_mischief() -> None:
    """Otherwise the law above would say nothing."""
    seen = set()

    async def story(seed: int) -> None:
        world = World(seed, conf=2, data=SUBMIT_WORK, knows_hashes=True)

        async def look() -> tuple[str, Any]:
            arm, value = await world.look()
            seen.add(arm)
            return arm, value

        await play(world, look, 12)

    for seed in range(40):
        asyncio.run(story(seed))

    assert {"Confirmed", "Canceled", "Foreign", "Pending", "NotFound"} <= seen


def naive_by_tip(world: World) -> Callable[[], Any]:
    """Fate by the nonce at the tip and by any receipt: how such executors usually work."""

    async def look() -> tuple[str, Any]:
        ask = world.effects.nodes.of(31337).reads.ask
        for hash in world.hashes:
            receipt = await ask("eth_getTransactionReceipt", [hash])
            if receipt is not None and not isinstance(receipt, RpcError):
                arm = "Confirmed" if receipt["status"] == "0x1" else "Reverted"
                return arm, {"hash": hash, "block": int(receipt["blockNumber"], 16)}
        nonce = await ask("eth_getTransactionCount", [SIGNER, "latest"])
        return ("NotFound", None) if nonce == "0x0" else ("Foreign", {"hash": "", "block": 0})

    return look


def test_the_oracle_catches_a_look_at_the_tip() -> None:
    async def story(seed: int) -> None:
        world = World(seed, conf=2, data=SUBMIT_WORK, knows_hashes=True)
        await play(world, naive_by_tip(world), 12)

    caught = 0
    for seed in range(40):
        try:
            asyncio.run(story(seed))
        except AssertionError:
            caught += 1

    assert caught > 10


def test_the_pool_refuses_what_a_lane_may_send_again() -> None:
    """The random lane above relies on it: the same bytes again change nothing."""
    world = World(1, conf=1, data=SUBMIT_WORK, knows_hashes=True)

    async def story() -> None:
        first = await world.effects.submit()
        again = await world.effects.submit()

        assert (first["fate"], again["fate"]) == ({"$tag": "Accepted"}, {"$tag": "Known"})
        assert first["hash"] == again["hash"]
        with pytest.raises(PoolRefusal, match="known"):
            world.chain.take(world.chain.pool[first["hash"]].raw)

    asyncio.run(story())
