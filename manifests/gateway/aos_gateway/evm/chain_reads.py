"""Reads of one chain: typed, bounded, retried, sent together if they start together (EV-14), and
``unavailable`` when they have no meaning.

``ask`` is the only place where an answer of a node becomes an error of an effect (EV-6 to EV-10).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from aos.worker import EffectFailed
from aos_gateway.evm.evm_errors import unavailable
from aos_gateway.evm.hex_values import BadHex
from aos_gateway.evm.json_rpc import RpcCall, RpcError
from aos_gateway.evm.revert_data import Cause, cause_of
from aos_gateway.evm.rpc_connections import AnswerLost, NeverSent, RpcNode

T = TypeVar("T")

Sleep: TypeAlias = Callable[[float], Awaitable[None]]

PAUSES_S: Final = (0.05, 0.25)
"""Pauses before the second and the third try of a read."""

BATCH_MAX: Final = 20
"""Most reads in one request. A node may carry them out one after the other."""

_PRUNED: Final = re.compile(
    r"missing trie node|historical state|state .*not available|state .*unavailable|pruned"
    r"|state histories|distance to target block",
    re.IGNORECASE,
)
"""Words of geth, nethermind, erigon and reth for a state that they no longer have."""


class NodeConnections(Protocol):
    """The connections to one node."""

    @property
    def node(self) -> RpcNode: ...

    @property
    def takes_batches(self) -> bool: ...

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError: ...

    async def ask_all(self, calls: Sequence[RpcCall]) -> list[Any | RpcError]: ...


class ChainReads:
    """Reads of one chain through its node. Those that start at the same moment share a request."""

    def __init__(self, connections: NodeConnections, *, sleep: Sleep = asyncio.sleep) -> None:
        self._connections = connections
        self._batches = ReadBatches(connections)
        self._sleep = sleep

    def of_one_effect(self) -> ChainReads:
        """The same reads, which share no request with those of another effect: a slow or failed
        one delays no other effect."""
        return ChainReads(self._connections, sleep=self._sleep)

    @property
    def host_port(self) -> str:
        return self._connections.node.host_port

    @property
    def chain(self) -> int:
        return self._connections.node.chain

    @property
    def takes_batches(self) -> bool:
        """See ``RpcConnections.takes_batches``."""
        return self._connections.takes_batches

    def redacted_line(self, words: str) -> str:
        """See ``RpcNode.redacted_line``."""
        return self._connections.node.redacted_line(words)

    def cause_of(self, error: RpcError) -> Cause | None:
        """See ``revert_data.cause_of``; without the secrets of the node's URL (EV-3)."""
        return cause_of(error, self._connections.node.redactor)

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError:
        """The result of a read, or the node's own error. A read without an answer is tried three
        times, but only once if the node asks for fewer requests (EV-6). Only the first try may be
        in a batch (EV-14).

        Raises:
            EffectFailed: ``unavailable``, or ``wrong_chain``.
        """
        ask = self._batches.ask
        for pause_s in (*PAUSES_S, None):
            try:
                return await ask(method, params)
            except NeverSent as error:
                failure: Exception = error
            except AnswerLost as error:
                failure = error
                if error.is_limit:
                    break
            ask = self._connections.ask
            if pause_s is not None:
                await self._sleep(pause_s)
        raise unavailable(f"the node at {self.host_port} {failure}; nothing is known ({method})")

    async def read(self, method: str, params: list[Any], parse: Callable[[Any], T]) -> T:
        """The result of a read, as ``parse`` reads it.

        Raises:
            EffectFailed: ``unavailable``: also for an error of the node and for a result that
                ``parse`` refuses.
        """
        answer = await self.ask(method, params)
        if isinstance(answer, RpcError):
            raise self.refused(method, answer)
        return self.parsed(method, answer, parse)

    def parsed(self, method: str, answer: Any, parse: Callable[[Any], T]) -> T:
        """``parse(answer)``; a refusal of it is an ``unavailable`` that names the method."""
        try:
            return parse(answer)
        except BadHex as error:
            raise self.nonsense(method, str(error)) from None

    def nonsense(self, method: str, problem: str) -> EffectFailed:
        """The node answered a read with something that cannot be."""
        return unavailable(
            f"the node at {self.host_port} answered {method} with nonsense: "
            f"{self.redacted_line(problem)}"
        )

    def refused(self, method: str, error: RpcError) -> EffectFailed:
        """The node answered a read with an error of its own (EV-9, EV-10)."""
        words = self.redacted_line(error.message)
        if _PRUNED.search(error.message):
            return unavailable(
                f"the node at {self.host_port} no longer has the state of an older block that "
                f"{method} needs: use a node that keeps more history (it said: {words})"
            )
        code = "" if error.code is None else f" {error.code}"
        return unavailable(f"the node at {self.host_port} refused {method}: error{code}, {words}")

    async def send(self, raw: bytes) -> Any | RpcError:
        """Publish a signed transaction, once (EV-42).

        Raises:
            EffectFailed: ``unavailable`` or ``wrong_chain``: nothing was sent.
            AnswerLost: It may have been sent.
        """
        try:
            return await self._connections.ask("eth_sendRawTransaction", ["0x" + raw.hex()])
        except NeverSent as error:
            raise unavailable(f"the node at {self.host_port} {error}; nothing was sent") from None


