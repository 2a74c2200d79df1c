"""Decode the body of a response as it arrives, and stop at a limit (X-64)."""

from __future__ import annotations

import zlib
from typing import Final, Protocol

GZIP: Final = ("gzip", "x-gzip")
DEFLATE: Final = "deflate"
STEP_BYTES: Final = 64 * 1024
ZLIB_HEAD_BYTES: Final = 2


class _Inflate(Protocol):
    """The type of ``zlib.decompressobj()``, which has no public name."""

    @property
    def eof(self) -> bool: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class BodyProblem(Exception):
    """The body exceeds its limit (``is_size``), or does not match its content encoding."""

    def __init__(self, message: str, *, is_size: bool) -> None:
        super().__init__(message)
        self.is_size = is_size


class Body:
    """One body. ``encoding`` is one content coding, or empty; an unknown one is not decoded.

    ``bytes_max`` bounds the decoded and the compressed bytes separately; either may exceed it by
    at most ``STEP_BYTES`` before the limit is noticed.
    """

    def __init__(self, encoding: str, *, bytes_max: int) -> None:
        self._encoding = encoding
        self.is_decoded = encoding in (*GZIP, DEFLATE)
        self._bytes_max = bytes_max
        self._bytes_fed = 0
        self._data = bytearray()
        self._head = b""
        self._inflate: _Inflate | None = None

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk of the wire's bytes.

        Raises:
            BodyProblem: The limit is passed, or the chunk does not match the content encoding.
        """
        if not self.is_decoded:
            self._add(chunk)
            return
        self._bytes_fed += len(chunk)
        if self._bytes_fed > self._bytes_max + STEP_BYTES:  # members without content cost time too
            raise self._too_long()
        if self._inflate is None:
            chunk = self._head = self._head + chunk
            if len(chunk) < ZLIB_HEAD_BYTES:
                return
            self._inflate = self._new()
        try:
            self._decode(self._inflate, chunk)
        except zlib.error as error:
            raise BodyProblem(
                f"the body is not {self._encoding}: {error}", is_size=False
            ) from error

    def _new(self) -> _Inflate:
        if self._encoding != DEFLATE:
            return zlib.decompressobj(zlib.MAX_WBITS | 16)
        # Some servers send raw deflate, without the zlib header.
        method, check = self._head[:ZLIB_HEAD_BYTES]
        has_head = method & 15 == zlib.DEFLATED and (method << 8 | check) % 31 == 0
        return zlib.decompressobj(zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS)

    def _decode(self, inflate: _Inflate, chunk: bytes) -> None:
        while chunk:
            if inflate.eof:  # a gzip body may have several members
                inflate = self._inflate = self._new()
            data = inflate.decompress(chunk, STEP_BYTES)
            self._add(data)
            chunk = inflate.unconsumed_tail or inflate.unused_data
            # All input may be consumed while output is still buffered.
            while len(data) == STEP_BYTES and not chunk and not inflate.eof:
                data = inflate.decompress(b"", STEP_BYTES)
                self._add(data)
                chunk = inflate.unused_data

    def _add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._bytes_max:
            raise self._too_long()

    def _too_long(self) -> BodyProblem:
        return BodyProblem(f"the body is longer than {self._bytes_max} bytes", is_size=True)

    def end(self) -> bytes:
        """Return the whole decoded body.

        Raises:
            BodyProblem: The compressed stream is cut short.
        """
        if self._head and (self._inflate is None or not self._inflate.eof):
            raise BodyProblem(f"the {self._encoding} body is cut short", is_size=False)
        return bytes(self._data)
