"""``Client``: a program's connection to a node (spec/guides/integrate.md).

To follow a journal, ``EventStream`` reads the server-sent events of one connection (N-116 of
spec/node-api.md), and ``FollowedNode`` keeps how far a client has come across its connections.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from aos.client import node_steps as steps
from aos.client.node_connection import (
    AddressList,
    AnswerParts,
    Certificate,
    NodeAddress,
    NodeSite,
    NodeUnavailable,
    error_of,
    read_json,
    tls_of,
)
from aos.client.node_steps import (
    SILENCE_S,
    NodeAnswer,
    Steps,
    T,
    Words,
    ends_before,
    newest_record,
    read_seq,
)
from aos.client.requests import TIMEOUT_S, BlockingClient, SharedRequests
from aos.closable import Closable
from aos.errors import Unavailable
from aos.read.views.record_view import Document

AWAY = httpx.codes.SERVICE_UNAVAILABLE
"""Status of a node that cannot answer now."""

EVENT_BYTES_MAX = 256 * 1024 * 1024
"""The longest event that a client keeps, in bytes."""


class Client(BlockingClient, SharedRequests, Closable):
    """Sends events to a world and reads it, through its node. Used by one thread at a time;
    ``AsyncClient`` is the same for asyncio.

    Args:
        node: The URL of the node, or the folder of its world on this machine. Of a replicated world
            several, with commas between them: when one is away, the client uses the next one.
        token: The secret of a token (``aos token create``). Without it, that of ``AOS_TOKEN``, if
            it is set. A folder, and a node on a loopback address without tokens, need none.
        authorities: A file with the certificates to trust (PEM); by default that of
            ``AOS_NODE_CA``, else those of the package certifi.
        certificate: The files of a certificate and its key, for a node that asks for one
            (``--tls-client-ca``); by default those of ``AOS_NODE_CERT`` and ``AOS_NODE_KEY``.
        answer_s: Seconds within which the node answers a request (default 60).

    Raises:
        BadUsage: ``node`` is a URL of another kind, or a certificate cannot be used.

    Every method raises:
        Refused: The token does not allow it.
        BadUsage: The node does not know a name, or a value has another form.
        Damage: The world is damaged.
        Unavailable: The node does not answer, or is busy.
    """

    def __init__(
        self,
        node: str | Path,
        *,
        token: str | None = None,
        authorities: Path | str | None = None,
        certificate: Certificate | None = None,
        answer_s: float | None = None,
    ) -> None:
        self._answer_s = steps.ANSWER_S if answer_s is None else answer_s

        def connect(address: NodeAddress) -> httpx.Client:
            transport = None
            if address.socket is not None:
                transport = httpx.HTTPTransport(uds=str(address.socket), verify=False)
            return httpx.Client(
                base_url=address.base,
                headers=token_headers(token),
                transport=transport,
                verify=tls_of(address, authorities, certificate),
                trust_env=False,
            )

        self._nodes = AddressList(str(node), connect)

    def instances(
        self, *, workflow: str | None = None, status: str | None = None
    ) -> Iterator[Document]:
        """Yield the rows of ``aos inspect cells --json``, by workflow and key, page by page."""
        offset = 0
        while rows := self._run(
            steps.list_instances(workflow=workflow, status=status, offset=offset)
        ):
            yield from rows
            offset += len(rows)

    def follow(
        self,
        *,
        after: int | None = None,
        kinds: Collection[str] | None = None,
        workflow: str | None = None,
        key: object = None,
        spelled: bool = False,
        idle_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Iterator[Document]:
        """Yield the records of the journal after record ``after``, oldest first, and then each new
        one when it is durable, also across restarts of the node.

        Args:
            after: 0 for the whole journal. By default only records from now on.
            kinds: Only records of these kinds, such as ``event``, ``step`` or ``receipt``.
            workflow: Only records that name an instance of this workflow; with ``key``, this one.
            spelled: With values as text for people, as ``aos inspect journal`` shows them.
            idle_s: End about this many seconds after the last record, by default never. Records
                that were durable before the call are never missed.
            timeout_s: Seconds to wait for a node that starts.

        Raises, on the first or a later record:
            BadUsage: There is no such kind or workflow, or the journal ends before ``after``.
            Pruned: The next record was moved to an archive.
            Unavailable: The node did not answer within ``timeout_s``. Later it is tried again.
        """
        words = steps.record_words(kinds, workflow, key, spelled=spelled)
        following = self._run(
            steps.once_there(lambda: FollowedNode.begin(after, words, idle_s), timeout_s)
        )
        while not following.is_over:
            had_all = following.may_idle
            try:
                for part in self._stream(following.words(), following.patience_s()):
                    for record in part:
                        following.advance(record)
                        yield record
                    if following.may_idle != had_all:
                        break  # from here on, the connection waits for a shorter time
            except NodeUnavailable:
                time.sleep(steps.RETRY_S)

    def feed(
        self,
        schemas: Collection[str],
        *,
        after: tuple[int, int] | None = None,
        first: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Iterator[Document]:
        """Yield the events of these schemas that workflows emit, in the order of the journal, and
        then each new one, also across restarts of the node. It has no end.

        An event is ``{seq, index, schema, value, workflow, key}``; ``(seq, index)`` is its place.

        Args:
            after: The place of the last event that the caller has: the feed continues after it.
            first: Or the record that it begins at; ``world.seq() + 1`` for new events only. By
                default the first record that the node has.
            timeout_s: Seconds to wait for a node that starts.

        Raises, on the first or a later event:
            BadUsage: No manifest of the world has a schema, or the journal ends before ``after``.
            Pruned: The next record was moved to an archive.
            Unavailable: The node did not answer within ``timeout_s``. Later it is tried again.
        """
        following = self._run(steps.FollowedFeed.begin(schemas, after, first, timeout_s))
        while True:
            try:
                for part in self._stream(
                    following.words(), steps.SILENCE_S, steps.FEED, following.headers()
                ):
                    for event in part:
                        following.advance(event)
                        yield event
            except NodeUnavailable:
                time.sleep(steps.RETRY_S)

    def close(self) -> None:
        """Close all connections."""
        for site in self._nodes.sites:
            site.http.close()

    def _run(self, todo: Steps[T]) -> T:
        """Carry out steps, and return what they return."""
        answer: NodeAnswer | None = None
        problem: NodeUnavailable | None = None
        while True:
            try:
                step = todo.send(answer) if problem is None else todo.throw(problem)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = problem = None
            try:
                match step:
                    case steps.NodeRequest():
                        answer = self._ask(step)
                    case steps.Pause():
                        time.sleep(step.seconds)
                    case steps.NextRecord():
                        any(self._stream(step.query, step.seconds))
            except NodeUnavailable as away:
                problem = away

    def _ask(self, request: steps.NodeRequest) -> NodeAnswer:
        result: NodeAnswer | NodeUnavailable
        for site in self._nodes.tries():
            try:
                result = self._ask_at(site, request)
            except NodeUnavailable as away:
                result = away
            if isinstance(result, NodeUnavailable) or result.status == AWAY:
                self._nodes.leave(site)
            if not steps.may_ask_another(request.method, result):
                break
        if isinstance(result, NodeUnavailable):
            raise result
        return result

    def _ask_at(self, site: NodeSite[httpx.Client], request: steps.NodeRequest) -> NodeAnswer:
        check_served(site.address)
        parts = AnswerParts(self._answer_s)
        try:
            with site.http.stream(
                request.method, request.path, params=request.query, content=request.body,
                headers={"Accept": steps.JSON, "Content-Type": request.media},
                timeout=httpx.Timeout(
                    self._answer_s, connect=min(self._answer_s, steps.CONNECT_S)
                ),
            ) as answer:  # fmt: skip
                for part in answer.iter_bytes():
                    parts.take(part)
        except httpx.HTTPError as error:
            raise unreachable(site.address, error) from error
        retry_after = answer.headers.get("Retry-After", "")
        return NodeAnswer(answer.status_code, parts.body(), retry_after)

    def _stream(
        self,
        query: Words,
        seconds: float,
        path: str = steps.STREAM,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[list[Document]]:
        """Yield the events of each part of a stream, until none has come for ``seconds``.

        Raises:
            NodeUnavailable: The node does not answer, or the connection broke. Another stream is at
                the next node.
        """
        site = self._nodes.current
        try:
            yield from self._stream_at(site, query, seconds, path, headers)
        except NodeUnavailable:
            self._nodes.leave(site)
            raise

    def _stream_at(
        self,
        site: NodeSite[httpx.Client],
        query: Words,
        seconds: float,
        path: str,
        headers: Mapping[str, str] | None,
    ) -> Iterator[list[Document]]:
        check_served(site.address)
        events = EventStream()
        until = time.monotonic() + seconds
        timeout = httpx.Timeout(max(seconds, 0.001), connect=steps.CONNECT_S)
        try:
            with site.http.stream(
                "GET", path, params=query, timeout=timeout, headers=headers
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    problem = read_json(answer.read())
                    raise error_of(answer.status_code, problem)
                for part in answer.iter_raw():
                    documents = events.feed(part)
                    yield documents
                    if documents:
                        until = time.monotonic() + seconds
                    elif time.monotonic() >= until:
                        return
        except httpx.ReadTimeout:
            return
        except httpx.HTTPError as error:
            raise unreachable(site.address, error) from error
        raise NodeUnavailable(f"the node at {site.address.label} ended the stream")


def token_headers(token: str | None) -> dict[str, str]:
    """The header of a token, or of that in ``AOS_TOKEN``."""
    secret = token or os.environ.get("AOS_TOKEN")
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def check_served(address: NodeAddress) -> None:
    """Raise ``NodeUnavailable`` if no node serves the world of a folder."""
    if not address.is_served:
        raise NodeUnavailable(
            f"{address.label}: no node serves this world (start one: aos node --world DIR)",
            is_unsent=True,
        )


def unreachable(address: NodeAddress, error: httpx.HTTPError) -> NodeUnavailable:
    """The error of a connection that cannot be made, or broke."""
    reason = str(error) or type(error).__name__
    return NodeUnavailable(
        f"the node at {address.label} does not answer: {reason}",
        is_unsent=isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
    )


@dataclass(slots=True, kw_only=True)
class FollowedNode:
    """The client has all selected records up to ``after_seq``. It may end as idle only from
    ``target`` on, the newest of them when it began: a search for rare records takes long."""

    after_seq: int
    target: int
    selected: Words
    idle_s: float | None
    heard_s: float

    @classmethod
    def begin(cls, after_seq: int | None, selected: Words, idle_s: float | None) -> Steps[Self]:
        """Begin after a record, by default after the last one.

        Raises:
            BadUsage: The journal ends before ``after_seq``, or the query names nothing that is
                known.
        """
        last = yield from read_seq()
        if after_seq is None:
            after_seq = last
        if after_seq > last:
            raise ends_before(after_seq, last)
        target = 0 if idle_s is None else (yield from newest_record(selected))
        return cls(
            after_seq=after_seq,
            target=target,
            selected=selected,
            idle_s=idle_s,
            heard_s=time.monotonic(),
        )

    def words(self) -> Words:
        """The query of the next connection."""
        return [("from", str(self.after_seq + 1)), *self.selected]

    def advance(self, record: Document) -> None:
        """The caller gets this record."""
        self.after_seq = record["seq"]
        self.heard_s = time.monotonic()

    @property
    def may_idle(self) -> bool:
        """Whether silence may end it."""
        return self.idle_s is not None and self.after_seq >= self.target

    @property
    def is_over(self) -> bool:
        """Whether the client has been idle for long enough."""
        if self.idle_s is None or not self.may_idle:
            return False
        return time.monotonic() - self.heard_s >= self.idle_s

    def patience_s(self) -> float:
        """Seconds of silence after which the connection is given up."""
        if self.idle_s is None or not self.may_idle:
            return SILENCE_S
        return min(SILENCE_S, max(0.0, self.heard_s + self.idle_s - time.monotonic()))


class EventStream:
    """The events of one connection, each as the document of its ``data``."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, part: bytes) -> list[dict[str, Any]]:
        """Take a part of the body, and return the events that it completes. Comments count as none.

        Raises:
            Unavailable: The body is no stream of events, or one of them is too long.
        """
        *blocks, self._partial = (self._partial + part).split(b"\n\n")
        if len(self._partial) > EVENT_BYTES_MAX:
            raise Unavailable(f"the node sent an event of more than {EVENT_BYTES_MAX:,} bytes")
        return [event for block in blocks if (event := _event_document(block)) is not None]


def _event_document(block: bytes) -> dict[str, Any] | None:
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line[:5] == b"data:"]
    if not lines:
        return None
    try:
        event = json.loads(b"\n".join(lines))
    except ValueError as error:
        raise Unavailable("the node sent an event that is no JSON") from error
    if not isinstance(event, dict):
        raise Unavailable("the node sent an event that is no object")
    return event
