"""A chain in memory: accounts, a pool, blocks with parents, and the contract ``Studio``.

All of it is deterministic. A block has the whole state after it, so a reorganisation is a new head,
and the state of any block of the past can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from tests.gateway.evm.studio import Event, Reverted, Sender, Studio

GENESIS_TIME: Final = 1_700_000_000
BASE_FEE: Final = 1_000_000_000
BLOCK_GAS: Final = 30_000_000
CALL_GAS: Final = 60_000
"""Every call of a contract takes so much, next to the gas of the transaction itself."""


class PoolRefusal(Exception):
    """The pool does not take a transaction. ``kind`` is one word; a node has its own words."""

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


@dataclass(frozen=True, kw_only=True)
class Transaction:
    hash: str
    sender: str
    nonce: int
    to: str | None
    data: bytes
    value: int
    gas: int
    max_fee: int
    max_tip: int
    chain: int
    raw: bytes

    @property
    def intrinsic_gas(self) -> int:
        zeros = self.data.count(0)
        return 21_000 + 4 * zeros + 16 * (len(self.data) - zeros)

    def price(self, base_fee: int) -> int:
        return min(self.max_fee, base_fee + self.max_tip)


def decode_transaction(raw: bytes) -> Transaction:
    """Decode a signed transaction of type 2 and recover its sender.

    Raises:
        PoolRefusal: It is not one.
    """
    try:
        fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        sender = str(Account.recover_transaction(raw)).lower()
    except Exception as error:
        raise PoolRefusal("malformed", str(error)) from error
    to = bytes(fields["to"])
    return Transaction(
        hash="0x" + keccak(raw).hex(),
        sender=sender,
        nonce=fields["nonce"],
        to="0x" + to.hex() if to else None,
        data=bytes(fields["data"]),
        value=fields["value"],
        gas=fields["gas"],
        max_fee=fields["maxFeePerGas"],
        max_tip=fields["maxPriorityFeePerGas"],
        chain=fields["chainId"],
        raw=raw,
    )


@dataclass
class State:
    """Accounts and contracts after a block. Addresses are in lower case."""

    balances: dict[str, int] = field(default_factory=dict)
    nonces: dict[str, int] = field(default_factory=dict)
    studios: dict[str, Studio] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.balances), dict(self.nonces), dict(self.studios))


@dataclass(frozen=True, kw_only=True)
class Receipt:
    transaction: Transaction
    is_success: bool
    gas_used: int
    price: int
    created: str | None
    events: tuple[tuple[str, Event], ...]
    revert: bytes = b""


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """``order`` counts all blocks that were ever mined, so it tells which of two is younger."""

    number: int
    order: int
    hash: str
    parent: Block | None = field(repr=False)
    time: int
    base_fee: int
    receipts: tuple[Receipt, ...]
    state: State = field(repr=False)

    def ancestors(self) -> Iterator[Block]:
        """This block and all below it, the youngest first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    def at(self, number: int) -> Block | None:
        """The block of this number in the chain that ends here."""
        return next((each for each in self.ancestors() if each.number == number), None)

    def find(self, hash: str) -> tuple[Block, int] | None:
        """The block of the chain that ends here that has a transaction, and its place there."""
        for block in self.ancestors():
            for index, receipt in enumerate(block.receipts):
                if receipt.transaction.hash == hash:
                    return block, index
        return None


