"""A node on loopback: JSON-RPC over HTTP, over a chain in memory, with mischief on request.

with FakeNode() as node:
    node.chain.set_balance(SIGNER, 10**18)
    node.fail("lost", method="eth_sendRawTransaction")
    … AOS_EVM_RPC=f"31337={node.url}" …
    node.mine()

``fail`` names an answer that the next requests get; ``node.rpc`` has the settings of the node. A
batch (a list of requests) is one of ``posts``, and each of its calls is one of ``requests``, with
its own faults; a fault that is no answer of JSON-RPC replaces the answer to the whole batch.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from tests.gateway.evm.fake_answers import RpcFailure
from tests.gateway.evm.fake_chain import FakeChain
from tests.gateway.evm.fake_rpc import FakeRpc

CHAIN_ID: Final = 31337
HTML: Final = b"<!DOCTYPE html><html><body>Bad gateway</body></html>"
CUT: Final = b"\n\n"
"""The end of a response that is cut; no other ends so."""

KINDS: Final = frozenset(
    {
        "body",  # these bytes, with 200
        "status",  # this status, with a page of HTML
        "cut",  # the first half of the JSON, and a header that promises all of it
        "result",  # this result
        "error",  # this error
        "id",  # the answer of another request
        "version",  # not JSON-RPC 2.0
        "large",  # a valid answer of this many bytes
        "gzip",  # compressed
        "lost",  # does the work, closes the connection
        "closed",  # closes the connection before any work
        "held",  # answers once ``release`` is called
    }
)  # fmt: skip


@dataclass
class Fault:
    """Mischief for the next ``times`` requests of ``method`` (``*``: of any)."""

    kind: str
    method: str
    times: int
    value: Any


class _Closed(Exception):
    """The connection ends without an answer."""


class FakeNode:
    """The node. A thread serves it; ``with`` starts and stops it."""

    def __init__(
        self, chain: FakeChain | None = None, *, style: str = "anvil", chain_id: int = CHAIN_ID
    ) -> None:
        self.chain = chain or FakeChain(chain_id=chain_id)
        self.rpc = FakeRpc(self.chain, style=style)
        self.lock = threading.RLock()
        """Held while a request is answered. Hold it for several changes that belong together."""
        self.requests: list[tuple[str, list[Any]]] = []
        self.posts: list[list[str]] = []
        """The methods of each request of HTTP: several of a batch."""
        self.answer_batch: Callable[[list[Any]], bytes] | None = None
        """The answers of a batch -> the response, if not the list of them."""
        self.connections = 0
        self.keeps_connections = True
        self.faults: list[Fault] = []
        self._released = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="fake node", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._is_up = threading.Event()
        self.port = 0

    # --- for tests

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail(self, kind: str, *, method: str = "*", times: int = 1, value: Any = None) -> None:
        """Answer the next ``times`` requests of ``method`` in this way. See ``KINDS``."""
        assert kind in KINDS, kind
        self.faults.append(Fault(kind, method, times, value))

    def release(self) -> None:
        """Answer the requests that are held, and those that are held later."""
        self._released.set()

    def count(self, method: str) -> int:
        return sum(name == method for name, _ in self.requests)

    def mine(self, blocks: int = 1) -> None:
        with self.lock:
            self.chain.mine(blocks)

    def ask(self, method: str, *params: Any) -> Any:
        """The result of a method, as a client of the node gets it."""
        with self.lock:
            return self.rpc.answer(method, list(params))

    # --- life

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *_ended: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop listening and close every connection. It cannot be started again."""
        if self._loop is None:
            return
        self._released.set()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = None

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run_until_complete(self._listen())
        self._is_up.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        here = asyncio.current_task()
        tasks = [each for each in asyncio.all_tasks() if each is not here]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- HTTP

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            with suppress(_Closed, ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        response = await self._response(await reader.readexactly(length))
        writer.write(response)
        await writer.drain()
        return self.keeps_connections and not response.endswith(CUT)

    async def _response(self, body: bytes) -> bytes:
        document = json.loads(body)
        calls = document if isinstance(document, list) else [document]
        self.posts.append([each["method"] for each in calls])
        answers = [await self._answered(each) for each in calls]
        for answer in answers:
            if isinstance(answer, bytes):
                return answer
        if not isinstance(document, list):
            return self._http(json.dumps(answers[0]).encode())
        if self.answer_batch is not None:
            return self.answer_batch(answers)
        return self._http(json.dumps(answers).encode())

    async def _answered(self, document: dict[str, Any]) -> dict[str, Any] | bytes:
        """The answer to one call, or the response that a fault makes of it."""
        self.requests.append((document["method"], document["params"]))
        fault = self._fault(document["method"])
        return self._answer(document) if fault is None else await self._mischief(fault, document)

    def _http(self, body: bytes) -> bytes:
        return _http(200, body, b"" if self.keeps_connections else b"Connection: close\r\n")

    def _answer(self, document: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": document["id"]}
        try:
            with self.lock:
                return answer | {"result": self.rpc.answer(document["method"], document["params"])}
        except RpcFailure as failure:
            return answer | {"error": failure.document}

    # --- mischief

    def _fault(self, method: str) -> Fault | None:
        for fault in self.faults:
            if fault.method in ("*", method) and fault.times:
                fault.times -= 1
                return fault
        return None

    async def _mischief(self, fault: Fault, document: dict[str, Any]) -> dict[str, Any] | bytes:
        plain = {"jsonrpc": "2.0", "id": document["id"]}
        match fault.kind:
            case "body":
                return _http(200, fault.value)
            case "status":
                return http_html(fault.value)
            case "result":
                return plain | {"result": fault.value}
            case "error":
                return plain | {"error": fault.value}
            case "id":
                return self._answer(document) | {"id": document["id"] + 1_000}
            case "version":
                return self._answer(document) | {"jsonrpc": "1.0"}
            case "large":
                return plain | {"result": "0x" + fault.value * "0"}
            case "gzip":
                return _http(200, b"\x1f\x8b", b"Content-Encoding: gzip\r\n")
            case "cut":
                return cut(http_json(self._answer(document)))
            case "lost":
                self._answer(document)
                raise _Closed
            case "held":
                await asyncio.to_thread(self._released.wait)
                return self._answer(document)
            case _:
                raise _Closed


def http_json(value: Any, status: int = 200) -> bytes:
    """A response with this JSON."""
    return _http(status, json.dumps(value).encode())


def http_html(status: int = 200) -> bytes:
    """A response with a page of HTML."""
    return _http(status, HTML)


def cut(response: bytes) -> bytes:
    """The response without its last bytes, and then the end of the connection."""
    return response[:-5] + CUT


def _http(status: int, body: bytes, more: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n"
    return head % (status, len(body), more) + body


@contextmanager
def stale(node: FakeNode, chosen: Callable[[str], bool], *, blocks: int) -> Iterator[None]:
    """Answer the methods that ``chosen`` selects as a node that is ``blocks`` behind would."""
    before = node.rpc.choose_head

    def choose(method: str) -> Any:
        head = node.chain.head
        behind = head.at(max(0, head.number - blocks)) if chosen(method) else None
        return behind or head

    node.rpc.choose_head = choose
    try:
        yield
    finally:
        node.rpc.choose_head = before
