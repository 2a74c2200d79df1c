"""The same chain as a node sees it that is some blocks behind: two heads behind one URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Rpc = dict[str, Any]
Ask = Callable[[str, list[Any]], Any]
"""Ask the node: method, parameters. Returns the result; None where it refuses."""

BLOCK_PARAMETER: Final = {
    "eth_call": 1,
    "eth_estimateGas": 1,
    "eth_getBalance": 1,
    "eth_getBlockByNumber": 0,
    "eth_getCode": 1,
    "eth_getStorageAt": 2,
    "eth_getTransactionCount": 1,
}
"""The place of the parameter that names a block."""

BLOCKS_OF_RESULT: Final = {
    "eth_getBlockByHash": "number",
    "eth_getTransactionByHash": "blockNumber",
    "eth_getTransactionReceipt": "blockNumber",
}
"""The field of the result that names its block."""

READS: Final = frozenset({"eth_blockNumber", *BLOCK_PARAMETER, *BLOCKS_OF_RESULT})

_LATEST: Final = (None, "latest", "safe", "finalized")


def stale_reply(request: Rpc, ask: Ask, blocks: int) -> Rpc | None:
    """Answer a read as a node would whose head is ``blocks`` behind; None if it is no such read."""
    method, parameters = request.get("method"), list(request.get("params") or [])
    if method not in READS:
        return None
    now = ask("eth_blockNumber", [])
    if now is None:
        return None
    head = max(0, int(now, 16) - blocks)
    if method == "eth_blockNumber":
        return _result(request, hex(head))
    if method in BLOCKS_OF_RESULT:
        return _result(request, _before(method, ask(method, parameters), head))
    place = BLOCK_PARAMETER[method]
    parameters += [None] * (place + 1 - len(parameters))
    named = parameters[place]
    if named in _LATEST:
        parameters[place] = hex(head)
    elif _number(named) > head:
        return _beyond(request, named, head)
    return {**request, "params": parameters}


def _before(method: str, found: Any, head: int) -> Any:
    """A result, or None where its block comes after the head."""
    if not isinstance(found, dict):
        return found
    block = found.get(BLOCKS_OF_RESULT[method])
    if block is None or int(block, 16) <= head:
        return found
    if method == "eth_getTransactionByHash":
        # To this node, the transaction is pending.
        return {**found, "blockHash": None, "blockNumber": None, "transactionIndex": None}
    return None


def _number(named: Any) -> int:
    """The number of a block that a request names; -1 for any other name."""
    if isinstance(named, str) and named.startswith("0x") and len(named) <= 18:
        return int(named, 16)
    return -1


def _beyond(request: Rpc, named: Any, head: int) -> Rpc:
    if request["method"] == "eth_getBlockByNumber":
        return _result(request, None)
    message = f"BlockOutOfRangeError: block height is {head} but requested was {_number(named)}"
    return {**_envelope(request), "error": {"code": -32602, "message": message}}


def _result(request: Rpc, result: Any) -> Rpc:
    return {**_envelope(request), "result": result}


def _envelope(request: Rpc) -> Rpc:
    return {"jsonrpc": "2.0", "id": request.get("id")}
