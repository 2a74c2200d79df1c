"""The transactions of scores by a bare client: eth-account, one connection, and no journal.

Each transaction makes the requests that the gateway makes for it, in the same order: the question
whether the step is done, the quote, the transaction, looks at its receipt, and the question again
at its block. Requests follow each other here; the executor sends those that belong together as one
JSON-RPC batch.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from chain import Account, Chain
from chain_parts import CHAIN_ID
from eth_abi.abi import encode
from eth_account import Account as Keys
from eth_utils.crypto import keccak

POLL_S: Final = 0.002
"""Between two looks; the executor begins with 50 ms."""

SCORES: Final = (80, 90)
NO_SALT: Final = bytes(32)


class Unexpected(Exception):
    """The node or the contract answered otherwise than on a chain without mishaps."""


def calldata(signature: str, *values: Any) -> str:
    """The data of a call of the contract."""
    types = signature[signature.index("(") + 1 : -1].split(",")
    return "0x" + (keccak(text=signature)[:4] + encode(types, values)).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """``block`` is the head at which everything was read."""

    block: str
    nonce: int
    gas: int
    max_fee: int
    tip: int


class BareClient:
    """While the block runs: a signer of one contract, with one connection to the node."""

    def __init__(self, chain: Chain, account: Account) -> None:
        self._to = chain.studio
        self._account = account
        self._connection = http.client.HTTPConnection("127.0.0.1", chain.settings.port, timeout=10)
        self._number = 0
        self.on_request: Callable[[str], None] = lambda _: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def score(self, data_hash: bytes, worker: str) -> None:
        """Score a work and register the validator: two transactions.

        Raises:
            Unexpected: The node refuses, or the contract reverts.
        """
        validator, scores = self._account.address, list(SCORES)
        of = (data_hash, worker, validator)
        of_score = "(bytes32,address,address)"
        if self.view(calldata("submitterOf(bytes32)", data_hash)) == bytes(32):
            raise Unexpected(f"no one has submitted the work 0x{data_hash.hex()}")
        self.transact(
            calldata("submitScore(bytes32,address,uint16[])", data_hash, worker, scores),
            done=calldata(f"commitmentOf{of_score}", *of),
        )
        self.transact(
            calldata(f"registerValidator{of_score}", *of),
            done=calldata(f"validatorRegistrationsOf{of_score}", *of),
        )

    def transact(self, data: str, *, done: str) -> None:
        """Send one transaction, unless the view ``done`` answers that it was sent before."""
        if self.view(done) != bytes(32):
            raise Unexpected("the step is done already")
        quote = self.quote(data, guard=done)
        hash = self.submit(data, quote)
        while (block := self.look(hash, quote.nonce)) is None:
            time.sleep(POLL_S)
        if self.view(done, block) == bytes(32):
            raise Unexpected(f"{hash} is in block {block}, and has no effect there")

    def view(self, data: str, block: str = "latest") -> bytes:
        """Call a view at a block that was read before."""
        head = self.ask("eth_getBlockByNumber", [block, False])
        return self._call(data, head["hash"])

    def _call(self, data: str, block_hash: str) -> bytes:
        request = {"to": self._to, "data": data}
        return bytes.fromhex(self.ask("eth_call", [request, {"blockHash": block_hash}])[2:])

    def quote(self, data: str, *, guard: str) -> Quote:
        """Everything that fixes the next transaction, and a simulation of it."""
        head = self.ask("eth_getBlockByNumber", ["latest", False])
        at = {"blockHash": head["hash"]}
        signer = self._account.address
        request = {"from": signer, "to": self._to, "data": data, "value": "0x0"}
        nonce = int(self.ask("eth_getTransactionCount", [signer, at]), 16)
        if self._call(guard, head["hash"]) != bytes(32):
            raise Unexpected("the step is done already")
        balance = int(self.ask("eth_getBalance", [signer, at]), 16)
        tip = int(self.ask("eth_maxPriorityFeePerGas", []), 16)
        self.ask("eth_call", [request, at])
        gas = -(-int(self.ask("eth_estimateGas", [request, "latest"]), 16) * 6 // 5)
        max_fee = 2 * int(head["baseFeePerGas"], 16) + tip
        if balance < gas * max_fee:
            raise Unexpected(f"{signer} has {balance} wei, and needs {gas * max_fee}")
        return Quote(block=head["number"], nonce=nonce, gas=gas, max_fee=max_fee, tip=tip)

    def submit(self, data: str, quote: Quote) -> str:
        """Sign and send. Returns the hash."""
        transaction = {
            "type": 2,
            "chainId": CHAIN_ID,
            "nonce": quote.nonce,
            "to": bytes.fromhex(self._to[2:]),
            "data": bytes.fromhex(data[2:]),
            "value": 0,
            "gas": quote.gas,
            "maxFeePerGas": quote.max_fee,
            "maxPriorityFeePerGas": quote.tip,
        }
        signed = Keys.sign_transaction(transaction, self._account.key)
        sent: str = self.ask("eth_sendRawTransaction", ["0x" + bytes(signed.raw_transaction).hex()])
        return sent

    def look(self, hash: str, nonce: int) -> str | None:
        """Look once whether the transaction is in a block. Returns the block's number."""
        head = self.ask("eth_getBlockByNumber", ["latest", False])
        at = {"blockHash": head["hash"]}
        count = int(self.ask("eth_getTransactionCount", [self._account.address, at]), 16)
        receipt = self.ask("eth_getTransactionReceipt", [hash])
        if count <= nonce or receipt is None:
            return None
        found = self.ask("eth_getTransactionByHash", [hash])
        if int(found["nonce"], 16) != nonce or receipt["status"] != "0x1":
            raise Unexpected(f"{hash} reverted")
        number: str = receipt["blockNumber"]
        return number

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """The result of one request."""
        self.on_request(method)
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/", json.dumps(request).encode(), headers)
        answer = json.loads(self._connection.getresponse().read())
        if "result" not in answer:
            raise Unexpected(f"{method}: {answer.get('error')}")
        return answer["result"]
