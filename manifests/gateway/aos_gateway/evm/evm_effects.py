"""The four effects, and the nodes that this process talks to (EV-2, EV-6)."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx

from aos.worker import EffectContext, EffectFailed, Executors, effect
from aos.worker.redacted_output import say
from aos.worker.secret_leaks import process_secrets
from aos_gateway.evm.blocks import Blocks
from aos_gateway.evm.chain_reads import ChainReads
from aos_gateway.evm.evm_errors import chain_not_configured
from aos_gateway.evm.fate_wait import Pacing, await_fate
from aos_gateway.evm.inputs import call_params, quote_params, receipt_params, submit_params
from aos_gateway.evm.rpc_connections import (
    VARIABLE,
    AnswerLost,
    NeverSent,
    RpcConnections,
    RpcNode,
    parse_nodes,
)
from aos_gateway.evm.tx_quote import quote as quote_transaction
from aos_gateway.evm.tx_submit import submit as submit_transaction
from aos_gateway.evm.view_call import call_view

Plain = dict[str, Any]

CALLS_MAX: Final = 64
WAITS_MAX: Final = 256
START_CHECK_S: Final = 3.0
"""Maximum time of the first look at all nodes, in seconds: an absent one must not delay a start."""


class EvmNodes:
    """The configured chains, each with its blocks. The value of ``ctx.resource``."""

    def __init__(self, blocks: Mapping[int, Blocks], pacing: Pacing) -> None:
        self._blocks = blocks
        self.pacing = pacing

    def of(self, chain: int) -> Blocks:
        """The blocks of a chain, for one effect.

        Raises:
            NotConfigured: ``AOS_EVM_RPC`` has no node for the chain; nothing was sent.
        """
        blocks = self._blocks.get(chain)
        if blocks is None:
            raise chain_not_configured(chain)
        return blocks.of_one_effect()


@effect("evm/call@1", concurrency=CALLS_MAX, timeout_s=20)
async def call(params: Plain, ctx: EffectContext) -> Plain:
    """Call a view of a contract; nothing is sent."""
    checked = call_params(params)
    return await call_view(_nodes(ctx).of(checked.chain), checked)


@effect("evm/tx.quote@1", concurrency=CALLS_MAX, timeout_s=30)
async def quote(params: Plain, ctx: EffectContext) -> Plain:
    """Ask for nonce, gas and fees of a signer's next transaction."""
    checked = quote_params(params)
    return await quote_transaction(_nodes(ctx).of(checked.chain), checked)


@effect("evm/tx.submit@1", concurrency=CALLS_MAX, timeout_s=60)
async def submit(params: Plain, ctx: EffectContext) -> Plain:
    """Sign and publish one transaction. The key is looked for last, so that a process without a
    node for the chain never gets it."""
    checked = submit_params(params)
    reads = _nodes(ctx).of(checked.chain).reads
    name = f"{checked.keys['alias']}@{checked.keys['version']}"
    return await submit_transaction(reads, checked, secret=ctx.secret(checked.keys), name=name)


@effect("evm/tx.receipt@1", concurrency=WAITS_MAX, timeout_s=60)
async def receipt(params: Plain, ctx: EffectContext) -> Plain:
    """Wait for the fate of a nonce."""
    checked = receipt_params(params)
    nodes = _nodes(ctx)
    return await await_fate(nodes.of(checked.chain), checked, nodes.pacing)


def _nodes(ctx: EffectContext) -> EvmNodes:
    assert isinstance(ctx.resource, EvmNodes)
    return ctx.resource


@asynccontextmanager
async def connected() -> AsyncIterator[EvmNodes]:
    """The nodes of ``AOS_EVM_RPC``. An unreachable node does not prevent a start (EV-5).

    Raises:
        BadUsage: ``AOS_EVM_RPC`` is malformed.
    """
    nodes = parse_nodes(os.environ.get(VARIABLE, ""))
    context = _ssl_context(nodes)
    connections = [RpcConnections(node, context) for node in nodes.values()]
    with process_secrets(secret for node in nodes.values() for secret in node.secrets):
        try:
            await asyncio.gather(*map(_first_look, connections))
            blocks = {
                connection.node.chain: Blocks(ChainReads(connection)) for connection in connections
            }
            yield EvmNodes(blocks, Pacing(now=time.monotonic))
        finally:
            await asyncio.gather(*(connection.aclose() for connection in connections))


def _ssl_context(nodes: Mapping[int, RpcNode]) -> ssl.SSLContext | None:
    if not any(node.scheme == "https" for node in nodes.values()):
        return None  # making one takes 20 ms
    return httpx.create_ssl_context(trust_env=False)


async def _first_look(connections: RpcConnections) -> None:
    """Open a connection, which asks for the chain id, and report a node that cannot be used."""
    node = connections.node
    try:
        async with asyncio.timeout(START_CHECK_S):
            await connections.ask("eth_chainId", [])
    except EffectFailed as error:
        say(f"chain {node.chain}: {error.message}")
    except (NeverSent, AnswerLost) as error:
        say(f"chain {node.chain}: the node at {node.host_port} {error}; effects wait for it")
    except TimeoutError:
        say(
            f"chain {node.chain}: the node at {node.host_port} does not answer; effects wait for it"
        )


evm = Executors("evm", (call, quote, submit, receipt), setup=connected)
