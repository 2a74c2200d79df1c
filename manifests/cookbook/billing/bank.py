"""A bank for the example: it charges cards by HTTP, once for each idempotency key.

    python manifests/cookbook/billing/bank.py --port 17471

`POST /charges` answers 201 with `{"charge": {"id": ...}}`, or 402 for the card `broke`. For the
card `slow`, the bank books the first charge and closes the connection without an answer. A key
that it knows gets the same answer again, as with real banks.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any]]


class Bank(BaseHTTPRequestHandler):
    answers: dict[str, Answer] = {}  # noqa: RUF012  # of the one bank of this process, by key

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.headers["idempotency-key"]
        is_new = key not in self.answers
        if is_new:
            self.answers[key] = self.charge(body)
        if is_new and body["card"] == "slow":
            self.close_connection = True
            return
        self.answer(*self.answers[key])

    def charge(self, body: dict[str, Any]) -> Answer:
        if body["card"] == "broke":
            return 402, {"error": "insufficient_funds"}
        return 201, {"charge": {"id": f"ch-{len(self.answers) + 1}", **body["amount"]}}

    def answer(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing: the journal has every request."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A bank on 127.0.0.1 that charges cards.")
    parser.add_argument("--port", type=int, required=True)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Bank).serve_forever()
