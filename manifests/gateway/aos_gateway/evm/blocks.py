"""Blocks by hash and parent, so that all reads of one look belong to one chain (EV-20).

Behind one URL may be nodes with different heads, and a head may be replaced between two requests.
A number alone then names two blocks. So an effect begins with the head, finds older blocks by
walking along parents, and reads state by block hash.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from aos.worker import EffectFailed
from aos_gateway.evm.chain_reads import ChainReads, together
from aos_gateway.evm.evm_errors import block_unknown, unavailable
from aos_gateway.evm.hex_values import BadHex, found_text, hash32, quantity
from aos_gateway.evm.json_rpc import INVALID_PARAMS, RpcError

T = TypeVar("T")

WALK_MAX: Final = 128
"""Parents that are followed; an older block is read by its number."""

CACHE_BLOCKS: Final = 4096

RECENT_S: Final = 1.0
"""For so long, in seconds, the newest block is likely to be the newest one still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The part of a block's header that is read. ``base_fee`` is None before EIP-1559."""

    number: int
    hash: str
    parent: str
    base_fee: int | None
    gas_limit: int


def parse_block(answer: Any) -> Block | None:
    """A block, or None for null.

    Raises:
        BadHex: A part of it is missing or malformed.
    """
    if answer is None:
        return None
    if not isinstance(answer, dict):
        raise BadHex(f"expected a block, found {found_text(answer)}")
    fee = answer.get("baseFeePerGas")
    return Block(
        number=quantity(answer.get("number")),
        hash=hash32(answer.get("hash")),
        parent=hash32(answer.get("parentHash")),
        base_fee=None if fee is None else quantity(fee),
        gas_limit=quantity(answer.get("gasLimit")),
    )


@dataclass(slots=True)
class KeptBlocks:
    """Blocks that were read, by hash: they never change. Shared by the effects of a chain."""

    by_hash: OrderedDict[str, Block] = field(default_factory=OrderedDict)
    head_read: asyncio.Future[Block] | None = None
    """The read of the newest block that is in progress."""
    head: Block | None = None
    head_at_s: float = 0.0
    """The newest block that was read last, and when, by the clock of the event loop."""


