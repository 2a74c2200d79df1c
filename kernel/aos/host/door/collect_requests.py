"""Answer the clients that remove what nothing needs from a world, step by step (spec/state.md,
RT-20 to RT-24)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, Protocol

from aos.errors import BadUsage, Unavailable
from aos.host.door.protocol import read_forget
from aos.host.world.collecting import Begun, StillNeeded
from aos.message_fields import Message, field
from aos.store.rows import Forget
from aos.values.cbor import Value

BEAT_S: Final = 30.0
"""Seconds after which a marking is kept open again while this process finds out what it needs. A
client that is silent for twice as long has ended, or is suspended."""


class Markings(Protocol):
    """The markings of a world, and the removals that follow them."""

    def keep_open(self, token: int) -> None:
        """Keep a marking open. Raises: Unavailable: It was given up."""

    def forget(self, token: int, rows: Forget) -> Future[int]:
        """Remove what a marking found unneeded, except blobs that arrived meanwhile; return how
        many blobs were removed."""

    def end(self, token: int) -> None:
        """End a marking, unless a later one has begun."""


class CollectRequests:
    """Answers ``collect``. Used from one event loop.

    ``begin`` begins a marking, and ``still_needed`` finds what the world needs, given the record of
    the snapshot that the kernel reads from; both are called on other threads. Without the latter,
    nothing is removed.
    """

    def __init__(
        self,
        markings: Markings,
        begin: Callable[[], Begun],
        still_needed: Callable[[int], StillNeeded] | None,
    ) -> None:
        self._markings = markings
        self._begin_marking = begin
        self._still_needed = still_needed
        self._needs: tuple[int, StillNeeded] | None = None

    @contextmanager
    def connection(self) -> Iterator[set[int]]:
        """The tokens of the markings that a connection has begun and not ended: they end with it,
        because the world may admit nothing until then (RT-26)."""
        tokens: set[int] = set()
        try:
            yield tokens
        finally:
            for token in tokens:
                self._markings.end(token)

    async def answer(self, request: Message, tokens: set[int]) -> Mapping[str, Value]:
        """Answer one step of a client."""
        match request.get("step"):
            case "begin":
                return await self._begin(tokens)
            case "beat":
                self._markings.keep_open(field(request, "token", int))
                return {}
            case "forget":
                claimed, token = read_forget(request), field(request, "token", int)
                rows = self._needed_for(token).may_go(claimed)
                return {"gone": await asyncio.wrap_future(self._markings.forget(token, rows))}
            case "end":
                token = field(request, "token", int)
                self._markings.end(token)
                tokens.discard(token)
                return {}
            case other:
                raise BadUsage(f"step: expected begin, beat, forget or end, found {other!r:.40}")

    async def _begin(self, tokens: set[int]) -> Message:
        """Begin a marking, then find out what the world needs of what it already has (RT-20a). Its
        token is in ``tokens`` until it ends."""
        if self._still_needed is None:
            raise BadUsage("this world removes nothing while it runs")
        begun = await asyncio.to_thread(self._begin_marking)
        tokens.add(begun.token)
        try:
            finding = asyncio.ensure_future(asyncio.to_thread(self._still_needed, begun.base))
            while not (await asyncio.wait({finding}, timeout=BEAT_S))[0]:
                self._markings.keep_open(begun.token)
            self._markings.keep_open(begun.token)
            self._needs = begun.token, finding.result()
        except BaseException:
            self._markings.end(begun.token)
            tokens.discard(begun.token)
            raise
        return {"token": begun.token, "base": begun.base}

    def _needed_for(self, token: int) -> StillNeeded:
        """Raises: Unavailable: The marking was given up, or another one has begun."""
        self._markings.keep_open(token)
        if self._needs is None or self._needs[0] != token:
            raise Unavailable("the marking has only begun (wait for its token, and try again)")
        return self._needs[1]
