#!/usr/bin/env python3
"""A proxy in front of an EVM node that behaves as the worst of public nodes, in a repeatable way.

    python manifests/gateway/mischief.py --to http://127.0.0.1:8545 --port 0 --seed 7 \\
        --lose 0.05 --delay 0.1:300 --stale 0.2:2 --drop 0.1

It prints one line once it listens, on 127.0.0.1 alone: "mischief ready: http://127.0.0.1:PORT".
The seed, the content of a request and how often it was sent decide what happens to it
(mischief_rates.py has the kinds). The requests of a batch (a list) reach the node one after the
other, each with its own fate. If a reply to one of them is refused, lost or cut, so is the reply to
the batch.

    GET  /mischief                         rates, counters, barriers
    POST /mischief {"lose": 0.1, …}        change rates
    POST /mischief {"outage": true}        close every connection without an answer, until false
    POST /mischief {"hold": METHOD, "at": PLACE}      a barrier (mischief_barriers.py); its name
    POST /mischief {"release": NAME, "lose": false}   let its request continue
    GET  /mischief/NAME?seconds=10         wait until a request has reached this barrier

In a test, ``Mischief`` is the same without a process of its own.
"""

# ruff: noqa: T201  # a script that prints

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from mischief_barriers import Barrier, Barriers, Place
from mischief_rates import Rates, drawn
from mischief_stale import stale_reply

__all__ = ["Barrier", "Mischief", "Place", "Rates"]

CONTROL: Final = "/mischief"
BODY_MAX: Final = 20 * 1024 * 1024
NODE_TIMEOUT_S: Final = 60.0
SEND: Final = "eth_sendRawTransaction"
PAGE: Final = b"<!DOCTYPE html><html><body><h1>Just a moment...</h1></body></html>\n"

Reply = tuple[int, str, bytes]
"""Status, content type, body."""


