"""A model of a chain and of the executor of ``evm/*``, in memory and without signatures.

``ModelChain`` has blocks, a pool and, if given, the contract. ``ModelNode`` answers the four
effects as `spec/evm.md` says; ``lag`` makes it a node that is some blocks behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.gateway.evm.studio import Reverted, Sender, Studio
from tests.gateway.reducers.inputs import GWEI, STUDIO, tag

BASE_FEE: Final = 10 * GWEI
TIP: Final = GWEI
GAS: Final = 90_000
GENESIS_TIME: Final = 1_600_000_000
ERROR: Final = bytes.fromhex("08c379a0")
PANIC: Final = bytes.fromhex("4e487b71")


@dataclass(frozen=True)
class Transaction:
    signer: str
    nonce: int
    to: str
    data: bytes
    value: str
    gas: int
    max_fee: int
    max_tip: int

    @property
    def hash(self) -> str:
        return "0x" + hashlib.blake2b(repr(self).encode(), digest_size=32).hexdigest()

    @property
    def is_empty(self) -> bool:
        return (self.to, self.data) == (self.signer, b"")

    def does_as(self, params: dict[str, Any]) -> bool:
        return all(getattr(self, name) == params[name] for name in ("to", "data", "value"))


def transaction(params: dict[str, Any]) -> Transaction:
    """The transaction that a submit makes: params fix it, so they fix its hash."""
    names = ("signer", "nonce", "to", "data", "value", "gas", "max_fee", "max_tip")
    return Transaction(*(params[name] for name in names))


@dataclass(frozen=True)
class Mined:
    transaction: Transaction
    revert: bytes | None


@dataclass(frozen=True)
class Block:
    number: int
    time: int
    mined: tuple[Mined, ...]
    nonces: dict[str, int]
    studio: Studio | None
    counts: dict[bytes, int]
    """How often each data has landed, in this block and all before it."""

    @property
    def hash(self) -> str:
        return f"0x{self.number:032x}{self.time:032x}"


@dataclass
class ModelChain:
    """Blocks from the first one on, and a pool with one transaction for each nonce of a signer."""

    studio: Studio | None = None
    base_fee: int = BASE_FEE
    blocks: list[Block] = field(default_factory=list)
    pool: dict[tuple[str, int], Transaction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blocks.append(Block(0, GENESIS_TIME, (), {}, self.studio, {}))

    @property
    def head(self) -> Block:
        return self.blocks[-1]

    def nonce(self, signer: str) -> int:
        return self.head.nonces.get(signer, 0)

    def send(self, new: Transaction) -> str:
        """Take a transaction into the pool; the fate that a node answers."""
        old = self.pool.get((new.signer, new.nonce))
        if any(each.transaction == new for each in self.mined()) or old == new:
            return "Known"
        if new.nonce < self.nonce(new.signer):
            return "NonceUsed"
        if old is not None and not (
            10 * new.max_fee >= 11 * old.max_fee and 10 * new.max_tip >= 11 * old.max_tip
        ):
            return "Underpriced"
        self.pool[new.signer, new.nonce] = new
        return "Accepted"

    def mine(self, *first: Transaction, time: int | None = None) -> None:
        """Mine a block: these transactions, and those of the pool that can be."""
        block = self.head
        time = max(block.time + 1, time or 0)
        studio = None if block.studio is None else block.studio.copy()
        nonces, counts, mined = dict(block.nonces), dict(block.counts), []
        for each in self._ready(first, nonces):
            studio, revert = _executed(studio, each, time)
            nonces[each.signer] = each.nonce + 1
            if revert is None:
                counts[each.data] = counts.get(each.data, 0) + 1
            mined.append(Mined(each, revert))
        self.blocks.append(Block(block.number + 1, time, tuple(mined), nonces, studio, counts))
        for place in [each for each in self.pool if each[1] < nonces.get(each[0], 0)]:
            del self.pool[place]

    def _ready(
        self, first: tuple[Transaction, ...], nonces: dict[str, int]
    ) -> Iterator[Transaction]:
        waiting = [*first, *sorted(self.pool.values(), key=lambda each: each.nonce)]
        for each in waiting:
            if each.nonce == nonces.get(each.signer, 0) and each.max_fee >= self.base_fee:
                yield each

    def reorganise(self, depth: int, *, keep: bool = True) -> None:
        """Replace the last blocks by empty ones; ``keep``: their transactions are in the pool."""
        depth = min(depth, self.head.number)
        if not depth:
            return
        gone = self.blocks[-depth:]
        del self.blocks[-depth:]
        pool, self.pool = self.pool, {}
        for block in gone:
            self.mine(time=block.time + 1)
        back = {(each.signer, each.nonce): each for b in gone for each in _all(b)} if keep else {}
        self.pool = {
            place: each for place, each in (pool | back).items() if place[1] >= self.nonce(place[0])
        }

    def mined(self, upto: int | None = None) -> Iterator[Mined]:
        for block in self.blocks[: None if upto is None else upto + 1]:
            yield from block.mined

    def find(self, signer: str, nonce: int) -> tuple[Block, Mined] | None:
        """The transaction that consumed a nonce, with its block."""
        for block in reversed(self.blocks):
            for each in block.mined:
                if (each.transaction.signer, each.transaction.nonce) == (signer, nonce):
                    return block, each
        return None


def _all(block: Block) -> list[Transaction]:
    return [each.transaction for each in block.mined]


def _executed(
    studio: Studio | None, each: Transaction, time: int
) -> tuple[Studio | None, bytes | None]:
    if studio is None or each.to != STUDIO:
        return studio, None
    changed = studio.copy()
    try:
        changed.call(each.data, Sender(each.signer, time))
    except Reverted as reverted:
        return studio, reverted.data
    return changed, None


def cause_of(data: bytes) -> dict[str, Any]:
    """Why a call reverted, from its data."""
    kinds = {b"": "Empty", ERROR: "Error", PANIC: "Panic"}
    return {"kind": tag(kinds.get(data[:4], "Custom")), "text": "", "data": data}


@dataclass(frozen=True)
class ModelNode:
    """The executor's answers, from a node that knows all but the last ``lag`` blocks."""

    chain: ModelChain
    lag: int = 0

    @property
    def head(self) -> Block:
        return self.chain.blocks[max(0, len(self.chain.blocks) - 1 - self.lag)]

    def at_depth(self, conf: int) -> Block:
        """The newest block with so many confirmations; 0: three blocks below the head."""
        return self.chain.blocks[max(0, self.head.number - (conf or 4) + 1)]

    def call(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """None: the node does not know the block."""
        at = params["block"]
        match at["$tag"]:
            case "Depth":
                block = self.at_depth(at["$value"])
            case "Finalized":
                block = self.at_depth(0)
            case _:
                if at["$value"] > self.head.number:
                    return None
                block = self.chain.blocks[at["$value"]]
        returned = view(block, params["data"])
        result = tag("Returned", returned) if isinstance(returned, bytes) else returned
        return {"block": block.number, "block_hash": block.hash, "result": result}

    def quote(self, params: dict[str, Any]) -> dict[str, Any]:
        block, guard = self.at_depth(params["conf"]), params["guard"]
        quote = tag(
            "Ready",
            {
                "nonce": block.nonces.get(params["signer"], 0),
                "gas": GAS,
                "base_fee": self.chain.base_fee,
                "tip": TIP,
            },
        )
        revert = simulated(self.head, params)
        if guard is not None and (seen := view(block, guard["data"])) != guard["undone"]:
            quote = tag("Done", {"returned": seen if isinstance(seen, bytes) else b""})
        elif revert is not None:
            at_depth = simulated(block, params) is not None
            quote = tag("Reverted", {"cause": cause_of(revert), "at_depth": at_depth})
        return {"block": block.number, "quote": quote}

    def submit(self, params: dict[str, Any]) -> dict[str, Any]:
        new = transaction(params)
        fate = self.chain.send(new)
        return {"hash": new.hash, "fate": tag(fate), "code": None, "message": fate}

    def receipt(self, params: dict[str, Any]) -> dict[str, Any]:
        deep = self.at_depth(params["conf"])
        signer, nonce = params["signer"], params["nonce"]
        consumed = deep.nonces.get(signer, 0)
        fate = self._fate(params, deep) if consumed > nonce else self._pending(signer, nonce)
        return {"head": self.head.number, "nonce_at_depth": consumed, "fate": fate}

    def _fate(self, params: dict[str, Any], deep: Block) -> dict[str, Any]:
        found = self.chain.find(params["signer"], params["nonce"])
        if found is None or found[0].number > deep.number:
            return tag("Pending", {"depth": 0})
        block, mined = found
        hash, each = mined.transaction.hash, mined.transaction
        at: dict[str, Any] = {"hash": hash, "block": block.number}
        if hash not in params["hashes"] and not each.does_as(params) and not each.is_empty:
            return tag("Foreign", at)
        if each.is_empty:
            return tag("Canceled", at)
        if mined.revert is None:
            return tag("Confirmed", at | {"gas_used": GAS})
        return tag("Reverted", at | {"gas_used": GAS, "cause": cause_of(mined.revert)})

    def _pending(self, signer: str, nonce: int) -> dict[str, Any]:
        found = self.chain.find(signer, nonce)
        if found is not None and found[0].number <= self.head.number:
            return tag("Pending", {"depth": self.head.number - found[0].number + 1})
        at_head = self.head.nonces.get(signer, 0)
        if at_head < nonce and (signer, at_head) not in self.chain.pool:
            return tag("Gap", {"nonce": at_head})
        if (signer, nonce) in self.chain.pool:
            return tag("Pending", {"depth": 0})
        return tag("NotFound")


def view(block: Block, data: bytes) -> bytes | dict[str, Any]:
    """The answer of a view at a block, or ``Reverted``. Without a contract: how often a transaction
    with this data has landed."""
    if block.studio is None:
        return block.counts.get(data, 0).to_bytes(32)
    try:
        return block.studio.copy().call(data, Sender("0x" + "0" * 40, block.time))
    except Reverted as reverted:
        return tag("Reverted", cause_of(reverted.data))


def simulated(block: Block, params: dict[str, Any]) -> bytes | None:
    """The data with which the transaction would revert at a block. None: it would not."""
    if block.studio is None or params["to"] != STUDIO:
        return None
    try:
        block.studio.copy().call(params["data"], Sender(params["signer"], block.time))
    except Reverted as reverted:
        return reverted.data
    return None
