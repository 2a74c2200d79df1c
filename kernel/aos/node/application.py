"""The ASGI application of a front: from a request to the handler of its route, and to its line in
the access log (spec/node-api.md, N-103, N-137).

    route -> origin -> token -> scope -> query -> body -> handler -> answer

Rule 1: a request is refused at the first check that it fails. Nothing of a body is read before the
token and the query are valid.

Rule 2: every answer that is not a success is a problem document.

The files of the header log, ``GET /log/…``, are for witnesses and monitors (N-119c, PF-20). They
hold headers of frames and signed notes, and no record: everyone may read them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from aos.errors import AosError, excerpt
from aos.node import bodies, json_schema
from aos.node.access import CALLER, Door, caller_of, check_origin, check_scope, headers_of
from aos.node.bodies import ClientGoneError
from aos.node.calls import PREFIX_KEY, ApiCall, ApiReply, ApiStream, connection_of
from aos.node.events import DURABLE
from aos.node.handlers import HANDLERS
from aos.node.passing_on import OF_OWNER, passed_on
from aos.node.problems import ADMITTED, NOT_ADMITTED, Problem, problem_of
from aos.node.queries import read_query
from aos.node.routes import BY_PATH, GET, POST, ApiRoute
from aos.node.services import Services
from aos.node.sessions import POLL, READING, STREAM, WAIT, raced
from aos.node.tokens import READ, Token
from aos.prove.headerlog.stored_log import CHECKPOINT, TIMESTAMP, StoredLog
from aos.values.spelling import time_text

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEAD: Final = "HEAD"

AS_OF: Final = "aos-as-of"
"""The header of an answer to a read with the last record that it knows (CL-202)."""

FRESH_S: Final = 30.0
"""Seconds for which a read with ``fresh`` waits for the records of the log."""
_READING_ERRORS: Final = 404

_PATH_CHARACTERS_MAX: Final = 200

_ONCE: Final = frozenset(
    {b"host", b"authorization", b"content-type", b"idempotency-key", b"last-event-id", b"origin"}
)

_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"),)
_ANYONE: Final = Token(name="anyone", scopes=())

LOG_PREFIX: Final = "/log/"
_TILE: Final = re.compile(
    r"tile/(?:entries|[0-7])/(?:x[0-9]{3}/){0,6}[0-9]{3}(?:\.p/(?:[1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4]"
    r"[0-9]|25[0-5]))?"
)
_TYPES: Final = {CHECKPOINT: "text/plain; charset=utf-8", TIMESTAMP: "application/timestamp-reply"}
_BYTES: Final = "application/octet-stream"
_CHANGES: Final = "no-cache"
_NEVER_CHANGES: Final = "max-age=31536000, immutable"


def serves_path(path: str) -> bool:
    """Return whether the API answers a path, if only with a refusal; all others may be pages."""
    return path in BY_PATH or path.startswith(("/v1/", LOG_PREFIX))


class App:
    """The application. ``state`` is shared by all requests."""

    def __init__(self, services: Services, log: AccessLog) -> None:
        self.state = services
        self.requests = 0
        """Requests in progress."""
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = _Exchange(self.state, scope, receive, send)
        began = time.perf_counter()
        self.requests += 1
        try:
            await exchange.answer()
        finally:
            self.requests -= 1
            seconds = time.perf_counter() - began
            operation = "unknown" if exchange.route is None else exchange.route.operation
            self.state.counters.answered(operation, exchange.status, seconds)
            self.log.write(
                method=scope["method"],
                path=scope.get(PREFIX_KEY, "") + scope["path"],
                status=exchange.status,
                seconds=seconds,
                received=exchange.received,
                sent=exchange.sent,
                token=None if exchange.caller is None else exchange.caller.name,
                peer=(scope.get("client") or ("", 0))[0],
            )


class AccessLog:
    """The access log: one JSON line for each request, without bodies, queries and tokens (N-138).

    It writes to a stream. A stream that can no longer be written ends the log, not the node.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(
        self,
        *,
        method: str,
        path: str,
        status: int,
        seconds: float,
        received: int,
        sent: int,
        token: str | None,
        peer: str,
    ) -> None:
        """Write one line. ``received`` and ``sent`` are bytes of bodies."""
        if self._stream is None:
            return
        line = {
            "time": time_text(time.time_ns()),
            "method": method,
            "path": excerpt(path, characters_max=_PATH_CHARACTERS_MAX),
            "status": status,
            "ms": round(seconds * 1000, 3),
            "received": received,
            "sent": sent,
            "token": token,
            "peer": peer,
        }
        try:
            # ASCII: a path may contain control characters and lone surrogates.
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None


