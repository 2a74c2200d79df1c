#!/usr/bin/env python3
"""A small payment and warehouse service over HTTP, which fails and stalls on purpose.

    python manifests/orders/service.py --books FILE [--port 0] [--seed 7] [--fail-rate 0.03] ...

It prints its URL on one line and serves until SIGTERM. A request is a POST of a JSON body with an
Idempotency-Key; GET /books gives the totals (books.py). Whether a request goes wrong depends on the
seed, the operation, the order and how often it was asked for, so that a run can be repeated.

Rule 1: 2xx: it is done. 4xx: it is not done and never will be under this key. 5xx or no answer: it
may have been done; ask again under the same key, or take it back by order.

Rule 2: an answer leaves when what it says is on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from books import BooksFile, Entry, total
from mishaps import Mishap, Temper
from operations import OPERATIONS, Json, Operation, Refusal

BODY_BYTES_MAX: Final = 64 * 1024
HEAD_BYTES_MAX: Final = 16 * 1024


class Shop:
    """The operations, their mishaps, and the books, which are written in groups of lines."""

    def __init__(self, file: BooksFile, temper: Temper) -> None:
        self._file = file
        self._temper = temper
        self._requests: Counter[str] = Counter()
        self._lines = bytearray()
        self._appended = 0
        self._durable = 0
        self._wrote = asyncio.Condition()
        self._writer: asyncio.Task[None] | None = None

    async def handle(self, path: str, key: str, body: bytes) -> tuple[int, Json]:
        """Answer one POST.

        Raises:
            Refusal: The shop will not. Nothing was booked.
        """
        operation = OPERATIONS.get(path)
        if operation is None:
            raise Refusal(404, "no_such_path", f"expected one of {', '.join(OPERATIONS)}")
        request = _read(body, operation.fields)
        digest = hashlib.sha256(path.encode() + b"\0" + body).hexdigest()[:32]
        self._requests[key] += 1
        mishap = self._temper.mishap(path, request["order_id"], self._requests[key])
        if mishap is Mishap.UNAVAILABLE:
            return 503, {"code": "unavailable", "message": "try again"}
        if mishap is Mishap.STALL_THEN_DO:
            await asyncio.sleep(self._temper.stall_ms / 1000)
        answer = await self._once(operation, key, digest, request)
        if mishap is Mishap.DO_THEN_STALL:
            await asyncio.sleep(self._temper.stall_ms / 1000)
        if mishap is Mishap.ANSWER_LOST:
            return 500, {"code": "internal", "message": "something went wrong"}
        return 200, answer

    def totals(self) -> Json:
        totals = total(self._file.books.entries)
        return asdict(totals) | {"wrong": totals.wrong()}

    async def _once(self, operation: Operation, key: str, digest: str, request: Json) -> Json:
        """Do it, unless it was done under this key; return when it is durable."""
        books = self._file.books
        known = books.by_key.get(key)
        if known is None:
            deed = operation.do(books, request, self._temper.refuses)
            known = Entry(
                kind=deed.kind,
                order_id=request["order_id"],
                key=key,
                request=digest,
                cents=deed.cents,
                answer=deed.answer,
            )
            books.add(known)
            self._lines += known.line()
            self._appended += 1
        elif known.request != digest:
            raise Refusal(422, "key_reused", f"key {key} was used for another request")
        # A repeated request waits too: the first one's line may still be on its way.
        await self._until_durable(self._appended)
        return known.answer

    async def _until_durable(self, count: int) -> None:
        if self._durable >= count:
            return
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        async with self._wrote:
            await self._wrote.wait_for(lambda: self._durable >= count)

    async def _write(self) -> None:
        """Write until nothing waits: each group is all that gathered while the last was written."""
        while self._lines:
            lines, count = bytes(self._lines), self._appended
            self._lines.clear()
            try:
                await asyncio.to_thread(self._file.append, lines)
            except OSError as error:
                # The books in memory are ahead of the disk: nothing that they say may be answered.
                sys.stderr.write(f"service.py: the books cannot be written: {error}\n")
                os._exit(1)
            async with self._wrote:
                self._durable = count
                self._wrote.notify_all()


def _read(body: bytes, fields: Mapping[str, type]) -> Json:
    try:
        request = json.loads(body)
    except ValueError as error:
        raise Refusal(400, "bad_json", str(error)) from error
    if not isinstance(request, dict) or set(request) != set(fields):
        raise Refusal(400, "bad_request", f"expected the fields {', '.join(fields)}")
    for name, kind in fields.items():
        value = request[name]
        if type(value) is not kind or not value or (isinstance(value, int) and value < 0):
            raise Refusal(400, "bad_request", f"{name}: expected {kind.__name__}, not empty")
    return request


class Connection(asyncio.Protocol):
    """HTTP/1.1 as a keep-alive client needs it; requests are answered one after the other."""

    def __init__(self, shop: Shop, tasks: set[asyncio.Task[None]]) -> None:
        self._shop = shop
        self._tasks = tasks
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        # A request is completed even if the caller disconnects.
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _next(self) -> None:
        """Start on the next request, once the last is answered and all of it is here."""
        if self._busy:
            return
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if len(head) > HEAD_BYTES_MAX:
            self._refuse(Refusal(431, "head_too_large", "shorten the headers"))
            return
        if not separator:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        size = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not size.isdecimal() or int(size) > BODY_BYTES_MAX:
            self._refuse(Refusal(411, "no_length", f"send up to {BODY_BYTES_MAX} bytes, counted"))
            return
        if len(rest) < int(size):
            return
        self._buffer = rest[int(size) :]
        self._busy = True
        task = asyncio.create_task(self._answer(first, headers, rest[: int(size)]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, first: str, headers: Mapping[str, str], body: bytes) -> None:
        method, path, *_ = [*first.split(" "), "", ""]
        key = headers.get("idempotency-key", "")
        try:
            if (method, path) == ("GET", "/books"):
                status, answer = 200, self._shop.totals()
            elif method != "POST":
                raise Refusal(405, "no_such_method", "POST to an operation, or GET /books")
            elif not key:
                raise Refusal(400, "no_key", "expected the header Idempotency-Key")
            else:
                status, answer = await self._shop.handle(path, key, body)
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body
        self._busy = False
        self._write(status, answer, close=headers.get("connection", "").lower() == "close")
        self._next()

    def _refuse(self, refusal: Refusal) -> None:
        self._buffer = b""
        self._write(refusal.status, refusal.body, close=True)

    def _write(self, status: int, answer: Json, *, close: bool) -> None:
        if self._transport is None:
            return
        body = json.dumps(answer, separators=(",", ":")).encode()
        self._transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, b"OK" if status == 200 else b"Not", len(body), body)
        )
        if close:
            self._transport.close()


class CannotServe(Exception):
    """Before anything was served."""


async def serve(*, books: Path, port: int, temper: Temper) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was begun."""
    try:
        file = BooksFile(books)
    except OSError as error:
        raise CannotServe(f"{books}: the books cannot be opened: {error.strerror}") from error
    shop = Shop(file, temper)
    tasks: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        server = await loop.create_server(
            lambda: Connection(shop, tasks), "127.0.0.1", port, backlog=1024
        )
    except OSError as error:
        raise CannotServe(
            f"127.0.0.1:{port}: {os.strerror(error.errno or 0)} (choose another --port; 0 is any)"
        ) from error
    host, bound = server.sockets[0].getsockname()[:2]
    sys.stdout.write(f"http://{host}:{bound}\n")
    sys.stdout.flush()
    await stopped.wait()
    server.close()
    await asyncio.gather(*tasks)
    file.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--books", type=Path, required=True, help="file of the books (JSON lines)")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--seed", type=int, default=7, help="decides what goes wrong")
    parser.add_argument("--fail-rate", type=float, default=0.03, help="requests answered 5xx")
    parser.add_argument("--stall-rate", type=float, default=0.01, help="requests answered late")
    parser.add_argument("--refuse-rate", type=float, default=0.02, help="orders refused, each step")
    parser.add_argument("--stall-ms", type=int, default=1500, help="how late")
    options = vars(parser.parse_args())
    books, port = options.pop("books"), options.pop("port")
    if not 0 <= port < 65536:
        parser.error(f"--port: expected 0 to 65535, found {port}")
    try:
        asyncio.run(serve(books=books, port=port, temper=Temper(**options)))
    except CannotServe as problem:
        sys.exit(f"service.py: {problem}")


if __name__ == "__main__":
    main()
