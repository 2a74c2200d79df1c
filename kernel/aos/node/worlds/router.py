"""The ASGI application in front of many worlds: from a path to the world that answers it
(spec/worlds.md, WD-20 to WD-33).

    /w/NAME/…            the world NAME, which is started first if it sleeps
    /v1/worlds, /v1/worlds/{create,start,stop,remove}     the node itself
    /                    the list of worlds, for people
    /metrics             figures of the node itself
    /v1/…, /log/…        the only world, if there is one

Rule 1: the router checks nothing of a request to a world: its front does, as it does on TCP.

Rule 2: a request to the node itself needs a token for all worlds, as one to a world needs a token
(WD-31).
"""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qs

from aos.errors import AosError
from aos.host.folder.neighbours import NAME
from aos.node import bodies
from aos.node.access import Door, caller_of, check_origin, headers_of
from aos.node.application import AccessLog, Receive, Scope, Send
from aos.node.bodies import BodyRoom, ClientGoneError
from aos.node.problems import Problem, problem_of
from aos.node.tokens import OPERATE, READ, LiveTokens, Token
from aos.node.worlds.group_front import GroupFront
from aos.node.worlds.hosted_worlds import HostedWorlds
from aos.node.worlds.relay import CLIENT_LEFT
from aos.node.worlds.worlds_metrics import worlds_metrics
from aos.read.views.record_view import Document
from aos.values.digests import parse_hash
from aos.values.errors import ValueProblem

_WORLD_PATH: Final = re.compile(rf"/w/({NAME.pattern})(/.*)?")
_ONCE: Final = frozenset({b"host", b"authorization", b"content-type", b"origin"})
_HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
WORLDS: Final = "/v1/worlds"
STATIC: Final = "/static/"
API: Final = ("/v1/", "/log/")
"""The paths of a world without its name."""

Action: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Any]]


