"""Receivers of webhooks and spans that answer without an end."""

from __future__ import annotations

import gzip
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

SendBytes: TypeAlias = Callable[[bytes], object]
HostileAnswer: TypeAlias = Callable[[SendBytes], object]

PATIENCE_S = 60.0
"""Seconds after which a client that has not left is a failure of the test."""

_PACKED = gzip.compress(bytes(16 * 1024 * 1024))


def endless(send: SendBytes) -> None:
    """A success with a body that unpacks to gigabytes and does not end."""
    send(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        send(b"%x\r\n%s\r\n" % (len(_PACKED), _PACKED))


def dripping_header(send: SendBytes) -> None:
    """A success whose header comes a byte at a time, for ever."""
    send(b"HTTP/1.1 200 OK\r\nx-header: ")
    while True:
        send(b"x")
        time.sleep(0.05)


@contextmanager
def receiving(answer: HostileAnswer) -> Iterator[str]:
    """Serve such answers for the block; give the URL. Fail if a client stays for a minute."""
    outlasted = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1_048_576)
            end_s = time.monotonic() + PATIENCE_S

            def send(data: bytes) -> None:
                if time.monotonic() > end_s:
                    outlasted.set()
                    raise TimeoutError
                self.request.sendall(data)

            with suppress(OSError):
                answer(send)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
    assert not outlasted.is_set(), f"the client did not give up within {PATIENCE_S:g} s"
