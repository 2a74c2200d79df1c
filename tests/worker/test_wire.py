"""Frames: whole whatever the pieces they come in, refused when they are not messages (X-50)."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from aos.values.cbor import encode
from aos.worker.wire import (
    FRAME_BYTES_MAX,
    ROWS_MAX,
    FrameReader,
    Message,
    MessageTable,
    Stalled,
    WireLink,
    WireProblem,
    frame,
)

MESSAGES: list[Message] = [
    {"op": "ack", "intents": [b"a" * 32]},
    {"op": "run", "params": b"x" * 300},
    {"op": "ready"},
]
STREAM = b"".join(map(frame, MESSAGES))


def test_frames_are_read_whatever_the_pieces() -> None:
    for size in (1, 2, 3, 7, 100, len(STREAM)):
        reader = FrameReader()
        found = [
            message
            for at in range(0, len(STREAM), size)
            for message in reader.feed(STREAM[at : at + size])
        ]
        assert found == MESSAGES


def test_each_prefix_of_the_stream_gives_a_prefix_of_the_messages() -> None:
    for end in range(len(STREAM)):
        found = FrameReader().feed(STREAM[:end])
        assert found == MESSAGES[: len(found)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x82\x81\x62op\x81\x18\x01", "not canonical CBOR"),
        (b"", "not canonical CBOR"),
        (encode({"op": "x"}), "not a table of messages with an op"),
        (encode([]), "not a table of messages with an op"),
        (encode([["op"]]), "not a table of messages with an op"),
        (encode([["op"], [1]]), "not a table of messages with an op"),
        (encode([["n"], [1]]), "not a table of messages with an op"),
        (encode([["op"], ["x"], {}]), "not a table of messages with an op"),
        (encode([["op", "n"], ["x"]]), "not a table of messages with an op"),
        (encode([["op"], ["x", 1]]), "not a table of messages with an op"),
        (encode([["op", "n", "n"], ["x", 1, 2]]), "not a table of messages with an op"),
        (encode([["op", 1], ["x", 1]]), "not a table of messages with an op"),
    ],
)
def test_an_invalid_message_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(WireProblem, match=message):
        FrameReader().feed(struct.pack(">I", len(body)) + body)


def test_a_frame_that_says_it_is_too_long_is_refused_before_it_is_there() -> None:
    with pytest.raises(WireProblem, match="a frame of 67108865 bytes"):
        FrameReader().feed(struct.pack(">I", FRAME_BYTES_MAX + 1))


def test_a_message_that_is_too_long_is_not_made() -> None:
    with pytest.raises(WireProblem, match="expected at most"):
        frame({"op": "x", "data": bytes(FRAME_BYTES_MAX)})


def test_messages_with_the_same_fields_share_a_frame_as_long_as_it_has_room() -> None:
    rows = [{"op": "done", "n": n, "data": bytes(n)} for n in range(ROWS_MAX)]
    table = MessageTable(rows[0])

    assert all(map(table.add, rows[1:]))
    assert not table.add(rows[0]), "it is full"
    assert not MessageTable(rows[0]).add({"op": "done", "data": b"", "n": 1}), "in another order"
    assert not MessageTable(rows[0]).add({**rows[0], "data": bytes(FRAME_BYTES_MAX - 30)})
    assert FrameReader().feed(table.to_frame()) == rows
    assert len(table.to_frame()) < sum(map(len, map(frame, rows)))


def test_a_link_keeps_the_order_of_messages_with_different_fields() -> None:
    sent: list[Message] = [
        {"op": "done", "n": 1}, {"op": "done", "n": 2}, {"op": "stuck"}, {"op": "done", "n": 3},
    ]  # fmt: skip

    async def scene() -> bytes:
        written = bytearray()
        link, transport = WireLink(print, print), Ended()
        transport.write = written.extend  # type: ignore[method-assign,assignment]  # keeps it
        link.connection_made(transport)
        for message in sent:
            link.send(message)
        await asyncio.sleep(0)
        return bytes(written)

    data = asyncio.run(scene())
    assert FrameReader().feed(data) == sent
    assert data.count(b"\x62op") == 3


def test_messages_of_one_turn_leave_in_one_write_and_the_last_ones_before_the_end() -> None:
    async def scene() -> tuple[list[Message], int]:
        ours, theirs = socket.socketpair()
        heard: list[Message] = []
        lost = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (ours, theirs):
            each.setblocking(False)
        sender = WireLink(heard.append, lambda _: None)
        receiver = WireLink(heard.append, lambda _: lost.set())
        transport, _ = await loop.create_unix_connection(lambda: sender, sock=ours)
        writes: list[bytes] = []
        write = transport.write

        def counted(data: bytes) -> None:
            writes.append(data)
            write(data)

        transport.write = counted  # type: ignore[method-assign,assignment]  # counts what goes out
        await loop.create_unix_connection(lambda: receiver, sock=theirs)
        sender.send(MESSAGES[0])
        sender.send(MESSAGES[1])
        await asyncio.sleep(0)
        sender.send(MESSAGES[2])
        sender.close()
        sender.send(MESSAGES[0])  # dropped: it is closed
        await asyncio.wait_for(lost.wait(), 60)
        return heard, len(writes)

    assert asyncio.run(scene()) == (MESSAGES, 2)


def test_a_broken_frame_ends_the_connection_and_says_why() -> None:
    async def scene() -> list[Exception | None]:
        ours, theirs = socket.socketpair()
        lost: list[Exception | None] = []
        gone = asyncio.Event()
        theirs.setblocking(False)

        def on_lost(problem: Exception | None) -> None:
            lost.append(problem)
            if len(lost) == 2:
                gone.set()

        link = WireLink(lambda _: None, on_lost)
        await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=theirs)
        with ours:
            ours.sendall(struct.pack(">I", 1) + b"\x00")
            await asyncio.wait_for(gone.wait(), 60)
        return lost

    first, second = asyncio.run(scene())
    assert isinstance(first, WireProblem)
    assert second is None


class Ended(asyncio.WriteTransport):
    """Takes what is written, and notes that it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_message_that_keeps_coming_is_no_stall_however_long_it_takes() -> None:
    """X-56a."""

    async def scene() -> None:
        came: list[Message] = []
        lost: list[Exception | None] = []
        link = WireLink(came.append, lost.append, stall_s=60)
        link.connection_made(Ended())
        timers = []

        for byte in frame({"op": "done"}):
            link.data_received(bytes([byte]))
            timers.append(link._stalling)

        *during, after = timers
        assert all(each is not None for each in during)
        assert len(set(map(id, during))) == len(during), "each byte restarts the timeout"
        assert all(each is not None and each.cancelled() for each in during)
        assert after is None, "between messages nothing is waited for"
        assert (came, lost) == ([{"op": "done"}], [])

    asyncio.run(scene())


def test_silence_in_the_middle_of_a_message_ends_the_link() -> None:
    """X-56a."""

    async def scene() -> None:
        lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        link, transport = WireLink(print, lost.set_result, stall_s=0.0), Ended()
        link.connection_made(transport)

        link.data_received(frame({"op": "done"})[:-1])

        problem = await lost
        assert isinstance(problem, Stalled)
        assert str(problem) == "14 bytes of one came, and then nothing for 0 s"
        assert transport.is_closed

    asyncio.run(scene())
