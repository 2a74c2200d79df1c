"""``Client``: a program's connection to a node (spec/guides/integrate.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from aos.client import node_steps as steps
from aos.client.current import Instance, reached
from aos.client.following_node import EventStream, FollowedNode
from aos.client.node_connection import AnswerParts, Certificate, NodeAddress, tls_of
from aos.client.node_errors import NodeUnavailable, error_of, read_json
from aos.client.node_steps import NodeAnswer, Steps, T, Words
from aos.client.sending import SendAnswer
from aos.core.decide.answers import Admitted, Refusal
from aos.core.journal.inputs import STRICT
from aos.host.door.writer import Item
from aos.manifest.load import Loaded
from aos.read.views.record_view import Document

TIMEOUT_S = 30.0


class Client:
    """Sends events to a world and reads it, through its node. Used by one thread at a time;
    ``AsyncClient`` is the same for asyncio.

    Args:
        node: The URL of the node, or the folder of its world on this machine.
        token: The secret of a token (``aos token create``). Without it, that of ``AOS_TOKEN``, if
            it is set. A folder, and a node on a loopback address without tokens, need none.
        authorities: A file with the certificates to trust (PEM); by default that of
            ``AOS_NODE_CA``, else those of the package certifi.
        certificate: The files of a certificate and its key, for a node that asks for one
            (``--tls-client-ca``); by default those of ``AOS_NODE_CERT`` and ``AOS_NODE_KEY``.

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
    ) -> None:
        address = NodeAddress.read(str(node))
        self._address = address
        transport = None
        if address.socket is not None:
            transport = httpx.HTTPTransport(uds=str(address.socket), verify=False)
        self._http = httpx.Client(
            base_url=address.base,
            headers=token_headers(token),
            transport=transport,
            verify=tls_of(address, authorities, certificate),
            trust_env=False,
        )

    def send(
        self, schema: str, value: object, *, id: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> SendAnswer:
        """Send one event and return the answer, which is durable.

        If the connection breaks, or the node is busy or away, the client sends the event again for
        ``timeout_s`` seconds, under the same submission id: the world accepts it once.

        Args:
            value: A JSON value that fits the schema, or ingress CBOR as bytes.
            id: The submission id; by default a random one for each call.
        """
        return self._run(steps.send(schema, value, id, timeout_s))

    def send_batch(
        self, events: Sequence[Item], *, timeout_s: float = TIMEOUT_S
    ) -> list[SendAnswer]:
        """Send at most 1,024 events, of 16 MiB together, in one request, and return their answers
        in order. A refused event does not stop the others. Repeated as ``send``."""
        return self._run(steps.send_batch(events, timeout_s))

    def instance(self, workflow: str, key: object = None) -> Instance | None:
        """Return an instance with its state; None if no event has reached it, or its module deleted
        it.

        Args:
            workflow: The name of the workflow, or a unique part of it, as for ``aos inspect cell``.
            key: The key as a JSON value; None if the workflow is not keyed.
        """
        return self._run(steps.read_instance(workflow, key))

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

    def count_cells(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        where: str | None = None,
        group_by: str | None = None,
    ) -> Document:
        """Return the document of ``aos inspect cells --count --json``: ``count``, and ``groups``,
        each with ``value`` and ``count``, the largest first.

        Args:
            where: A condition on the states (spec/search.md).
            group_by: A name that a condition can have; without it there are no groups.

        Raises:
            BadUsage: The condition or ``group_by`` is invalid.
        """
        return self._run(
            steps.count_cells(workflow=workflow, status=status, where=where, group_by=group_by)
        )

    def wait(
        self,
        workflow: str,
        key: object = None,
        *,
        until: str | Collection[str] | Callable[[Instance], bool] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Instance:
        """Wait for an instance and return it.

        Args:
            until: One status, several, or a function of the instance. By default the instance has
                ended: it is completed or failed, and has handled every event.

        Raises:
            WaitTimedOut: It did not get there within ``timeout_s`` seconds; the message gives the
                reasons.
        """
        return self._run(steps.wait_for(workflow, key, reached(until), timeout_s))

    def document(self, path: str, **query: object) -> Document:
        """Return the document of a reading route of ``spec/node-api.md``, such as ``/v1/cell``.

        Args:
            query: Its parameters by name; a list for one that is given several times. None is left
                out.
        """
        return self._run(steps.read_document(path, steps.query_words(query)))

    def blob(self, value: str) -> bytes:
        """Return the bytes of a value that is stored outside its records, by its content hash."""
        return self._run(steps.read_blob(value))

    def command(
        self,
        action: str,
        *,
        workflow: str | None = None,
        key: object = None,
        intent: str | None = None,
        status: str | None = None,
        payload: object = None,
        why: str | None = None,
    ) -> Admitted | Refusal:
        """Submit an operator's command once: the node signs it, if it was started with
        ``--operator-key`` and the token has the scope ``operate``.

        Args:
            action: ``retry``, ``skip``, ``unpin``, ``end`` or ``remove`` of the instance
                ``workflow`` and ``key``; ``cancel`` or ``settle`` of ``intent``; ``clock``,
                which sets the journal clock back.
            status: ``completed`` or ``failed`` for ``end``; ``ok`` or ``error`` for ``settle``.
            payload: For ``settle``, the receipt as a JSON value: for ``ok`` one of the receipt
                schema of its effect, for ``error`` ``{code, message, retryable}``.
            why: The reason, which the journal keeps.

        Raises:
            NodeUnavailable: The node went away. It is unknown whether the command is a record.
        """
        return self._run(
            steps.command(
                action, workflow=workflow, key=key, intent=intent, status=status, payload=payload,
                why=why,
            )
        )  # fmt: skip

    def retry_effects(self, intents: Sequence[str]) -> list[str]:
        """Run held and parked effects again, in the node or at its workers; return the hashes of
        those that run. Needs a token with the scope ``operate``."""
        return self._run(steps.retry_effects(intents))

    def snapshot(self) -> Document:
        """Have the node write a snapshot; return the document of ``aos snapshot --json``."""
        return self._run(steps.snapshot())

    def try_manifest(
        self,
        manifest: Loaded | int,
        *,
        mode: str = STRICT,
        leave_cells: bool = False,
        show: int = 0,
    ) -> Document:
        """Return the report of ``aos apply --dry-run --json`` about a manifest, or about the
        proposal of a record, which has a mode of its own. It is without the commands, and with
        ``leaves``: the workflows that it leaves, with ``leave_cells``. Needs a token with the scope
        ``operate``.

        Raises:
            Refused: A module is refused.
        """
        return self._run(
            steps.try_manifest(manifest, mode=mode, leave_cells=leave_cells, show=show)
        )

    def apply_manifest(
        self,
        manifest: Loaded | int,
        *,
        mode: str = STRICT,
        leaves: Sequence[str] = (),
        allow_diverged: bool = False,
    ) -> Admitted | Refusal:
        """Put a manifest in force, or that of an approved proposal by its record, with the mode and
        the ``leaves`` of the proposal: the node signs it, if it was started with
        ``--operator-key`` and the token has the scope ``operate``.

        Args:
            leaves: Workflows that have cells and that the manifest may remove.
            allow_diverged: Apply although flows in progress would stop.

        Raises:
            NodeUnavailable: The node went away. It is unknown whether the manifest is a record.
        """
        return self._run(
            steps.apply_manifest(manifest, mode=mode, leaves=leaves, allow_diverged=allow_diverged)
        )

    def govern(
        self, action: str, loaded: Loaded | None = None, **body: object
    ) -> Admitted | Refusal:
        """Send a proposal of ``loaded``, or a report, vote or withdrawal; see ``/v1/governance`` in
        ``spec/node-api.md``. It is sent once.

        Args:
            body: Its fields as JSON; those that are None are left out. Without ``principal`` and
                ``signature`` the node signs, if it was started with ``--operator-key``; it signs no
                vote.

        Raises:
            NodeUnavailable: The node went away. It is unknown whether it is a record.
        """
        return self._run(steps.govern(action, loaded, body))

    def linear(self, operation: str, **body: object) -> Document:
        """Start, wake or cancel an instance of a linear plan; see ``/v1/linear/*`` in
        ``spec/node-api.md``.

        Args:
            operation: ``start`` (plan, instance, context, biz_key, version, mode), ``wake``
                (instance, type, event_id, payload) or ``cancel`` (instance, reason). It is sent
                once. Fields that are None are left out.

        Raises:
            Refused: The instance refuses it, with its reason; nothing has changed.
            NodeUnavailable: The node went away. It is unknown whether it was taken: look at the
                instance.
        """
        return self._run(steps.linear(operation, body))

    def schedule(self, operation: str, **body: object) -> Document:
        """Create or command a schedule; see ``/v1/schedules/*`` in ``spec/node-api.md``.

        Args:
            operation: ``create`` (the fields of a schedule in a manifest, and replace) or
                ``command`` (id, and action: ``pause``, ``resume``, ``trigger`` or ``delete``). It
                is sent once. Fields that are None are left out.

        Raises:
            Refused: The schedule refuses it, or it does not fit; nothing has changed.
            NodeUnavailable: The node went away. It is unknown whether it was taken: look at the
                schedule.
        """
        return self._run(steps.schedule(operation, body))

    def batch(self, operation: str = "", **body: object) -> Document:
        """Begin or stop a batch, and return it; see ``/v1/batches`` in ``spec/batch.md``.

        Args:
            operation: Empty to begin one (action, id, workflow, where, effect, event, value, rate,
                dry_run), or ``/stop`` (id). It is sent once. Fields that are None are left out.

        Raises:
            Refused: The node refuses it; nothing has changed.
            NodeUnavailable: The node went away. With the same ``id`` it can be sent again: there
                is one batch of an id.
        """
        return self._run(steps.batch(operation, body))

    def seq(self) -> int:
        """Return the last durable record."""
        return self._run(steps.read_seq())

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
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
        check_served(self._address)
        parts = AnswerParts(steps.ANSWER_S)
        try:
            with self._http.stream(
                request.method, request.path, params=request.query, content=request.body,
                headers={"Accept": steps.JSON, "Content-Type": request.media},
                timeout=httpx.Timeout(steps.ANSWER_S, connect=steps.CONNECT_S),
            ) as answer:  # fmt: skip
                for part in answer.iter_bytes():
                    parts.take(part)
        except httpx.HTTPError as error:
            raise unreachable(self._address, error) from error
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
            NodeUnavailable: The node does not answer, or the connection broke.
        """
        check_served(self._address)
        events = EventStream()
        until = time.monotonic() + seconds
        timeout = httpx.Timeout(max(seconds, 0.001), connect=steps.CONNECT_S)
        try:
            with self._http.stream(
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
            raise unreachable(self._address, error) from error
        raise NodeUnavailable(f"the node at {self._address.label} ended the stream")


def token_headers(token: str | None) -> dict[str, str]:
    """The header of a token, or of that in ``AOS_TOKEN``."""
    secret = token or os.environ.get("AOS_TOKEN")
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def check_served(address: NodeAddress) -> None:
    """Raise ``NodeUnavailable`` if no node serves the world of a folder."""
    if not address.is_served:
        raise NodeUnavailable(
            f"{address.label}: no node serves this world (start one: aos node --world DIR)"
        )


def unreachable(address: NodeAddress, error: httpx.HTTPError) -> NodeUnavailable:
    """The error of a connection that cannot be made, or broke."""
    reason = str(error) or type(error).__name__
    return NodeUnavailable(f"the node at {address.label} does not answer: {reason}")