class FakeChain:
    """The chain and its pool. ``is_automining``: each accepted transaction gets a block."""

    def __init__(self, *, chain_id: int = 31337, is_automining: bool = True) -> None:
        self.chain_id = chain_id
        self.is_automining = is_automining
        self.base_fee = BASE_FEE
        self.time_step = 1
        self.pool: dict[str, Transaction] = {}
        """By hash, in the order of arrival."""
        self.blocks: dict[str, Block] = {}
        """All that were ever mined, also those that a reorganisation replaced."""
        self.next_time: int | None = None
        self._mined = 0
        self.head = self._block(None, GENESIS_TIME, (), State())

    # --- accounts and contracts

    def nonce(self, address: str) -> int:
        return self.head.state.nonces.get(address.lower(), 0)

    def balance(self, address: str) -> int:
        return self.head.state.balances.get(address.lower(), 0)

    def set_balance(self, address: str, wei: int) -> None:
        """From the head on."""
        self.head.state.balances[address.lower()] = wei

    def set_nonce(self, address: str, nonce: int) -> None:
        self.head.state.nonces[address.lower()] = nonce

    def put_studio(self, address: str, studio: Studio) -> None:
        self.head.state.studios[address.lower()] = studio

    def studio(self, address: str) -> Studio:
        return self.head.state.studios[address.lower()]

    # --- the pool

    def take(self, raw: bytes) -> Transaction:
        """Take a transaction into the pool, and mine it where blocks are automatic.

        Raises:
            PoolRefusal: It is malformed, known, too cheap, or cannot be paid for.
        """
        transaction = decode_transaction(raw)
        self._admit(transaction)
        self.pool[transaction.hash] = transaction
        if self.is_automining:
            self.mine()
        return transaction

    def _admit(self, new: Transaction) -> None:
        if new.chain != self.chain_id:
            raise PoolRefusal("chain", f"{new.chain}")
        if new.hash in self.pool:
            raise PoolRefusal("known", new.hash)
        if new.nonce < self.nonce(new.sender):
            raise PoolRefusal("nonce", f"{self.nonce(new.sender)} {new.nonce}")
        if new.gas < new.intrinsic_gas:
            raise PoolRefusal("gas", f"{new.gas} {new.intrinsic_gas}")
        if self.balance(new.sender) < new.value + new.gas * new.max_fee:
            raise PoolRefusal("funds", f"{self.balance(new.sender)}")
        old = self.in_pool(new.sender, new.nonce)
        if old is not None:
            if 10 * new.max_fee < 11 * old.max_fee or 10 * new.max_tip < 11 * old.max_tip:
                raise PoolRefusal("underpriced", old.hash)
            del self.pool[old.hash]

    def in_pool(self, sender: str, nonce: int) -> Transaction | None:
        return next(
            (each for each in self.pool.values() if (each.sender, each.nonce) == (sender, nonce)),
            None,
        )

    def drop(self, hash: str) -> bool:
        """Forget a transaction of the pool."""
        return self.pool.pop(hash, None) is not None

    # --- blocks

    def mine(self, blocks: int = 1) -> Block:
        """Mine the transactions of the pool that can be, then empty blocks."""
        for _ in range(blocks):
            state = self.head.state.copy()
            time = self._next_time()
            receipts = tuple(self._executed(state, time))
            self.head = self._block(self.head, time, receipts, state)
        return self.head

    def _next_time(self) -> int:
        time, self.next_time = self.next_time, None
        return max(self.head.time + self.time_step, time or 0)

    def _executed(self, state: State, time: int) -> Iterator[Receipt]:
        while True:
            ready = max(
                (
                    each
                    for each in self.pool.values()
                    if each.nonce == state.nonces.get(each.sender, 0)
                    and each.max_fee >= self.base_fee
                    and state.balances.get(each.sender, 0) >= each.value + each.gas * each.max_fee
                ),
                key=lambda each: each.price(self.base_fee),
                default=None,
            )
            if ready is None:
                stale = [
                    each.hash
                    for each in self.pool.values()
                    if each.nonce < state.nonces.get(each.sender, 0)
                ]
                for hash in stale:
                    del self.pool[hash]
                return
            del self.pool[ready.hash]
            yield execute(state, ready, time, self.base_fee)

    def _block(
        self, parent: Block | None, time: int, receipts: tuple[Receipt, ...], state: State
    ) -> Block:
        self._mined += 1  # so that a block mined again after a reorganisation has another hash
        below = "" if parent is None else parent.hash
        content = [self._mined, below, time, [each.transaction.hash for each in receipts]]
        block = Block(
            number=0 if parent is None else parent.number + 1,
            order=self._mined,
            hash="0x" + keccak(text=json.dumps(content)).hex(),
            parent=parent,
            time=time,
            base_fee=self.base_fee,
            receipts=receipts,
            state=state,
        )
        self.blocks[block.hash] = block
        return block

    def reorg(
        self, depth: int, *, is_refilled: bool = True, keep: bool = True
    ) -> list[Transaction]:
        """Take back the newest ``depth`` blocks. Their transactions return to the pool with
        ``keep``, and empty blocks replace the blocks with ``is_refilled``, so that the chain does
        not become shorter. Returns the transactions that were taken back."""
        assert 0 < depth <= self.head.number, "only blocks after the first can be replaced"
        old = list(self.head.ancestors())[:depth]
        assert old[-1].parent is not None
        self.head = old[-1].parent
        taken = [each.transaction for block in reversed(old) for each in block.receipts]
        pool, self.pool = self.pool, {}
        if is_refilled:
            self.mine(depth)
        back = {each.hash: each for each in taken} if keep else {}
        self.pool = back | pool
        return taken


