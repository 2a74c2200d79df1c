"""The requests of each method of a client and how their answers are read, without a connection:
``Client`` and ``AsyncClient`` both carry out these steps (spec/guides/integrate.md)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from aos.client.current import Instance, WaitTimedOut, key_words, too_late
from aos.client.node_errors import NodeUnavailable, NoSuchInstance, error_of, read_json, refusal_of
from aos.client.sending import Accepted, SendAnswer
from aos.core.decide.answers import Admitted, Duplicate, Refusal
from aos.core.journal.inputs import SETTLE
from aos.errors import BadUsage, Refused, excerpt
from aos.host.apply.signed_governance import declined
from aos.host.door.writer import Item
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


Step: TypeAlias = NodeRequest | Pause | NextRecord
Steps: TypeAlias = Generator[Step, NodeAnswer | None, T]
"""Yields what to do next. It gets the answer to a request, or ``NodeUnavailable`` thrown in; and
None after the two others."""


def read_document(path: str, query: Words) -> Steps[Document]:
    """Return the document of a reading route.

    Raises:
        AosError: As the problem document of the node; see ``error_of``.
    """
    answer = yield NodeRequest(method="GET", path=path, query=query)
    assert answer is not None
    document = read_json(answer.content)
    if answer.status != 200:
        raise error_of(answer.status, document, retry_after=answer.retry_after)
    if not isinstance(document, dict):
        raise NodeUnavailable(NO_NODE)
    return document


def post_document(path: str, body: Mapping[str, object] | None) -> Steps[Document | Refusal]:
    """Send a JSON document once, without repeating it; return the node's document, or the refusal
    of the world.

    Raises:
        AosError: As ``read_document``. After ``NodeUnavailable`` it is unknown whether the node has
            carried it out.
    """
    text = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    answer = yield NodeRequest(method="POST", path=path, query=[], body=text)
    assert answer is not None
    document = read_json(answer.content)
    if answer.status != 200:
        refusal = refusal_of(document)
        if refusal is not None:
            return refusal
        raise error_of(answer.status, document, retry_after=answer.retry_after)
    if not isinstance(document, dict):
        raise NodeUnavailable(NO_NODE)
    return document


def command(
    action: str,
    *,
    workflow: str | None,
    key: object,
    intent: str | None,
    status: str | None,
    payload: object,
    why: str | None,
) -> Steps[Admitted | Refusal]:
    """Submit an operator's command that the node signs. Raises as ``post_document``."""
    fields = {"workflow": workflow, "key": key, "intent": intent, "status": status, "why": why}
    body = {name: value for name, value in fields.items() if value is not None}
    if action == SETTLE:
        body["payload"] = payload  # null is a receipt, too
    answer = yield from post_document("/v1/commands", {"action": action, **body})
    if isinstance(answer, Refusal):
        return answer
    return Admitted(
        seq=answer["seq"], dropped=answer.get("dropped", 0), abandoned=answer.get("abandoned", 0)
    )


def retry_effects(intents: Sequence[str]) -> Steps[list[str]]:
    """Run held and parked effects again; return those that run. Raises as ``post_document``."""
    runs: list[str] = []
    for at in range(0, len(intents), RETRY_INTENTS):
        answer = yield from post_document(
            "/v1/work/retry", {"tasks": intents[at : at + RETRY_INTENTS]}
        )
        if isinstance(answer, Refusal):
            raise Refused(answer.message)
        runs += answer["tasks"]
    return runs


def snapshot() -> Steps[Document]:
    """Have the node write a snapshot. Raises as ``post_document``, and Refused."""
    answer = yield from post_document("/v1/snapshots", None)
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer


def try_manifest(
    manifest: Loaded | int, *, mode: str, leave_cells: bool, show: int
) -> Steps[Document]:
    """Send a manifest and its modules for a dry run, or the record of a proposal, which has its own
    mode; return the report (H-71b), with ``leaves``.

    Raises as ``post_document``, and Refused, or BadUsage if there is no such proposal.
    """
    body = yield from _manifest_body(manifest, mode=mode, leave_cells=leave_cells)
    answer = yield from post_document("/v1/manifests/try", body | {"show": show})
    if isinstance(answer, Refusal):
        raise declined(answer)
    return answer


def apply_manifest(
    manifest: Loaded | int, *, mode: str, leaves: Sequence[str], allow_diverged: bool
) -> Steps[Admitted | Refusal]:
    """Put a manifest in force that the node signs, or that of an approved proposal. Raises as
    ``post_document``."""
    body = yield from _manifest_body(manifest, mode=mode, leaves=list(leaves))
    options = {"allow_diverged": allow_diverged}
    answer = yield from post_document("/v1/manifests", body | options)
    return answer if isinstance(answer, Refusal) else Admitted(seq=answer["seq"])


def govern(
    action: str, loaded: Loaded | None, body: Mapping[str, object]
) -> Steps[Admitted | Refusal]:
    """Send a proposal with its modules, or a report, vote or withdrawal. Raises as
    ``post_document``."""
    fields: dict[str, object] = {"action": action, **body}
    if loaded is not None:
        fields = (yield from _manifest_body(loaded)) | fields
    sent = {name: value for name, value in fields.items() if value is not None}
    answer = yield from post_document("/v1/governance", sent)
    return answer if isinstance(answer, Refusal) else Admitted(seq=answer["seq"])


