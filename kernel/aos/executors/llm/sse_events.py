"""Server-sent events: bytes as they come -> the data of each event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_NEWLINE: Final = b"\n"


class SseReader:
    """Reads one stream. Comments and all fields but ``data`` are skipped.

    A line ends with LF or CRLF. The caller bounds the bytes of the stream.
    """

    def __init__(self) -> None:
        self._partial_line = bytearray()
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the data of each event that they complete."""
        self._partial_line += part
        if _NEWLINE not in part:  # a long line may come in many parts
            return
        *lines, partial_line = bytes(self._partial_line).split(_NEWLINE)
        self._partial_line = bytearray(partial_line)
        for line in lines:
            yield from self._line(bytes(line).removesuffix(b"\r"))

    def end(self) -> Iterator[bytes]:
        """The stream has ended; yield the data of an event without its empty line."""
        yield from self._line(bytes(self._partial_line))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[bytes]:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
        elif self._data:
            yield _NEWLINE.join(self._data)
            self._data = []