def execute(state: State, transaction: Transaction, time: int, base_fee: int) -> Receipt:
    """Execute a transaction on ``state``, which keeps nonce and fee even where it reverts."""
    sender, to, price = transaction.sender, transaction.to, transaction.price(base_fee)
    state.nonces[sender] = transaction.nonce + 1
    gas_used = transaction.intrinsic_gas
    events: tuple[tuple[str, Event], ...] = ()
    created: str | None = None
    revert: bytes | None = None
    if to is None:
        created = created_address(sender, transaction.nonce)
        gas_used += CALL_GAS
        delay, window = (int.from_bytes(each) for each in _words(transaction.data[-64:]))
        state.studios[created] = Studio(reveal_delay=delay, reveal_window=window)
    elif to in state.studios:
        gas_used += CALL_GAS
        studio = state.studios[to].copy()
        studio.events.clear()
        if transaction.gas < gas_used:
            revert, gas_used = b"", transaction.gas
        else:
            try:
                studio.call(transaction.data, Sender(sender, time), transaction.value)
                events = tuple((to, each) for each in studio.events)
                state.studios[to] = studio
            except Reverted as error:
                revert = error.data
    state.balances[sender] = state.balances.get(sender, 0) - gas_used * price
    if revert is None and to is not None:
        state.balances[sender] -= transaction.value
        state.balances[to] = state.balances.get(to, 0) + transaction.value
    return Receipt(
        transaction=transaction,
        is_success=revert is None,
        gas_used=gas_used,
        price=price,
        created=created,
        events=events,
        revert=revert or b"",
    )


def view(block: Block, call: dict[str, Any]) -> bytes:
    """The bytes that ``eth_call`` returns on the state of a block.

    Raises:
        Reverted: It reverts.
        PoolRefusal: The sender does not have the value.
    """
    sender = call.get("from", "0x" + 40 * "0").lower()
    value = int(call.get("value", "0x0"), 16)
    if block.state.balances.get(sender, 0) < value:
        raise PoolRefusal("funds")
    studio = block.state.studios.get((call.get("to") or "").lower())
    if studio is None:
        return b""
    data = bytes.fromhex((call.get("data") or call.get("input") or "0x")[2:])
    return studio.copy().call(data, Sender(sender, block.time), value)


def estimate(block: Block, call: dict[str, Any]) -> int:
    """The gas that a call takes. Raises as ``view`` does."""
    view(block, call)
    data = bytes.fromhex((call.get("data") or "0x")[2:])
    zeros = data.count(0)
    is_contract = (call.get("to") or "").lower() in block.state.studios
    return 21_000 + 4 * zeros + 16 * (len(data) - zeros) + (CALL_GAS if is_contract else 0)


def created_address(sender: str, nonce: int) -> str:
    """The address of a contract that ``sender`` creates with this nonce."""
    body = b"\x94" + bytes.fromhex(sender[2:]) + _rlp_number(nonce)
    return "0x" + keccak(bytes([0xC0 + len(body)]) + body)[12:].hex()


def _rlp_number(number: int) -> bytes:
    if number == 0:
        return b"\x80"
    raw = number.to_bytes((number.bit_length() + 7) // 8)
    return raw if number < 0x80 else bytes([0x80 + len(raw)]) + raw


def _words(data: bytes) -> list[bytes]:
    return [data[at : at + 32] for at in range(0, 64, 32)]
