"""Shared by the requests of a client: what they ask a node, and how its answers are read, without a
connection: ``Client`` and ``AsyncClient`` both carry out these steps (spec/guides/integrate.md)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from aos.client.current import Instance, key_words
from aos.client.node_connection import (
    NodeUnavailable,
    NoSuchInstance,
    error_of,
    read_json,
    refusal_of,
)
from aos.client.sending import Accepted, SendAnswer
from aos.core.decide.answers import Duplicate, Refusal
from aos.errors import BadUsage, Refused, excerpt
from aos.manifest.load import Loaded
from aos.read.views.record_view import Document
from aos.values.cbor import Value, decode_ingress, encode
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem
from aos.values.spelling import base64_text

RETRY_S: Final = 0.1
"""Seconds between two tries to reach the node."""

CONNECT_S: Final = 10.0
ANSWER_S: Final = 60.0
"""Seconds within which a node answers a request."""

SILENCE_S: Final = 45.0
"""Seconds without a byte after which a stream counts as broken: the node sends a comment after 15
s without an event."""

PAGE_ROWS: Final = 200
RETRY_INTENTS: Final = 1_024
"""Intents of one request."""

JSON: Final = "application/json"
CBOR: Final = "application/cbor"
STREAM: Final = "/v1/journal/stream"
FEED: Final = "/v1/feed"

NO_NODE: Final = "the answer is not that of a node (is this its URL?)"

T = TypeVar("T")
Words: TypeAlias = list[tuple[str, str | int | float | bool | None]]
"""A query, as httpx takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """One request; the step continues with its ``NodeAnswer``."""

    method: str
    path: str
    query: Words
    body: bytes | None = None
    media: str = JSON


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NextRecord:
    """Wait until the stream of this query has a record, for ``seconds`` at most."""

    query: Words
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer to a request. ``retry_after`` is the header, empty without one."""

    status: int
    content: bytes
    retry_after: str

    def check(self) -> None:
        """Raise the error of a problem document; see ``error_of``."""
        if self.status != 200:
            problem = read_json(self.content)
            raise error_of(self.status, problem, retry_after=self.retry_after)

    def document(self) -> Document:
        """Return the document of the node. Raises as ``check``."""
        self.check()
        document = read_json(self.content)
        if not isinstance(document, dict):
            raise NodeUnavailable(NO_NODE)
        return document

    def refusal(self) -> Refusal | None:
        """Return the refusal of the world, if it is one."""
        return None if self.status == 200 else refusal_of(read_json(self.content))


def may_ask_another(method: str, result: NodeAnswer | NodeUnavailable) -> bool:
    """Whether another node may get the same request after this result: the node is away, and a
    request that writes surely was not admitted (CL-212)."""
    if isinstance(result, NodeUnavailable):
        return method == "GET" or result.is_unsent
    if result.status != 503:
        return False
    problem = read_json(result.content)
    is_unsent = isinstance(problem, dict) and problem.get("admitted") == "no"
    return method == "GET" or is_unsent


Step: TypeAlias = NodeRequest | Pause | NextRecord
Steps: TypeAlias = Generator[Step, NodeAnswer | None, T]
"""Yields what to do next. It gets the answer to a request, or ``NodeUnavailable`` thrown in; and
None after the two others."""


def ask(request: NodeRequest) -> Steps[NodeAnswer]:
    """Return the answer to one request."""
    answer = yield request
    assert answer is not None
    return answer


def read_document(path: str, query: Words) -> Steps[Document]:
    """Return the document of a reading route.

    Raises:
        AosError: As the problem document of the node; see ``error_of``.
    """
    return (yield from ask(NodeRequest(method="GET", path=path, query=query))).document()


def post_document(path: str, body: Mapping[str, object] | None) -> Steps[Document | Refusal]:
    """Send a JSON document once, without repeating it; return the node's document, or the refusal
    of the world.

    Raises:
        AosError: As ``read_document``. After ``NodeUnavailable`` it is unknown whether the node has
            carried it out.
    """
    text = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    answer = yield from ask(NodeRequest(method="POST", path=path, query=[], body=text))
    refusal = answer.refusal()
    return answer.document() if refusal is None else refusal


def manifest_body(manifest: Loaded | int, **fields: object) -> Steps[dict[str, object]]:
    """Send the modules of a manifest; return the body that names them, with ``fields``. Of a
    proposal only its record is sent: everything else is its own."""
    if isinstance(manifest, int):
        return {"proposal": manifest}
    for wasm in manifest.modules.values():
        answer = yield from ask(
            NodeRequest(
                method="POST", path="/v1/modules", query=[], body=wasm, media="application/wasm"
            )
        )
        answer.check()
    return {
        "document": base64_text(manifest.effective.document),
        "modules": [hash_text(module) for module in manifest.modules],
        **fields,
    }


def operated(path: str, body: Mapping[str, object] | None) -> Steps[Document]:
    """Send a JSON document without its fields that are None; return the node's document.

    Raises as ``post_document``, and Refused if the world refuses it.
    """
    answer = yield from post_document(path, None if body is None else without_none(body))
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer


def without_none(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def query_words(query: Mapping[str, object]) -> Words:
    """A query by name. A list gives its parameter several times; None is left out."""
    return [
        (name, "true" if element is True else "false" if element is False else str(element))
        for name, value in query.items()
        if value is not None
        for element in (value if isinstance(value, list | tuple) else (value,))
    ]


def accepted(media: str, body: bytes, timeout_s: float) -> Steps[NodeAnswer]:
    """Return the answer to events, once the node is there and has room for them."""

    def send() -> Steps[NodeAnswer]:
        answer = yield from ask(
            NodeRequest(method="POST", path="/v1/events", query=[], body=body, media=media)
        )
        if answer.status in (408, 429) or answer.status >= 500:
            answer.check()
        return answer

    return (yield from once_there(send, timeout_s))


def once_there(begin: Callable[[], Steps[T]], timeout_s: float) -> Steps[T]:
    """Carry out steps from their beginning, again until the node is there and answers.

    Raises:
        NodeUnavailable: It did not within ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return (yield from begin())
        except NodeUnavailable as problem:
            pause_s = max(RETRY_S, problem.pause_s)
            if time.monotonic() + pause_s >= deadline:
                raise
        yield Pause(pause_s)