async def together(*reads: Awaitable[Any]) -> tuple[Any, ...]:
    """The results of reads that run concurrently. If one fails, the others are canceled, and its
    error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(read)) for read in reads]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tuple(task.result() for task in tasks)


async def _awaited(read: Awaitable[T]) -> T:
    return await read


@dataclass(slots=True)
class _Batch:
    """Reads that are not sent yet, and the futures of all but the first, which sends them."""

    calls: list[RpcCall]
    followers: list[asyncio.Future[Any | RpcError]] = field(default_factory=list)


class ReadBatches:
    """Collects the reads of one effect that start at the same moment, and sends them as one request
    (EV-14). The first read of a moment waits until every other task
    that is ready has run, and then sends its own and theirs; a lone one is a single request.
    """

    def __init__(self, connections: NodeConnections) -> None:
        self._connections = connections
        self._open: _Batch | None = None

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError:
        """The result of one read, or the node's error.

        Raises:
            NeverSent, AnswerLost, EffectFailed: As ``RpcConnections.ask``, for each read of the
                batch.
        """
        if not self._connections.takes_batches:
            return await self._connections.ask(method, params)
        call = RpcCall(method, params)
        if self._open is None:
            return await self._lead(call)
        return await self._join(self._open, call)

    async def _join(self, batch: _Batch, call: RpcCall) -> Any | RpcError:
        answer: asyncio.Future[Any | RpcError] = asyncio.get_running_loop().create_future()
        batch.calls.append(call)
        batch.followers.append(answer)
        if len(batch.calls) == BATCH_MAX:
            self._close(batch)
        return await answer

    async def _lead(self, call: RpcCall) -> Any | RpcError:
        batch = self._open = _Batch([call])
        try:
            await asyncio.sleep(0)
            self._close(batch)
            lead_answer, *follower_answers = await self._sent(batch.calls)
            for follower, answer in zip(batch.followers, follower_answers, strict=True):
                if not follower.done():
                    follower.set_result(answer)
        except (NeverSent, AnswerLost, EffectFailed) as error:
            for follower in batch.followers:
                if not follower.done():
                    follower.set_exception(error)
            raise
        finally:
            self._close(batch)
            for follower in batch.followers:
                follower.cancel()  # only if this read was canceled: no one sends the others then
        return lead_answer

    def _close(self, batch: _Batch) -> None:
        if self._open is batch:
            self._open = None

    async def _sent(self, calls: list[RpcCall]) -> list[Any | RpcError]:
        if len(calls) == 1:
            return [await self._connections.ask(*calls[0])]
        return await self._connections.ask_all(calls)
