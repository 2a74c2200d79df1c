"""A stage for the effects: keys, params, and nodes that are read without pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from eth_account import Account

from aos.worker import EffectContext
from aos_gateway.evm import evm_effects
from aos_gateway.evm.blocks import Blocks
from aos_gateway.evm.chain_reads import ChainReads
from aos_gateway.evm.evm_effects import EvmNodes
from aos_gateway.evm.fate_wait import Pacing
from aos_gateway.evm.json_rpc import RpcCall, RpcError
from aos_gateway.evm.rpc_connections import RpcConnections, RpcNode, parse_nodes
from tests.gateway.evm.fake_answers import RpcFailure
from tests.gateway.evm.fake_node import CHAIN_ID, FakeNode
from tests.gateway.evm.fake_rpc import FakeRpc
from tests.gateway.evm.schemas import check_receipt, params_of
from tests.gateway.evm.studio import Studio, calldata

KEYS: Final = tuple("0x" + f"{number:02x}" * 32 for number in (0x11, 0x22, 0x33))
SIGNER, OTHER, THIRD = (str(Account.from_key(each).address).lower() for each in KEYS)
STUDIO: Final = "0x" + "ab" * 20
WORK: Final = b"\x01" * 32
ETHER: Final = 10**18
GWEI: Final = 10**9
ALIAS, VERSION = "gw/evm-keys", 1
SECRET: Final = {"alias": ALIAS, "version": VERSION}

SUBMITTER_OF: Final = calldata("submitterOf(bytes32)", WORK)
SUBMIT_WORK: Final = calldata("submitWork(bytes32,uint64,string)", WORK, 7, "ar-1")
CLOSE_EPOCH: Final = calldata("closeEpoch(uint64)", 7)
"""Reverts with EpochEmpty before a work is submitted."""


def context(resource: object, secret: str | None = ",".join(KEYS)) -> EffectContext:
    """A call's context. ``secret`` is the value of ``gw/evm-keys@1``."""
    return EffectContext(
        intent="blake3:" + 64 * "0",
        effect="evm/test@1",
        idempotency_key="blake3:" + 64 * "0",
        attempt=1,
        workflow="test/flow@1",
        key=None,
        issuer_ref=None,
        world="blake3:" + 64 * "0",
        deadline_ns=0,
        resource=resource,
        secrets={} if secret is None else {(ALIAS, VERSION): secret},
    )


def call(block: Any = None, **changes: Any) -> dict[str, Any]:
    """Params of ``evm/call@1``: read the submitter of the work at the head."""
    at = {"$tag": "Depth", "$value": 1} if block is None else block
    return {"chain": CHAIN_ID, "to": STUDIO, "data": SUBMITTER_OF, "block": at, **changes}


def quote(**changes: Any) -> dict[str, Any]:
    """Params of ``evm/tx.quote@1``: submit the work."""
    return {
        "chain": CHAIN_ID,
        "signer": SIGNER,
        "to": STUDIO,
        "data": SUBMIT_WORK,
        "value": "0",
        "conf": 1,
        "guard": None,
        **changes,
    }


GUARD: Final = {"to": STUDIO, "data": SUBMITTER_OF, "undone": bytes(32)}


def submit(**changes: Any) -> dict[str, Any]:
    """Params of ``evm/tx.submit@1``: submit the work with nonce 0."""
    return {
        "keys": SECRET,
        "chain": CHAIN_ID,
        "signer": SIGNER,
        "nonce": 0,
        "to": STUDIO,
        "data": SUBMIT_WORK,
        "value": "0",
        "gas": 120_000,
        "max_fee": 3 * GWEI,
        "max_tip": GWEI,
        **changes,
    }


def receipt(*hashes: str, **changes: Any) -> dict[str, Any]:
    """Params of ``evm/tx.receipt@1``: the fate of nonce 0, one look."""
    return {
        "chain": CHAIN_ID,
        "signer": SIGNER,
        "nonce": 0,
        "hashes": list(hashes),
        "to": STUDIO,
        "data": SUBMIT_WORK,
        "value": "0",
        "conf": 1,
        "since": 0,
        "wait_ms": 0,
        **changes,
    }


def empty(**changes: Any) -> dict[str, Any]:
    """Changes that make a transaction an empty one of the signer to itself."""
    return {"to": SIGNER, "data": b"", "value": "0", "gas": 21_000, **changes}


