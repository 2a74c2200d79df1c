"""``evm/tx.quote@1``: everything that fixes a signer's next transaction (EV-34, EV-35)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aos_gateway.evm.blocks import Block, Blocks
from aos_gateway.evm.chain_reads import together
from aos_gateway.evm.evm_errors import unavailable
from aos_gateway.evm.hex_values import U256_MAX, quantity
from aos_gateway.evm.inputs import QuoteParams
from aos_gateway.evm.json_rpc import RpcError
from aos_gateway.evm.revert_data import Cause
from aos_gateway.evm.view_call import call_at

GAS_MIN: Final = 21_000
TIP_DEFAULT_WEI: Final = 1_000_000_000
DECIMAL_MAX: Final = 10**34 - 1
"""The largest whole dec128."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fees:
    """In wei for each unit of gas."""

    base: int
    tip: int

    def total_cost(self, value: int, gas: int) -> int:
        """Wei that the signer must have, so that the base fee may double meanwhile (EV-38)."""
        return value + gas * (2 * self.base + self.tip)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The answers of the node about one transaction, at ``head`` and at ``deep`` (EV-34)."""

    head: Block
    deep: Block
    nonce: int
    guard: bytes | Cause | None
    balance: int
    tip: int
    simulated: Any | RpcError
    estimated: Any | RpcError


async def quote(blocks: Blocks, params: QuoteParams) -> dict[str, Any]:
    """``evm/TxQuoteReceipt@1``."""
    call = transaction_call(params.signer, params.to, params.data, params.value)
    reads = await blocks.read_at(
        blocks.recent_head(), blocks.head, lambda head: _reads(blocks, params, call, head)
    )
    fees = _Fees(base=_base_fee(blocks, reads.head), tip=reads.tip)
    if isinstance(reads.guard, Cause):
        result = _reverted(reads.guard, at_depth=True)
    elif params.guard is not None and reads.guard != params.guard.undone:
        result = {"$tag": "Done", "$value": {"returned": reads.guard}}
    elif reads.balance < fees.total_cost(params.value, GAS_MIN):
        gas = _gas_or(GAS_MIN, reads.estimated)
        result = _no_funds(reads.balance, fees.total_cost(params.value, gas))
    elif (cause := _cause(blocks, reads.simulated) or _cause(blocks, reads.estimated)) is not None:
        at_depth = await _reverts_at(blocks, call, reads.head, reads.deep)
        result = _reverted(cause, at_depth=at_depth)
    else:
        gas = _gas(blocks, reads.head, reads.simulated, reads.estimated)
        total_cost = fees.total_cost(params.value, gas)
        result = (
            _no_funds(reads.balance, total_cost)
            if reads.balance < total_cost
            else _ready(reads.nonce, gas, fees)
        )
    return {"block": reads.deep.number, "quote": result}


async def _reads(blocks: Blocks, params: QuoteParams, call: dict[str, str], head: Block) -> _Reads:
    deep = await blocks.at_depth(head, params.conf)
    nonce, guard, balance, tip, simulated, estimated = await together(
        blocks.nonce(params.signer, deep),
        _guard(blocks, params, deep),
        _balance(blocks, params.signer, head),
        _tip(blocks),
        blocks.state("eth_call", [call], head),
        blocks.reads.ask("eth_estimateGas", [call, "latest"]),
    )
    return _Reads(
        head=head,
        deep=deep,
        nonce=nonce,
        guard=guard,
        balance=balance,
        tip=tip,
        simulated=simulated,
        estimated=estimated,
    )


def transaction_call(signer: str, to: str, data: bytes, value: int) -> dict[str, str]:
    """A transaction in the form that ``eth_call`` takes."""
    return {"from": signer, "to": to, "data": "0x" + data.hex(), "value": hex(value)}


async def _guard(blocks: Blocks, params: QuoteParams, deep: Block) -> bytes | Cause | None:
    if params.guard is None:
        return None
    call = {"to": params.guard.to, "data": "0x" + params.guard.data.hex()}
    return await call_at(blocks, call, deep)


async def _balance(blocks: Blocks, signer: str, head: Block) -> int:
    answer = await blocks.state("eth_getBalance", [signer], head)
    if isinstance(answer, RpcError):
        raise blocks.reads.refused("eth_getBalance", answer)
    return blocks.reads.parsed("eth_getBalance", answer, _wei)


def _wei(answer: Any) -> int:
    return quantity(answer, limit=U256_MAX)


async def _tip(blocks: Blocks) -> int:
    """The node's tip; 1 gwei from a node that cannot name one (EV-37)."""
    method = "eth_maxPriorityFeePerGas"
    answer = await blocks.reads.ask(method, [])
    if isinstance(answer, RpcError):
        return TIP_DEFAULT_WEI
    return blocks.reads.parsed(method, answer, quantity)


def _base_fee(blocks: Blocks, head: Block) -> int:
    if head.base_fee is None:
        raise unavailable(
            f"block {head.number} of the node at {blocks.reads.host_port} has no base fee: "
            "expected a chain that takes transactions of type 2 (EIP-1559)"
        )
    return head.base_fee


def _cause(blocks: Blocks, answer: Any | RpcError) -> Cause | None:
    return blocks.reads.cause_of(answer) if isinstance(answer, RpcError) else None


async def _reverts_at(blocks: Blocks, call: dict[str, str], head: Block, deep: Block) -> bool:
    """Whether it also reverts at the block of the nonce (EV-39)."""
    if deep.hash == head.hash:
        return True
    return isinstance(await call_at(blocks, call, deep), Cause)


def _gas(blocks: Blocks, head: Block, simulated: Any, estimated: Any) -> int:
    """The estimate and a fifth of it, rounded up; at most the gas of a block (EV-36)."""
    for method, answer in (("eth_call", simulated), ("eth_estimateGas", estimated)):
        if isinstance(answer, RpcError):
            raise blocks.reads.refused(method, answer)
    estimate = blocks.reads.parsed("eth_estimateGas", estimated, quantity)
    if not GAS_MIN <= estimate <= head.gas_limit:
        raise blocks.reads.nonsense(
            "eth_estimateGas", f"expected {GAS_MIN} to {head.gas_limit}, found {estimate}"
        )
    return min(with_margin(estimate), head.gas_limit)


def with_margin(estimate: int) -> int:
    return -(-estimate * 6 // 5)


def _gas_or(default: int, estimated: Any) -> int:
    try:
        return max(default, with_margin(quantity(estimated)))
    except ValueError:
        return default


def _ready(nonce: int, gas: int, fees: _Fees) -> dict[str, Any]:
    value = {"nonce": nonce, "gas": gas, "base_fee": fees.base, "tip": fees.tip}
    return {"$tag": "Ready", "$value": value}


def _reverted(cause: Cause, *, at_depth: bool) -> dict[str, Any]:
    return {"$tag": "Reverted", "$value": {"cause": cause.plain(), "at_depth": at_depth}}


def _no_funds(balance: int, total_cost: int) -> dict[str, Any]:
    value = {"balance": _decimal(balance), "needed": _decimal(total_cost)}
    return {"$tag": "NoFunds", "$value": value}


def _decimal(wei: int) -> str:
    return str(min(wei, DECIMAL_MAX))
