"""Nodes that fail, lie or change, over HTTP: that is never an answer (EV-4 to EV-10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from aos.worker import EffectFailed
from aos_gateway.evm import evm_effects
from aos_gateway.evm.evm_effects import connected
from tests.gateway.evm import stage
from tests.gateway.evm.fake_node import HTML, FakeNode
from tests.gateway.evm.stage import Stage, context, funded, opened

MANY = 99


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield funded(node)


def failing(
    node: FakeNode, body: Callable[[Stage], Awaitable[Any]], **options: Any
) -> EffectFailed:
    """The error that an effect raises."""

    async def story() -> EffectFailed:
        async with opened(node, **options) as effects:
            with pytest.raises(EffectFailed) as failed:
                await body(effects)
            return failed.value

    return asyncio.run(story())


def working(node: FakeNode, body: Callable[[Stage], Awaitable[Any]], **options: Any) -> Any:
    async def story() -> Any:
        async with opened(node, **options) as effects:
            return await body(effects)

    return asyncio.run(story())


READS: dict[str, Callable[[Stage], Awaitable[Any]]] = {
    "call": lambda effects: effects.call(),
    "quote": lambda effects: effects.quote(),
    "receipt": lambda effects: effects.receipt("0x" + 64 * "9"),
}
HOSTILE: dict[str, tuple[str, Any, str]] = {
    "HTML": ("body", HTML, "did not answer in JSON"),
    "nothing": ("body", b"", "the body is empty"),
    "a list": ("body", b"[]", "did not answer in JSON-RPC 2.0"),
    "text": ("body", b'"0x1"', "did not answer in JSON-RPC 2.0"),
    "deep nesting": ("body", 200_000 * b"[", "did not answer in JSON"),
    "a long number": ("body", b'{"id":' + 9_999 * b"1" + b"}", "did not answer in JSON"),
    "another request": ("body", b'{"jsonrpc":"2.0","id":-1}', "found -1"),
    "429": ("status", 429, "answered HTTP 429"),
    "500": ("status", 500, "answered HTTP 500"),
    "502": ("status", 502, "answered HTTP 502"),
    "a redirect": ("status", 302, "answered HTTP 302"),
    "401": ("status", 401, "answered HTTP 401"),
    "cut JSON": ("cut", None, "broke the connection off"),
    "another id": ("id", None, "answered another request"),
    "another version": ("version", None, "did not answer in JSON-RPC 2.0"),
    "17 MiB": ("large", 17 * 1024 * 1024, "answered with more than 16777216 bytes"),
    "compressed": ("gzip", None, "compressed its answer"),
    "a lost reply": ("lost", None, "broke the connection off"),
    "no reply": ("closed", None, "broke the connection off"),
    "an error": ("error", {"code": -32005, "message": "limit exceeded"}, "limit exceeded"),
    "a nameless error": ("error", {"code": -32005}, "an error that has no message"),
    "null": ("result", None, "null for the latest block"),
    "a number": ("result", 5, "expected a block"),
    "half a block": ("result", {"number": "0x1"}, "expected a hash of 32 bytes"),
    "a huge number": (
        "result",
        {"number": "0x1" + 16 * "0", "hash": "0x" + 64 * "1", "parentHash": "0x" + 64 * "1"},
        "expected a quantity of at most 0xffffffffffffffff",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("effect", "name"),
    [
        *(("call", name) for name in HOSTILE),
        *((effect, name) for effect in ("quote", "receipt") for name in ("HTML", "null", "429")),
    ],
)
def test_an_answer_without_meaning_is_unavailable(node: FakeNode, effect: str, name: str) -> None:
    kind, value, words = HOSTILE[name]
    node.fail(kind, method="eth_getBlockByNumber", times=MANY, value=value)

    error = failing(node, READS[effect])

    assert (error.code, error.retryable) == ("unavailable", True)
    assert words in error.message
    assert f"127.0.0.1:{node.port}" in error.message
    assert stage.TOKEN not in error.message


@pytest.mark.parametrize("effect", READS)
def test_a_node_that_does_not_answer_in_time_is_unavailable(node: FakeNode, effect: str) -> None:
    node.fail("held", method="eth_getBlockByNumber", times=MANY)

    error = failing(node, READS[effect], request_s=0.02)

    assert (error.code, error.retryable) == ("unavailable", True)
    assert "did not answer within 0.02 s" in error.message


@pytest.mark.parametrize("kind", ["lost", "closed", "cut", "id"])
def test_a_read_is_tried_three_times(node: FakeNode, kind: str) -> None:
    node.fail(kind, method="eth_call", times=2)

    receipt = working(node, lambda effects: effects.call())

    assert receipt["result"]["$tag"] == "Returned"
    assert node.count("eth_call") == 3


def test_a_node_that_asks_for_fewer_requests_is_asked_once(node: FakeNode) -> None:
    node.fail("status", method="eth_call", times=MANY, value=429)

    failing(node, lambda effects: effects.call())

    assert node.count("eth_call") == 1


def test_a_node_that_is_not_there_is_unavailable(node: FakeNode) -> None:
    node.stop()

    for effect in (*READS.values(), lambda effects: effects.submit()):
        error = failing(node, effect)

        assert (error.code, error.retryable) == ("unavailable", True)
        assert f"the node at 127.0.0.1:{node.port} could not be reached" in error.message


def test_words_of_the_node_are_bounded_and_without_parts_of_the_url(node: FakeNode) -> None:
    message = f"\x1b[31mno project {stage.TOKEN}\n" + 5_000 * "x"
    node.fail("error", method="eth_call", value={"code": -32005, "message": message})

    error = failing(node, lambda effects: effects.call())

    assert "error -32005, [31mno project [secret AOS_EVM_RPC] xxx" in error.message
    assert len(error.message) < 500


# --- the chain id


def test_a_node_of_another_chain_gets_nothing_but_that_question(node: FakeNode) -> None:
    node.rpc.chain_id = 1

    for effect in (*READS.values(), lambda effects: effects.submit()):
        error = failing(node, effect)

        assert (error.code, error.retryable) == ("wrong_chain", True)
        assert error.message == (
            f"the node at 127.0.0.1:{node.port} is on chain 1: expected chain 31337; nothing was "
            "sent to it"
        )
    assert {method for method, _ in node.requests} == {"eth_chainId"}


@pytest.mark.parametrize("answer", [None, "31337", "0x07a69", 31337, "0x" + 65 * "1"])
def test_a_node_without_a_proper_chain_id_is_unavailable(node: FakeNode, answer: Any) -> None:
    node.fail("result", method="eth_chainId", times=MANY, value=answer)

    assert failing(node, lambda effects: effects.submit()).code == "unavailable"
    assert node.count("eth_sendRawTransaction") == 0


def test_a_connection_is_asked_for_its_chain_once(node: FakeNode) -> None:
    async def story() -> None:
        async with opened(node) as effects:
            for _ in range(5):
                await effects.call()

    asyncio.run(story())

    assert (node.connections, node.count("eth_chainId")) == (1, 1)


@pytest.mark.parametrize("kind", ["lost", "closed", "cut", "id", "body"])
def test_after_a_failure_another_node_behind_the_url_gets_nothing(
    node: FakeNode, kind: str
) -> None:
    async def story() -> None:
        async with opened(node) as effects:
            await asyncio.gather(*(effects.call() for _ in range(3)))
            assert node.connections > 1, "several connections are open and were asked"
            node.posts.clear()
            node.fail(kind, method="eth_getBlockByNumber", value=HTML)
            node.rpc.chain_id = 1  # its open connections still answer

            with pytest.raises(EffectFailed, match="wrong_chain"):
                await effects.call()

    asyncio.run(story())

    failed, *later = node.posts
    assert "eth_getBlockByNumber" in failed
    assert set(map(tuple, later)) == {("eth_chainId",)}


def test_a_connection_that_the_node_has_closed_is_replaced_and_asked(node: FakeNode) -> None:
    async def story() -> None:
        async with opened(node) as effects:
            await effects.call()
            node.keeps_connections = False
            for _ in range(3):  # each answer ends its connection
                await effects.call()

    asyncio.run(story())

    assert node.count("eth_chainId") > 2
    assert node.count("eth_call") == 4


def test_a_start_without_its_node_works_once_the_node_is_there(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node.fail("status", times=1, value=503)
    monkeypatch.setenv("AOS_EVM_RPC", stage.rpc_variable(node))

    async def story() -> None:
        async with connected() as nodes:
            assert (await evm_effects.call(stage.call(), context(nodes)))["block"] == 0

    asyncio.run(story())

    said = capsys.readouterr().err
    assert "chain 31337: the node at 127.0.0.1:" in said
    assert "answered HTTP 503; effects wait for it" in said
    assert stage.TOKEN not in said


def test_a_start_reports_a_node_of_another_chain(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node.rpc.chain_id = 5
    monkeypatch.setenv("AOS_EVM_RPC", stage.rpc_variable(node))

    async def story() -> None:
        async with connected():
            pass

    asyncio.run(story())

    assert "is on chain 5: expected chain 31337" in capsys.readouterr().err


# --- blocks that cannot be


def test_null_for_a_block_that_the_node_has_named_is_unavailable(node: FakeNode) -> None:
    node.mine(5)
    node.fail("result", method="eth_getBlockByHash", times=MANY)

    error = failing(node, lambda effects: effects.call({"$tag": "Depth", "$value": 3}))

    assert error.code == "unavailable"
    assert "eth_getBlockByHash with nonsense: null for block 0x" in error.message


def test_another_block_than_the_one_that_was_asked_for_is_unavailable(node: FakeNode) -> None:
    node.mine(3)
    other = json.loads(json.dumps(node.ask("eth_getBlockByNumber", "0x1", False)))
    node.fail("result", method="eth_getBlockByHash", times=MANY, value=other)

    error = failing(node, lambda effects: effects.call({"$tag": "Depth", "$value": 2}))

    assert "found block" in error.message
    node.faults.clear()
    node.fail("result", method="eth_getBlockByNumber", times=MANY, value=other)
    error = failing(node, lambda effects: effects.call({"$tag": "Number", "$value": 2}))
    assert "expected block 2, found block 1" in error.message


def test_a_receipt_or_transaction_of_another_hash_is_unavailable(node: FakeNode) -> None:
    async def story() -> None:
        async with opened(node) as effects:
            ours = (await effects.submit())["hash"]
            other = "0x" + 64 * "9"
            found = node.ask("eth_getTransactionReceipt", ours)
            node.fail("result", method="eth_getTransactionReceipt", value=found)
            with pytest.raises(EffectFailed, match=f"expected a receipt of {other}"):
                await effects.receipt(other)

            changed = node.ask("eth_getTransactionByHash", ours) | {"nonce": "0x5"}
            node.fail("result", method="eth_getTransactionByHash", value=changed)
            with pytest.raises(EffectFailed, match="nonsense"):
                await effects.receipt(ours)

            node.fail("result", method="eth_getTransactionByHash", times=2, value=None)
            with pytest.raises(EffectFailed, match="which has a receipt"):
                await effects.receipt(ours)

    asyncio.run(story())


def test_an_oversized_view_is_unavailable(node: FakeNode) -> None:
    node.fail("result", method="eth_call", value="0x" + 70_000 * "00")

    error = failing(node, lambda effects: effects.call())

    assert "expected at most 65536 bytes, found 70000" in error.message


# --- many


def test_256_waits_share_the_node(node: FakeNode) -> None:
    node.chain.is_automining = False

    async def story() -> list[tuple[str, Any]]:
        async with opened(node) as effects:
            ours = (await effects.submit())["hash"]
            node.mine()
            return await asyncio.gather(*(effects.fate(ours, wait_ms=10_000) for _ in range(256)))

    fates = asyncio.run(story())

    assert {arm for arm, _ in fates} == {"Confirmed"}
    assert len(fates) == 256
    assert node.connections <= 64
