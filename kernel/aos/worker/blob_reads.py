"""``ctx.read_blob``: ask the host for a blob of the world while a function runs (X-79a)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aos.worker.failure import EffectFailed
from aos.worker.wire import Message


class BlobReads:
    """The questions of this process for blobs, and their answers.

    Functions ask on the event loop of their calls. Messages leave and arrive on the loop that talks
    to the host, on which this object is made.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._control = asyncio.get_running_loop()
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._next = 0

    async def read(self, hash: str) -> bytes:
        """Return the bytes of a blob. Called on the loop of the functions.

        Raises:
            EffectFailed: The host cannot give it: ``blob_missing``, ``blob_too_large``.
        """
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._control.call_soon_threadsafe(self._ask, hash, answer)
        return await answer

    def answer(self, message: Message) -> None:
        """Give the answer of the host to the function that asked. One that has ended gets none."""
        answer = self._pending.pop(message["read"], None)
        if answer is not None:
            answer.get_loop().call_soon_threadsafe(_give, answer, message)

    def _ask(self, hash: str, answer: asyncio.Future[bytes]) -> None:
        self._next += 1
        self._pending[self._next] = answer
        self._send({"op": "read", "read": self._next, "hash": hash})


def _give(answer: asyncio.Future[bytes], message: Message) -> None:
    if answer.done():  # its call was canceled
        return
    if message["data"] is None:
        answer.set_exception(EffectFailed(message["code"], message["problem"]))
    else:
        answer.set_result(message["data"])
