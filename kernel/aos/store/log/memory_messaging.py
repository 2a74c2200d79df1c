"""Messages in memory, as ``Messaging``, for tests: they can be lost, doubled and late
(spec/cluster.md, CL-120)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aos.store.log.memory_log import Fate
from aos.store.log.messaging import NoAnswer, NoListener, TakeMessage

MESSAGE_BYTES_MAX = 1024


@dataclass(slots=True)
class SharedMessages:
    """The listeners of all programs. ``late`` are messages that arrive when ``arrive`` is
    called."""

    listeners: dict[str, TakeMessage] = field(default_factory=dict)
    late: list[tuple[str, bytes]] = field(default_factory=list)

    async def deliver(self, subject: str, data: bytes) -> bytes:
        """Give a message to its listener, and return the answer.

        Raises:
            NoListener: There is none.
            NoAnswer: The message makes no sense to it.
        """
        take = self.listeners.get(subject)
        if take is None:
            raise NoListener("no program listens there", location=subject)
        answer = await take(data)
        if answer is None:
            raise NoAnswer("no answer", location=subject)
        return answer

    async def arrive(self) -> None:
        """Let all late messages arrive, the last one first."""
        while self.late:
            with contextlib.suppress(NoListener, NoAnswer):  # no sender waits for the answer
                await self.deliver(*self.late.pop())


class MemoryMessaging:
    """One program. ``fate`` decides about each message that it sends."""

    def __init__(
        self,
        shared: SharedMessages,
        fate: Callable[[], Fate] = lambda: Fate.ANSWERED,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        self._shared = shared
        self._fate = fate
        self._message_bytes_max = message_bytes_max

    async def message_bytes_max(self) -> int:
        """As ``Messaging.message_bytes_max``."""
        return self._message_bytes_max

    async def ask(self, subject: str, data: bytes) -> bytes:
        """As ``Messaging.ask``. No time passes before ``NoAnswer``."""
        assert len(data) <= self._message_bytes_max, "a message that is too long"
        await asyncio.sleep(0)
        match self._fate():
            case Fate.ANSWERED:
                return await self._shared.deliver(subject, data)
            case Fate.DOUBLED:
                first, _ = await asyncio.gather(
                    self._shared.deliver(subject, data), self._shared.deliver(subject, data)
                )
                return first
            case Fate.UNANSWERED:
                await self._shared.deliver(subject, data)
            case Fate.LATE:
                self._shared.late.append((subject, data))
            case Fate.LOST:
                pass
        raise NoAnswer("no answer", location=subject)

    @asynccontextmanager
    async def listen(self, subjects: Mapping[str, TakeMessage]) -> AsyncIterator[None]:
        """As ``Messaging.listen``."""
        self._shared.listeners.update(subjects)
        try:
            yield
        finally:
            for subject in subjects:
                self._shared.listeners.pop(subject, None)
