"""An Arweave gateway for one machine: the endpoints of an upload, and a door for mischief.

    python manifests/gateway/arweave_stub.py --port 0 --state arweave.jsonl

It prints one line once it listens, on 127.0.0.1 alone: "arweave stub ready: http://127.0.0.1:PORT".
It checks what is posted as a node does (id, data root, signature, anchor, funds), mines by the
clock, and continues after `kill -9` from its state file.

    GET  /tx_anchor  /price/BYTES  /wallet/ADDRESS/balance  /info  /tx/ID/status  /tx/ID/data
    POST /tx

    POST /stub/mine     {"blocks": 2}
    POST /stub/forget   {"id": ID}     forget a transaction; without an id, every one that waits
    POST /stub/drop     {"id": ID}     answer its status with 410
    POST /stub/other    {"id": ID}     return other bytes as its data
    POST /stub/balance  {"address": ADDRESS, "winston": 0}
    POST /stub/next     {"kind": KIND, "request": "POST /tx", "times": 1, …}
         lose     do as asked, then close the connection without an answer
         delay    wait "ms" before the answer
         answer   answer with "status" and "body", and do nothing
         forget   answer 200 to a post, and keep nothing
    GET  /stub/state    height, number of posts, transactions
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

from arweave_ledger import CHECKS_SIGNATURES, Kept, Ledger, block_id, decoded, encoded, price

BODY_MAX: Final = 20 * 1024 * 1024
KINDS: Final = ("lose", "delay", "answer", "forget")


class Answer(NamedTuple):
    """Status and body: text as it is, anything else as JSON."""

    status: int
    body: Any


class Stub(ThreadingHTTPServer):
    """The server. One request at a time reads and changes the ledger."""

    daemon_threads = True

    def __init__(self, port: int, ledger: Ledger) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.ledger = ledger
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Stub
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        if size > BODY_MAX:
            self._send(Answer(413, "Payload too large"))
            self.close_connection = True
            return
        self._serve(self.rfile.read(size))

    def _serve(self, body: bytes) -> None:
        request = f"{self.command} {self.path}"
        is_control = self.path.startswith("/stub/")
        with self.server.lock:
            ledger = self.server.ledger
            ledger.mine_what_is_due()
            if is_control:
                answer, lost, delay = control(ledger, request, body), None, None
            else:
                canned = ledger.planned(request, ("answer",))
                lost = ledger.planned(request, ("lose",))
                delay = ledger.planned(request, ("delay",))
                answer = (
                    Answer(canned.status, canned.body) if canned else serve(ledger, request, body)
                )
        if delay is not None:
            time.sleep(delay.ms / 1000)
        if lost is None:
            self._send(answer)
        else:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, answer: Answer) -> None:
        is_text = isinstance(answer.body, str)
        data = (answer.body if is_text else json.dumps(answer.body)).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing: the ready line is the only one."""


def serve(ledger: Ledger, request: str, body: bytes) -> Answer:
    """Answer as a node."""
    match request.replace(" ", "/").strip("/").split("/"):
        case ["GET", "", "tx_anchor"]:
            return Answer(200, block_id(ledger.height))
        case ["GET", "", "price", size] if size.isdecimal():
            return Answer(200, str(price(int(size))))
        case ["GET", "", "wallet", address, "balance"]:
            return Answer(200, str(ledger.balance_of(address)))
        case ["GET", "", "info"]:
            current = block_id(ledger.height)
            return Answer(200, {"network": "stub.N.1", "height": ledger.height, "current": current})
        case ["GET", "", "tx", name, "status"]:
            return status(ledger, ledger.kept.get(name))
        case ["GET", "", "tx", name, "data"]:
            return data_of(ledger.kept.get(name))
        case ["POST", "", "tx"]:
            return post(ledger, body)
    return Answer(400, "Request type not found.")


def status(ledger: Ledger, kept: Kept | None) -> Answer:
    if kept is None:
        return Answer(404, "Not Found.")
    if kept.is_dropped:
        return Answer(410, "Gone.")
    if kept.height is None:
        return Answer(202, "Pending")
    return Answer(
        200,
        {
            "block_height": kept.height,
            "block_indep_hash": block_id(kept.height),
            "number_of_confirmations": ledger.height - kept.height + 1,
        },
    )


