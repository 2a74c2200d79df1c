"""A server on loopback that answers each request with the bytes of a script."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Script = Sequence[bytes | float]
"""Bytes to send, and pauses in seconds. The connection is closed at the end."""


@dataclass
class Sent:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class StubModel:
    """``answers`` are used one after the other; the last one stays."""

    port: int
    answers: list[Script] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client has left before the end of its answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(ValueError):
            file = connection.makefile("rb")
            request_line = file.readline()
            if not request_line:
                return  # the client was killed before it asked
            path = request_line.split()[1].decode()
            headers = {}
            while (line := file.readline().strip()) != b"":
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = json.loads(file.read(int(headers["content-length"])))
            self.sent.append(Sent(path, headers, body))
            script = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            try:
                for part in script:
                    if not isinstance(part, float):
                        connection.sendall(part)
                    elif select.select([connection], [], [], part)[0]:
                        raise ConnectionAbortedError  # there is nothing to read but its end
            except OSError:
                self.gone.set()


@contextmanager
def stub_model(*answers: Script) -> Iterator[StubModel]:
    """Run a server in threads of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stub = StubModel(listener.getsockname()[1], list(answers))
        threads = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=stub.serve, args=(connection,)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield stub
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(10)
            for thread in threads:
                thread.join(10)


def head(status: int = 200, kind: str = "text/event-stream", /, **headers: str) -> bytes:
    """The head of a response whose body ends with the connection."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n"
    ).encode()


def event(document: Any) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of a streamed completion."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return event({"id": "resp-1", "model": "m-2026", "choices": choices, **more})


USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
DONE = b"data: [DONE]\n\n"


def streamed(*texts: str, finish: str = "stop", **headers: str) -> Script:
    """A complete answer with these texts."""
    return [
        head(200, **headers),
        *(chunk({"content": text}) for text in texts),
        chunk({}, finish),
        chunk(usage=USAGE),
        DONE,
    ]


def problem(status: int, body: Any, kind: str = "application/json", **headers: str) -> Script:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [head(status, kind, **headers), data]
