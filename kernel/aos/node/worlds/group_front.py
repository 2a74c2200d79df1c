"""The API of a group at one address: requests go to the fronts of its shards, and their answers are
merged (spec/groups.md, GR-90 to GR-96).

    GET  /v1/cells …      every shard, merged by the rules of the read request (``across``)
    POST /v1/events       the shard of each event, or every shard
    the rest              refused in words: /w/000/… is a shard

Rule 1: a front checks a request to its shard as if it had come alone: token, scope, limits.

Rule 2: events are routed by one manifest, which a front compares with its own (N-115a). So no event
goes to a shard by a manifest that is no longer in force.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from aos.core.journal.inputs import EventInput
from aos.errors import BadUsage, Refused
from aos.host.door.remote import connect
from aos.host.door.way import BUSY_S
from aos.host.door.writer import Item, spell
from aos.host.folder.group import GroupFolder
from aos.manifest.effective import Effective
from aos.manifest.shards import EVERY, shard_of_event, with_shard
from aos.node import bodies, json_schema
from aos.node.application import Receive, Scope
from aos.node.bodies import BodyRoom
from aos.node.events import MANIFEST_HAS_CHANGED, MANIFEST_HEADER
from aos.node.problems import Problem
from aos.node.queries import read_query
from aos.node.routes import ROUTES
from aos.node.worlds.hosted_worlds import HostedWorlds
from aos.node.worlds.relay import RelayedAnswer
from aos.read.operations.across import SHARD, check_asked
from aos.read.operations.operation import ReadOperation
from aos.read.operations.table import OPERATIONS
from aos.read.views.record_view import Document
from aos.values.cbor import encode
from aos.values.digests import hash_text

EVENTS: Final = "/v1/events"
_READS: Final[Mapping[str, ReadOperation]] = {row.path: row for row in OPERATIONS if row.path}
_ROUTES: Final = {route.path: route for route in ROUTES if route.method == "GET"}
_EVENTS_BODY: Final[Any] = next(row.body for row in ROUTES if row.operation == "send_events")
_KEPT: Final = frozenset({b"retry-after", b"www-authenticate"})
"""The headers of a shard's answer that the answer of the group has, too."""

_ROUTED_MAX: Final = 2
"""How often events are routed: again once, if the manifest has changed meanwhile."""


class GroupReply(NamedTuple):
    """The answer to a request to the group."""

    status: int
    document: Document
    headers: Sequence[tuple[bytes, bytes]] = ()


class _Absent(BadUsage):
    """A shard does not have the thing (404)."""

    def __init__(self, document: Document) -> None:
        super().__init__(str(document.get("detail")))
        self.document = document


class _Answered(Exception):
    """An answer of a shard that is that of the whole group, such as 401."""

    def __init__(self, reply: GroupReply, shard: str) -> None:
        super().__init__(reply.status)
        self.reply = reply._replace(document={**reply.document, SHARD: shard})


@dataclass(frozen=True, slots=True)
class _Routing:
    """The manifest of the group, and the hash that each shard's manifest has."""

    manifest: Effective
    hashes: Sequence[str]


@dataclass(slots=True)
class _RoutedItem:
    """An event of a request, and the answers of its shards by their names."""

    fields: Mapping[str, Any]
    answers: dict[str, GroupReply]


