"""Messages that are answered as those of one connection (spec/cluster.md, CL-122)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from aos.host.door.exchange import answering
from aos.host.door.listener import Handler, Reply
from aos.host.door.protocol import bodies_of, error_fields, pack, unpack
from aos.host.errors import Busy


class Talks:
    """Connections that count their messages. ``ended`` is how many have ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    @contextmanager
    def talk(self) -> Iterator[Handler]:
        self.begun += 1
        count = 0

        async def answer(body: bytes) -> Reply:
            nonlocal count
            count += 1
            match unpack(body).get("op"):
                case "follow":
                    return self._stream()
                case "busy":
                    return pack(error_fields(Busy("no room")))
            return pack({"connection": self.begun, "count": count})

        try:
            yield Handler(answer)
        finally:
            self.ended += 1

    async def _stream(self) -> AsyncGenerator[bytes, None]:
        yield b""


def answers(talks: Talks, *ops: str) -> list[object]:
    messages = b"".join(pack({"op": op}) for op in ops)
    replies = asyncio.run(answering(talks.talk)(messages))
    bodies = (unpack(body) for body in bodies_of(replies))
    return [body["error"]["kind"] if "error" in body else body["count"] for body in bodies]


def test_the_messages_of_a_request_are_those_of_one_connection() -> None:
    talks = Talks()
    assert answers(talks, "a", "b", "c") == [1, 2, 3]
    assert answers(talks, "a") == [1]
    assert (talks.begun, talks.ended) == (2, 2)


def test_after_an_error_no_further_message_is_answered() -> None:
    assert answers(Talks(), "a", "busy", "b") == [1, "busy"]


def test_a_stream_is_refused() -> None:
    talks = Talks()
    assert answers(talks, "follow", "a") == ["usage"]
    assert talks.ended == 1


def test_bytes_after_the_messages_are_refused() -> None:
    replies = asyncio.run(answering(Talks().talk)(pack({"op": "a"}) + b"\x00"))
    assert [("error" in unpack(body)) for body in bodies_of(replies)] == [False, True]
