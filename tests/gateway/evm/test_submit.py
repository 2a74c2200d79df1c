"""``evm/tx.submit@1``: publish one fully specified transaction (EV-40 to EV-51)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from aos.worker import NotConfigured
from aos.worker.failure import failure_of
from aos_gateway.evm.json_rpc import RpcError
from aos_gateway.evm.tx_submit import fate_of
from tests.gateway.evm import stage
from tests.gateway.evm.fake_answers import STYLES
from tests.gateway.evm.fake_chain import decode_transaction
from tests.gateway.evm.fake_node import HTML, FakeNode
from tests.gateway.evm.stage import CLOSE_EPOCH, KEYS, SIGNER, Stage, direct, funded, opened

T = TypeVar("T")

SEND = "eth_sendRawTransaction"


def run(body: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(body)


@pytest.fixture(params=STYLES)
def node(request: pytest.FixtureRequest) -> FakeNode:
    node = funded(FakeNode(style=request.param))
    node.chain.is_automining = False
    return node


@pytest.fixture
def effects(node: FakeNode) -> Stage:
    return direct(node)


def test_the_transaction_is_what_the_params_say(node: FakeNode, effects: Stage) -> None:
    receipt = run(effects.submit(nonce=3, value="5", to=stage.OTHER))

    (sent,) = node.chain.pool.values()
    assert receipt == {"hash": sent.hash, "fate": {"$tag": "Accepted"}, "code": None, "message": ""}
    assert (sent.sender, sent.nonce, sent.to, sent.data) == (
        SIGNER, 3, stage.OTHER, stage.SUBMIT_WORK,
    )  # fmt: skip
    assert (sent.value, sent.gas, sent.max_fee, sent.max_tip, sent.chain) == (
        5, 120_000, 3 * stage.GWEI, stage.GWEI, 31337,
    )  # fmt: skip


def test_the_same_params_are_the_same_bytes_and_known(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        first = await effects.submit()
        again = await effects.submit(signer="0x" + SIGNER[2:].upper())

        assert again["fate"] == {"$tag": "Known"}
        assert again["hash"] == first["hash"]
        assert len(node.chain.pool) == 1

    run(story())


def test_the_key_is_found_by_the_address_of_the_signer(node: FakeNode, effects: Stage) -> None:
    async def story() -> None:
        for signer in (stage.THIRD, stage.OTHER, SIGNER):
            await effects.submit(signer=signer)

    run(story())

    assert {each.sender for each in node.chain.pool.values()} == {
        SIGNER, stage.OTHER, stage.THIRD,
    }  # fmt: skip


def test_without_the_key_nothing_is_sent(node: FakeNode, effects: Stage) -> None:
    effects.secret = KEYS[1]

    receipt = run(effects.submit())

    assert receipt == {
        "hash": None,
        "fate": {"$tag": "NoKey"},
        "code": None,
        "message": f"gw/evm-keys@1 has no key of {SIGNER}: nothing was sent",
    }
    assert effects.asked == []


@pytest.mark.parametrize("text", [KEYS[0][2:], f" {KEYS[0]} ,\n{KEYS[1]}\n", KEYS[0].upper()[2:]])
def test_keys_have_0x_or_not_and_commas(node: FakeNode, effects: Stage, text: str) -> None:
    effects.secret = text

    assert run(effects.submit())["fate"] == {"$tag": "Accepted"}


MALFORMED = {
    "": "first",
    f"{KEYS[0]},": "second",
    f",{KEYS[0]}": "first",
    f"{KEYS[0]},{KEYS[1][:-1]}": "second",
    f"{KEYS[0]},{KEYS[1]},0x{64 * 'g'}": "third",
    f"{KEYS[0]} {KEYS[1]}": "first",
    f"{KEYS[0]};{KEYS[1]}": "first",
    f"{','.join(8 * [KEYS[0]])},{64 * '0'}": "9th",
    "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141": "first",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_key_is_named_by_its_place_and_never_shown(effects: Stage, text: str) -> None:
    effects.secret = text

    with pytest.raises(NotConfigured) as held:
        run(effects.submit())

    assert (held.value.code, failure_of(held.value).end) == ("keys_malformed", "hold")
    message = str(held.value)
    assert message.startswith(f"the {MALFORMED[text]} key of gw/evm-keys@1 is malformed")
    for key in KEYS:
        assert key[2:12] not in message
    assert held.value.__cause__ is None
    assert effects.asked == []


# --- the answer of the node is a hint


def test_fates_of_a_nodes_own_refusals(node: FakeNode, effects: Stage) -> None:
    async def fate(**changes: Any) -> str:
        receipt = await effects.submit(**changes)
        assert receipt["hash"], "the hash is known before anything is sent"
        assert (receipt["code"] is None) == (receipt["message"] == "")
        return str(receipt["fate"]["$tag"])

    async def story() -> None:
        assert await fate() == "Accepted"
        assert await fate() == "Known"
        assert await fate(max_fee=3 * stage.GWEI + 1) == "Underpriced"
        assert await fate(max_fee=4 * stage.GWEI, max_tip=2 * stage.GWEI) == "Accepted"
        assert await fate(gas=21_000, nonce=1) == "Refused"
        node.mine()
        assert await fate(max_fee=9 * stage.GWEI) == "NonceUsed"
        node.chain.set_balance(SIGNER, 5)
        assert await fate(nonce=1) == "NoFunds"

    run(story())


def test_hardhat_mines_what_it_refuses() -> None:
    node = funded(FakeNode(style="hardhat"))

    receipt = run(direct(node).submit(data=CLOSE_EPOCH))

    assert (receipt["fate"], receipt["code"]) == ({"$tag": "Accepted"}, -32603)
    assert node.chain.head.receipts[0].transaction.hash == receipt["hash"]


OURS = "0x" + 64 * "a"


@pytest.mark.parametrize(
    ("code", "message", "data", "fate"),
    [
        # geth
        (-32000, "already known", None, "Known"),
        (-32000, "nonce too low: next nonce 5, tx nonce 4", None, "NonceUsed"),
        (-32000, "replacement transaction underpriced", None, "Underpriced"),
        (-32000, "transaction underpriced: tip needed 2, tip permitted 1", None, "Underpriced"),
        (
            -32000,
            "max fee per gas less than block base fee: address 0x, maxFeePerGas: 1, baseFee: 2",
            None,
            "Underpriced",
        ),
        (-32000, "insufficient funds for gas * price + value: balance 1", None, "NoFunds"),
        (-32000, "intrinsic gas too low: have 20000, want 21000", None, "Refused"),
        (-32000, "exceeds block gas limit", None, "Refused"),
        (-32000, "txpool is full", None, "Refused"),
        # anvil
        (-32003, "transaction already imported", None, "Known"),
        (-32003, "Insufficient funds for gas * price + value", None, "NoFunds"),
        # hardhat
        (-32000, "Known transaction: 0xaa", None, "Known"),
        (-32000, "Nonce too low. Expected nonce to be 5 but got 4.", None, "NonceUsed"),
        (
            -32000,
            "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 2 is needed",
            None,
            "Underpriced",
        ),
        (
            -32000,
            "Transaction maxFeePerGas (1) is too low for the next block, which has a fee of 2",
            None,
            "Underpriced",
        ),
        (-32000, "Sender doesn't have enough funds to send tx.", None, "NoFunds"),
        (-32603, "VM Exception while processing transaction", {"txHash": OURS}, "Accepted"),
        (-32603, "VM Exception while processing transaction", {"txHash": "0x1"}, "Unknown"),
        (3, "execution reverted", "0x", "Unknown"),
        # nethermind, erigon, besu
        (-32010, "AlreadyKnown", None, "Known"),
        (-32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 4", None, "NonceUsed"),
        (-32010, "FeeTooLow, MaxFeePerGas too low", None, "Underpriced"),
        (-32010, "InsufficientFunds, Balance is 0", None, "NoFunds"),
        (-32000, "could not replace existing tx", None, "Underpriced"),
        (-32004, "Upfront cost exceeds account balance", None, "NoFunds"),
        # anything else: it may have been sent
        (-32603, "Internal error", None, "Unknown"),
        (-32005, "limit exceeded", None, "Unknown"),
        (None, "", None, "Unknown"),
        (-32602, "invalid argument 0", None, "Refused"),
    ],
)
def test_the_fate_that_an_error_suggests(
    code: int | None, message: str, data: Any, fate: str
) -> None:
    assert fate_of(RpcError(code=code, message=message, data=data), OURS) == fate


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("lost", None),
        ("closed", None),
        ("cut", None),
        ("id", None),
        ("version", None),
        ("gzip", None),
        ("body", HTML),
        ("status", 500),
        ("status", 429),
        ("large", 17 * 1024 * 1024),
        ("result", "0x" + 64 * "9"),
        ("result", None),
        ("result", "0x1"),
        ("result", {"hash": OURS}),
    ],
)
def test_after_a_send_an_answer_without_meaning_is_unknown_with_our_hash(
    kind: str, value: Any
) -> None:
    """It is sent once: the lane decides what to do next."""
    with FakeNode() as node:
        funded(node).fail(kind, method=SEND, times=9, value=value)

        async def story() -> dict[str, Any]:
            async with opened(node) as effects:
                return await effects.submit()

        receipt = run(story())

        (raw,) = [params[0] for method, params in node.requests if method == SEND]
        assert receipt["hash"] == decode_transaction(bytes.fromhex(raw[2:])).hash
        assert (receipt["fate"], receipt["code"]) == ({"$tag": "Unknown"}, None)
        assert receipt["message"]
        assert stage.TOKEN not in receipt["message"]


def test_no_answer_in_time_after_a_send_is_unknown() -> None:
    with FakeNode() as node:
        funded(node).fail("held", method=SEND)

        async def story() -> dict[str, Any]:
            async with opened(node, request_s=0.2) as effects:
                await effects.call()
                return await effects.submit()

        receipt = run(story())

        assert receipt["fate"] == {"$tag": "Unknown"}
        assert "did not answer within 0.2 s; it may have the transaction" in receipt["message"]


def test_a_lost_reply_was_sent_all_the_same() -> None:
    with FakeNode() as node:
        funded(node).fail("lost", method=SEND)

        async def story() -> None:
            async with opened(node) as effects:
                receipt = await effects.submit()

                assert receipt["fate"] == {"$tag": "Unknown"}
                assert (await effects.fate(receipt["hash"]))[0] == "Confirmed"

        run(story())


def test_words_of_a_refusal_are_without_parts_of_the_url() -> None:
    with FakeNode() as node:
        refusal = {"code": -32000, "message": f"quota of {stage.TOKEN} is used up"}
        funded(node).fail("error", method=SEND, value=refusal)

        async def story() -> dict[str, Any]:
            async with opened(node) as effects:
                return await effects.submit()

        receipt = run(story())

        assert (receipt["code"], receipt["message"]) == (
            -32000,
            "quota of [secret AOS_EVM_RPC] is used up",
        )