def data_of(kept: Kept | None) -> Answer:
    if kept is None:
        return Answer(404, "Not Found.")
    data = kept.document["data"]
    if not kept.has_other_bytes:
        return Answer(200, data)
    whole = bytearray(decoded(data))
    whole[-1] ^= 0xFF
    return Answer(200, encoded(bytes(whole)))


def post(ledger: Ledger, body: bytes) -> Answer:
    try:
        document = json.loads(body)
        name = document["id"]
    except (ValueError, KeyError, TypeError):
        return Answer(400, "Invalid JSON.")
    if name in ledger.kept:
        ledger.change({"do": "refuse"})
        return Answer(208, "Transaction already processed.")
    problem = ledger.problem(document)
    if problem is not None:
        ledger.change({"do": "refuse"})
        return Answer(400, problem)
    if ledger.planned("POST /tx", ("forget",)) is None:
        ledger.change({"do": "post", "document": document})
    else:
        ledger.change({"do": "refuse"})
    return Answer(200, "OK")


def control(ledger: Ledger, request: str, body: bytes) -> Answer:
    """Do what a test asks for (see the top of this file)."""
    try:
        asked = json.loads(body or b"{}")
        match request, asked:
            case "GET /stub/state", _:
                return Answer(200, state(ledger))
            case "POST /stub/mine", {"blocks": int(blocks)}:
                ledger.mine(blocks)
            case "POST /stub/forget", _:
                waiting = [name for name, each in ledger.kept.items() if each.height is None]
                ledger.change({"do": "forget", "ids": [asked["id"]] if "id" in asked else waiting})
            case "POST /stub/drop" | "POST /stub/other", {"id": str(name)} if name in ledger.kept:
                ledger.change({"do": request.rpartition("/")[2], "id": name})
            case "POST /stub/balance", {"address": str(address), "winston": int(winston)}:
                ledger.change({"do": "balance", "address": address, "winston": winston})
            case "POST /stub/next", {"kind": kind, "request": str()} if kind in KINDS:
                ledger.change({"do": "plan", "plan": {"times": 1, **asked}})
            case _:
                return Answer(
                    400, f"not understood: {request} {body[:200].decode('utf-8', 'replace')}"
                )
    except (ValueError, TypeError) as error:
        return Answer(400, f"not understood: {error}")
    return Answer(200, {})


def state(ledger: Ledger) -> dict[str, Any]:
    transactions = {
        name: {"height": each.height, "reward": each.reward, "dropped": each.is_dropped}
        for name, each in ledger.kept.items()
    }
    return {"height": ledger.height, "posts": ledger.posts, "transactions": transactions}


def main() -> None:
    parser = argparse.ArgumentParser(description="An Arweave gateway for one machine.")
    parser.add_argument("--port", type=int, default=1984, help="0 picks a free one (default 1984)")
    parser.add_argument("--state", type=Path, required=True, help="file that keeps the state")
    parser.add_argument(
        "--balance", type=int, default=10**15, help="winston of every wallet (default 10^15)"
    )
    parser.add_argument(
        "--block-ms",
        type=int,
        default=1000,
        help="time between blocks, in milliseconds (default 1000); 0: only by POST /stub/mine",
    )
    parser.add_argument(
        "--anchors", type=int, default=50, help="age of the oldest valid anchor, in blocks"
    )
    given = parser.parse_args()
    ledger = Ledger(
        path=given.state, balance=given.balance, block_ms=given.block_ms, anchors=given.anchors
    )
    with Stub(given.port, ledger) as stub:
        checks = "" if CHECKS_SIGNATURES else " (without pycryptodome: signatures are not checked)"
        sys.stdout.write(f"arweave stub ready: http://127.0.0.1:{stub.server_port}{checks}\n")
        sys.stdout.flush()
        stub.serve_forever()


if __name__ == "__main__":
    main()