def funded(node: FakeNode) -> FakeNode:
    """Give the signers 100 ether each, and put the contract on the chain."""
    for each in (SIGNER, OTHER, THIRD):
        node.chain.set_balance(each, 100 * ETHER)
    node.chain.put_studio(STUDIO, Studio())
    return node


@dataclass
class Clock:
    """Time that passes only in pauses. ``on_pause`` runs in each: the chain moves there."""

    seconds: float = 0.0
    on_pause: Callable[[], None] = lambda: None
    pauses: int = 0

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.pauses += 1
        self.on_pause()


async def no_pause(_seconds: float) -> None:
    await asyncio.sleep(0)


@dataclass
class Stage:
    """The four effects over one node."""

    nodes: EvmNodes
    clock: Clock
    asked: list[str]
    """Methods that were asked, of a stage without HTTP."""
    secret: str | None = ",".join(KEYS)

    async def run(self, effect: Any, params: dict[str, Any]) -> dict[str, Any]:
        """Call an effect as the worker does: params and result have the form of their schemas."""
        ctx = context(self.nodes, self.secret)
        returned: dict[str, Any] = await effect(params_of(effect.name, params), ctx)
        check_receipt(effect.name, returned)
        return returned

    async def call(self, *given: Any, **changes: Any) -> dict[str, Any]:
        return await self.run(evm_effects.call, call(*given, **changes))

    async def quote(self, **changes: Any) -> dict[str, Any]:
        return await self.run(evm_effects.quote, quote(**changes))

    async def submit(self, **changes: Any) -> dict[str, Any]:
        return await self.run(evm_effects.submit, submit(**changes))

    async def receipt(self, *hashes: str, **changes: Any) -> dict[str, Any]:
        return await self.run(evm_effects.receipt, receipt(*hashes, **changes))

    async def fate(self, *hashes: str, **changes: Any) -> tuple[str, Any]:
        """The arm of a receipt's fate and its value."""
        fate = (await self.receipt(*hashes, **changes))["fate"]
        return fate["$tag"], fate.get("$value")


TOKEN: Final = "t0ken-of-a-provider"


def rpc_variable(node: FakeNode) -> str:
    """The ``AOS_EVM_RPC`` of a node whose URL has a token."""
    return f"{CHAIN_ID}={node.url}/v3/{TOKEN}?key={TOKEN}"


@asynccontextmanager
async def opened(node: FakeNode | str, *, request_s: float = 10.0) -> AsyncIterator[Stage]:
    """The effects over HTTP, as they run in a worker. ``node`` is one, or an ``AOS_EVM_RPC``."""
    variable = node if isinstance(node, str) else rpc_variable(node)
    connections = RpcConnections(node_of(variable), request_s=request_s)
    try:
        yield _stage(ChainReads(connections, sleep=no_pause), [])
    finally:
        await connections.aclose()


class Direct:
    """Connections without HTTP: each question goes straight to the node."""

    def __init__(self, rpc: FakeRpc) -> None:
        self.rpc = rpc
        (self.node,) = parse_nodes(f"{CHAIN_ID}=http://direct:1").values()
        self.asked: list[str] = []
        self.takes_batches = True

    async def ask_all(self, calls: Sequence[RpcCall]) -> list[Any | RpcError]:
        return [await self.ask(*each) for each in calls]

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError:
        self.asked.append(method)
        try:
            return self.rpc.answer(method, params)
        except RpcFailure as failure:
            error = failure.document
            return RpcError(code=error["code"], message=error["message"], data=error.get("data"))


def direct(node: FakeNode) -> Stage:
    """The effects over a node that is not served."""
    connections = Direct(node.rpc)
    return _stage(ChainReads(connections, sleep=no_pause), connections.asked)


def _stage(reads: ChainReads, asked: list[str]) -> Stage:
    clock = Clock()
    nodes = EvmNodes({CHAIN_ID: Blocks(reads)}, Pacing(now=clock.now, sleep=clock.sleep))
    return Stage(nodes, clock, asked)


def node_of(text: str) -> RpcNode:
    """The one node of an ``AOS_EVM_RPC``."""
    (found,) = parse_nodes(text).values()
    return found