class ListPage(Protocol):
    """The page at the address of the node, for people."""

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Those of each answer."""

    def html(self, rows: Sequence[Document] | None) -> bytes:
        """The page, with the rows of the worlds; None: for someone who may not see them."""

    def file(self, name: str) -> tuple[bytes, str] | None:
        """A file that the page refers to, and its media type."""


class Router:
    """The application. ``tokens`` are those for all worlds."""

    def __init__(
        self,
        worlds: HostedWorlds,
        tokens: LiveTokens,
        log: AccessLog,
        page: ListPage,
        group: GroupFront | None = None,
    ) -> None:
        """``group`` is that of the worlds, if they are its shards."""
        self._group = group
        self._worlds = worlds
        self._tokens = tokens
        self._log = log
        self._page = page
        self._bodies = BodyRoom()
        self._actions: dict[str, Action] = {
            f"{WORLDS}/create": self._create,
            f"{WORLDS}/start": self._start,
            f"{WORLDS}/wake": self._wake,
            f"{WORLDS}/stop": self._stop,
            f"{WORLDS}/remove": self._remove,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began_s = time.perf_counter()
        token: str | None = None
        try:
            if self._group is not None and self._is_of_group(scope["path"]):
                status = await self._merged(self._group, scope, receive, send)
            else:
                name = self._world_of(scope["path"])
                if name is not None:
                    await self._pass_on(name, scope, receive, send)
                    return
                status, token = await self._own(scope, receive, send)
        except ClientGoneError:
            status = CLIENT_LEFT
        except Problem as problem:
            status = await _send_problem(send, problem)
        except AosError as error:
            status = await _send_problem(
                send, problem_of(error, self._worlds.folder.path, unknown=404)
            )
        except Exception as error:  # noqa: BLE001  # our own bug must not end the node
            traceback.print_exception(error, file=sys.stderr)
            words = f"a bug of the node: {type(error).__name__}"
            status = await _send_problem(send, Problem(500, "node_has_a_bug", words))
        self._log.write(
            method=scope["method"],
            path=scope["path"],
            status=status,
            seconds=time.perf_counter() - began_s,
            received=0,
            sent=0,
            token=token,
            peer=(scope.get("client") or ("", 0))[0],
        )

    def _is_of_group(self, path: str) -> bool:
        return path.startswith(API) and path not in (WORLDS, *self._actions)

    async def _merged(self, group: GroupFront, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request to the group; return the status."""
        reply = await group.answer(scope, receive)
        data = bodies.write_json(reply.document)
        media = bodies.JSON if reply.status < HTTPStatus.BAD_REQUEST else bodies.PROBLEM
        is_head = scope["method"] == "HEAD"
        return await _send_bytes(
            send, reply.status, media, data, fields=reply.headers, is_head=is_head
        )

    def _world_of(self, path: str) -> str | None:
        """The world that answers a path; None if the node does.

        Raises:
            Problem: There is none (404).
        """
        matched = _WORLD_PATH.fullmatch(path)
        if matched is not None:
            return matched[1]
        if path in ("/", "/metrics", WORLDS, *self._actions) or path.startswith(STATIC):
            return None
        if path.startswith(API):
            name = self._worlds.only_name()
            if name is not None:
                return name
            words = f"this node has several worlds: expected /w/NAME{path[:100]}"
            raise Problem(404, "path_is_unknown", f"{words} ({WORLDS} lists them)")
        words = f"nothing is at {path[:100]} (/w/NAME/ is a world, {WORLDS} lists them)"
        raise Problem(404, "path_is_unknown", words)

    async def _pass_on(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        world = self._worlds.find(name)
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        async with world.using() as relay:
            await relay.pass_on(scope, target, receive, send)

    # Requests to the node itself

    async def _own(self, scope: Scope, receive: Receive, send: Send) -> tuple[int, str]:
        """Answer a request to the node itself. Return the status and the caller's name.

        Raises:
            Problem, AosError: It is refused.
        """
        path, method = scope["path"], scope["method"]
        action = self._actions.get(path)
        allowed = ("POST",) if action is not None else ("GET", "HEAD")
        if method not in allowed:
            raise Problem(
                405, "method_is_not_allowed", f"{path}: expected {allowed[0]}, found {method[:20]}",
                headers={"allow": ", ".join(allowed)},
            )  # fmt: skip
        headers = headers_of(scope["headers"], _ONCE)
        door = Door(*scope["server"])
        check_origin(door, headers, scope["scheme"])
        reply = partial(_send_bytes, send, is_head=method == "HEAD")
        if path.startswith(STATIC):
            return await self._send_file(path, reply), "-"
        if path == "/":
            caller = caller_of(door, headers, self._tokens, now_ns=time.time_ns())
            may_read = caller is not None and caller.allows(READ)
            query = parse_qs(scope["query_string"].decode("latin-1"))
            chosen = query.get("world", [""])[0]
            if NAME.fullmatch(chosen):
                fields = [*self._page.headers, (b"location", f"/w/{chosen}/".encode())]
                return await reply(303, _HTML, b"", fields=fields), "-"
            page = self._page.html(self._worlds.document()["worlds"] if may_read else None)
            return await reply(200, _HTML, page, fields=self._page.headers), "-"
        caller = self._caller(door, headers, OPERATE if action is not None else READ)
        if path == "/metrics":
            return await reply(200, _TEXT, worlds_metrics(self._worlds)), caller.name
        if action is None:
            document: Any = self._worlds.document()
        else:
            document = await action(await self._read(headers, receive))
        return await reply(200, bodies.JSON, bodies.write_json(document)), caller.name

    async def _send_file(self, path: str, reply: Callable[..., Awaitable[int]]) -> int:
        file = self._page.file(path.removeprefix(STATIC))
        if file is None:
            raise Problem(404, "path_is_unknown", f"nothing is at {path[:100]}")
        data, media = file
        return await reply(200, media, data, fields=self._page.headers)

    def _caller(self, door: Door, headers: Mapping[bytes, bytes], verb: str) -> Token:
        caller = caller_of(door, headers, self._tokens, now_ns=time.time_ns())
        if caller is None:
            raise Problem(
                401, "token_is_missing",
                "expected a token for all worlds: Authorization: Bearer TOKEN (make one: aos token "
                "create NAME --scope operate --worlds DIR)",
                headers={"www-authenticate": "Bearer"},
            )  # fmt: skip
        if not caller.allows(verb):
            raise Problem(
                403, "token_does_not_allow",
                f"{caller.name}: the scope {verb} for all worlds is missing (aos token create NAME "
                f"--scope {verb} --worlds DIR)",
            )  # fmt: skip
        return caller

    async def _read(self, headers: Mapping[bytes, bytes], receive: Receive) -> Mapping[str, Any]:
        content_type = headers.get(b"content-type")
        bodies.media_type(
            None if content_type is None else content_type.decode("latin-1"), (bodies.JSON,)
        )
        with self._bodies.share() as take:
            data = await bodies.receive_body(
                receive, bytes_max=bodies.FIELDS_BYTES, declared=None, take=take
            )
        body = await bodies.parse_aside(bodies.JSON, data)
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            raise Problem(422, "body_is_invalid", "expected an object with the name of a world")
        return body

    async def _create(self, body: Mapping[str, Any]) -> Any:
        _check_fields(body, ("name", "operator"))
        operator = body.get("operator", "operator")
        if not isinstance(operator, str):
            raise Problem(422, "body_is_invalid", "operator: expected a name", pointer="/operator")
        return await self._worlds.create(body["name"], operator)

    async def _start(self, body: Mapping[str, Any]) -> Any:
        _check_fields(body, ("name",))
        return await self._worlds.start(body["name"])

    async def _wake(self, body: Mapping[str, Any]) -> Any:
        _check_fields(body, ("name",))
        return await self._worlds.wake(body["name"])

    async def _stop(self, body: Mapping[str, Any]) -> Any:
        _check_fields(body, ("name",))
        return await self._worlds.stop(body["name"])

    async def _remove(self, body: Mapping[str, Any]) -> Any:
        _check_fields(body, ("name", "world"))
        id_text = body.get("world")
        try:
            world = parse_hash(id_text if isinstance(id_text, str) else "")
        except ValueProblem as problem:
            raise Problem(
                422, "body_is_invalid",
                f"world: expected the id of the world that is removed ({WORLDS} lists them)",
                pointer="/world",
            ) from problem  # fmt: skip
        return await self._worlds.remove(body["name"], world)


def _check_fields(body: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in body:
        if name not in names:
            raise Problem(
                422, "body_is_invalid",
                f"{name[:40]!r} is no field: expected {', '.join(names)}", pointer="",
            )  # fmt: skip


async def _send_problem(send: Send, problem: Problem) -> int:
    fields = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    if problem.retry_after_s is not None:
        fields.append((b"retry-after", str(problem.retry_after_s).encode()))
    fields.append((b"connection", b"close"))  # a body may be unread
    data = bodies.write_json(problem.document())
    return await _send_bytes(send, problem.status, bodies.PROBLEM, data, fields=fields)


async def _send_bytes(
    send: Send,
    status: int,
    media: str,
    data: bytes,
    *,
    fields: Sequence[tuple[bytes, bytes]] = (),
    is_head: bool = False,
) -> int:
    headers = {
        b"content-type": media.encode(),
        b"content-length": str(len(data)).encode(),
        b"x-content-type-options": b"nosniff",
        b"cache-control": b"no-store",
        **dict(fields),
    }
    await send({"type": "http.response.start", "status": status, "headers": list(headers.items())})
    await send({"type": "http.response.body", "body": b"" if is_head else data})
    return status
