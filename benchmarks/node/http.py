"""Requests over one connection each, without a client library, which would cost more than they."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self

from aos.errors import Unavailable


class Connection:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    async def post(self, path: str, body: Any) -> Any:
        """POST a JSON body and return that of the answer.

        Raises:
            Unavailable: The answer is none, or not 200.
        """
        data = json.dumps(body).encode()
        self._writer.write(
            b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (path.encode(), self._port, len(data), data)
        )
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            size = 0
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name == b"content-length":
                    size = int(value)
            answer = await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as problem:
            raise Unavailable(f"{path}: no answer: {problem!r}") from problem
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise Unavailable(f"{path}: {head[:40]!r}: {answer[:200].decode(errors='replace')}")
        return json.loads(answer) if answer else None
