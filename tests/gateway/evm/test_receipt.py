"""``evm/tx.receipt@1``: the fate of a nonce (EV-60 to EV-69), over a node without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from aos.worker import EffectFailed
from tests.gateway.evm import stage
from tests.gateway.evm.fake_node import FakeNode
from tests.gateway.evm.stage import CLOSE_EPOCH, SIGNER, Stage, direct, empty, funded
from tests.gateway.evm.studio import custom

T = TypeVar("T")


def run(body: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(body)


@pytest.fixture
def node() -> FakeNode:
    """A chain without automatic blocks."""
    node = funded(FakeNode())
    node.chain.is_automining = False
    return node


@pytest.fixture
def effects(node: FakeNode) -> Stage:
    return direct(node)


async def sent(effects: Stage, **changes: Any) -> str:
    receipt = await effects.submit(**changes)
    assert receipt["fate"] == {"$tag": "Accepted"}
    return str(receipt["hash"])


async def stranger(effects: Stage, **changes: Any) -> str:
    """Another process sends with our key: by default some ether to the third account."""
    return await sent(
        effects,
        **{"to": stage.THIRD, "data": b"", "value": "5", "max_fee": 9 * stage.GWEI, **changes},
    )


def test_a_transaction_is_confirmed_once_its_block_is_deep_enough(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects)
        assert await effects.fate(ours, conf=3) == ("Pending", {"depth": 0})

        node.chain.mine()
        assert await effects.fate(ours, conf=3) == ("Pending", {"depth": 1})
        node.chain.mine()
        assert await effects.fate(ours, conf=3) == ("Pending", {"depth": 2})
        node.chain.mine()

        landed = {"hash": ours, "block": 1, "gas_used": node.chain.head.at(1).receipts[0].gas_used}  # type: ignore[union-attr]
        receipt = await effects.receipt(ours, conf=3)
        assert receipt == {
            "head": 3,
            "nonce_at_depth": 1,
            "fate": {"$tag": "Confirmed", "$value": landed},
        }

    run(story())


def test_confirmations_can_be_those_of_the_finalized_block(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects)
        node.chain.mine(node.rpc.finality)
        assert await effects.fate(ours, conf=0) == ("Pending", {"depth": node.rpc.finality})

        node.chain.mine()

        assert (await effects.fate(ours, conf=0))[0] == "Confirmed"

    run(story())


def test_a_finalized_block_above_the_head_is_no_answer(node: FakeNode, effects: Stage) -> None:
    """The head came from a second node, which is behind."""

    async def story() -> None:
        ours = await sent(effects)
        node.chain.mine(10)
        heads = iter([node.chain.head.at(2)])
        node.rpc.choose_head = lambda _method: next(heads, None) or node.chain.head

        with pytest.raises(EffectFailed, match="finalized block 6 is above head 2"):
            await effects.fate(ours, conf=0)

    run(story())


def test_a_reverted_transaction_has_the_cause_of_its_revert(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects, data=CLOSE_EPOCH)
        node.chain.mine()

        arm, value = await effects.fate(ours, data=CLOSE_EPOCH)

        assert (arm, value["hash"], value["block"]) == ("Reverted", ours, 1)
        assert value["cause"] == {
            "kind": {"$tag": "Custom"},
            "text": "",
            "data": custom("EpochEmpty", 7).data,
        }

    run(story())


def test_a_revert_whose_state_is_gone_has_no_cause(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects, data=CLOSE_EPOCH)
        node.chain.mine()
        node.rpc.states_kept = 1

        arm, value = await effects.fate(ours, data=CLOSE_EPOCH)

        assert (arm, value["cause"]["kind"]) == ("Reverted", {"$tag": "Empty"})

    run(story())


def test_a_transaction_that_runs_out_of_gas_is_reverted_without_a_cause(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects, gas=60_000)
        node.chain.mine()

        arm, value = await effects.fate(ours)

        assert (arm, value["gas_used"]) == ("Reverted", 60_000)
        assert value["cause"]["kind"] == {"$tag": "Empty"}

    run(story())


def test_a_replaced_hash_is_found_by_any_of_the_hashes(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        first = await sent(effects)
        second = await sent(effects, max_fee=4 * stage.GWEI, max_tip=2 * stage.GWEI)
        node.chain.mine()

        assert (await effects.fate(first, second))[1]["hash"] == second

    run(story())


def test_our_transaction_is_found_even_if_its_hash_was_lost(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        lost = await sent(effects)
        node.chain.mine(2)

        arm, value = await effects.fate("0x" + 64 * "9")

        assert (arm, value["hash"], value["block"]) == ("Confirmed", lost, 1)

    run(story())


def test_a_lost_hash_that_reverted_is_reverted(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        lost = await sent(effects, data=CLOSE_EPOCH)
        node.chain.mine(2)

        arm, value = await effects.fate(data=CLOSE_EPOCH)

        assert (arm, value["hash"]) == ("Reverted", lost)

    run(story())


@pytest.mark.parametrize("knows_hash", [True, False])
def test_an_empty_transaction_to_the_signer_itself_is_a_cancel(
    node: FakeNode, effects: Stage, *, knows_hash: bool
) -> None:
    async def story() -> None:
        ours = await sent(effects)
        cancel = await sent(effects, **empty(max_fee=9 * stage.GWEI, max_tip=2 * stage.GWEI))
        node.chain.mine()

        hashes = [ours, cancel] if knows_hash else [ours]

        assert await effects.fate(*hashes) == ("Canceled", {"hash": cancel, "block": 1})

    run(story())


def test_a_request_that_is_an_empty_transfer_to_itself_is_confirmed(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects, **empty())
        node.chain.mine()

        assert (await effects.fate(ours, to=SIGNER, data=b""))[0] == "Confirmed"

    run(story())


@pytest.mark.parametrize("blocks_after", [0, 1, 2, 3, 9, 40])
@pytest.mark.parametrize("blocks_before", [0, 1, 7])
@pytest.mark.parametrize("since", [0, 1, 5, 1_000])
def test_a_strangers_transaction_is_foreign_and_named(
    node: FakeNode, effects: Stage, blocks_before: int, blocks_after: int, since: int
) -> None:
    async def story() -> None:
        if blocks_before:
            node.chain.mine(blocks_before)
        theirs = await stranger(effects)
        node.chain.mine(1 + blocks_after)

        fate = await effects.fate("0x" + 64 * "9", since=since)

        assert fate == ("Foreign", {"hash": theirs, "block": blocks_before + 1})

    run(story())


def test_a_nonce_that_is_consumed_at_the_tip_alone_is_pending(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        await stranger(effects)
        node.chain.mine()

        assert await effects.fate("0x" + 64 * "9", conf=2) == ("Pending", {"depth": 1})

    run(story())


def test_a_nonce_that_counts_before_its_receipt_is_pending(node: FakeNode, effects: Stage) -> None:
    """anvil shows a new nonce before the receipt of the transaction that consumed it."""

    async def story() -> None:
        ours = await sent(effects)
        node.chain.mine()
        node.rpc.receipt_lag = 3  # each look asks twice

        assert await effects.fate(ours) == ("Pending", {"depth": 1})
        assert (await effects.fate(ours))[0] == "Confirmed"

    run(story())


def test_a_consumed_nonce_without_its_transaction_is_pending(
    node: FakeNode, effects: Stage
) -> None:
    """The nonce says so, but the node shows no transaction: there is no evidence of a stranger."""

    async def story() -> None:
        node.chain.mine(2)
        node.chain.set_nonce(SIGNER, 1)

        assert await effects.fate("0x" + 64 * "9") == ("Pending", {"depth": 1})

    run(story())


def test_a_receipt_of_a_replaced_block_does_not_count(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects)
        orphan = node.chain.mine()
        node.chain.reorg(1, keep=False)
        theirs = await stranger(effects)
        node.chain.mine()
        # The node still answers with the receipt of the block that was replaced.
        node.rpc.choose_head = lambda method: (
            orphan if method == "eth_getTransactionReceipt" else node.chain.head
        )

        assert await effects.fate(ours) == ("Foreign", {"hash": theirs, "block": 2})

    run(story())


def test_a_transaction_of_the_pool_is_pending(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        first = await sent(effects)
        second = await sent(effects, max_fee=4 * stage.GWEI, max_tip=2 * stage.GWEI)

        assert await effects.fate(first, second) == ("Pending", {"depth": 0})
        assert await effects.fate(first) == ("NotFound", None)

    run(story())


def test_a_dropped_transaction_is_not_found(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects)
        assert node.chain.drop(ours)

        receipt = await effects.receipt(ours)

        assert receipt == {"head": 0, "nonce_at_depth": 0, "fate": {"$tag": "NotFound"}}
        assert await effects.fate() == ("NotFound", None)

    run(story())


def test_a_missing_earlier_transaction_is_a_gap(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects, nonce=5)
        node.chain.mine()

        assert await effects.fate(ours, nonce=5) == ("Gap", {"nonce": 0})

    run(story())


def test_a_reorganisation_above_the_depth_takes_nothing_back(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects)
        node.chain.mine(2)
        confirmed = await effects.fate(ours, conf=2)
        node.chain.reorg(1)

        assert confirmed[0] == "Confirmed"
        assert await effects.fate(ours, conf=2) == confirmed

    run(story())


def test_a_chain_that_is_shorter_than_the_depth_is_read_at_its_first_block(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects)
        node.chain.mine()

        receipt = await effects.receipt(ours, conf=12)

        assert receipt["nonce_at_depth"] == 0
        assert receipt["fate"] == {"$tag": "Pending", "$value": {"depth": 1}}

    run(story())


def test_an_old_block_whose_state_is_gone_is_no_answer(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        node.chain.mine(50)
        await stranger(effects)
        node.chain.mine(50)
        node.rpc.states_kept = 10

        with pytest.raises(EffectFailed) as failed:
            await effects.fate("0x" + 64 * "9")

        assert (failed.value.code, failed.value.retryable) == ("unavailable", True)
        assert "use a node that keeps more history" in failed.value.message

    run(story())


def test_a_young_block_is_found_on_a_node_that_forgets_old_states(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        node.chain.mine(50)
        theirs = await stranger(effects)
        node.chain.mine(4)
        node.rpc.states_kept = 10

        assert await effects.fate("0x" + 64 * "9", since=0) == (
            "Foreign",
            {"hash": theirs, "block": 51},
        )

    run(story())


def test_a_node_without_reads_by_block_hash_is_read_by_number(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        node.rpc.knows_block_hashes = False
        ours = await sent(effects)
        node.chain.mine(2)

        assert (await effects.fate(ours, conf=2))[0] == "Confirmed"

    run(story())


def test_a_far_block_is_read_by_its_number_instead_of_all_parents(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects)
        node.chain.mine(400)

        assert (await effects.fate(ours))[0] == "Confirmed"
        assert effects.asked.count("eth_getBlockByHash") < 20

    run(story())


# --- waiting


def test_a_wait_ends_with_the_final_fate(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects)
        effects.clock.on_pause = node.mine

        arm, _ = await effects.fate(ours, conf=3, wait_ms=15_000)

        assert (arm, effects.clock.pauses) == ("Confirmed", 3)
        assert effects.clock.seconds < 0.5

    run(story())


def test_a_wait_that_sees_no_final_fate_ends_with_the_last_one(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects)

        assert await effects.fate(ours, wait_ms=15_000) == ("Pending", {"depth": 0})

        assert effects.clock.seconds == pytest.approx(15.0)
        assert 30 <= effects.clock.pauses <= 40, "pauses grow from 50 to 500 ms"

    run(story())


def test_a_wait_looks_whole_at_its_end_also_without_a_new_head(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        ours = await sent(effects)
        effects.clock.on_pause = node.chain.pool.clear

        assert await effects.fate(ours, wait_ms=1_000) == ("NotFound", None)

    run(story())


def test_a_wait_of_an_hour_ends_before_the_timeout_of_the_effect(
    node: FakeNode, effects: Stage
) -> None:
    async def story() -> None:
        await effects.fate("0x" + 64 * "9", wait_ms=3_600_000)

        assert effects.clock.seconds == pytest.approx(45.0)

    run(story())


def test_a_wait_asks_little_while_the_head_is_the_same(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        ours = await sent(effects)
        effects.asked.clear()

        await effects.fate(ours, wait_ms=10_000)

        assert len(effects.asked) < effects.clock.pauses + 12

    run(story())


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_wait_survives_two_looks_that_fail_and_not_three(
    node: FakeNode, effects: Stage, failures: int
) -> None:
    """Behind the URL is a second node, which does not have the newest blocks yet."""

    async def story() -> str:
        ours = await sent(effects)
        node.chain.mine(2)
        first = node.chain.head.at(0)
        left = [failures]

        def choose(method: str) -> Any:
            if method != "eth_getTransactionCount" or not left[0]:
                return node.chain.head
            left[0] -= 1
            return first

        node.rpc.choose_head = choose
        return (await effects.fate(ours, conf=2, wait_ms=5_000))[0]

    if failures < 3:
        assert run(story()) == "Confirmed"
        assert effects.clock.pauses == failures
    else:
        with pytest.raises(EffectFailed, match="unavailable: the node at direct:1 refused"):
            run(story())
