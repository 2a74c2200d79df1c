"""``evm/tx.quote@1``: everything that fixes the next transaction (EV-34 to EV-39)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from aos.worker import EffectFailed
from aos_gateway.evm.tx_quote import with_margin
from tests.gateway.evm import stage
from tests.gateway.evm.fake_answers import STYLES
from tests.gateway.evm.fake_chain import BASE_FEE
from tests.gateway.evm.fake_node import FakeNode
from tests.gateway.evm.stage import CLOSE_EPOCH, GUARD, OTHER, SIGNER, Stage, direct, funded
from tests.gateway.evm.studio import custom

T = TypeVar("T")


def run(body: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(body)


@pytest.fixture(params=STYLES)
def node(request: pytest.FixtureRequest) -> FakeNode:
    node = funded(FakeNode(style=request.param))
    node.chain.is_automining = False
    node.mine(4)
    return node


@pytest.fixture
def effects(node: FakeNode) -> Stage:
    return direct(node)


def test_a_quote_fixes_nonce_gas_and_fees(node: FakeNode, effects: Stage) -> None:
    receipt = run(effects.quote(guard=GUARD, conf=2))

    gas = int(
        node.ask(
            "eth_estimateGas",
            {"from": SIGNER, "to": stage.STUDIO, "data": "0x" + stage.SUBMIT_WORK.hex()},
        ),
        16,
    )
    ready = {"nonce": 0, "gas": with_margin(gas), "base_fee": BASE_FEE, "tip": stage.GWEI}
    assert receipt == {"block": 3, "quote": {"$tag": "Ready", "$value": ready}}


def test_the_margin_of_gas_is_a_fifth_rounded_up() -> None:
    assert [with_margin(gas) for gas in (21_000, 21_001, 21_004, 5)] == [25_200, 25_202, 25_205, 6]


def test_gas_stays_within_a_block() -> None:
    with FakeNode() as node:
        funded(node)
        node.fail("result", method="eth_estimateGas", value=hex(29_000_000))

        async def story() -> dict[str, Any]:
            async with stage.opened(node) as effects:
                return await effects.quote()

        assert run(story())["quote"]["$value"]["gas"] == 30_000_000


@pytest.mark.parametrize("estimate", ["0x5207", hex(30_000_001), hex(2**64)])
def test_an_impossible_estimate_is_unavailable(estimate: str) -> None:
    with FakeNode() as node:
        funded(node)
        node.fail("result", method="eth_estimateGas", value=estimate)

        async def story() -> None:
            async with stage.opened(node) as effects:
                await effects.quote()

        with pytest.raises(EffectFailed, match=r"unavailable: .* eth_estimateGas with nonsense"):
            run(story())


def test_the_nonce_is_that_of_the_depth_and_never_of_the_pool(
    node: FakeNode, effects: Stage
) -> None:
    async def nonce(conf: int) -> int:
        receipt = await effects.quote(conf=conf, to=SIGNER, data=b"")
        return int(receipt["quote"]["$value"]["nonce"])

    async def story() -> None:
        await effects.submit(**stage.empty())
        assert await nonce(1) == 0

        node.mine()
        assert [await nonce(conf) for conf in (1, 2, 0)] == [1, 0, 0]

        node.mine(node.rpc.finality)
        assert await nonce(0) == 1

    run(story())


def test_a_guard_that_no_longer_answers_undone_is_done(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        await effects.submit()
        node.mine()
        at_tip = await effects.quote(guard=GUARD, conf=2, signer=OTHER)
        node.mine()
        at_depth = await effects.quote(guard=GUARD, conf=2, signer=OTHER)

        assert at_tip["quote"]["$tag"] == "Reverted", "the guard is read at the depth"
        assert at_depth["quote"] == {
            "$tag": "Done",
            "$value": {"returned": bytes(12) + bytes.fromhex(SIGNER[2:])},
        }

    run(story())


def test_a_guard_that_reverts_is_a_revert_at_depth(effects: Stage) -> None:
    receipt = run(effects.quote(guard=GUARD | {"data": CLOSE_EPOCH}))

    assert receipt["quote"] == {
        "$tag": "Reverted",
        "$value": {
            "cause": {
                "kind": {"$tag": "Custom"},
                "text": "",
                "data": custom("EpochEmpty", 7).data,
            },
            "at_depth": True,
        },
    }


def test_a_transaction_that_would_revert_says_whether_also_at_depth(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        await effects.submit()
        node.mine()
        cause = {
            "kind": {"$tag": "Custom"},
            "text": "",
            "data": custom("AlreadySubmitted", stage.WORK, SIGNER).data,
        }
        for conf, at_depth in ((1, True), (2, False)):
            receipt = await effects.quote(conf=conf, signer=OTHER)
            assert receipt["quote"] == {
                "$tag": "Reverted",
                "$value": {"cause": cause, "at_depth": at_depth},
            }
        node.mine()
        assert (await effects.quote(conf=2, signer=OTHER))["quote"]["$value"]["at_depth"] is True

    run(story())


def test_a_signer_that_cannot_pay_twice_the_base_fee_has_no_funds(
    node: FakeNode, effects: Stage
) -> None:
    price = 2 * BASE_FEE + stage.GWEI

    async def quoted(balance: int, **changes: Any) -> dict[str, Any]:
        node.chain.set_balance(SIGNER, balance)
        receipt = await effects.quote(**changes)
        quote: dict[str, Any] = receipt["quote"]
        return quote

    async def story() -> None:
        gas = (await quoted(stage.ETHER))["$value"]["gas"]
        needed = gas * price
        assert (await quoted(needed))["$tag"] == "Ready"
        assert await quoted(needed - 1) == {
            "$tag": "NoFunds",
            "$value": {"balance": str(needed - 1), "needed": str(needed)},
        }
        assert (await quoted(0))["$value"] == {"balance": "0", "needed": str(needed)}
        # Less than the value itself: the node refuses even to simulate it.
        value = stage.ETHER
        poor = await quoted(5, to=OTHER, data=b"", value=str(value))
        assert poor == {
            "$tag": "NoFunds",
            "$value": {"balance": "5", "needed": str(value + 21_000 * price)},
        }

    run(story())


def test_huge_amounts_fit_into_a_decimal(node: FakeNode, effects: Stage) -> None:
    receipt = run(effects.quote(to=OTHER, data=b"", value=str(10**34 - 1)))

    assert receipt["quote"]["$value"]["needed"] == str(10**34 - 1)


def test_an_empty_transfer_to_itself_is_quoted(effects: Stage) -> None:
    receipt = run(effects.quote(to=SIGNER, data=b"", value="0"))

    assert receipt["quote"]["$value"]["gas"] == 25_200


def test_a_node_that_names_no_tip_has_one_of_1_gwei(node: FakeNode, effects: Stage) -> None:
    node.rpc.knows_tips = False

    assert run(effects.quote())["quote"]["$value"]["tip"] == 1_000_000_000


def test_a_chain_without_a_base_fee_takes_no_such_transactions() -> None:
    with FakeNode() as node:
        block = node.ask("eth_getBlockByNumber", "latest", False)
        del block["baseFeePerGas"]
        node.fail("result", method="eth_getBlockByNumber", value=block)

        async def story() -> None:
            async with stage.opened(node) as effects:
                await effects.quote()

        with pytest.raises(EffectFailed, match=r"unavailable: block 0 .* has no base fee"):
            run(story())


def test_a_read_that_fails_ends_the_quote(node: FakeNode, effects: Stage) -> None:
    node.rpc.states_kept = 1

    with pytest.raises(EffectFailed, match="use a node that keeps more history"):
        run(effects.quote(conf=3))
