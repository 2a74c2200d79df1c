"""``AsyncClient``: ``Client`` for asyncio (spec/guides/integrate.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Self

import httpx

from aos.client import node_steps as steps
from aos.client.node_client import (
    EventStream,
    FollowedNode,
    check_served,
    token_headers,
    unreachable,
)
from aos.client.node_connection import (
    AnswerParts,
    Certificate,
    NodeAddress,
    NodeUnavailable,
    error_of,
    read_json,
    tls_of,
)
from aos.client.node_steps import NodeAnswer, Steps, T, Words
from aos.client.requests import TIMEOUT_S, AwaitedClient, SharedRequests
from aos.read.views.record_view import Document


class AsyncClient(AwaitedClient, SharedRequests):
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

    async def instances(
        self, *, workflow: str | None = None, status: str | None = None
    ) -> AsyncGenerator[Document]:
        """As ``Client.instances``."""
        offset = 0
        while rows := await self._run(
            steps.list_instances(workflow=workflow, status=status, offset=offset)
        ):
            for row in rows:
                yield row
            offset += len(rows)

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
        """As ``Client.follow``."""
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
        """As ``Client.feed``; ``first=await world.seq() + 1`` for new events only."""
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

    async def __aexit__(self, *_: object) -> None:
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
