"""``AsyncClient``: ``Client`` for asyncio (spec/guides/integrate.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from aos.client import node_steps as steps
from aos.client.current import Instance, reached
from aos.client.following_node import EventStream, FollowedNode
from aos.client.node_client import TIMEOUT_S, check_served, token_headers, unreachable
from aos.client.node_connection import AnswerParts, Certificate, NodeAddress, tls_of
from aos.client.node_errors import NodeUnavailable, error_of, read_json
from aos.client.node_steps import NodeAnswer, Steps, T, Words
from aos.client.sending import SendAnswer
from aos.core.decide.answers import Admitted, Refusal
from aos.core.journal.inputs import STRICT
from aos.host.door.writer import Item
from aos.manifest.load import Loaded
from aos.read.views.record_view import Document


class AsyncClient:
    """``Client`` for asyncio: the same methods with the same answers and errors. ``instances`` and
    ``follow`` are asynchronous iterators. Several tasks may use one client.
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
            transport = httpx.AsyncHTTPTransport(uds=str(address.socket), verify=False)
        self._http = httpx.AsyncClient(
            base_url=address.base,
            headers=token_headers(token),
            transport=transport,
            verify=tls_of(address, authorities, certificate),
            trust_env=False,
        )

    async def send(
        self, schema: str, value: object, *, id: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> SendAnswer:
        """Send one event and return the answer, which is durable.

        If the connection breaks, or the node is busy or away, the client sends the event again for
        ``timeout_s`` seconds, under the same submission id: the world accepts it once.

        Args:
            value: A JSON value that fits the schema, or ingress CBOR as bytes.
            id: The submission id; by default a random one for each call.
        """
        return await self._run(steps.send(schema, value, id, timeout_s))

    async def send_batch(
        self, events: Sequence[Item], *, timeout_s: float = TIMEOUT_S
    ) -> list[SendAnswer]:
        """Send at most 1,024 events, of 16 MiB together, in one request, and return their answers
        in order. A refused event does not stop the others. Repeated as ``send``."""
        return await self._run(steps.send_batch(events, timeout_s))

    async def instance(self, workflow: str, key: object = None) -> Instance | None:
        """Return an instance with its state; None if no event has reached it, or its module deleted
        it.

        Args:
            workflow: The name of the workflow, or a unique part of it, as for ``aos inspect cell``.
            key: The key as a JSON value; None if the workflow is not keyed.
        """
        return await self._run(steps.read_instance(workflow, key))

    async def instances(
        self, *, workflow: str | None = None, status: str | None = None
    ) -> AsyncGenerator[Document]:
        """Yield the rows of ``aos inspect cells --json``, by workflow and key, page by page."""
        offset = 0
        while rows := await self._run(
            steps.list_instances(workflow=workflow, status=status, offset=offset)
        ):
            for row in rows:
                yield row
            offset += len(rows)

    async def count_cells(
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
        return await self._run(
            steps.count_cells(workflow=workflow, status=status, where=where, group_by=group_by)
        )

    async def wait(
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
        return await self._run(steps.wait_for(workflow, key, reached(until), timeout_s))

    async def document(self, path: str, **query: object) -> Document:
        """Return the document of a reading route of ``spec/node-api.md``, such as ``/v1/cell``.

        Args:
            query: Its parameters by name; a list for one that is given several times. None is left
                out.
        """
        return await self._run(steps.read_document(path, steps.query_words(query)))

    async def blob(self, value: str) -> bytes:
        """Return the bytes of a value that is stored outside its records, by its content hash."""
        return await self._run(steps.read_blob(value))

    async def command(
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
        return await self._run(
            steps.command(
                action, workflow=workflow, key=key, intent=intent, status=status, payload=payload,
                why=why,
            )
        )  # fmt: skip

    async def retry_effects(self, intents: Sequence[str]) -> list[str]:
        """Run held and parked effects again, in the node or at its workers; return the hashes of
        those that run. Needs a token with the scope ``operate``."""
        return await self._run(steps.retry_effects(intents))

    async def snapshot(self) -> Document:
        """Have the node write a snapshot; return the document of ``aos snapshot --json``."""
        return await self._run(steps.snapshot())

    async def try_manifest(
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
        return await self._run(
            steps.try_manifest(manifest, mode=mode, leave_cells=leave_cells, show=show)
        )

    async def apply_manifest(
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
        return await self._run(
            steps.apply_manifest(manifest, mode=mode, leaves=leaves, allow_diverged=allow_diverged)
        )

    async def govern(
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
        return await self._run(steps.govern(action, loaded, body))

    async def linear(self, operation: str, **body: object) -> Document:
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
        return await self._run(steps.linear(operation, body))

    async def schedule(self, operation: str, **body: object) -> Document:
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
        return await self._run(steps.schedule(operation, body))

    async def batch(self, operation: str = "", **body: object) -> Document:
        """Begin or stop a batch, and return it; see ``/v1/batches`` in ``spec/batch.md``.

        Args:
            operation: Empty to begin one (action, id, workflow, where, effect, event, value, rate,
                dry_run), or ``/stop`` (id). It is sent once. Fields that are None are left out.

        Raises:
            Refused: The node refuses it; nothing has changed.
            NodeUnavailable: The node went away. With the same ``id`` it can be sent again: there
                is one batch of an id.
        """
        return await self._run(steps.batch(operation, body))

    async def seq(self) -> int:
        """Return the last durable record."""
        return await self._run(steps.read_seq())

    async def follow(
        self,
        *,
        after: int | None = None,
        kinds: Collection[str] | None = None,
        workflow: str | None = None,
        key: object = None,
        spelled: bool = False,
        idle_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> AsyncGenerator[Document]:
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
        following = await self._run(
            steps.once_there(lambda: FollowedNode.begin(after, words, idle_s), timeout_s)
        )
        while not following.is_over:
            had_all = following.may_idle
            try:
                stream = self._stream(following.words(), following.patience_s())
                async with aclosing(stream) as parts:
                    async for part in parts:
                        for record in part:
                            following.advance(record)
                            yield record
                        if following.may_idle != had_all:
                            break  # from here on, the connection waits for a shorter time
            except NodeUnavailable:
                await asyncio.sleep(steps.RETRY_S)

    async def feed(
        self,
        schemas: Collection[str],
        *,
        after: tuple[int, int] | None = None,
        first: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> AsyncGenerator[Document]:
        """Yield the events of these schemas that workflows emit, in the order of the journal, and
        then each new one, also across restarts of the node. It has no end.

        An event is ``{seq, index, schema, value, workflow, key}``; ``(seq, index)`` is its place.

        Args:
            after: The place of the last event that the caller has: the feed continues after it.
            first: Or the record that it begins at; ``await world.seq() + 1`` for new events only.
                By default the first record that the node has.
            timeout_s: Seconds to wait for a node that starts.

        Raises, on the first or a later event:
            BadUsage: No manifest of the world has a schema, or the journal ends before ``after``.
            Pruned: The next record was moved to an archive.
            Unavailable: The node did not answer within ``timeout_s``. Later it is tried again.
        """
        following = await self._run(steps.FollowedFeed.begin(schemas, after, first, timeout_s))
        while True:
            try:
                stream = self._stream(
                    following.words(), steps.SILENCE_S, steps.FEED, following.headers()
                )
                async with aclosing(stream) as parts:
                    async for part in parts:
                        for event in part:
                            following.advance(event)
                            yield event
            except NodeUnavailable:
                await asyncio.sleep(steps.RETRY_S)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, todo: Steps[T]) -> T:
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
                        answer = await self._ask(step)
                    case steps.Pause():
                        await asyncio.sleep(step.seconds)
                    case steps.NextRecord():
                        await self._next(step)
            except NodeUnavailable as away:
                problem = away

    async def _next(self, step: steps.NextRecord) -> None:
        async with aclosing(self._stream(step.query, step.seconds)) as parts:
            async for part in parts:
                if part:
                    return

    async def _ask(self, request: steps.NodeRequest) -> NodeAnswer:
        check_served(self._address)
        parts = AnswerParts(steps.ANSWER_S)
        try:
            async with self._http.stream(
                request.method, request.path, params=request.query, content=request.body,
                headers={"Accept": steps.JSON, "Content-Type": request.media},
                timeout=httpx.Timeout(steps.ANSWER_S, connect=steps.CONNECT_S),
            ) as answer:  # fmt: skip
                async for part in answer.aiter_bytes():
                    parts.take(part)
        except httpx.HTTPError as error:
            raise unreachable(self._address, error) from error
        retry_after = answer.headers.get("Retry-After", "")
        return NodeAnswer(answer.status_code, parts.body(), retry_after)

    async def _stream(
        self,
        query: Words,
        seconds: float,
        path: str = steps.STREAM,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[list[Document]]:
        """Yield the events of each part of a stream, until none has come for ``seconds``.

        Raises:
            NodeUnavailable: The node does not answer, or the connection broke.
        """
        check_served(self._address)
        events = EventStream()
        until = time.monotonic() + seconds
        timeout = httpx.Timeout(max(seconds, 0.001), connect=steps.CONNECT_S)
        try:
            async with self._http.stream(
                "GET", path, params=query, timeout=timeout, headers=headers
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    problem = read_json(await answer.aread())
                    raise error_of(answer.status_code, problem)
                async for part in answer.aiter_raw():
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