def _manifest_body(manifest: Loaded | int, **fields: object) -> Steps[dict[str, object]]:
    """Send the modules of a manifest; return the body that names them, with ``fields``. Of a
    proposal only its record is sent: everything else is its own."""
    if isinstance(manifest, int):
        return {"proposal": manifest}
    for wasm in manifest.modules.values():
        answer = yield NodeRequest(
            method="POST", path="/v1/modules", query=[], body=wasm, media="application/wasm"
        )
        assert answer is not None
        if answer.status != 200:
            problem = read_json(answer.content)
            raise error_of(answer.status, problem, retry_after=answer.retry_after)
    return {
        "document": base64_text(manifest.effective.document),
        "modules": [hash_text(module) for module in manifest.modules],
        **fields,
    }


def linear(operation: str, body: Mapping[str, object]) -> Steps[Document]:
    """Start, wake or cancel a linear instance (``/v1/linear/OPERATION``).

    Raises as ``post_document``, and Refused if the instance or the world refuses it.
    """
    return (yield from _operated(f"/v1/linear/{operation}", body))


def _operated(path: str, body: Mapping[str, object]) -> Steps[Document]:
    fields = {name: value for name, value in body.items() if value is not None}
    answer = yield from post_document(path, fields)
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer


def schedule(operation: str, body: Mapping[str, object]) -> Steps[Document]:
    """Create or command a schedule (``/v1/schedules/OPERATION``). Raises as ``linear``."""
    return (yield from _operated(f"/v1/schedules/{operation}", body))


def batch(operation: str, body: Mapping[str, object]) -> Steps[Document]:
    """Begin or stop a batch (``/v1/batchesOPERATION``). Raises as ``linear``."""
    return (yield from _operated(f"/v1/batches{operation}", body))


def query_words(query: Mapping[str, object]) -> Words:
    """A query by name. A list gives its parameter several times; None is left out."""
    return [
        (name, "true" if element is True else "false" if element is False else str(element))
        for name, value in query.items()
        if value is not None
        for element in (value if isinstance(value, list | tuple) else (value,))
    ]


def read_blob(value: str) -> Steps[bytes]:
    """Return the bytes of a value. Raises as ``read_document``."""
    answer = yield NodeRequest(method="GET", path="/v1/blob", query=[("value", value)])
    assert answer is not None
    if answer.status != 200:
        raise error_of(answer.status, read_json(answer.content), retry_after=answer.retry_after)
    return answer.content


def send(schema: str, value: object, id: str | None, timeout_s: float) -> Steps[SendAnswer]:
    """Send one event, again under the same submission id until the node answers."""
    media, body = event_body({"schema": schema, "value": value, "submission_id": id or _own_id()})
    answer = yield from _accepted(media, body, timeout_s)
    document = read_json(answer.content)
    if answer.status != 200:
        refusal = refusal_of(document)
        if refusal is not None:
            return refusal
        raise error_of(answer.status, document, retry_after=answer.retry_after)
    return _send_answer(document, is_own_id=id is None)


def send_batch(items: Sequence[Item], timeout_s: float) -> Steps[list[SendAnswer]]:
    """Send several events in one request, again under the same ids until the node answers."""
    events = [
        {
            "schema": item.schema,
            "value": item.value,
            "submission_id": item.submission_id or _own_id(),
        }
        for item in items
    ]
    media, body = event_body({"items": events})
    answer = yield from _accepted(media, body, timeout_s)
    document = read_json(answer.content)
    if answer.status != 200:
        raise error_of(answer.status, document, retry_after=answer.retry_after)
    answers = document.get("items") if isinstance(document, dict) else None
    if not isinstance(answers, list) or len(answers) != len(items):
        raise NodeUnavailable(NO_NODE)
    return [
        _item_answer(reply, is_own_id=item.submission_id is None)
        for reply, item in zip(answers, items, strict=True)
    ]


def _accepted(media: str, body: bytes, timeout_s: float) -> Steps[NodeAnswer]:
    """Return the answer to events, once the node is there and has room for them."""

    def ask() -> Steps[NodeAnswer]:
        answer = yield NodeRequest(
            method="POST", path="/v1/events", query=[], body=body, media=media
        )
        assert answer is not None
        if answer.status in (408, 429) or answer.status >= 500:
            raise error_of(answer.status, read_json(answer.content), retry_after=answer.retry_after)
        return answer

    return (yield from once_there(ask, timeout_s))


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


def _own_id() -> str:
    """The submission id of an event that the caller gave none."""
    return f"client-{uuid.uuid4()}"


def _item_answer(document: object, *, is_own_id: bool) -> SendAnswer:
    problem = document.get("problem") if isinstance(document, dict) else None
    if problem is None:
        return _send_answer(document, is_own_id=is_own_id)
    refusal = refusal_of(problem, may_be_busy=True)
    if refusal is None:
        raise error_of(problem.get("status", 500), problem)
    return refusal


def _send_answer(document: object, *, is_own_id: bool) -> SendAnswer:
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


def wait_for(
    workflow: str, key: object, until: Callable[[Instance], bool], timeout_s: float
) -> Steps[Instance]:
    """Wait for an instance, also while the node restarts."""
    deadline = time.monotonic() + timeout_s
    instance: Instance | None = None
    while True:
        step: Step = Pause(RETRY_S)
        try:
            seq = yield from read_seq()
            instance = yield from read_instance(workflow, key)
            if instance is not None and until(instance):
                return instance
            query = [("from", str(seq + 1)), *cell_words(workflow, key)]
            step = NextRecord(query, min(deadline - time.monotonic(), SILENCE_S))
        except NodeUnavailable:
            if time.monotonic() >= deadline:
                raise
        if time.monotonic() >= deadline:
            raise WaitTimedOut(too_late(workflow, key, instance, timeout_s), instance)
        try:
            yield step
        except NodeUnavailable:
            yield Pause(RETRY_S)


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


def count_cells(**query: str | None) -> Steps[Document]:
    """Return the numbers of instances."""
    return read_document("/v1/cells/count", query_words(query))


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
