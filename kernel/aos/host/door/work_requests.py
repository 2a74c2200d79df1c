"""Answer requests about effects that another process runs (spec/host.md, H-53b)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from aos.core.decide.answers import Answer
from aos.host.door.protocol import answer_fields
from aos.host.door.work_messages import (
    read_attempt,
    read_frame,
    read_items,
    read_outcome,
    told_fields,
)
from aos.host.errors import Busy
from aos.host.executors.receipts import Receipts
from aos.host.fields import Message
from aos.values.cbor import Value

T = TypeVar("T")

_PAUSE_S: Final = 0.01


class WorkRequests:
    """Submits outcomes, attempts and stream frames of clients, as those of executors here (H-32).

    Used from one event loop. While the inbox has no room, an outcome or an attempt waits for up to
    ``busy_after_s`` seconds (H-57).
    """

    def __init__(self, receipts: Receipts, *, busy_after_s: float) -> None:
        self._receipts = receipts
        self._busy_after_s = busy_after_s

    async def settle(self, request: Message) -> Mapping[str, Value]:
        """Settle intents; answer once all receipts are durable or refused."""
        return await self._answers(read_items(request, read_outcome), self._receipts.settle)

    async def attempt(self, request: Message) -> Mapping[str, Value]:
        """Journal attempts; answer once all are durable or refused."""
        return await self._answers(read_items(request, read_attempt), self._receipts.attempt)

    async def tell(self, request: Message) -> Mapping[str, Value]:
        """Submit stream frames; answer once each is durable, refused or dropped."""
        answers = [self._receipts.tell(frame) for frame in read_items(request, read_frame)]
        return {"answers": [told_fields(await answer) for answer in answers]}

    async def _answers(
        self, items: list[T], submit: Callable[[T], Awaitable[Answer]]
    ) -> Mapping[str, Value]:
        # Those of one turn of the loop are submitted together, so all of them begin before any
        # waits. One that fails does not cancel the others: they may be on their way to the disk.
        results = await asyncio.gather(
            *(self._with_room(statement, submit) for statement in items), return_exceptions=True
        )
        answers: list[Value] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            answers.append(answer_fields(result))
        return {"answers": answers}

    async def _with_room(self, item: T, submit: Callable[[T], Awaitable[Answer]]) -> Answer:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._busy_after_s
        while True:
            try:
                return await submit(item)
            except Busy:
                if loop.time() >= deadline_s:
                    raise
                await asyncio.sleep(_PAUSE_S)
