"""``evm/call@1``: a view at a block that the receipt names (EV-20 to EV-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from aos.worker import EffectFailed
from tests.gateway.evm import stage
from tests.gateway.evm.fake_answers import STYLES
from tests.gateway.evm.fake_node import FakeNode, stale
from tests.gateway.evm.stage import CLOSE_EPOCH, SIGNER, Stage, direct, funded
from tests.gateway.evm.studio import calldata, custom, read_result, required

T = TypeVar("T")

DEPTH_1 = {"$tag": "Depth", "$value": 1}


def run(body: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(body)


@pytest.fixture(params=STYLES)
def node(request: pytest.FixtureRequest) -> FakeNode:
    """A chain of six blocks, of which the third submits the work."""
    node = funded(FakeNode(style=request.param))

    async def begin() -> None:
        node.mine(2)
        await direct(node).submit()
        node.mine(3)

    run(begin())
    assert node.chain.head.number == 6
    return node


@pytest.fixture
def effects(node: FakeNode) -> Stage:
    return direct(node)


@pytest.mark.parametrize(
    ("block", "number", "is_submitted"),
    [
        (DEPTH_1, 6, True),
        ({"$tag": "Depth", "$value": 4}, 3, True),
        ({"$tag": "Depth", "$value": 5}, 2, False),
        ({"$tag": "Depth", "$value": 7}, 0, False),
        ({"$tag": "Depth", "$value": 900}, 0, False),
        ({"$tag": "Number", "$value": 3}, 3, True),
        ({"$tag": "Number", "$value": 2}, 2, False),
        ({"$tag": "Finalized"}, 2, False),
    ],
)
@pytest.mark.parametrize("knows_hashes", [True, False])
def test_a_view_answers_for_the_block_that_the_receipt_names(
    node: FakeNode,
    effects: Stage,
    block: dict[str, Any],
    number: int,
    *,
    is_submitted: bool,
    knows_hashes: bool,
) -> None:
    node.rpc.knows_block_hashes = knows_hashes

    receipt = run(effects.call(block))

    found = node.chain.head.at(number)
    assert found is not None
    assert (receipt["block"], receipt["block_hash"]) == (number, found.hash)
    assert receipt["result"]["$tag"] == "Returned"
    is_signer = read_result("submitterOf(bytes32)", receipt["result"]["$value"]) == (SIGNER,)
    assert is_signer == is_submitted


def test_a_block_that_does_not_exist_is_unknown(effects: Stage) -> None:
    with pytest.raises(EffectFailed) as failed:
        run(effects.call({"$tag": "Number", "$value": 7}))

    assert (failed.value.code, failed.value.retryable) == ("block_unknown", True)
    assert failed.value.message.startswith("the node at direct:1 does not have block 7")


def test_a_node_without_a_finalized_block_has_an_unknown_block() -> None:
    for kind, value in (("error", {"code": -39001, "message": "Unknown block"}), ("result", None)):
        with FakeNode() as node:
            node.fail(kind, method="eth_getBlockByNumber", value=value)

            async def story(node: FakeNode = node) -> None:
                async with stage.opened(node) as effects:
                    with pytest.raises(EffectFailed, match=r"block_unknown: .* no finalized block"):
                        await effects.call({"$tag": "Finalized"})

            run(story())


@pytest.mark.parametrize(
    ("data", "kind", "text", "revert"),
    [
        (CLOSE_EPOCH.replace(b"\x07", b"\x08"), "Custom", "", custom("EpochEmpty", 8).data),
        (
            calldata("submitScore(bytes32,address,uint16[])", stage.WORK, SIGNER, ()),
            "Error",
            "expected 1 to 32 scores",
            required("expected 1 to 32 scores").data,
        ),
        (
            calldata("registration(uint256)", 5),
            "Panic",
            "0x32",
            bytes.fromhex("4e487b71" + f"{0x32:064x}"),
        ),
        (b"\x12\x34\x56\x78", "Empty", "", b""),
    ],
)
def test_a_revert_is_a_result_with_its_cause_in_every_style_of_node(
    effects: Stage, data: bytes, kind: str, text: str, revert: bytes
) -> None:
    receipt = run(effects.call(DEPTH_1, data=data))

    assert receipt["result"] == {
        "$tag": "Reverted",
        "$value": {"kind": {"$tag": kind}, "text": text, "data": revert},
    }


def test_an_address_without_a_contract_returns_no_bytes(effects: Stage) -> None:
    receipt = run(effects.call(DEPTH_1, to=stage.OTHER))

    assert receipt["result"] == {"$tag": "Returned", "$value": b""}


def test_state_that_the_node_no_longer_has_is_unavailable(node: FakeNode, effects: Stage) -> None:
    node.rpc.states_kept = 2

    with pytest.raises(EffectFailed) as failed:
        run(effects.call({"$tag": "Number", "$value": 2}))

    assert failed.value.code == "unavailable"
    assert "use a node that keeps more history" in failed.value.message


def test_a_block_that_is_replaced_during_a_read_by_number_is_no_answer(
    node: FakeNode, effects: Stage
) -> None:
    """Without reads by block hash, the number is read again after the state."""
    node.rpc.knows_block_hashes = False
    heads = iter([node.chain.head])

    def choose(method: str) -> Any:
        found = next(heads, None)
        if found is None and node.chain.head.order == 7:
            node.chain.reorg(1)
        return found or node.chain.head

    node.rpc.choose_head = choose

    with pytest.raises(EffectFailed, match="block 6 was replaced at the node"):
        run(effects.call())


def test_a_second_node_that_is_behind_gives_no_answer_for_a_block_it_lacks(
    node: FakeNode, effects: Stage
) -> None:
    with (
        stale(node, lambda method: method == "eth_call", blocks=5),
        pytest.raises(EffectFailed, match="unavailable: the node at direct:1 refused eth_call"),
    ):
        run(effects.call())
