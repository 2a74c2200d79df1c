"""The compiled contract: its ABI, and how it gets onto a chain."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from chain_processes import ChainError, wait_until

ARTIFACT: Final = Path(__file__).resolve().parent / "contracts" / "Studio.json"
DEPLOY_GAS: Final = 3_000_000
MINED_S: Final = 30.0

Rpc = Callable[[str, Sequence[Any]], Any]


def artifact() -> dict[str, Any]:
    """The contents of contracts/Studio.json: ``abi``, ``bytecode``, ``compiler``."""
    read: dict[str, Any] = json.loads(ARTIFACT.read_text("utf-8"))
    return read


def deployment(*, reveal_delay: int, reveal_window: int) -> str:
    """The data of the transaction that creates the contract; both in seconds."""
    arguments = b"".join(each.to_bytes(32, "big") for each in (reveal_delay, reveal_window))
    return str(artifact()["bytecode"]) + arguments.hex()


def deploy(
    rpc: Rpc, *, deployer: str, mines_itself: bool, reveal_delay: int, reveal_window: int
) -> str:
    """Create the contract, from an account whose key the node has. Return its address.

    Mines one block unless the node mines itself, so that a chain with slow blocks has it now.

    Raises:
        ChainError: The creation reverted, or no block has it after MINED_S seconds.
    """
    data = deployment(reveal_delay=reveal_delay, reveal_window=reveal_window)
    sent = rpc("eth_sendTransaction", [{"from": deployer, "data": data, "gas": hex(DEPLOY_GAS)}])
    if not mines_itself:
        rpc("evm_mine", [])
    receipt = receipt_of(rpc, sent)
    if receipt["status"] != "0x1":
        raise ChainError(f"the creation of the contract reverted: transaction {sent}")
    return str(receipt["contractAddress"])


def receipt_of(rpc: Rpc, sent: str) -> dict[str, Any]:
    """The receipt of a transaction, once a block has it: a node that mines each at once answers
    first, and mines a moment later.

    Raises:
        ChainError: No block has it after MINED_S seconds.
    """
    receipts: list[Any] = []

    def is_mined() -> bool:
        receipts.append(rpc("eth_getTransactionReceipt", [sent]))
        return receipts[-1] is not None

    if not wait_until(is_mined, seconds=MINED_S):
        raise ChainError(f"the transaction {sent} is in no block after {MINED_S:.0f} s")
    found: dict[str, Any] = receipts[-1]
    return found
