"""Reads that start at the same moment share one request (EV-14, EV-24)."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.worker import EffectFailed
from aos_gateway.evm import rpc_connections
from aos_gateway.evm.chain_reads import BATCH_MAX, ChainReads, together
from aos_gateway.evm.json_rpc import RpcCall, RpcError, batch_bytes
from aos_gateway.evm.rpc_connections import BODY_BYTES_MAX, AnswerLost
from tests.gateway.evm import stage
from tests.gateway.evm.fake_node import FakeNode, cut, http_html, http_json
from tests.gateway.evm.stage import GUARD, Stage, funded, no_pause, node_of, opened

HEAD: Final = "eth_getBlockByNumber"
SEND: Final = "eth_sendRawTransaction"
READS_OF_A_QUOTE: Final = [
    "eth_getTransactionCount",
    "eth_call",
    "eth_getBalance",
    "eth_maxPriorityFeePerGas",
    "eth_call",
    "eth_estimateGas",
]


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield funded(node)


def posts(node: FakeNode, body: Callable[[Stage], Awaitable[Any]]) -> list[list[str]]:
    """The requests of a new process that makes the effects of ``body``, without its chain ids."""

    async def story() -> None:
        async with opened(node) as effects:
            await body(effects)

    node.posts.clear()
    asyncio.run(story())
    return [each for each in node.posts if each != ["eth_chainId"]]


def without_tokens(error: EffectFailed) -> str:
    assert stage.TOKEN not in error.message
    return error.message


# --- the requests of the effects


def test_the_reads_of_a_quote_share_one_request(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        assert (await effects.quote(guard=GUARD))["quote"]["$tag"] == "Ready"

    assert posts(node, body) == [[HEAD], READS_OF_A_QUOTE]


def test_a_quote_at_the_head_of_a_moment_ago_is_one_request(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        first = await effects.quote(guard=GUARD)
        assert await effects.quote(guard=GUARD) == first

    *_, second = posts(node, body)

    assert sorted(second) == sorted([HEAD, *READS_OF_A_QUOTE])


def test_reads_at_a_block_that_is_no_longer_the_head_do_not_count(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        before = await effects.call()
        node.mine()
        after = await effects.call()

        assert after["block"] == before["block"] + 1
        assert after["block_hash"] == node.chain.head.hash

    assert posts(node, body) == [[HEAD], ["eth_call"], ["eth_call", HEAD], ["eth_call"]]


def test_an_error_at_a_block_that_is_no_longer_the_head_is_none(node: FakeNode) -> None:
    async def story() -> None:
        async with opened(node) as effects:
            before = await effects.call()
            node.mine()
            node.fail(
                "error", method="eth_call", value={"code": -32000, "message": "unknown block"}
            )
            assert (await effects.call())["block"] == before["block"] + 1

            node.fail(
                "error", method="eth_call", value={"code": -32000, "message": "unknown block"}
            )
            with pytest.raises(EffectFailed, match="unknown block"):
                await effects.call()

    asyncio.run(story())


def test_a_block_by_number_that_was_replaced_is_read_as_it_is_now(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        node.mine(3)
        at = {"$tag": "Number", "$value": 2}
        before = await effects.call(at)
        assert await effects.call(at) == before
        node.chain.reorg(2, keep=False)
        after = await effects.call(at)

        assert (before["block"], after["block"]) == (2, 2)
        assert before["block_hash"] != after["block_hash"] == node.ask(HEAD, "0x2", False)["hash"]

    assert posts(node, body) == [
        [HEAD],
        ["eth_call"],
        ["eth_call", HEAD],
        ["eth_call", HEAD],
        ["eth_call"],
    ]


def test_a_head_that_was_read_long_ago_is_not_likely(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aos_gateway.evm.blocks.RECENT_S", 0.0)

    async def body(effects: Stage) -> None:
        await effects.call()
        await effects.call()

    assert posts(node, body) == [[HEAD], ["eth_call"]] * 2


def test_a_look_is_the_head_and_one_more_request(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        ours = (await effects.submit())["hash"]
        node.posts.clear()
        assert (await effects.fate(ours))[0] == "Confirmed"

    assert posts(node, body) == [
        [HEAD],
        ["eth_getTransactionCount", "eth_getTransactionReceipt", "eth_getTransactionByHash"],
    ]


def test_a_transaction_of_a_busy_lane_takes_six_requests(node: FakeNode) -> None:
    """The question whether it is done, the quote, the transaction, a look, the question again."""

    async def body(effects: Stage) -> None:
        await effects.call()
        node.posts.clear()

        await effects.call()
        assert (await effects.quote(guard=GUARD))["quote"]["$tag"] == "Ready"
        ours = (await effects.submit())["hash"]
        arm, landed = await effects.fate(ours)
        done = await effects.call({"$tag": "Number", "$value": landed["block"]})

        assert (arm, done["result"]["$value"][12:].hex()) == ("Confirmed", stage.SIGNER[2:])

    assert list(map(len, posts(node, body))) == [2, 7, 1, 1, 3, 2]


def test_a_transaction_is_never_in_a_batch(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        await asyncio.gather(*(effects.submit(signer=each) for each in (stage.SIGNER, stage.OTHER)))

    assert posts(node, body) == [[SEND]] * 2


def test_effects_share_no_request(node: FakeNode) -> None:
    async def body(effects: Stage) -> None:
        await asyncio.gather(*(effects.quote(guard=GUARD) for _ in range(5)))

    found = posts(node, body)

    assert found.count([HEAD]) == 5
    assert found.count(READS_OF_A_QUOTE) == 5


def test_a_batch_has_at_most_20_reads(node: FakeNode) -> None:
    hashes = ["0x" + f"{number:064x}" for number in range(30)]

    async def body(effects: Stage) -> None:
        assert await effects.fate(*hashes) == ("NotFound", None)

    found = posts(node, body)

    assert found[0] == [HEAD]
    assert sorted(map(len, found[1:])) == [1, 20, 20, 20]


# --- answers of a batch


@pytest.mark.parametrize("seed", range(4))
def test_answers_may_come_in_any_order(node: FakeNode, seed: int) -> None:
    order = random.Random(seed)
    node.answer_batch = lambda answers: http_json(order.sample(answers, len(answers)))

    async def body(effects: Stage) -> None:
        for _ in range(3):
            block = node.chain.head.number
            ready = (await effects.quote(guard=GUARD, to=stage.SIGNER, data=b""))["quote"]
            assert (ready["$tag"], ready["$value"]["nonce"]) == ("Ready", block)
            await effects.submit(**stage.empty(nonce=block))

    assert all(len(each) > 1 or each in ([HEAD], [SEND]) for each in posts(node, body))


def test_an_error_in_a_batch_is_that_of_one_read(node: FakeNode) -> None:
    node.fail("error", method="eth_maxPriorityFeePerGas", value={"code": -32601, "message": "no"})

    async def body(effects: Stage) -> None:
        ready = (await effects.quote(guard=GUARD))["quote"]["$value"]
        assert ready["tip"] == stage.GWEI, "EV-37"

    assert posts(node, body) == [[HEAD], READS_OF_A_QUOTE]


def test_a_read_that_the_node_refuses_in_a_batch_ends_the_effect(node: FakeNode) -> None:
    words = f"limit of {stage.TOKEN} exceeded"
    node.fail("error", method="eth_getBalance", value={"code": -32005, "message": words})

    async def story() -> str:
        async with opened(node) as effects:
            with pytest.raises(EffectFailed) as failed:
                await effects.quote(guard=GUARD)
            return without_tokens(failed.value)

    assert (
        "refused eth_getBalance: error -32005, limit of [secret AOS_EVM_RPC] exceeded"
        in asyncio.run(story())
    )


REFUSED: Final = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no batches"}}
USELESS: Final[dict[str, Callable[[list[Any]], bytes]]] = {
    "an error object": lambda _: http_json(REFUSED),
    "a list with an error object": lambda _: http_json([REFUSED]),
    "one answer without a list": lambda answers: http_json(answers[0]),
    "400": lambda _: http_json(REFUSED, 400),
    "413": lambda _: http_html(413),
    "500": lambda _: http_html(500),
    "no answers": lambda _: http_json([]),
    "a missing answer": lambda answers: http_json(answers[:-1]),
    "an answer twice": lambda answers: http_json([*answers, answers[0]]),
    "an answer twice and one missing": lambda answers: http_json([answers[1], *answers[1:]]),
    "an unknown id": lambda answers: http_json([answers[0] | {"id": 10**6}, *answers[1:]]),
    "an id as text": lambda answers: http_json(
        [answers[0] | {"id": str(answers[0]["id"])}, *answers[1:]]
    ),
    "true for an id": lambda answers: http_json([answers[0] | {"id": True}, *answers[1:]]),
    "another version": lambda answers: http_json([answers[0] | {"jsonrpc": "1.0"}, *answers[1:]]),
    "a list in the list": lambda answers: http_json([[answers[0]], *answers[1:]]),
    "result and error": lambda answers: http_json(
        [answers[0] | {"error": {"code": 1, "message": "m"}}, *answers[1:]]
    ),
    "HTML": lambda _: http_html(),
    "cut": lambda answers: cut(http_json(answers)),
    "half of the JSON": lambda answers: http_json(answers).replace(b"]", b" "),
    "too large": lambda answers: http_json([answers[0] | {"more": BODY_BYTES_MAX * "0"}]),
}


@pytest.mark.parametrize("name", USELESS)
def test_a_batch_without_an_answer_that_counts_is_asked_again_one_by_one(
    node: FakeNode, name: str
) -> None:
    node.answer_batch = USELESS[name]

    async def body(effects: Stage) -> None:
        for _ in range(2):
            assert (await effects.quote(guard=GUARD))["quote"]["$tag"] == "Ready"

    found = posts(node, body)

    singles = [[each] for each in sorted(READS_OF_A_QUOTE)]
    assert found[:2] == [[HEAD], READS_OF_A_QUOTE]
    assert sorted(found[2:8]) == singles
    assert found[8] == [HEAD], "the node is remembered as one that takes no batches"
    assert sorted(found[9:]) == singles


def test_batches_are_sent_again_after_a_minute(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_connections, "SINGLE_S", 0.0)
    node.answer_batch = USELESS["an error object"]

    async def body(effects: Stage) -> None:
        await effects.quote(guard=GUARD)
        node.answer_batch = None
        node.mine()
        node.posts.clear()
        await effects.quote(guard=GUARD)

    assert READS_OF_A_QUOTE in posts(node, body)


def test_a_node_that_asks_for_fewer_requests_is_not_asked_again(node: FakeNode) -> None:
    """EV-6, also for the reads of a batch."""
    node.answer_batch = lambda _: http_html(429)

    async def body(effects: Stage) -> None:
        with pytest.raises(EffectFailed, match="answered HTTP 429") as failed:
            await effects.quote(guard=GUARD)
        without_tokens(failed.value)

    assert posts(node, body) == [[HEAD], READS_OF_A_QUOTE]


def test_after_a_batch_without_an_answer_another_chain_gets_nothing(node: FakeNode) -> None:
    """EV-5: its connections are closed, and the next one is asked for its chain."""

    def leave(_answers: list[Any]) -> bytes:
        node.rpc.chain_id = 1
        return http_html()

    node.answer_batch = leave

    async def body(effects: Stage) -> None:
        with pytest.raises(EffectFailed, match="wrong_chain"):
            await effects.quote(guard=GUARD)

    assert posts(node, body) == [[HEAD], READS_OF_A_QUOTE]


def test_a_batch_that_takes_too_long_is_asked_again_one_by_one(node: FakeNode) -> None:
    node.fail("held", method="eth_getBalance")

    async def story() -> dict[str, Any]:
        async with opened(node, request_s=0.2) as effects:
            return await effects.quote(guard=GUARD)

    assert asyncio.run(story())["quote"]["$tag"] == "Ready"


def test_a_canceled_effect_leaves_no_request_behind(node: FakeNode) -> None:
    arrived, released = threading.Event(), threading.Event()

    def held(answers: list[Any]) -> bytes:
        arrived.set()
        released.wait()
        return http_json(answers)

    async def story() -> None:
        async with opened(node) as effects:
            node.answer_batch = held
            asked = asyncio.ensure_future(effects.quote(guard=GUARD))
            await asyncio.to_thread(arrived.wait)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert len(asyncio.all_tasks()) == 1
            released.set()

            assert (await effects.quote(guard=GUARD))["quote"]["$tag"] == "Ready"

    asyncio.run(story())


# --- a model: any reads, in any batches, with any failures


class Numbers:
    """A node without HTTP: the result of a read is its first param. A batch fails where ``plan``
    says so, or leaves out one."""

    def __init__(self, plan: Sequence[bool]) -> None:
        self.node = node_of("31337=http://numbers:1")
        self.takes_batches = True
        self.plan = list(plan)
        self.batches: list[int] = []
        self.singles = 0

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError:
        self.singles += 1
        await asyncio.sleep(0)
        if method == "error":
            return RpcError(code=params[0], message="m")
        return params[0]

    async def ask_all(self, calls: Sequence[RpcCall]) -> list[Any | RpcError]:
        self.batches.append(len(calls))
        await asyncio.sleep(0)
        if self.plan and self.plan.pop():
            self.takes_batches = False
            raise AnswerLost("has lost it")
        return [
            RpcError(code=params[0], message="m") if method == "error" else params[0]
            for method, params in calls
        ]


@given(
    rounds=st.lists(st.integers(1, 65), min_size=1, max_size=4),
    plan=st.lists(st.booleans(), max_size=6),
)
def test_each_read_gets_its_own_answer(rounds: list[int], plan: list[bool]) -> None:
    numbers = Numbers(plan)
    reads = ChainReads(numbers, sleep=no_pause)

    async def read(number: int) -> Any:
        return await reads.ask("error" if number % 3 == 0 else "number", [number])

    async def story() -> None:
        for count in rounds:
            found = await together(*(read(number) for number in range(count)))
            assert [each.code if isinstance(each, RpcError) else each for each in found] == list(
                range(count)
            )

    asyncio.run(story())

    assert all(2 <= size <= BATCH_MAX for size in numbers.batches)
    if not any(plan):
        assert len(numbers.batches) + numbers.singles == sum(
            -(-count // BATCH_MAX) for count in rounds
        )
        assert sum(numbers.batches) + numbers.singles == sum(rounds)


def test_the_bytes_of_a_batch_are_a_list_of_requests() -> None:
    assert json.loads(batch_bytes({4: RpcCall("a", [1]), 9: RpcCall("b", [])})) == [
        {"jsonrpc": "2.0", "id": 4, "method": "a", "params": [1]},
        {"jsonrpc": "2.0", "id": 9, "method": "b", "params": []},
    ]
