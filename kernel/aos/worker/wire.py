"""Messages between node and worker process: frames of canonical CBOR on a socket (X-50 to X-56).

    0        4                      4 + n
    +--------+----------------------+
    | n, u32 | n bytes of one table |   big-endian; n at most FRAME_BYTES_MAX
    +--------+----------------------+

A table is ``[[name, ...], [value, ...], ...]``: the names of the fields, then a row for each
message. Messages of one turn with the same fields share a table, so that their names are written
and read once.

Each message has ``op``. To the worker: hello, manifest, run, begin, cancel, ack, blob. From it:
ready or failed, then progress, attempt, done, halt, stuck, read. The worker exits when the stream
ends.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

from aos.errors import AosError
from aos.values.cbor import Value, decode_record, encode, head
from aos.values.errors import ValueProblem

PROTOCOL: Final = 6
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
FD_VARIABLE: Final = "AOS_WORKER_FD"
"""Environment variable with the number of the inherited socket."""

Message: TypeAlias = dict[str, Any]

_HEAD: Final = struct.Struct(">I")

_LONGEST_HEAD: Final = 3
"""Bytes of the head of an array with ``ROWS_MAX`` rows."""


class WireProblem(AosError):
    """The other side sent something that is not a message. The connection cannot be used again."""


class Stalled(WireProblem):
    """The other side stopped in the middle of a message. Nothing more can be expected of it."""


ROWS_MAX: Final = 256
"""Messages in one frame."""


class MessageTable:
    """Messages with the same fields, encoded in the order in which they were added."""

    def __init__(self, message: Message) -> None:
        """Raises as ``add``."""
        self.names = tuple(message)
        self._names = _encoded_names(self.names)
        self._rows: list[bytes] = []
        self._size = _LONGEST_HEAD + len(self._names)
        assert self.add(message), "a message fits its own table"

    def add(self, message: Message) -> bool:
        """Add a message; False if it has other fields, or no room in this table.

        Raises:
            WireProblem: No table has room for it.
        """
        if tuple(message) != self.names:
            return False
        row = encode(cast("Value", list(message.values())))
        size = self._size + len(row)
        if size > FRAME_BYTES_MAX and not self._rows:
            raise WireProblem(f"a message has {size} bytes: expected at most {FRAME_BYTES_MAX}")
        if size > FRAME_BYTES_MAX or len(self._rows) == ROWS_MAX:
            return False
        self._rows.append(row)
        self._size = size
        return True

    def to_frame(self) -> bytes:
        """The table with its length prefix."""
        body = head(0x80, 1 + len(self._rows)) + self._names + b"".join(self._rows)
        return _HEAD.pack(len(body)) + body


@lru_cache(maxsize=64)
def _encoded_names(names: tuple[str, ...]) -> bytes:
    return encode(list(names))


def frame(message: Message) -> bytes:
    """Encode one message with its length prefix. Raises as ``MessageTable.add``."""
    return MessageTable(message).to_frame()


class FrameReader:
    """Splits a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Number of bytes received of a message that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that ``data`` completes.

        Raises:
            WireProblem: A frame is too long, or is not a canonical table with an ``op``.
        """
        buffer = self._buffer
        buffer += data
        messages: list[Message] = []
        at = 0
        while len(buffer) - at >= _HEAD.size:
            (size,) = _HEAD.unpack_from(buffer, at)
            if size > FRAME_BYTES_MAX:
                raise WireProblem(f"a frame of {size} bytes: expected at most {FRAME_BYTES_MAX}")
            end = at + _HEAD.size + size
            if len(buffer) < end:
                break
            messages += _read(bytes(buffer[at + _HEAD.size : end]))
            at = end
        del buffer[:at]
        return messages


def _read(body: bytes) -> list[Message]:
    try:
        table: Any = decode_record(body)
    except ValueProblem as error:
        raise WireProblem(f"a frame is not canonical CBOR: {error}") from error
    if isinstance(table, list) and len(table) > 1 and _are_names(table[0]):
        names, *rows = table
        op, width = names.index("op"), len(names)
        if all(type(row) is list and len(row) == width and type(row[op]) is str for row in rows):
            return [dict(zip(names, row, strict=True)) for row in rows]
    raise WireProblem("a frame is not a table of messages with an op")


def _are_names(value: object) -> bool:
    return (
        isinstance(value, list)
        and all(type(name) is str for name in value)
        and len(set(value)) == len(value)
        and "op" in value
    )


class WireLink(asyncio.Protocol):
    """One end of the socket. Messages sent in one turn of the loop are written together.

    With ``stall_s`` the link is lost (``Stalled``) if the other side pauses for that long in the
    middle of a message. Between two messages it may be silent for any time.
    """

    def __init__(
        self,
        on_message: Callable[[Message], None],
        on_lost: Callable[[Exception | None], None],
        *,
        stall_s: float | None = None,
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._pending: list[MessageTable] = []
        self._transport: asyncio.WriteTransport | None = None
        self._stall_s = stall_s
        self._stalling: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio. Messages that were sent before this are lost."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio: pass on each message that is complete. An invalid one closes the
        link, and ``on_lost`` gets the WireProblem (X-50)."""
        try:
            for message in self._reader.feed(data):
                self._on_message(message)
        except WireProblem as problem:
            self.close()
            self._on_lost(problem)
        self._watch_for_a_stall()

    def _watch_for_a_stall(self) -> None:
        """Restart the timer. Each received byte does so: a long message is not a stall."""
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None
        if self._stall_s is not None and self._reader.pending_bytes and self._transport is not None:
            loop = asyncio.get_running_loop()
            self._stalling = loop.call_later(self._stall_s, self._stalled)

    def _stalled(self) -> None:
        pending_bytes, seconds = self._reader.pending_bytes, self._stall_s or 0.0
        self.close()
        self._on_lost(
            Stalled(f"{pending_bytes} bytes of one came, and then nothing for {seconds:g} s")
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio, also after ``close``: then ``on_lost`` may be called a second time.
        Messages that are not written yet are lost."""
        self._forget_transport()
        self._on_lost(exc)

    def _forget_transport(self) -> None:
        self._transport = None
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None

    def send(self, message: Message) -> None:
        """Queue a message; it is dropped if the connection is gone."""
        if self._transport is None:
            return
        if not self._pending:
            self._pending.append(MessageTable(message))
            asyncio.get_running_loop().call_soon(self._flush)
        elif not self._pending[-1].add(message):
            self._pending.append(MessageTable(message))

    def _flush(self) -> None:
        if self._transport is not None and self._pending:
            self._transport.write(b"".join(table.to_frame() for table in self._pending))
        self._pending.clear()

    def close(self) -> None:
        """Write the queued messages, then close."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
            self._forget_transport()