class _Exchange:
    """One request and its answer. ``status`` is 499 where the client went away before it."""

    def __init__(self, services: Services, scope: Scope, receive: Receive, send: Send) -> None:
        self._services = services
        self._scope = scope
        self._prefix: str = scope.get(PREFIX_KEY, "")
        self._receive = receive
        self._send = send
        self._headers: dict[bytes, bytes] = {}
        self.route: ApiRoute | None = None
        self.caller: Token | None = None
        self.status = 499
        self.received = 0
        self.sent = 0
        self._is_body_read = True
        self._call: ApiCall | None = None

    async def answer(self) -> None:
        try:
            with self._services.bodies.share() as take:
                answer = await self._answer(take)
                if isinstance(answer, ApiReply):
                    await self._write(answer)
                    return
            assert self.caller is not None
            await self._stream(answer)
        except ClientGoneError:
            return
        except Problem as problem:
            await self._write_problem(self._with_admission(problem))
        except AosError as error:
            unknown = _READING_ERRORS if self.route and self.route.method == GET else 400
            world = self._services.folder.path
            answer_problem = problem_of(error, world, unknown=unknown)
            await self._write_problem(self._with_admission(answer_problem))
        except Exception as error:  # noqa: BLE001  # our own bug must not end the front
            traceback.print_exception(error, file=sys.stderr)
            await self._write_problem(
                Problem(500, "node_has_a_bug", f"a bug of the node: {type(error).__name__}")
            )

    def _with_admission(self, problem: Problem) -> Problem:
        """Say in a problem whether the inputs of a writing request were admitted (CL-206)."""
        if self.route is None or self.route.method == GET:
            problem.admitted = None
        elif self._call is not None and self._call.admitted_seq is not None:
            problem.admitted = ADMITTED if problem.status == 503 else None
        return problem

    async def _answer(self, take: Callable[[int], None]) -> ApiReply | ApiStream:
        self._headers = headers_of(self._scope["headers"], _ONCE)
        if self._scope["path"].startswith(LOG_PREFIX):
            return await self._log_file()
        self.route = route = self._routed()
        # An early refusal leaves the body unread: the connection ends with the answer.
        self._is_body_read = route.method == GET
        door = Door(*self._scope["server"])
        check_origin(door, self._headers, self._scope["scheme"])
        if route.scope is not None:
            token = caller_of(door, self._headers, self._services.tokens, now_ns=time.time_ns())
            self.caller = check_scope(token, route)
            self._services.rates.check(self.caller)
            self._services.rates.use(self.caller)
        query = read_query(route, self._scope["query_string"])
        call = ApiCall(
            route=route,
            caller=self.caller or _ANYONE,
            query=query,
            raw_query=self._scope["query_string"],
            headers=self._headers,
            prefix=self._prefix,
            is_passed_on=door.is_own_socket and CALLER in self._headers,
            connection=connection_of(self._scope),
        )
        if route.method == POST:
            await self._read_body(call, take)
        return await self._handled(call)

    async def _log_file(self) -> ApiReply:
        """A file of the header log, which everyone may read (N-119c)."""
        method = self._scope["method"]
        if method not in (GET, HEAD):
            self._is_body_read = False
            raise Problem(
                405, "method_is_not_allowed",
                f"{self._prefix}{LOG_PREFIX}: expected GET, found {method[:20]}",
                headers={"allow": GET},
            )  # fmt: skip
        check_origin(Door(*self._scope["server"]), self._headers, self._scope["scheme"])
        return await asyncio.to_thread(log_file, self._services.folder.path, self._scope["path"])

    def _routed(self) -> ApiRoute:
        path, method = self._scope["path"], self._scope["method"]
        methods = BY_PATH.get(path)
        if methods is None:
            raise Problem(
                404, "path_is_unknown",
                f"nothing is at {self._prefix}{path[:100]} (GET {self._prefix}/v1/openapi.json "
                "lists every path)",
            )  # fmt: skip
        route = methods.get(GET if method == HEAD else method)
        if route is None or (method == HEAD and route.media is not None):
            allowed = ", ".join(methods)
            raise Problem(
                405, "method_is_not_allowed",
                f"{self._prefix}{path}: expected {allowed}, found {method[:20]}",
                headers={"allow": allowed},
            )  # fmt: skip
        return route

    async def _read_body(self, call: ApiCall, take: Callable[[int], None]) -> None:
        route = call.route
        encoding = self._headers.get(b"content-encoding", b"identity").lower()
        if encoding != b"identity":
            raise Problem(
                415, "encoding_is_unknown",
                f"content-encoding: expected none, found {encoding[:40]!r}",
            )  # fmt: skip
        allowed = (bodies.JSON, bodies.CBOR)
        if route.bytes_type is not None:
            allowed = (route.bytes_type, bodies.BYTES)
        content_type = self._headers.get(b"content-type")
        has_body = route.body is not None or route.bytes_type is not None
        kind = bodies.media_type(
            None if content_type is None or not has_body else content_type.decode("latin-1"),
            allowed,
        )
        declared = self._headers.get(b"content-length")
        data = await bodies.receive_body(
            self._receive,
            bytes_max=bodies.BATCH_BYTES_MAX if route.is_batch else bodies.MIB,
            declared=int(declared) if declared is not None and declared.isdigit() else None,
            take=take,
        )
        self._is_body_read = True
        self.received, call.data = len(data), data
        if route.bytes_type is not None:
            call.body = data
        elif route.body is not None:
            call.is_cbor = kind == bodies.CBOR
            value = await bodies.parse_aside(kind, data)
            call.body = json_schema.read(route.body, value)
        elif data:
            raise Problem(400, "body_is_invalid", f"{self._prefix}{route.path}: expected no body")

    async def _handled(self, call: ApiCall) -> ApiReply | ApiStream:
        kind = _wait_kind(call)
        if kind is None:
            return await self._answered(call)
        with self._services.sessions.hold(call.caller, kind) as session:
            answer = await raced(session, self._answered(call), self._receive)
        assert isinstance(answer, ApiReply | ApiStream)
        return answer

    async def _answered(self, call: ApiCall) -> ApiReply | ApiStream:
        """The answer of a handler; on a standby, that of the owner's front to requests about what
        the owner alone has (CL-210)."""
        services, route = self._services, call.route
        self._call = call
        if services.follows and route.operation in OF_OWNER:
            if call.is_passed_on:
                raise Problem(
                    503, "node_is_no_owner", "this node does not own the world any more",
                    retry_after_s=1, admitted=NOT_ADMITTED,
                )  # fmt: skip
            return await passed_on(services, call)
        if call.query.get("fresh", False):
            await self._freshen(call)
        answer = await HANDLERS[route.operation](services, call)
        if route.scope == READ and isinstance(answer, ApiReply):
            answer.headers = {**answer.headers, AS_OF: str(services.follower.seq)}
        if services.follows and call.admitted_seq is not None:
            await services.has_record(call.admitted_seq)
        return answer

    async def _freshen(self, call: ApiCall) -> None:
        """Wait until this node has everything that was acknowledged before the request (CL-203).

        Raises:
            Problem: It has not within ``FRESH_S`` (503).
            Unavailable: The owner does not answer.
        """
        call.query = {name: value for name, value in call.query.items() if name != "fresh"}
        seq = await self._services.link.fresh()
        if not await self._services.has_record(seq, FRESH_S):
            raise Problem(
                503, "node_is_behind",
                f"this node has not taken record {seq} from the log within {FRESH_S:g} s: its last "
                f"one is {self._services.follower.seq} (ask another node, or without fresh)",
                retry_after_s=1,
            )  # fmt: skip

    async def _stream(self, stream: ApiStream) -> None:
        assert self.caller is not None
        with self._services.sessions.hold(self.caller, STREAM) as session:
            await self._start(200, stream.media, {"cache-control": "no-store"}, None)
            try:
                await raced(session, self._pump(stream), self._receive)
            except (Problem, AosError):
                # The answer has begun: the end of the connection is all that is left to say.
                pass
            except ClientGoneError:
                return
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, stream: ApiStream) -> None:
        async for part in stream.parts:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
            self.sent += len(part)

    async def _write(self, reply: ApiReply) -> None:
        if reply.data is not None:
            data, media = reply.data, reply.media
        elif bodies.accepts_cbor(self._accept()):
            document = reply.document if reply.json is None else json.loads(reply.json)
            data, media = bodies.write_cbor(document), bodies.CBOR
        else:
            data, media = reply.json or bodies.write_json(reply.document), bodies.JSON
        await self._start(reply.status, media, reply.headers, len(data))
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
        self.sent = len(data)

    async def _write_problem(self, problem: Problem) -> None:
        headers = dict(problem.headers)
        if problem.retry_after_s is not None:
            headers["retry-after"] = str(problem.retry_after_s)
        if not self._is_body_read:
            headers["connection"] = "close"
        data = bodies.write_json(problem.document())
        await self._start(problem.status, bodies.PROBLEM, headers, len(data))
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
        self.sent = len(data)

    async def _start(self, status: int, media: str, headers: Any, size: int | None) -> None:
        self.status = status
        fields = [(b"content-type", media.encode()), *_ALWAYS]
        if size is not None:
            fields.append((b"content-length", str(size).encode()))
        fields += [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": fields})

    def _accept(self) -> str | None:
        accept = self._headers.get(b"accept")
        return None if accept is None else accept.decode("latin-1")


def _wait_kind(call: ApiCall) -> str | None:
    """The kind of long request that a call is; None if it is answered at once."""
    operation = call.route.operation
    if operation == "send_events":
        return None if call.query["wait"] == DURABLE else WAIT
    if operation == "claim_tasks":
        return POLL
    if operation.startswith("read_") and operation not in ("read_metrics", "read_openapi"):
        return READING
    return None


def log_file(world: Path, path: str) -> ApiReply:
    """Read one file of the log. It may read the disk, so it is called on a thread.

    Raises:
        Problem: There is no such file.
        Damage: A link or another special file has its name.
    """
    name = path.removeprefix(LOG_PREFIX)
    is_tile = _TILE.fullmatch(name) is not None
    data = None
    if is_tile or name in _TYPES:
        with StoredLog.of_world(world) as log:
            data = None if log is None else log.file(tuple(name.split("/")))
    if data is None:
        raise Problem(
            404, "path_is_unknown", "the header log has no such file (aos checkpoint makes the log)"
        )
    return ApiReply(
        data=data,
        media=_TYPES.get(name, _BYTES),
        headers={"cache-control": _NEVER_CHANGES if is_tile else _CHANGES},
    )
