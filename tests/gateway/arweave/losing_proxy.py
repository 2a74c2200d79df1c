"""A proxy on loopback that passes requests on, and loses the answers that a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.gateway.arweave.lab import HTTP


class LosingProxy(ThreadingHTTPServer):
    """``loses`` is the beginning of the requests whose answers are lost, such as ``POST /tx``."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.loses: str | None = None
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: LosingProxy

    def do_GET(self) -> None:
        self._pass(b"")

    def do_POST(self) -> None:
        self._pass(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass(self, body: bytes) -> None:
        request = f"{self.command} {self.path}"
        self.server.seen.append(request)
        headers = {"Content-Type": self.headers.get("Content-Type", "text/plain")}
        url = self.server.target + self.path
        answer = HTTP.request(self.command, url, content=body, headers=headers)
        if self.server.loses is not None and request.startswith(self.server.loses):
            return  # the connection ends without a byte
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def losing_proxy(target: str) -> Iterator[LosingProxy]:
    with LosingProxy(target) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
