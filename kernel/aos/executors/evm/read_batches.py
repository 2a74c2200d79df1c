"""Reads of one effect that start at the same moment, sent as one request (EV-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aos.executors.evm.json_rpc import RpcCall, RpcError
from aos.executors.evm.rpc_connections import AnswerLost, NeverSent
from aos.executors.evm.rpc_nodes import RpcNode
from aos.worker import EffectFailed

BATCH_MAX: Final = 20
"""Most reads in one request. A node may carry them out one after the other."""


class NodeConnections(Protocol):
    """The connections to one node."""

    @property
    def node(self) -> RpcNode: ...

    @property
    def takes_batches(self) -> bool: ...

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError: ...

    async def ask_all(self, calls: Sequence[RpcCall]) -> list[Any | RpcError]: ...


@dataclass(slots=True)
class _Batch:
    """Reads that are not sent yet, and the futures of all but the first, which sends them."""

    calls: list[RpcCall]
    followers: list[asyncio.Future[Any | RpcError]] = field(default_factory=list)


class ReadBatches:
    """Collects the reads of one effect. The first read of a moment waits until every other task
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
