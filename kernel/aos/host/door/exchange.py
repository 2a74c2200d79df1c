"""Answer several packed messages as one connection would (spec/cluster.md, CL-122)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from aos.errors import AosError, BadUsage
from aos.host.door.listener import Talk
from aos.host.door.protocol import LENGTH_BYTES, bodies_of, error_fields, pack, unpack

_ERROR_BYTES_MAX: Final = 64 * 1024


def answering(talk: Callable[[], Talk]) -> Callable[[bytes], Coroutine[Any, Any, bytes]]:
    """Return a function that takes what a client would write to one connection, and returns what it
    would read. After a message whose answer is an error, the others are not answered. ``talk``
    makes a connection, as for ``Listener``."""

    async def answer(messages: bytes) -> bytes:
        replies: list[bytes] = []
        with talk() as handler:
            try:
                for body in bodies_of(messages):
                    reply = await handler.answer(body)
                    if not isinstance(reply, bytes):
                        await reply.aclose()
                        raise BadUsage("follow: the journal is followed over a socket alone")
                    replies.append(reply)
                    if is_error(reply):
                        break
            except AosError as problem:
                replies.append(pack(error_fields(problem)))
        return b"".join(replies)

    return answer


def is_error(reply: bytes) -> bool:
    """Whether a packed answer is an error."""
    # Errors are short. Others need not be read.
    return len(reply) < _ERROR_BYTES_MAX and "error" in unpack(reply[LENGTH_BYTES:])