class Mischief:
    """A running proxy. As a context manager, it is closed at the end of the block."""

    def __init__(
        self, to: str, *, seed: int = 0, rates: Rates | None = None, port: int = 0
    ) -> None:
        self.to = urlsplit(to)
        self.seed = seed
        self.rates = rates or Rates()
        self.outage = False
        self.barriers = Barriers()
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._server = _Server(port, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def change(self, **changes: Any) -> None:
        """Change some rates. Raises: ValueError: as ``Rates.changed``."""
        self.rates = self.rates.changed(changes)

    def hold(self, method: str, place: Place) -> Barrier:
        """Stop the next request of a method at a place."""
        return self.barriers.add(method, place)

    def counts(self) -> dict[str, int]:
        """How many requests came, by method, and how often each kind of mischief happened."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def close(self) -> None:
        """Stop listening, and lose what is held."""
        self.barriers.release_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def count(self, *names: str) -> None:
        with self._lock:
            self._counts.update(names)

    def fate(self, request: dict[str, Any]) -> frozenset[str]:
        """Decide what happens to a request, and count that it came."""
        content = json.dumps([request.get("method"), request.get("params")])
        with self._lock:
            self._seen[content] += 1
            number = self._seen[content]
            self._counts[str(request.get("method"))] += 1
        return drawn(self.rates, self.seed, content, number)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, mischief: Mischief) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.mischief = mischief

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Lost(Exception):
    """The client gets no reply; its connection is closed."""


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, with one connection to the node."""

    protocol_version = "HTTP/1.1"
    server: _Server
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._node: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        if self._node is not None:
            self._node.close()
        super().finish()

    def do_GET(self) -> None:
        if self.path.startswith(CONTROL):
            self._reply(_control(self.server.mischief, self.path, None))
        else:
            self._reply(_json(405, {"error": "expected a POST of JSON-RPC"}))

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        if size > BODY_MAX:
            self.close_connection = True
            self._reply(_json(413, {"error": "too large"}))
            return
        body = self.rfile.read(size)
        if self.path.startswith(CONTROL):
            self._reply(_control(self.server.mischief, self.path, body))
            return
        try:
            self._serve(body)
        except _Lost:
            self.close_connection = True

    def _serve(self, body: bytes) -> None:
        mischief = self.server.mischief
        if mischief.outage:
            mischief.count("outage")
            raise _Lost
        found = _json_of(body)
        if not isinstance(found, list):
            calls = [self._call(found, body)]
            reply = self._answered(calls[0])
        else:
            calls = [self._call(each, json.dumps(each).encode()) for each in found]
            reply = _batch([self._answered(each) for each in calls])
        self._reply(self._spoiled(reply, calls))
        for call in calls:
            _stop(call.barrier, Place.AFTER_REPLY)

    def _call(self, found: Any, body: bytes) -> _Call:
        mischief = self.server.mischief
        request = found if isinstance(found, dict) else {}
        fate = mischief.fate(request)
        return _Call(request, body, fate, mischief.barriers.taken(str(request.get("method"))))

    def _answered(self, call: _Call) -> Reply:
        _stop(call.barrier, Place.BEFORE_FORWARD)
        reply = self._refusal(call.fate) or self._forwarded(call)
        _stop(call.barrier, Place.AFTER_FORWARD)
        return reply

    def _refusal(self, fate: frozenset[str]) -> Reply | None:
        for kind, reply in _REFUSALS.items():
            if kind in fate:
                self.server.mischief.count(kind)
                return reply
        return None

    def _forwarded(self, call: _Call) -> Reply:
        body = call.body
        if "stale" in call.fate:
            blocks = self.server.mischief.rates.stale_blocks
            answer = stale_reply(call.request, self._ask, blocks)
            if answer is not None:
                self.server.mischief.count("stale")
                if "method" not in answer:
                    return _json(200, answer)
                body = json.dumps(answer).encode()
        reply = self._post(body)
        if "drop" in call.fate and call.request.get("method") == SEND:
            self._drop(_parsed(reply[2]).get("result"))
        return reply

    def _drop(self, sent: Any) -> None:
        """Remove an accepted transaction from the pool. One that is mined already stays."""
        if isinstance(sent, str) and self._ask("anvil_dropTransaction", [sent]):
            self.server.mischief.count("drop")

    def _spoiled(self, reply: Reply, calls: Sequence[_Call]) -> Reply:
        """The reply to a request or a batch, after the mischief of its calls."""
        mischief = self.server.mischief
        found = Counter(kind for call in calls for kind in call.fate & _ON_THE_WAY_BACK)
        mischief.count(*found.elements())
        time.sleep(found["delay"] * mischief.rates.delay_ms / 1000)
        status, kind, body = reply
        if "lose" in found:
            raise _Lost
        if "cut" in found:
            return status, kind, body[: len(body) // 2]
        return _REFUSALS["fail"] if "fail_after" in found else reply

    def _ask(self, method: str, parameters: list[Any]) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        return _parsed(self._post(json.dumps(request).encode())[2]).get("result")

    def _post(self, body: bytes) -> Reply:
        """Forward to the node.

        Never twice: after a connection that broke, the node may have the request.
        """
        mischief = self.server.mischief
        if self._node is None:
            self._node = http.client.HTTPConnection(mischief.to.netloc, timeout=NODE_TIMEOUT_S)
        path = mischief.to.path or "/"
        try:
            self._node.request("POST", path, body, {"Content-Type": "application/json"})
            answer = self._node.getresponse()
            kind = answer.headers.get("Content-Type", "application/json")
            return answer.status, kind, answer.read()
        except (OSError, http.client.HTTPException):
            self._node.close()
            self._node = None
            mischief.count("unreachable")
            raise _Lost from None

    def _reply(self, reply: Reply) -> None:
        status, kind, body = reply
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Print nothing: the ready line is the only one."""


def _json(status: int, value: Any) -> Reply:
    return status, "application/json", json.dumps(value).encode()


_REFUSALS: Final = {
    "limit": _json(429, {"error": "too many requests"}),
    "fail": _json(500, {"error": "internal server error"}),
    "html": (200, "text/html; charset=utf-8", PAGE),
}


_ON_THE_WAY_BACK: Final = frozenset({"delay", "lose", "cut", "fail_after"})


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, alone or of a batch, and what happens to it."""

    request: dict[str, Any]
    body: bytes
    fate: frozenset[str]
    barrier: Barrier | None


def _batch(replies: Sequence[Reply]) -> Reply:
    """The reply to a batch: the first that is no answer of JSON-RPC, else the list of all."""
    for reply in replies:
        if not _parsed(reply[2]).get("jsonrpc"):
            return reply
    return 200, "application/json", b"[" + b",".join(body for _, _, body in replies) + b"]"


def _json_of(body: bytes) -> Any:
    """The value in a body; None if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def _parsed(body: bytes) -> dict[str, Any]:
    """The object in a body; of anything else an empty one."""
    found = _json_of(body)
    return found if isinstance(found, dict) else {}


def _stop(barrier: Barrier | None, place: Place) -> None:
    if barrier is not None and barrier.place is place and not barrier.hold():
        raise _Lost


def _control(mischief: Mischief, path: str, body: bytes | None) -> Reply:
    """Answer a request to /mischief (see the top of this file)."""
    address = urlsplit(path)
    name = address.path.removeprefix(CONTROL).strip("/")
    try:
        if name:
            seconds = float(parse_qs(address.query).get("seconds", ["10"])[0])
            return _json(200, {"reached": mischief.barriers.get(name).wait(seconds)})
        if body is not None:
            return _json(200, _changed(mischief, json.loads(body)))
    except (ValueError, TypeError, AttributeError) as problem:
        return _json(400, {"error": str(problem)})
    return _json(
        200,
        {
            "counts": mischief.counts(),
            "outage": mischief.outage,
            "rates": {name: getattr(mischief.rates, name) for name in Rates.__slots__},
            "reached": mischief.barriers.names(reached=True),
            "seed": mischief.seed,
            "waiting": mischief.barriers.names(reached=False),
        },
    )


def _changed(mischief: Mischief, asked: dict[str, Any]) -> dict[str, Any]:
    match asked:
        case {"hold": str(method), "at": str(place)}:
            return {"barrier": mischief.hold(method, Place(place)).name}
        case {"release": str(name)}:
            mischief.barriers.get(name).release(lose=asked.get("lose") is True)
        case {"outage": bool(outage)}:
            mischief.outage = outage
        case _:
            mischief.change(**asked)
    return {}


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    changes: dict[str, Any] = {}
    try:
        for kind in ("limit", "fail", "html", "drop", "fail_after", "cut", "lose"):
            changes[kind] = float(getattr(given, kind))
        for kind, amount in (("delay", "delay_ms"), ("stale", "stale_blocks")):
            share, _, size = getattr(given, kind).partition(":")
            changes |= {kind: float(share)} | ({amount: int(size)} if size else {})
        rates = Rates().changed(changes)
    except ValueError as problem:
        print(f"mischief.py: {problem}", file=sys.stderr)
        return 2
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Mischief(given.to, seed=given.seed, rates=rates, port=given.port) as mischief:
        print(f"mischief ready: {mischief.url}", flush=True)
        ended.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--to", required=True, metavar="URL", help="the node")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--seed", type=int, default=0, help="decides what goes wrong (default 0)")
    for kind, text in (
        ("limit", "429, not forwarded"),
        ("fail", "500, not forwarded"),
        ("html", "a page of HTML, not forwarded"),
        ("drop", "transaction accepted, and dropped from the pool"),
        ("fail-after", "forwarded, and 500"),
        ("cut", "forwarded, and half of the reply"),
        ("lose", "forwarded, and no reply"),
    ):
        parser.add_argument(f"--{kind}", default="0", metavar="P", help=f"{text}; share, 0 to 1")
    parser.add_argument("--delay", default="0", metavar="P:MS", help="reply later, by so many ms")
    parser.add_argument(
        "--stale", default="0", metavar="P:BLOCKS", help="answer reads as so many blocks ago"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
