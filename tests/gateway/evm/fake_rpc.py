"""The JSON-RPC methods of a node over a ``FakeChain``, without HTTP.

``answer`` takes one method. ``choose_head`` makes it answer as a node with another head would;
``receipt_lag`` hides receipts from that many looks; ``style`` chooses the words of errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.gateway.evm.fake_answers import (
    METHOD_NOT_FOUND,
    UNKNOWN_BLOCK,
    UNKNOWN_NUMBER,
    RpcFailure,
    block_json,
    logs_json,
    receipt_json,
    refusal,
    reverted,
    transaction_json,
)
from tests.gateway.evm.fake_chain import (
    Block,
    FakeChain,
    PoolRefusal,
    decode_transaction,
    estimate,
    view,
)
from tests.gateway.evm.studio import Reverted

TIP: Final = 1_000_000_000


class FakeRpc:
    """A node. One method at a time."""

    def __init__(self, chain: FakeChain, *, style: str = "anvil") -> None:
        self.chain = chain
        self.style = style
        self.chain_id = chain.chain_id
        """The id that it reports, which tests change."""
        self.finality = 4
        """Blocks from the head to the finalized block."""
        self.knows_block_hashes = True
        """Whether reads of state take {"blockHash": …} (EIP-1898)."""
        self.states_kept: int | None = None
        """Blocks whose state it still has; None: all."""
        self.knows_tips = True
        self.receipt_lag = 0
        self.choose_head: Callable[[str], Block] = lambda _method: self.chain.head
        self._looks: Counter[str] = Counter()

    def answer(self, method: str, params: list[Any]) -> Any:
        """The result of one method.

        Raises:
            RpcFailure: The node's error.
        """
        snake = re.sub(r"[A-Z]", lambda upper: "_" + upper[0].lower(), method)
        body = getattr(self, f"_{snake}", None)
        if body is None:
            raise RpcFailure(*METHOD_NOT_FOUND)
        return body(*params)

    # --- the chain

    def _web3_client_version(self) -> str:
        return f"fake/{self.style}"

    def _eth_chain_id(self) -> str:
        return hex(self.chain_id)

    def _net_version(self) -> str:
        return str(self.chain_id)

    def _eth_block_number(self) -> str:
        return hex(self.choose_head("eth_blockNumber").number)

    def _eth_gas_price(self) -> str:
        return hex(self.chain.base_fee + TIP)

    def _eth_max_priority_fee_per_gas(self) -> str:
        if not self.knows_tips:
            raise RpcFailure(*METHOD_NOT_FOUND)
        return hex(TIP)

    def _eth_get_block_by_number(self, tag: str, is_full: bool) -> Any:
        head = self.choose_head("eth_getBlockByNumber")
        block = head.at(self._number(tag, head))
        return None if block is None else block_json(block, is_full=is_full)

    def _eth_get_block_by_hash(self, hash: str, is_full: bool) -> Any:
        block = self._known(hash, self.choose_head("eth_getBlockByHash"))
        return None if block is None else block_json(block, is_full=is_full)

    def _number(self, tag: str, head: Block) -> int:
        match tag:
            case "latest" | "pending":
                return head.number
            case "earliest":
                return 0
            case "finalized" | "safe":
                return max(0, head.number - self.finality)
            case _:
                return int(tag, 16)

    def _known(self, hash: str, head: Block) -> Block | None:
        """A block by hash, also a replaced one; None if this head is older than the block."""
        block = self.chain.blocks.get(hash)
        return None if block is None or block.order > head.order else block

    # --- transactions

    def _eth_get_transaction_by_hash(self, hash: str) -> Any:
        place = self.choose_head("eth_getTransactionByHash").find(hash)
        if place is not None:
            return transaction_json(place[0].receipts[place[1]].transaction, place)
        waiting = self.chain.pool.get(hash)
        return None if waiting is None else transaction_json(waiting, None)

    def _eth_get_transaction_receipt(self, hash: str) -> Any:
        place = self.choose_head("eth_getTransactionReceipt").find(hash)
        if place is None:
            return None
        self._looks[hash] += 1
        return None if self._looks[hash] <= self.receipt_lag else receipt_json(*place)

    def _eth_send_raw_transaction(self, raw: str) -> str:
        try:
            sent = decode_transaction(bytes.fromhex(raw[2:]))
            if self.style == "geth" and self.chain.head.find(sent.hash):
                raise PoolRefusal("nonce")
            self.chain.take(sent.raw)
        except PoolRefusal as error:
            raise refusal(self.style, error) from error
        if self.style == "hardhat":
            self._refuse_what_was_mined(sent.hash)
        return sent.hash

    def _refuse_what_was_mined(self, hash: str) -> None:
        """hardhat mines a transaction that reverts, and answers with an error all the same."""
        place = self.chain.head.find(hash)
        if place is not None and not place[0].receipts[place[1]].is_success:
            raise reverted(self.style, place[0].receipts[place[1]].revert, mined=hash)

    def _eth_get_logs(self, wanted: dict[str, Any]) -> list[Any]:
        head = self.choose_head("eth_getLogs")
        first = self._number(wanted.get("fromBlock", "earliest"), head)
        last = self._number(wanted.get("toBlock", "latest"), head)
        address = wanted.get("address", "").lower()
        return [
            log
            for block in reversed(list(head.ancestors()))
            if first <= block.number <= last
            for index in range(len(block.receipts))
            for log in logs_json(block, index)
            if address in ("", log["address"])
        ]

    # --- state

    def _eth_get_transaction_count(self, address: str, tag: Any = "latest") -> str:
        block = self._state_block("eth_getTransactionCount", tag)
        return hex(block.state.nonces.get(address.lower(), 0))

    def _eth_get_balance(self, address: str, tag: Any = "latest") -> str:
        block = self._state_block("eth_getBalance", tag)
        return hex(block.state.balances.get(address.lower(), 0))

    def _eth_get_code(self, address: str, tag: Any = "latest") -> str:
        block = self._state_block("eth_getCode", tag)
        return "0xfe" if address.lower() in block.state.studios else "0x"

    def _eth_call(self, call: dict[str, Any], tag: Any = "latest") -> str:
        returned: bytes = self._executed(view, call, self._state_block("eth_call", tag))
        return "0x" + returned.hex()

    def _eth_estimate_gas(self, call: dict[str, Any], tag: Any = "latest") -> str:
        return hex(self._executed(estimate, call, self._state_block("eth_estimateGas", tag)))

    def _executed(
        self, how: Callable[[Block, dict[str, Any]], Any], call: dict[str, Any], block: Block
    ) -> Any:
        try:
            return how(block, call)
        except Reverted as error:
            raise reverted(self.style, error.data) from error
        except PoolRefusal as error:
            raise refusal(self.style, error) from error

    def _state_block(self, method: str, tag: Any) -> Block:
        head = self.choose_head(method)
        if isinstance(tag, dict):
            if not self.knows_block_hashes:
                raise RpcFailure(-32602, "invalid argument 1: json: cannot unmarshal object")
            block = self._known(tag["blockHash"], head)
            unknown = UNKNOWN_BLOCK
        else:
            block = head.at(self._number(tag, head))
            unknown = UNKNOWN_NUMBER
        if block is None:
            raise RpcFailure(*unknown[self.style])
        if self.states_kept is not None and block.number <= head.number - self.states_kept:
            raise RpcFailure(-32000, "missing trie node 00 (path ) state 0x00 is not available")
        return block

    # --- controls, as anvil has them

    def _evm_mine(self, *_given: Any) -> str:
        self.chain.mine()
        return "0x0"

    def _anvil_mine(self, blocks: str = "0x1", *_given: Any) -> None:
        self.chain.mine(int(blocks, 16))

    def _evm_set_automine(self, is_on: bool) -> None:
        self.chain.is_automining = is_on

    def _anvil_set_balance(self, address: str, wei: str) -> None:
        self.chain.set_balance(address, int(wei, 16))

    def _anvil_set_nonce(self, address: str, nonce: str) -> None:
        self.chain.set_nonce(address, int(nonce, 16))

    def _anvil_drop_transaction(self, hash: str) -> str | None:
        return hash if self.chain.drop(hash) else None

    def _anvil_reorg(self, depth: int, _pairs: list[Any]) -> None:
        self.chain.reorg(depth, keep=False)

    def _evm_set_next_block_timestamp(self, seconds: int) -> None:
        self.chain.next_time = seconds

    def _evm_increase_time(self, seconds: int) -> int:
        self.chain.next_time = self.chain.head.time + seconds
        return seconds