class Blocks:
    """The blocks of one chain."""

    def __init__(self, reads: ChainReads, cache: KeptBlocks | None = None) -> None:
        self.reads = reads
        self._cache = cache or KeptBlocks()

    def of_one_effect(self) -> Blocks:
        """The same blocks, with reads that share no request with those of another effect."""
        return Blocks(self.reads.of_one_effect(), self._cache)

    async def head(self) -> Block:
        """The newest block of the node that answers."""
        self._cache.head = await self._present("latest")
        self._cache.head_at_s = asyncio.get_running_loop().time()
        return self._cache.head

    def recent_head(self) -> Block | None:
        """The block that was the newest a moment ago, if one was read since."""
        age_s = asyncio.get_running_loop().time() - self._cache.head_at_s
        return self._cache.head if age_s < RECENT_S else None

    async def shared_head(self) -> Block:
        """As ``head``; waits that look at the same moment share one read."""
        if self._cache.head_read is None:
            self._cache.head_read = asyncio.ensure_future(self.head())
            self._cache.head_read.add_done_callback(self._forget_head)
        return await asyncio.shield(self._cache.head_read)

    def _forget_head(self, read: asyncio.Future[Block]) -> None:
        self._cache.head_read = None
        if not read.cancelled():
            read.exception()  # also when every wait was canceled, and no one else looks at it

    async def finalized(self) -> Block:
        """The finalized block.

        Raises:
            EffectFailed: ``block_unknown`` if the node has none yet.
        """
        method = "eth_getBlockByNumber"
        answer = await self.reads.ask(method, ["finalized", False])
        if isinstance(answer, RpcError):
            raise block_unknown(
                f"the node at {self.reads.host_port} has no finalized block: "
                f"{self.reads.redacted_line(answer.message)}"
            )
        block = self.reads.parsed(method, answer, parse_block)
        if block is None:
            raise block_unknown(f"the node at {self.reads.host_port} has no finalized block")
        return self._learn(block)

    async def by_number(self, number: int) -> Block | None:
        """The canonical block of this number; None if the node has none."""
        block = await self.reads.read("eth_getBlockByNumber", [hex(number), False], parse_block)
        if block is None:
            return None
        if block.number != number:
            raise self.reads.nonsense(
                "eth_getBlockByNumber", f"expected block {number}, found block {block.number}"
            )
        return self._learn(block)

    async def _present(self, tag: str) -> Block:
        block = await self.reads.read("eth_getBlockByNumber", [tag, False], parse_block)
        if block is None:
            raise self.reads.nonsense("eth_getBlockByNumber", f"null for the {tag} block")
        return self._learn(block)

    def _learn(self, block: Block) -> Block:
        blocks = self._cache.by_hash
        blocks[block.hash] = block
        blocks.move_to_end(block.hash)
        if len(blocks) > CACHE_BLOCKS:
            blocks.popitem(last=False)
        return block

    def newest_known(self, number: int) -> Block | None:
        """The block of this number that was read last, if any. It may have been replaced since."""
        blocks = reversed(self._cache.by_hash.values())
        return next((block for block in blocks if block.number == number), None)

    async def by_hash(self, hash: str) -> Block:
        """The block with this hash, which the node has named before.

        Raises:
            EffectFailed: ``unavailable``: the node that answers does not have it.
        """
        cached = self._cache.by_hash.get(hash)
        if cached is not None:
            return cached
        method = "eth_getBlockByHash"
        block = await self.reads.read(method, [hash, False], parse_block)
        if block is None:
            raise self.reads.nonsense(method, f"null for block {hash}, which it has named")
        if block.hash != hash:
            raise self.reads.nonsense(method, f"expected block {hash}, found block {block.hash}")
        return self._learn(block)

    async def ancestor(self, block: Block, number: int) -> Block:
        """The block of this number in the chain that ends in ``block`` (EV-21).

        Raises:
            EffectFailed: ``unavailable``.
        """
        if block.number - number > WALK_MAX:
            older_block = await self.by_number(number)
            if older_block is None:
                raise self.reads.nonsense(
                    "eth_getBlockByNumber", f"null for block {number}, below block {block.number}"
                )
            return older_block
        while block.number > number:
            parent = await self.by_hash(block.parent)
            if parent.number != block.number - 1:
                raise self.reads.nonsense(
                    "eth_getBlockByHash",
                    f"the parent of block {block.number} has number {parent.number}",
                )
            block = parent
        return block

    async def at_depth(self, head: Block, conf: int) -> Block:
        """The newest block with ``conf`` confirmations below ``head``; 0: the finalized block. The
        first block of a chain counts as having any number of them (EV-22)."""
        if conf == 0:
            block = await self.finalized()
            if block.number > head.number:
                raise self.reads.nonsense(
                    "eth_getBlockByNumber",
                    f"finalized block {block.number} is above head {head.number}",
                )
            return block
        return await self.ancestor(head, max(0, head.number - conf + 1))

    async def read_at(
        self,
        likely: Block | None,
        block: Callable[[], Awaitable[Block]],
        read: Callable[[Block], Awaitable[T]],
    ) -> T:
        """What ``read`` reads at the block that ``block`` reads. The two share requests if that is
        ``likely``; otherwise ``read`` is repeated (EV-24).

        Raises:
            EffectFailed: As ``block`` and ``read`` raise it.
        """
        if likely is None or not self.reads.takes_batches:
            return await read(await block())
        early, actual_block = await together(_attempted(read(likely)), block())
        if actual_block.hash != likely.hash:
            return await read(actual_block)
        if isinstance(early, EffectFailed):
            raise early
        return cast("T", early)

    async def state(self, method: str, arguments: list[Any], block: Block) -> Any | RpcError:
        """A read of state at exactly this block: by its hash, or, where the node cannot do that,
        by its number, if the number has the same block afterwards (EV-23).

        Raises:
            EffectFailed: ``unavailable``: also if the block was replaced meanwhile.
        """
        by_hash = await self.reads.ask(method, [*arguments, {"blockHash": block.hash}])
        if not _is_refused(by_hash):
            return by_hash
        by_number = await self.reads.ask(method, [*arguments, hex(block.number)])
        if _is_refused(by_number):
            return by_number
        block_now = await self.by_number(block.number)
        if block_now is None or block_now.hash != block.hash:
            raise unavailable(
                f"block {block.number} was replaced at the node at {self.reads.host_port} during a "
                "read: the next try reads the block that replaced it"
            )
        return by_number

    async def nonce(self, signer: str, block: Block) -> int:
        """The number of transactions that ``signer`` has sent up to and including ``block``."""
        return await self._account("eth_getTransactionCount", signer, block)

    async def _account(self, method: str, signer: str, block: Block) -> int:
        answer = await self.state(method, [signer], block)
        if isinstance(answer, RpcError):
            raise self.reads.refused(method, answer)
        return self.reads.parsed(method, answer, quantity)


async def _attempted(read: Awaitable[T]) -> T | EffectFailed:
    try:
        return await read
    except EffectFailed as error:
        return error


def _is_refused(answer: object) -> bool:
    """Whether the node cannot read the params: it knows no block hashes there (EIP-1898)."""
    return isinstance(answer, RpcError) and answer.code == INVALID_PARAMS