class GroupFront:
    """Answers requests to a group. Used from one event loop."""

    def __init__(self, worlds: HostedWorlds, group: GroupFolder) -> None:
        self._worlds = worlds
        self._group = group
        self._bodies = BodyRoom()
        self._routing: _Routing | None = None

    async def answer(self, scope: Scope, receive: Receive) -> GroupReply:
        """Answer a request.

        Raises:
            Problem: It is refused.
            ClientGoneError: The client has left.
        """
        path, method = scope["path"], scope["method"]
        operation = _READS.get(path)
        try:
            if path == EVENTS and method == "POST":
                return await self._send(scope, receive)
            if operation is not None and method in ("GET", "HEAD"):
                return await self._read(scope, operation)
        except _Answered as answered:
            return answered.reply
        name = self._group.names[0]
        raise Problem(
            404, "path_is_of_a_shard",
            f"{method[:20]} {path[:100]}: each shard of this group answers it on its own "
            f"(/w/{name}{path[:100]} is that of shard {name})",
        )  # fmt: skip

    # Reading

    async def _read(self, scope: Scope, operation: ReadOperation) -> GroupReply:
        query = read_query(_ROUTES[operation.path], scope["query_string"])
        try:
            across = check_asked(query, operation.across)
            asked = _query_text(across.asked(query))
        except BadUsage as problem:
            raise Problem(400, "group_cannot_answer", str(problem)) from problem
        target = operation.path + (f"?{asked}" if asked else "")
        replies = await asyncio.gather(
            *(self._ask(name, scope, target) for name in self._group.names)
        )
        answers: dict[str, Document | BadUsage] = {}
        for name, reply in zip(self._group.names, replies, strict=True):
            if reply.status not in (200, 404):
                raise _Answered(reply, name)
            answers[name] = _Absent(reply.document) if reply.status == 404 else reply.document
        try:
            return GroupReply(200, across.merged(query, answers))
        except _Absent as absent:
            return GroupReply(404, absent.document)
        except Refused as refusal:
            raise Problem(409, "several_shards_have_it", str(refusal)) from refusal

    # Events

    async def _send(self, scope: Scope, receive: Receive) -> GroupReply:
        headers = dict(scope["headers"])
        content_type = headers.get(b"content-type")
        kind = bodies.media_type(
            None if content_type is None else content_type.decode("latin-1"),
            (bodies.JSON, bodies.CBOR),
        )
        with self._bodies.share() as take:
            data = await bodies.receive_body(
                receive, bytes_max=bodies.BATCH_BYTES_MAX, declared=None, take=take
            )
            value = await bodies.parse_aside(kind, data)
            body: Any = json_schema.read(_EVENTS_BODY, value)
            is_batch = "items" in body
            items = [_RoutedItem(fields, {}) for fields in (body["items"] if is_batch else [body])]
            await self._deliver(scope, items, kind, is_batch=is_batch)
        return _batch_reply(items) if is_batch else _reply(items[0])

    async def _deliver(
        self, scope: Scope, items: Sequence[_RoutedItem], kind: str, *, is_batch: bool
    ) -> None:
        """Give each event to its shards, and keep their answers."""
        left = list(items)
        for attempt in range(_ROUTED_MAX):
            routing = await self._current_routing(is_new=attempt > 0)
            parts: dict[int, list[_RoutedItem]] = {}
            for item in left:
                for shard in self._shards_of(item.fields, routing, kind):
                    if self._group.names[shard] not in item.answers:
                        parts.setdefault(shard, []).append(item)
            routed = await asyncio.gather(
                *(
                    self._give(shard, part, routing, scope, kind, is_batch=is_batch)
                    for shard, part in parts.items()
                )
            )
            refused = {
                id(item)
                for part, is_admitted in zip(parts.values(), routed, strict=True)
                if not is_admitted
                for item in part
            }
            # Each once, also one that several shards have refused.
            left = [item for item in left if id(item) in refused]
            if not left:
                return
        problem = Problem(
            503, "group_is_changing",
            "the manifests of this group's shards differ: a manifest is being applied (send again "
            "in a moment; if aos apply was interrupted, run it again)", retry_after_s=1,
        )  # fmt: skip
        for item in left:
            for shard in self._shards_of(item.fields, routing, kind):
                item.answers.setdefault(
                    self._group.names[shard], GroupReply(problem.status, problem.document())
                )

    async def _give(
        self,
        shard: int,
        items: Sequence[_RoutedItem],
        routing: _Routing | None,
        scope: Scope,
        kind: str,
        *,
        is_batch: bool,
    ) -> bool:
        """Give a shard its events. False if its manifest is another one: it admitted none."""
        name = self._group.names[shard]
        fields: Any = {"items": [item.fields for item in items]} if is_batch else items[0].fields
        data = bodies.write_cbor(fields) if kind == bodies.CBOR else bodies.write_json(fields)
        more = [] if routing is None else [(MANIFEST_HEADER, routing.hashes[shard].encode())]
        reply = await self._ask(name, scope, _target(scope), data, more)
        if reply.document.get("rule") == MANIFEST_HAS_CHANGED:
            return False
        answers = reply.document.get("items") if is_batch and reply.status < 300 else None
        for index, item in enumerate(items):
            item.answers[name] = (
                reply if answers is None else GroupReply(reply.status, answers[index])
            )
        return True

    def _shards_of(
        self, fields: Mapping[str, Any], routing: _Routing | None, kind: str
    ) -> Sequence[int]:
        """The shards of an event. One that is not valid goes to shard 0 (GR-23)."""
        if routing is None:
            return (0,)
        schema, value = fields["schema"], fields["value"]
        item = Item(schema=schema, value=encode(value) if kind == bodies.CBOR else value)
        spelt = spell(item, routing.manifest)
        if not isinstance(spelt, EventInput):
            return (0,)
        shard = shard_of_event(routing.manifest, schema, spelt.value, self._group.shards)
        return range(self._group.shards) if shard == EVERY else (shard,)

    async def _current_routing(self, *, is_new: bool) -> _Routing | None:
        """The manifest of shard 0; None if it has none. It is kept until a shard has another one.

        Raises:
            Problem: Shard 0 does not answer (503).
        """
        if self._routing is None or is_new:
            async with self._worlds.find(self._group.names[0]).using():
                manifest = await asyncio.to_thread(self._manifest)
            self._routing = None if manifest is None else self._routing_by(manifest)
        return self._routing

    def _manifest(self) -> Effective | None:
        way = connect(self._group.shard(0), BUSY_S)
        if way is None:
            raise Problem(
                503, "world_is_starting", "shard 000 does not answer yet", retry_after_s=1
            )
        try:
            return way.signed_state().manifest
        finally:
            way.close()

    def _routing_by(self, manifest: Effective) -> _Routing:
        shards = self._group.shards
        hashes = [hash_text(with_shard(manifest, index, shards).hash) for index in range(shards)]
        return _Routing(manifest, hashes)

    async def _ask(
        self,
        name: str,
        scope: Scope,
        target: str,
        data: bytes | None = None,
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> GroupReply:
        """Ask the front of a shard, in the name of the client."""
        async with self._worlds.find(name).using() as relay:
            answer = await relay.ask(scope, target.encode(), data, more)
        headers = [field for field in answer.headers if field[0] in _KEPT]
        return GroupReply(answer.status, _document_of(answer), headers)


def _document_of(answer: RelayedAnswer) -> Document:
    try:
        document = json.loads(answer.data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Problem(502, "answer_is_malformed", "a shard gave no JSON document")
    return document


def _target(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _query_text(query: Mapping[str, Any]) -> str:
    fields = {
        name: {True: "1", False: "0"}[value] if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }
    return urlencode(fields, doseq=True)


def _reply(item: _RoutedItem) -> GroupReply:
    """The answer to one event: that of its shard, or those of all shards."""
    if len(item.answers) == 1:
        [(name, reply)] = item.answers.items()
        return reply._replace(document={SHARD: name, **reply.document})
    rows = [{SHARD: name, **reply.document} for name, reply in sorted(item.answers.items())]
    return GroupReply(max(reply.status for reply in item.answers.values()), {"shards": rows})


def _batch_reply(items: Sequence[_RoutedItem]) -> GroupReply:
    """The answers to a batch: each item has its own, be it the problem of its whole shard."""
    rows: list[Document] = []
    status = 200
    for item in items:
        parts: list[Document] = []
        for name, reply in sorted(item.answers.items()):
            is_problem = reply.status >= 300
            part = {"problem": reply.document} if is_problem else reply.document
            parts.append({SHARD: name, **part})
            status = max(status, 200 if is_problem else reply.status)
        rows.append(parts[0] if len(parts) == 1 else {"shards": parts})
    return GroupReply(status, {"items": rows})
