"""Servers on loopback that answer with all that they were sent, in every spelling and place.

The spellings are written here once more, on purpose: those of ``aos.worker.redaction`` are tested.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import quote, unquote

CUES: Final = 9
"""Characters at the beginning of a secret: not even so much of it may be anywhere."""


def spellings(text: str) -> set[str]:
    """A text as servers, proxies and logs echo it."""
    in_json = json.dumps(text)[1:-1]
    numbered = "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in text)
    # The moods write them into JSON, and some of that into JSON once more.
    found = {
        text, quote(text, safe=""), quote(text, safe="/"), lower_hex(text), html.escape(text),
        quote(quote(text, safe=""), safe=""), text.encode().hex(), in_json, numbered,
        in_json.replace("/", "\\/"),
    }  # fmt: skip
    for before in ("", "u", "us", "user:"):
        data = f"{before}{text}".encode()
        found |= {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}
    return found


def lower_hex(text: str) -> str:
    """Percent-encoded, with digits in lower case."""
    return re.sub("%..", lambda match: match[0].lower(), quote(text, safe=""))


def traces(text: str) -> set[bytes]:
    """Bytes that nothing may have in it: the beginning of a secret in the same spellings; of base64
    the digits that do not depend on what is around it."""
    begin = text[:CUES]
    found = {begin, quote(begin, safe=""), begin.encode().hex(), json.dumps(begin)[1:-1]}
    found |= {html.escape(begin), lower_hex(begin), begin.encode().hex().upper()}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + begin.encode()).decode()
        inner = encoded[-(-before * 8 // 6) : (before + CUES) * 8 // 6]
        found |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {each.encode() for each in found}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sends, after its status line."""

    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Mood = Callable[[str, bytes], "Answer | bytes"]
"""Words and the request's body -> an answer; bytes are sent in place of all of HTTP."""


def _completion(words: str, _: bytes) -> Answer:
    call = {"index": 0, "id": words, "function": {"name": words, "arguments": json.dumps([words])}}
    delta = {"content": words, "reasoning": words, "tool_calls": [call]}
    chunk = {
        "id": words, "model": words, "usage": {"prompt_tokens": 1, "words": words},
        "choices": [{"index": 0, "delta": delta, "finish_reason": words}],
    }  # fmt: skip
    data = json.dumps(chunk)
    body = f"data: {data}\n\ndata: [DONE]\n\n".encode()
    return Answer(200, "text/event-stream", body, {"x-ratelimit-words": words})


def _rpc(words: str, body: bytes) -> Answer:
    """A node that is on its chain, and answers all else with an error."""
    calls = json.loads(body or b"{}")
    text = words.encode()
    padded = text + bytes(-len(text) % 32)
    revert = "0x08c379a0" + (32).to_bytes(32).hex() + len(text).to_bytes(32).hex() + padded.hex()

    def one(call: dict[str, Any]) -> dict[str, Any]:
        given = {"jsonrpc": "2.0", "id": call.get("id")}
        if call.get("method") == "eth_chainId":
            return {**given, "result": "0x1"}
        data = revert if call.get("method") == "eth_call" else {"words": words}
        return {**given, "error": {"code": -32000, "message": words, "data": data}}

    found: Any = [one(each) for each in calls] if isinstance(calls, list) else one(calls)
    return Answer(200, "application/json", json.dumps(found).encode())


def _in_error(words: str) -> bytes:
    return json.dumps({"error": {"message": words, "code": words, "type": words}}).encode()


MOODS: Final[Mapping[str, Mood]] = {
    "refuses": lambda words, _: Answer(400, "application/json", _in_error(words)),
    "is busy": lambda words, _: Answer(
        429, "application/json", _in_error(words), {"Retry-After": "9999"}
    ),
    "is down": lambda words, _: Answer(
        503, "text/plain", words.encode(), {"Retry-After": "9999"}
    ),
    # An Arweave gateway that has no bundle yet, and refuses the one that is posted.
    "answers plainly": lambda words, body: Answer(
        400 if body else 404, "text/plain", words.encode()
    ),
    "answers a page": lambda words, _: Answer(
        200, "text/html", f"<html>{html.escape(words)}</html>".encode()
    ),
    "answers another form": lambda words, _: Answer(
        200, "application/json", json.dumps({"jsonrpc": "2.0", "id": words, "x": words}).encode()
    ),
    "answers text": lambda words, _: Answer(200, "application/json", json.dumps(words).encode()),
    "redirects": lambda words, _: Answer(302, words, b"", {"Location": words}),
    "is none of HTTP": lambda words, _: f"{words}\r\n\r\n".encode(),
    "has odd headers": lambda words, _: Answer(
        200, words, b"x", {"Content-Encoding": words, words[:60].replace(":", ""): words}
    ),
    "completes": _completion,
    "is a node": _rpc,
}  # fmt: skip


@dataclass
class HostileService:
    """A server of one mood."""

    port: int
    served: int = 0


@contextmanager
def hostile_services(moods: Iterable[str]) -> Iterator[dict[str, HostileService]]:
    """Run a server for each of these moods."""
    servers: list[ThreadingHTTPServer] = []
    found: dict[str, HostileService] = {}
    for name in moods:
        handler = _handler(MOODS[name], found, name)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        found[name] = HostileService(server.server_port)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _handler(
    mood: Mood, found: Mapping[str, HostileService], name: str
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            found[name].served += 1
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            heard = f"{self.path} {' '.join(map(str, self.headers.values()))}"
            said = " ".join(sorted({spelt for each in self.learnt() for spelt in spellings(each)}))
            answer = mood(f"{heard} {said} {heard}", body)
            self.close_connection = True
            if isinstance(answer, bytes):
                self.wfile.write(answer)
                return
            head = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body))}
            lines = [f"{key}: {value}" for key, value in {**head, **answer.headers}.items()]
            status = f"HTTP/1.1 {answer.status} {said[:200]}"
            data = "\r\n".join([status, "Connection: close", *lines, "", ""]).encode()
            self.wfile.write(data + answer.body)

        def do_GET(self) -> None:
            self.do_POST()

        def learnt(self) -> set[str]:
            """What the request tells a server that decodes all of it."""
            path, _, query = self.path.partition("?")
            sent = {*path.split("/"), query.partition("=")[2]}
            given = str(self.headers.get("authorization") or "")
            scheme, _, rest = given.partition(" ")
            pair = base64.b64decode(rest).decode() if scheme == "Basic" else ""
            sent |= {pair, *pair.split(":", 1), given, given if scheme != "Bearer" else rest}
            return {spelt for each in sent for spelt in (each, unquote(each)) if len(spelt) > CUES}

        def log_message(self, *_: object) -> None:
            pass

    return Handler
