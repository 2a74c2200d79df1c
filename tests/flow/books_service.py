"""A service outside a world of flows: it does things once for each idempotency key, and keeps
books.

    python -m tests.flow.books_service BOOKS SEED      prints its URL, and serves until SIGTERM

A request is a POST of ``{"effect", "what"}`` with an Idempotency-Key. The books have one JSON line
for each request, written and synced before the answer: effect, what, key, and the outcome: ``done``
(now), ``again`` (it was done before) or the code of an error. Which requests fail depends only on
the seed, the key and the number of times that the key has come.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

DONE: Final = "done"
AGAIN: Final = "again"
STALL_S: Final = 0.3

BUSY: Final = ("busy", True)
FAILURES: Final = {"f/do@1": [BUSY, ("broken", False), ("rollback", False)], "f/undo@1": [BUSY]}
"""Code, and whether it may be tried again. Nothing was done."""
DOUBTS: Final = (("unknown_outcome", True), ("unknown_outcome", False))
"""It was done, but the answer says that the outcome is unknown."""


class Books:
    """The file, and all that was done."""

    def __init__(self, path: Path, seed: str) -> None:
        self.file = path.open("ab", buffering=0)
        self.seed = seed
        self.lock = threading.Lock()
        self.done: set[str] = set()
        self.asked: Counter[str] = Counter()

    def handle(self, key: str, request: dict[str, Any]) -> dict[str, Any]:
        """Do it, or not; return the answer once the books are on the disk."""
        with self.lock:
            self.asked[key] += 1
            chance = self.chance(key, self.asked[key])
        failure = None
        if chance < 16 and (request["effect"] == "f/do@1" or self.asked[key] == 1):
            failures = FAILURES[request["effect"]]
            failure = failures[chance % len(failures)]
        elif 16 <= chance < 22 and request["effect"] == "f/do@1":
            failure = DOUBTS[chance % 2]
        elif 22 <= chance < 30:
            time.sleep(STALL_S)
        with self.lock:
            outcome = DONE
            if key in self.done and failure not in DOUBTS:
                failure = None  # "nothing was done" would be a lie
            if failure is not None and failure not in DOUBTS:
                outcome = failure[0]
            elif key in self.done:
                outcome = AGAIN
            else:
                self.done.add(key)
            line = {**request, "key": key, "outcome": outcome}
            self.file.write(json.dumps(line).encode() + b"\n")
            os.fsync(self.file.fileno())
        if failure is None:
            return {"note": request["what"]}
        return {"code": failure[0], "retryable": failure[1]}

    def chance(self, key: str, times: int) -> int:
        return hashlib.sha256(f"{self.seed} {key} {times}".encode()).digest()[0] * 100 // 256


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    books: Books

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = self.books.handle(self.headers["idempotency-key"], json.loads(body))
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that was killed is no error."""


def main() -> None:
    Handler.books = Books(Path(sys.argv[1]), sys.argv[2])
    server = Server(("127.0.0.1", 0), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
