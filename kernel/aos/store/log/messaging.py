"""The interface of messages with an answer, between programs that use the same servers
(spec/cluster.md, CL-120).

A program listens on a subject; another one sends a message there and gets one answer. Messages and
answers can be lost, late and doubled. Neither is longer than the server allows; ``host/cluster``
cuts longer ones into pieces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from aos.errors import Unavailable

TakeMessage: TypeAlias = Callable[[bytes], Awaitable[bytes | None]]
"""Takes a message and returns its answer; None for a message that makes no sense."""


class NoListener(Unavailable):
    """No program listens on the subject. This message reached none."""


class NoAnswer(Unavailable):
    """No answer came. It is not known whether the message arrived."""


class Messaging(Protocol):
    """Messages of one program. All coroutines run in one event loop."""

    async def message_bytes_max(self) -> int:
        """Return the longest message that may be sent, in bytes. Raises Unavailable."""

    async def ask(self, subject: str, data: bytes) -> bytes:
        """Send a message and return its answer.

        Raises:
            NoListener: The message reached no program.
            NoAnswer: No answer came within about a second.
            Refused: The servers refuse this program.
        """

    def listen(self, subjects: Mapping[str, TakeMessage]) -> AbstractAsyncContextManager[None]:
        """Listen on the subjects inside the block, each with its function. Messages are answered
        side by side. While the servers cannot be reached, the senders get ``NoListener``."""
