"""Serve a witness over HTTP (spec/proofs.md, PF-80 to PF-86)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from aos.errors import AosError, Unavailable
from aos.host.checkpoints.witness_service import WitnessService
from aos.prove.headerlog.signed_note import NoteSignature
from aos.prove.headerlog.witness_protocol import (
    ADD_CHECKPOINT,
    MALFORMED,
    OK,
    REQUEST_BYTES_MAX,
    SIZE_TYPE,
    Answer,
)

SECONDS_MAX: Final = 10.0
CONNECTIONS_MAX: Final = 32
_NOT_FOUND: Final = 404
_BUSY: Final = 503
_BROKEN: Final = 500
_TOO_LONG: Final = 413
_TEXT: Final = "text/plain; charset=utf-8"


class WitnessServer(ThreadingHTTPServer):
    """A witness on one address. At most ``CONNECTIONS_MAX`` clients are heard at a time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(
        self, host: str, port: int, service: WitnessService, report: Callable[[str], None]
    ) -> None:
        """Listen at once; ``serve_forever`` answers.

        Raises:
            Unavailable: The address cannot be used.
        """
        self.service = service
        self.report = report
        self.connection_slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        try:
            super().__init__((host, port), _Handler)
        except OSError as problem:
            raise Unavailable(f"{host}:{port}: cannot listen there: {problem.strerror}") from None


class _Handler(BaseHTTPRequestHandler):
    """One request of one client; the connection then ends."""

    server: WitnessServer
    timeout = SECONDS_MAX
    server_version = "aos-witness"
    sys_version = ""

    def do_POST(self) -> None:
        if self.path.rstrip("/").rpartition("/")[2] != ADD_CHECKPOINT:
            self._answer(_NOT_FOUND, _TEXT, f"expected POST /{ADD_CHECKPOINT}\n")
            return
        body = self._body()
        if body is None:
            return
        if not self.server.connection_slots.acquire(blocking=False):
            self._answer(_BUSY, _TEXT, "the witness is busy: try again\n")
            return
        try:
            answer = self.server.service.add_checkpoint(body)
        except AosError as problem:
            self.server.report(str(problem))
            self._answer(_BROKEN, _TEXT, "the witness cannot store checkpoints now\n")
            return
        finally:
            self.server.connection_slots.release()
        self._tell(answer)

    def _body(self) -> bytes | None:
        """The body; None if it was refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10):
            self._answer(MALFORMED, _TEXT, "expected a body with Content-Length\n")
            return None
        if int(length) > REQUEST_BYTES_MAX:
            self._answer(_TOO_LONG, _TEXT, f"expected at most {REQUEST_BYTES_MAX} bytes\n")
            return None
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            self._answer(MALFORMED, _TEXT, "the body is cut short\n")
            return None
        return body

    def _tell(self, answer: NoteSignature | Answer) -> None:
        if isinstance(answer, NoteSignature):
            self._answer(OK, _TEXT, answer.line)
        elif answer.latest is not None:
            self._answer(answer.status, SIZE_TYPE, f"{answer.latest}\n")
        else:
            self._answer(answer.status, _TEXT, f"{answer.reason}\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing for each request."""