def own_id() -> str:
    """The submission id of an event that the caller gave none."""
    return f"client-{uuid.uuid4()}"


def item_answer(document: object, *, is_own_id: bool) -> SendAnswer:
    """Return the answer to one event of a batch. Raises the error of another problem."""
    problem = document.get("problem") if isinstance(document, dict) else None
    if problem is None:
        return send_answer(document, is_own_id=is_own_id)
    refusal = refusal_of(problem, may_be_busy=True)
    if refusal is None:
        raise error_of(problem.get("status", 500), problem)
    return refusal


def send_answer(document: object, *, is_own_id: bool) -> SendAnswer:
    """Return the answer to an event that the world took, now or earlier."""
    if not isinstance(document, dict) or "seq" not in document:
        raise NodeUnavailable(NO_NODE)
    # The client made the id, so a duplicate is the same event, sent again after a lost answer.
    if document["duplicate"] and not is_own_id:
        return Duplicate(seq=document["seq"])
    to = tuple((cell["workflow"], cell["key"]) for cell in document["to"] or ())
    ended = tuple((cell["workflow"], cell["key"]) for cell in document.get("ended", ()))
    return Accepted(seq=document["seq"], to=to, ended=ended)


def event_body(event: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return media type and bytes of an event, or of a batch of them, whose values are JSON, or all
    of them CBOR.

    Raises:
        BadUsage: A value is neither.
    """
    events = event.get("items", [event])
    try:
        if not any(isinstance(member["value"], bytes) for member in events):
            return JSON, json.dumps(event, ensure_ascii=False, allow_nan=False).encode()
        read: list[Value] = [
            {**member, "value": decode_ingress(member["value"])} for member in events
        ]
        return CBOR, encode({"items": read} if "items" in event else read[0])
    except (TypeError, ValueError, ValueProblem) as problem:
        actual = excerpt(repr(events[0]["value"]))
        raise BadUsage(
            "event", expected="a JSON value, or CBOR as bytes", actual=actual
        ) from problem


def read_seq() -> Steps[int]:
    """Return the last durable record."""
    document = yield from read_document("/v1/records", [("limit", "1")])
    seq: int = document["records"][-1]["seq"]
    return seq


def read_instance(workflow: str, key: object) -> Steps[Instance | None]:
    """Return an instance; None if there is none. It is read after ``seq``, or later."""
    seq = yield from read_seq()
    try:
        document = yield from read_document("/v1/cell", cell_words(workflow, key))
    except NoSuchInstance:
        return None
    return Instance.of(document, seq=seq)


def cell_words(workflow: str | None, key: object) -> Words:
    """The query of a workflow and a key."""
    words: Words = [] if workflow is None else [("workflow", workflow)]
    text = key_words(key)
    return words if text is None else [*words, ("key", text)]


def list_instances(
    *, workflow: str | None, status: str | None, offset: int
) -> Steps[list[Document]]:
    """Return one page of the list of instances, empty after the last one."""
    query = [("limit", str(PAGE_ROWS)), ("offset", str(offset)), *cell_words(workflow, None)]
    if status is not None:
        query.append(("status", status))
    document = yield from read_document("/v1/cells", query)
    rows: list[Document] = document["cells"]
    return rows


def record_words(
    kinds: Collection[str] | None, workflow: str | None, key: object, *, spelled: bool
) -> Words:
    """The query that selects records."""
    words: Words = [*(("kind", kind) for kind in kinds or ()), *cell_words(workflow, key)]
    return [*words, ("spelled", "true")] if spelled else words


@dataclass(slots=True)
class FollowedFeed:
    """What a client has of a feed, across its connections: the id of the last event, or the record
    that it begins at; None for the first one that the node has."""

    schemas: Collection[str]
    first: int | None
    last: str | None

    @classmethod
    def begin(
        cls,
        schemas: Collection[str],
        after_event: tuple[int, int] | None,
        first: int | None,
        timeout_s: float,
    ) -> Steps[FollowedFeed]:
        """Begin after an event, or at a record, once the node is there.

        Raises:
            BadUsage: Both are given, or no schema is.
            NodeUnavailable: The node did not answer within ``timeout_s`` seconds.
        """
        if (after_event is not None and first is not None) or not schemas:
            raise BadUsage("feed: expected schemas, and at most one of after= and first=")
        yield from once_there(read_seq, timeout_s)
        return cls(
            schemas, first, None if after_event is None else f"{after_event[0]}.{after_event[1]}"
        )

    def words(self) -> Words:
        """The query of the next connection."""
        words: Words = [("schema", schema) for schema in self.schemas]
        if self.last is not None or self.first is None:
            return words
        return [*words, ("from", str(self.first))]

    def headers(self) -> dict[str, str]:
        """Its headers."""
        return {} if self.last is None else {"Last-Event-ID": self.last}

    def advance(self, event: Document) -> None:
        """The caller gets this event."""
        self.last = f"{event['seq']}.{event['index']}"


def newest_record(words: Words) -> Steps[int]:
    """Return the newest record that the query selects; 0 if there is none."""
    document = yield from read_document("/v1/records", [("limit", "1"), *words])
    return document["records"][-1]["seq"] if document["records"] else 0


def ends_before(after_seq: int, last: int) -> BadUsage:
    """The journal of the node ends before the record to continue after."""
    return BadUsage(
        "the journal ends before the record to continue after",
        expected=f"0 to {last}",
        actual=str(after_seq),
        hint="the world may have been restored from an older backup",
    )
